--- nadam.lua -- Adam with Nesterov's momentum
---
--- Dozat 2016 (ICLR workshop), in the form of PyTorch's NAdam.  For each parameter p, with
--- m = v = 0 at t = 0:
---
---   1.  g    = gradient + weight_decay p
---       (decoupled: p = p - lr weight_decay p instead)
---   2.  mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2);  M_t = mu_1 ... mu_t
---   3.  m    = beta1 m + (1 - beta1) g
---   4.  v    = beta2 v + (1 - beta2) g^2
---   5.  d    = (1 - mu_t) / (1 - M_t) g + mu_(t+1) / (1 - M_(t+1)) m
---   6.  p    = p - lr d / (sqrt(v / (1 - beta2^t)) + eps)
---
--- M is a function of t, so no state: the host knows it before each step.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Optimizer = require "mrt.optim.optimizer"
local compose = require "mrt.optim.compose"
local count = require "mrt.optim.count"

---@class mrt.NAdamOptions
---@field lr? number|mrt.Schedule  default 0.002
---@field betas? number[]        default {0.9, 0.999}
---@field eps? number            default 1e-8
---@field weight_decay? number   default 0
---@field momentum_decay? number  default 0.004
---@field decoupled_weight_decay? boolean  the decay is as AdamW's, default false
---@field maximize? boolean      default false

--- Make an NAdam optimizer.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     local opt = optim.nadam(model:parameters())
---@overload fun(params: mrt.Tensor[]|mrt.Group[], options?: mrt.NAdamOptions): mrt.Optimizer
local nadam = Optimizer("nadam", { "m", "v" }, { lr = 0.002, betas = { 0.9, 0.999 }, eps = 1e-8,
  momentum_decay = 0.004, decoupled_weight_decay = false })
nadam.elementwise = true

function nadam:init()
  self:check_betas()
  self.products = {} -- M_1, M_2, ... as far as they were needed
  self.before = setmetatable({}, { __mode = "k" }) -- by the step's count: M_(t-1)
end

-- M_t, computed on the host.
local function product(self, t)
  local o, list = self.options, self.products
  for k = #list + 1, t do
    list[k] = (list[k - 1] or 1) * o.betas[1] * (1 - 0.5 * 0.96 ^ (k * o.momentum_decay))
  end
  return list[t] or 1
end

-- mu_t, mu_(t+1), M_t of the step's count `t`, scalars f64.
local function momenta(self, t)
  local o, before = self.options, self.before
  if not before[t] then
    local made = count.before(self.t)
    before[t] = mrt.runtime(function() return product(self, made()) end)
  end
  local function mu(k)
    local faded = compose.number(0.96) ^ ((t:to "f64" + k) * o.momentum_decay)
    return (1 - faded * 0.5) * o.betas[1]
  end
  return mu(0), mu(1), before[t]:to "f64" * mu(0)
end

---@param p mrt.Tensor
---@param g mrt.Tensor
---@param state {m: mrt.Tensor, v: mrt.Tensor}
---@param at mrt.Update
function nadam:update(p, g, state, at)
  local o, when, dtype = self.options, { when = at.when }, at.lr.dtype
  local decoupled = o.decoupled_weight_decay
  g = compose.gradient(p, g, at, decoupled)
  local m = state.m * o.betas[1] + g * (1 - o.betas[1])
  local v = state.v * o.betas[2] + g * g * (1 - o.betas[2])
  local mu, next_mu, M = momenta(self, at.t)
  local of_g, of_m = (1 - mu) / (1 - M), next_mu / (1 - M * next_mu)
  local spread = (v / compose.unbias(o.betas[2], at.t, dtype)):sqrt() + o.eps
  local d = (g * of_g:to(dtype) + m * of_m:to(dtype)) / spread
  state.m:assign(m, when)
  state.v:assign(v, when)
  p:assign((decoupled and compose.decayed(p, at) or p) - d * at.lr, when)
end

return nadam
