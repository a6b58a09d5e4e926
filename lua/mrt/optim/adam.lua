--- adam.lua -- Adam, exactly as its paper has it
---
--- Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015
--- (arXiv:1412.6980), algorithm 1.  Defaults: alpha 0.001, beta1 0.9,
--- beta2 0.999, epsilon 1e-8.  For each parameter p, with m = v = 0 at t = 0:
---
---   1.  t     = t + 1
---   2.  g     = gradient  (+ weight_decay p, where there is one: L2, not AdamW)
---   3.  m     = beta1 m + (1 - beta1) g
---   4.  v     = beta2 v + (1 - beta2) g^2
---   5.  mhat  = m / (1 - beta1^t)
---   6.  vhat  = v / (1 - beta2^t)
---   7.  p     = p - alpha mhat / (sqrt(vhat) + epsilon)
---
--- Steps 2 to 7 are one pass over memory.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local adam_step = require "mrt.optim.adam_step"

---@class mrt.AdamOptions
---@field lr? number|mrt.Schedule  default 0.001
---@field betas? number[]        default {0.9, 0.999}
---@field eps? number            default 1e-8
---@field weight_decay? number   default 0, added to the gradient
---@field state? "f32"|"bf16"|"8bit"  what m and v are stored in, default "f32"
---@field lazy? boolean         where a row of a gradient is 0 (of an embedding, what was not
---  looked up) p, m and v stay, as in PyTorch's SparseAdam, but that eps is added after
---  the correction of bias; default false
---@field master? boolean       of parameters stored in bf16 (precision.bf16_pure, or
---  model:to "bf16") the 16 bits that rounding drops are kept, 2 bytes each in the state:
---  updates are those of weights in f32; default false

--- Make an Adam optimizer.
---
---     local opt = optim.adam(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.AdamOptions): mrt.Optimizer
local adam = Optimizer("adam", { "m", "v" },
  { lr = 0.001, betas = { 0.9, 0.999 }, eps = 1e-8, state = "f32", lazy = false, master = false })
adam.elementwise = true

function adam:init()
  self:check_betas()
  self:check_state("bf16", "8bit")
  self:check_lazy()
  self:check_master()
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {m: mrt.Tensor, v: mrt.Tensor}
---@param at mrt.Update
function adam:update(p, g, state, at)
  adam_step(self, p, g, state, at, true)
end

return adam
