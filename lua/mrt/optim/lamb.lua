--- lamb.lua -- Adam's step, as long as the parameter says
---
--- You et al., "Large batch optimization for deep learning", ICLR 2020
--- (arXiv:1904.00962), algorithm 2, phi the identity.  For each parameter p, with
--- m = v = 0 at t = 0:
---
---   1.  t     = t + 1
---   2.  g     = gradient
---   3.  m     = beta1 m + (1 - beta1) g
---   4.  v     = beta2 v + (1 - beta2) g^2
---   5.  r     = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
---               + weight_decay p
---   6.  p     = p - lr |p| / |r| r;  where either length is 0, p - lr r
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"

---@class mrt.LAMBOptions
---@field lr? number|mrt.Schedule  default 0.001
---@field betas? number[]        default {0.9, 0.999}
---@field eps? number            default 1e-6
---@field weight_decay? number   default 0.01

--- Make a LAMB optimizer.
---
---     local opt = optim.lamb(optim.groups(model), {lr = 0.002})
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.LAMBOptions): mrt.Optimizer
local lamb = Optimizer("lamb", { "m", "v" },
  { lr = 0.001, betas = { 0.9, 0.999 }, eps = 1e-6, weight_decay = 0.01 })

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {m: mrt.Tensor, v: mrt.Tensor}
---@param at mrt.Update
function lamb:update(p, g, state, at)
  local betas, when = self.options.betas, { when = at.when }
  if at.scale then g = g * at.scale end
  local m = state.m * betas[1] + g * (1 - betas[1])
  local v = state.v * betas[2] + g * g * (1 - betas[2])
  local spread = (v / compose.unbias(betas[2], at.t, p.dtype)):sqrt() + self.options.eps
  local r = m / compose.unbias(betas[1], at.t, p.dtype) / spread
  if at.weight_decay ~= 0 then r = r + p * at.weight_decay end
  local p_length, r_length = compose.length(p), compose.length(r)
  local both = (p_length * r_length):gt(0)
  local trust = mrt.where(both, p_length / r_length, 1)
  state.m:assign(m, when)
  state.v:assign(v, when)
  p:assign(p - r * (trust * at.lr), when)
end

return lamb
