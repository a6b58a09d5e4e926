--- adadelta.lua -- steps as long as the last ones were
---
--- Zeiler 2012 (arXiv:1212.5701), in the form of PyTorch's Adadelta.  For each parameter
--- p, with v = s = 0 at t = 0:
---
---   1.  g    = gradient + weight_decay p
---   2.  v    = rho v + (1 - rho) g^2
---   3.  d    = sqrt(s + eps) / sqrt(v + eps) g
---   4.  s    = rho s + (1 - rho) d^2
---   5.  p    = p - lr d
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"

---@class mrt.AdadeltaOptions
---@field lr? number|mrt.Schedule  default 1
---@field rho? number            default 0.9
---@field eps? number            default 1e-6
---@field weight_decay? number   default 0, added to the gradient
---@field maximize? boolean      default false

--- Make an Adadelta optimizer.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.adadelta(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.AdadeltaOptions): mrt.Optimizer
local adadelta = Optimizer("adadelta", { "v", "s" }, { lr = 1, rho = 0.9, eps = 1e-6 })
adadelta.elementwise = true

function adadelta:init()
  local rho = self.options.rho
  if not (rho >= 0 and rho <= 1) then
    core.fail("value", "adadelta", ("rho = %g, 0 to 1 wanted"):format(rho))
  end
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {v: mrt.Tensor, s: mrt.Tensor}
---@param at mrt.Update
function adadelta:update(p, g, state, at)
  local o, when = self.options, { when = at.when }
  g = compose.gradient(p, g, at)
  local v = state.v * o.rho + g * g * (1 - o.rho)
  local d = (state.s + o.eps):sqrt() / (v + o.eps):sqrt() * g
  local s = state.s * o.rho + d * d * (1 - o.rho)
  state.v:assign(v, when)
  state.s:assign(s, when)
  p:assign(p - d * at.lr, when)
end

return adadelta
