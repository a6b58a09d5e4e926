--- rmsprop.lua -- gradients divided by a running mean of their size
---
--- Tieleman & Hinton, Coursera lecture 6.5, 2012, in the form of PyTorch's
--- RMSprop.  For each parameter p, with v = m = buf = 0 at first:
---
---   1.  g    = gradient + weight_decay p
---   2.  v    = alpha v + (1 - alpha) g^2
---   3.  d    = g / (sqrt(v) + eps)
---       centered (Graves, arXiv:1308.0850):  m = alpha m + (1 - alpha) g,
---       d = g / (sqrt(v - m^2) + eps)
---   4.  p    = p - lr d;  with momentum  buf = momentum buf + d,
---       p = p - lr buf
---
--- Plain RMSProp is one pass over memory.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local fused = require "mrt.optim.update"

---@class mrt.RMSPropOptions
---@field lr? number|mrt.Schedule  default 0.01
---@field alpha? number          default 0.99
---@field eps? number            default 1e-8
---@field momentum? number       default 0
---@field centered? boolean      default false
---@field weight_decay? number   default 0, added to the gradient

--- Make an RMSProp optimizer.
---
---     local opt = optim.rmsprop(model:parameters(), {lr = 0.001})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.RMSPropOptions): mrt.Optimizer
local rmsprop = Optimizer("rmsprop", { "v" },
  { lr = 0.01, alpha = 0.99, eps = 1e-8, momentum = 0, centered = false })
rmsprop.elementwise = true

function rmsprop:init()
  self.slots = { "v" }
  if self.options.centered then self.slots[#self.slots + 1] = "m" end
  if self.options.momentum ~= 0 then self.slots[#self.slots + 1] = "buf" end
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {v: mrt.Tensor, m: mrt.Tensor?, buf: mrt.Tensor?}
---@param at mrt.Update
function rmsprop:update(p, g, state, at)
  local o, when = self.options, { when = at.when }
  if not state.m and not state.buf then
    return fused("rmsprop", { p, state.v, g, at.lr }, at, { keep = o.alpha,
      add = 1 - o.alpha, eps = o.eps, weight_decay = at.weight_decay })
  end
  if at.scale then g = g * at.scale end
  if at.weight_decay ~= 0 then g = g + p * at.weight_decay end
  local v = state.v * o.alpha + g * g * (1 - o.alpha)
  local spread = v
  if state.m then
    local m = state.m * o.alpha + g * (1 - o.alpha)
    spread = (v - m * m):maximum(0)
    state.m:assign(m, when)
  end
  state.v:assign(v, when)
  local d = g / (spread:sqrt() + o.eps)
  if state.buf then
    d = state.buf * o.momentum + d
    state.buf:assign(d, when)
  end
  p:assign(p - d * at.lr, when)
end

return rmsprop
