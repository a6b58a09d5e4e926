--- asgd.lua -- gradient descent, and the average of where it was
---
--- Polyak & Juditsky 1992; Bottou's schedule of rates; in the form of PyTorch's ASGD.  For
--- each parameter p, at update t:
---
---   1.  g    = gradient + weight_decay p
---   2.  eta  = lr / (1 + lambd lr (t - 1))^alpha
---   3.  p    = p - eta lambd p - eta g
---   4.  ax   = ax + (p - ax) / max(1, t - 1 - t0)
---
--- The averages `ax` are state: `opt:state()["1.ax"]` of the first parameter.
---
--- SPDX-License-Identifier: MIT

local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"

---@class mrt.ASGDOptions
---@field lr? number|mrt.Schedule  default 0.01
---@field lambd? number          decay of the parameters, default 1e-4
---@field alpha? number          power by which the rate falls, default 0.75
---@field t0? number             updates before averaging begins, default 1e6
---@field weight_decay? number   default 0, added to the gradient
---@field maximize? boolean      default false

--- Make an ASGD optimizer.
---
---     local opt = optim.asgd(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.ASGDOptions): mrt.Optimizer
local asgd = Optimizer("asgd", { "ax" }, { lr = 0.01, lambd = 1e-4, alpha = 0.75, t0 = 1e6 })
asgd.elementwise = true

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {ax: mrt.Tensor}
---@param at mrt.Update
function asgd:update(p, g, state, at)
  local o, when, dtype = self.options, { when = at.when }, at.lr.dtype
  g = compose.gradient(p, g, at)
  local t, lr = at.t:to "f64" - 1, at.lr:to "f64"
  local eta = lr / (lr * o.lambd * t + 1) ^ o.alpha
  local share = 1 / (t - o.t0):maximum(1)
  local moved = p * (1 - eta * o.lambd):to(dtype) - g * eta:to(dtype)
  state.ax:assign(state.ax + (moved - state.ax) * share:to(dtype), when)
  p:assign(moved, when)
end

return asgd
