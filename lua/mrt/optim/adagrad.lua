--- adagrad.lua -- gradients divided by the size of all before them
---
--- Duchi, Hazan & Singer, JMLR 12 (2011), in the form of PyTorch's Adagrad.  For
--- each parameter p, with v = initial at t = 0:
---
---   1.  t    = t + 1
---   2.  g    = gradient + weight_decay p
---   3.  v    = v + g^2
---   4.  p    = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps)
---
--- Steps 2 to 4 are one pass over memory; without weight decay rows of a table that
--- nobody looked up are not touched, and their gradient is not stored.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local fused = require "mrt.optim.update"

---@class mrt.AdagradOptions
---@field lr? number|mrt.Schedule  default 0.01
---@field lr_decay? number       default 0
---@field initial? number        default 0
---@field eps? number            default 1e-10
---@field weight_decay? number   default 0, added to the gradient
---@field lazy? boolean         where a row of a gradient is 0 p and v stay, which differs
---  with weight decay alone; default false

--- Make an Adagrad optimizer.
---
---     local opt = optim.adagrad(model:parameters(), {lr = 0.1})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.AdagradOptions): mrt.Optimizer
local adagrad = Optimizer("adagrad", { "v" },
  { lr = 0.01, lr_decay = 0, initial = 0, eps = 1e-10, lazy = false })
adagrad.elementwise = true

function adagrad:init() self.initial = self.options.initial end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {v: mrt.Tensor}
---@param at mrt.Update
function adagrad:update(p, g, state, at)
  local o, lr = self.options, at.lr
  if o.lr_decay ~= 0 then
    lr = lr / ((at.t - 1) * o.lr_decay + 1):to(p:get_dtype())
  end
  fused("rmsprop", { p, state.v, g, lr }, at, { keep = 1, add = 1, eps = o.eps,
    weight_decay = at.weight_decay, lazy = o.lazy })
end

return adagrad
