--- adamw.lua -- Adam with decoupled weight decay
---
--- Loshchilov & Hutter, "Decoupled weight decay regularization", ICLR 2019
--- (arXiv:1711.05101), algorithm 2, the decay times the learning rate as in
--- PyTorch.  For each parameter p, with m = v = 0 at t = 0:
---
---   1.  t     = t + 1
---   2.  g     = gradient
---   3.  m     = beta1 m + (1 - beta1) g
---   4.  v     = beta2 v + (1 - beta2) g^2
---   5.  mhat  = m / (1 - beta1^t)
---   6.  vhat  = v / (1 - beta2^t)
---   7.  p     = p - lr weight_decay p - lr mhat / (sqrt(vhat) + eps)
---
--- Steps 2 to 7 are one pass over memory.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local adam_step = require "mrt.optim.adam_step"

---@class mrt.AdamWOptions
---@field lr? number|mrt.Schedule  default 0.001
---@field betas? number[]        default {0.9, 0.999}
---@field eps? number            default 1e-8
---@field weight_decay? number   default 0.01
---@field state? "f32"|"bf16"|"8bit"  what m and v are stored in: 8, 4 or about 2
---  bytes for each element; default "f32".  bf16 is rounded stochastically
---@field lazy? boolean         where a row of a gradient is 0 (of an embedding, what was not
---  looked up) p, m and v stay, as in PyTorch's SparseAdam, but that eps is added after
---  the correction of bias; default false
---@field master? boolean       of parameters stored in bf16 (precision.bf16_pure, or
---  model:to "bf16") the 16 bits that rounding drops are kept, 2 bytes each in the state:
---  updates are those of weights in f32; default false

--- Make an AdamW optimizer.
---
---     local opt = optim.adamw(optim.groups(model, {weight_decay = 0.1}),
---                             {lr = 3e-4, betas = {0.9, 0.95}})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.AdamWOptions): mrt.Optimizer
local adamw = Optimizer("adamw", { "m", "v" },
  { lr = 0.001, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0.01, state = "f32",
    lazy = false, master = false })
adamw.elementwise = true

function adamw:init()
  self:check_betas()
  self:check_state("bf16", "8bit")
  self:check_lazy()
  self:check_master()
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state table<string, mrt.Tensor>
---@param at mrt.Update
function adamw:update(p, g, state, at)
  adam_step(self, p, g, state, at, false)
end

return adamw
