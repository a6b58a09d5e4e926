--- adamax.lua -- Adam by the largest gradient
---
--- Kingma & Ba, ICLR 2015 (arXiv:1412.6980), algorithm 2, in the form of PyTorch's
--- Adamax.  For each parameter p, with m = u = 0 at t = 0:
---
---   1.  g    = gradient + weight_decay p
---   2.  m    = beta1 m + (1 - beta1) g
---   3.  u    = max(beta2 u, |g| + eps)
---   4.  p    = p - lr / (1 - beta1^t) m / u
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"

---@class mrt.AdamaxOptions
---@field lr? number|mrt.Schedule  default 0.002
---@field betas? number[]        default {0.9, 0.999}
---@field eps? number            default 1e-8
---@field weight_decay? number   default 0, added to the gradient
---@field maximize? boolean      default false

--- Make an Adamax optimizer.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.adamax(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.AdamaxOptions): mrt.Optimizer
local adamax = Optimizer("adamax", { "m", "u" },
  { lr = 0.002, betas = { 0.9, 0.999 }, eps = 1e-8 })
adamax.elementwise = true

function adamax:init() self:check_betas() end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {m: mrt.Tensor, u: mrt.Tensor}
---@param at mrt.Update
function adamax:update(p, g, state, at)
  local o, when = self.options, { when = at.when }
  g = compose.gradient(p, g, at)
  local m = state.m * o.betas[1] + g * (1 - o.betas[1])
  local u = (state.u * o.betas[2]):maximum(g:abs() + o.eps)
  local rate = at.lr / compose.unbias(o.betas[1], at.t, at.lr.dtype)
  state.m:assign(m, when)
  state.u:assign(u, when)
  p:assign(p - m / u * rate, when)
end

return adamax
