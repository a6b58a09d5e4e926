--- lion.lua -- the sign of a momentum
---
--- Chen et al., "Symbolic discovery of optimization algorithms", 2023
--- (arXiv:2302.06675), algorithm 2.  For each parameter p, with m = 0 at first:
---
---   1.  g    = gradient
---   2.  c    = beta1 m + (1 - beta1) g
---   3.  p    = p - lr (sign(c) + weight_decay p)
---   4.  m    = beta2 m + (1 - beta2) g
---
--- Every element moves by the learning rate, so that is 3 to 10 times smaller
--- than Adam's, and the decay as much larger.  Half of Adam's state, one pass
--- over memory.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local fused = require "mrt.optim.update"

---@class mrt.LionOptions
---@field lr? number|mrt.Schedule  default 1e-4
---@field betas? number[]        default {0.9, 0.99}
---@field state? "f32"|"bf16"|"8bit"  what m is stored in, default "f32"
---@field weight_decay? number   default 0

--- Make a Lion optimizer.
---
---     local opt = optim.lion(model:parameters(), {lr = 1e-4, weight_decay = 1})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.LionOptions): mrt.Optimizer
local lion = Optimizer("lion", { "m" }, { lr = 1e-4, betas = { 0.9, 0.99 }, state = "f32" })
lion.elementwise = true

function lion:init()
  self:check_betas()
  self:check_state("bf16", "8bit")
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {m: mrt.Tensor}
---@param at mrt.Update
function lion:update(p, g, state, at)
  local betas = self.options.betas
  fused("lion", { p, state.m, g, at.lr }, at, { beta1 = betas[1], beta2 = betas[2],
    weight_decay = at.weight_decay }, state.m_scale)
end

return lion
