--- sgd.lua -- stochastic gradient descent with momentum
---
--- Sutskever, Martens, Dahl & Hinton, ICML 2013, in the form of PyTorch's SGD.
--- With mu = momentum, lambda = weight_decay, for each parameter p:
---
---   1.  g    = gradient + lambda p
---   2.  buf  = mu buf + g                      (buf begins at 0)
---   3.  p    = p - lr buf,  or with nesterov  p - lr (g + mu buf)
---
--- The three steps are one pass over memory.
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

--- Make an SGD optimizer.
---
---     local opt = optim.sgd(model:parameters(), {lr = 0.1, momentum = 0.9})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.SGDOptions): mrt.Optimizer
local sgd = Optimizer("sgd", { "buf" }, { momentum = 0, nesterov = false, state = "f32" })
sgd.elementwise = true

-- Without momentum there is nothing to remember.
function sgd:init()
  self:check_state("bf16", "8bit")
  local momentum = self.options.momentum
  if not (momentum >= 0 and momentum < math.huge) then
    core.fail("value", "sgd", ("momentum = %g, 0 or more wanted"):format(momentum))
  end
  if momentum == 0 then self.slots = {} end
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {buf: mrt.Tensor?}
---@param at mrt.Update
function sgd:update(p, g, state, at)
  if not state.buf then
    if at.scale then g = g * at.scale end
    if at.weight_decay ~= 0 then g = g + p * at.weight_decay end
    return p:assign(p - g * at.lr, { when = at.when })
  end
  fused("sgd", { p, state.buf, g, at.lr }, at, {
    momentum = self.options.momentum, nesterov = self.options.nesterov,
    weight_decay = at.weight_decay }, state.buf_scale)
end

return sgd
