--- discrete.lua -- Bernoulli, geometric, Poisson, binomial
---
--- Samples are whole numbers in the parameters' float dtype, as PyTorch's.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Distribution = require "mrt.distributions.distribution"

local op = core.op
local value, extended = Distribution.value, Distribution.extended
local kinds = {}

local function to_probs(x) return x:sigmoid() end

-- log(p / (1 - p)), finite.
local function to_logits(p)
  local eps = mrt.dtype_info(p:get_dtype()).epsilon
  p = p:clamp(eps, 1 - eps)
  return p:log() - (-p):log1p()
end

--- 1 with probability p, else 0.
---
---     mrt.distributions.Bernoulli(0.5):log_prob(1)  --> -0.6931472
---@overload fun(probs: mrt.Operand|table, logits?: mrt.Operand): mrt.Distribution
local Bernoulli = Distribution.class("Bernoulli", { "probs", "logits" })
kinds.Bernoulli = Bernoulli

function Bernoulli:init(o) Distribution.set_either(self, o, to_logits, to_probs) end

function Bernoulli.fields.mean(d) return d.probs end
function Bernoulli.fields.variance(d) return d.probs * (1 - d.probs) end
function Bernoulli.fields.mode(d)
  return op.where(d.probs:eq(0.5), 0 / 0, d.probs:gt(0.5):to(d.dtype))
end

function Bernoulli:sample(...)
  return Distribution.uniform(self, extended(self, ...)):lt(self.probs):to(self.dtype)
end

-- -(y log p + (1 - y) log(1 - p)), of logits
local function cross_entropy(logits, y)
  return y * (-logits):softplus() + (1 - y) * logits:softplus()
end

function Bernoulli:log_prob(x) return -cross_entropy(self.logits, value(self, x)) end
function Bernoulli:entropy() return cross_entropy(self.logits, self.probs) end

--- How often in vain before the first success: (1 - p)^k p.
---
---     mrt.distributions.Geometric(0.25).mean  --> 3
---@overload fun(probs: mrt.Operand|table, logits?: mrt.Operand): mrt.Distribution
local Geometric = Distribution.class("Geometric", { "probs", "logits" })
kinds.Geometric = Geometric

function Geometric:init(o) Distribution.set_either(self, o, to_logits, to_probs) end

function Geometric.fields.mean(d) return 1 / d.probs - 1 end
function Geometric.fields.mode(d) return d.probs * 0 end
function Geometric.fields.variance(d) return (1 / d.probs - 1) / d.probs end

function Geometric:sample(...)
  local u = Distribution.uniform(self, extended(self, ...))
  return ((-u):log1p() / (-self.probs):log1p()):floor():detach()
end

function Geometric:log_prob(x)
  x = value(self, x)
  local sure = x:eq(0):logical_and(self.probs:eq(1)) -- 0 log 0
  return op.where(sure, 0, x * (-op.where(sure, 0.5, self.probs)):log1p()) + self.probs:log()
end

function Geometric:entropy() return cross_entropy(self.logits, self.probs) / self.probs end

--- Counts of what happens `rate` times on average: rate^k e^-rate / k!.
---
---     mrt.distributions.Poisson(4).variance  --> 4
---@overload fun(rate: mrt.Operand): mrt.Distribution
local Poisson = Distribution.class("Poisson", { "rate" })
kinds.Poisson = Poisson

function Poisson:init(o)
  Distribution.set(self, o, { rate = o.rate == 0 and "any" or "positive" }, { "rate" })
end

function Poisson.fields.mean(d) return d.rate end
function Poisson.fields.mode(d) return d.rate:floor() end
function Poisson.fields.variance(d) return d.rate end

function Poisson:sample(...)
  return op.poisson(op.expand(self.rate, extended(self, ...)):copy():detach())
end

function Poisson:log_prob(x)
  x = value(self, x)
  return x:xlogy(self.rate) - self.rate - (x + 1):lgamma()
end

--- How many of `total_count` trials of probability p succeed.
---
---     mrt.distributions.Binomial(10, 0.5).mean  --> 5
---@overload fun(count: mrt.Operand, probs?: mrt.Operand, logits?: mrt.Operand): mrt.Distribution
local Binomial = Distribution.class("Binomial", { "total_count", "probs", "logits" })
kinds.Binomial = Binomial

function Binomial:init(o)
  local given = { total_count = o.total_count == nil and 1 or o.total_count, probs = o.probs,
    logits = o.logits }
  Distribution.set_either(self, given, to_logits, to_probs, { "total_count" })
end

function Binomial.fields.mean(d) return d.total_count * d.probs end
function Binomial.fields.mode(d)
  return ((d.total_count + 1) * d.probs):floor():minimum(d.total_count)
end
function Binomial.fields.variance(d) return d.total_count * d.probs * (1 - d.probs) end

function Binomial:sample(...)
  local shape = extended(self, ...)
  local function wide(x) return op.expand(x, shape):copy():detach() end
  return op.binomial(wide(self.total_count), wide(self.probs))
end

function Binomial:log_prob(x)
  x = value(self, x)
  local n = self.total_count
  return (n + 1):lgamma() - (x + 1):lgamma() - (n - x + 1):lgamma()
    - x * (-self.logits):softplus() - (n - x) * self.logits:softplus()
end

return kinds
