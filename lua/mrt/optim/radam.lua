--- radam.lua -- Adam that warms up by itself
---
--- Liu et al., "On the variance of the adaptive learning rate and beyond", ICLR 2020
--- (arXiv:1908.03265), algorithm 2, in the form of PyTorch's RAdam.  For each parameter p,
--- with m = v = 0 at t = 0:
---
---   1.  g    = gradient + weight_decay p
---       (decoupled: p = p - lr weight_decay p instead)
---   2.  m    = beta1 m + (1 - beta1) g;  mhat = m / (1 - beta1^t)
---   3.  v    = beta2 v + (1 - beta2) g^2
---   4.  R    = 2 / (1 - beta2) - 1;  r = R - 2 t beta2^t / (1 - beta2^t)
---   5.  p    = p - lr mhat, but where r > 5
---       p    = p - lr mhat sqrt(1 - beta2^t) / (sqrt(v) + eps)
---                 sqrt((r - 4) (r - 2) R / ((R - 4) (R - 2) r))
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"

---@class mrt.RAdamOptions
---@field lr? number|mrt.Schedule  default 0.001
---@field betas? number[]        default {0.9, 0.999}
---@field eps? number            default 1e-8
---@field weight_decay? number   default 0
---@field decoupled_weight_decay? boolean  the decay is as AdamW's, default false
---@field maximize? boolean      default false

--- Make an RAdam optimizer.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.radam(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.RAdamOptions): mrt.Optimizer
local radam = Optimizer("radam", { "m", "v" }, { lr = 0.001, betas = { 0.9, 0.999 }, eps = 1e-8,
  decoupled_weight_decay = false })
radam.elementwise = true

function radam:init() self:check_betas() end

-- Is the variance known well enough, and what v's root is divided by then: scalars.
local function rectified(beta, t)
  t = t:to "f64"
  local power = compose.number(beta) ^ t
  local most = 2 / (1 - beta) - 1
  local r = most - t * 2 * power / (1 - power)
  local known = r:gt(5)
  r = mrt.where(known, r, 5)
  local share = (r - 4) * (r - 2) * most / (r * ((most - 4) * (most - 2)))
  return known, (share * (1 - power)):sqrt()
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {m: mrt.Tensor, v: mrt.Tensor}
---@param at mrt.Update
function radam:update(p, g, state, at)
  local o, when, dtype = self.options, { when = at.when }, at.lr.dtype
  local decoupled = o.decoupled_weight_decay
  g = compose.gradient(p, g, at, decoupled)
  local m = state.m * o.betas[1] + g * (1 - o.betas[1])
  local v = state.v * o.betas[2] + g * g * (1 - o.betas[2])
  local known, factor = rectified(o.betas[2], at.t)
  local adapted = mrt.where(known, factor:to(dtype) / (v:sqrt() + o.eps), 1)
  local rate = at.lr / compose.unbias(o.betas[1], at.t, dtype)
  state.m:assign(m, when)
  state.v:assign(v, when)
  p:assign((decoupled and compose.decayed(p, at) or p) - m * adapted * rate, when)
end

return radam
