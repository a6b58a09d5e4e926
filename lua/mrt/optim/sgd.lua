--- sgd.lua -- stochastic gradient descent with momentum
---
--- Sutskever, Martens, Dahl & Hinton, ICML 2013, in the form of PyTorch's SGD.
--- With mu = momentum, lambda = weight_decay, for each parameter p:
---
---   1.  g    = gradient + lambda p
---   2.  buf  = mu buf + g                      (buf begins at 0)
---   3.  p    = p - lr buf,  or with nesterov  p - lr (g + mu buf)
---
--- The three steps are one pass over memory; without momentum there is no buf.  Rows
--- of a table that nobody looked up are not touched, nor is their gradient stored, where
--- that changes nothing: without momentum and weight decay, or with `lazy`.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Optimizer = require "mrt.optim.optimizer"
local fused = require "mrt.optim.update"

---@class mrt.SGDOptions
---@field lr? number|mrt.Schedule  default 0.001
---@field momentum? number      default 0
---@field nesterov? boolean      default false
---@field weight_decay? number   default 0
---@field state? "f32"|"bf16"|"8bit"  what buf is stored in, default "f32"
---@field lazy? boolean         where a row of a gradient is 0 (of an embedding, what was not
---  looked up) p and buf stay: no momentum, no decay; default false

--- Make an SGD optimizer.
---
---     local opt = optim.sgd(model:parameters(), {lr = 0.1, momentum = 0.9})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.SGDOptions): mrt.Optimizer
local sgd = Optimizer("sgd", { "buf" }, { momentum = 0, nesterov = false, state = "f32",
  lazy = false })
sgd.elementwise = true

-- Without momentum there is nothing to remember.
function sgd:init()
  self:check_state("bf16", "8bit")
  self:check_lazy()
  local momentum = self.options.momentum
  if not (momentum >= 0 and momentum < math.huge) then
    core.fail("value", "sgd", ("momentum = %g, 0 or more wanted"):format(momentum))
  end
  if momentum == 0 then self.slots = {} end
end

-- f16, whose update is computed in f16.
local function narrowly(p, g, at)
  if at.scale then g = g * at.scale end
  if at.weight_decay ~= 0 then g = g + p * at.weight_decay end
  p:assign(p - g * at.lr, { when = at.when })
end

local stored = { f32 = true, f64 = true, bf16 = true }

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {buf: mrt.Tensor?}
---@param at mrt.Update
function sgd:update(p, g, state, at)
  if not state.buf and not self.options.lazy and not stored[p:get_dtype()] then
    return narrowly(p, g, at)
  end
  local options = { weight_decay = at.weight_decay, lazy = self.options.lazy }
  if not state.buf then return fused("descend", { p, g, at.lr }, at, options) end
  options.momentum, options.nesterov = self.options.momentum, self.options.nesterov
  fused("sgd", { p, state.buf, g, at.lr }, at, options, state.buf_scale)
end

return sgd
