--- kl.lua -- Kullback & Leibler's divergence of pairs of distributions
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local Distribution = require "mrt.distributions.distribution"
local multivariate = require "mrt.distributions.multivariate"
local options = require "mrt.util.options"

local op = core.op
local kl = {}

local EULER <const> = 0.57721566490153286061

local rules = {} -- by "P Q"

-- The same for both names, of two of one kind.
local function same(name, rule) rules[name .. " " .. name] = rule end

local function normal(p, q)
  local ratio, off = p.scale / q.scale, (p.loc - q.loc) / q.scale
  return (ratio * ratio + off * off - 1) * 0.5 - ratio:log()
end
same("Normal", normal)
same("LogNormal", normal)

same("MultivariateNormal", multivariate.divergence)

same("Uniform", function(p, q)
  local inside = q.low:le(p.low):logical_and(p.high:le(q.high))
  return op.where(inside, ((q.high - q.low) / (p.high - p.low)):log(), math.huge)
end)

same("Exponential", function(p, q)
  local ratio = q.rate / p.rate
  return ratio - ratio:log() - 1
end)

same("Laplace", function(p, q)
  local ratio, off = p.scale / q.scale, (p.loc - q.loc):abs()
  return -ratio:log() + off / q.scale + ratio * (-off / p.scale):exp() - 1
end)

same("Gumbel", function(p, q)
  local ratio, off = p.scale / q.scale, (p.loc - q.loc) / q.scale
  return -ratio:log() + off + ratio * EULER - (1 + EULER)
    + (-off + (ratio + 1):lgamma()):exp()
end)

same("Gamma", function(p, q)
  local a, b = p.concentration, q.concentration
  return b * (p.rate / q.rate):log() + b:lgamma() - a:lgamma() + (a - b) * a:digamma()
    + (q.rate - p.rate) * (a / p.rate)
end)

same("Beta", function(p, q)
  local a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
  local sum = a + b
  return c:lgamma() + d:lgamma() + sum:lgamma() - (c + d):lgamma() - a:lgamma() - b:lgamma()
    + (a - c) * a:digamma() + (b - d) * b:digamma() + (c + d - sum) * sum:digamma()
end)

same("Dirichlet", function(p, q)
  local a, b = p.concentration, q.concentration
  local sum = a:sum(-1)
  return sum:lgamma() - b:sum(-1):lgamma() + (b:lgamma() - a:lgamma()):sum(-1)
    + ((a - b) * (a:digamma() - sum:digamma():unsqueeze(-1))):sum(-1)
end)

-- p (log p - log q) + (1 - p) (log(1 - p) - log(1 - q))
local function bernoulli(p, q)
  local function part(share, x, y) return op.where(share:eq(0), 0, share * (y - x)) end
  return part(p.probs, (-p.logits):softplus(), (-q.logits):softplus())
    + part(1 - p.probs, p.logits:softplus(), q.logits:softplus())
end
same("Bernoulli", bernoulli)

same("Binomial", function(p, q)
  local each = bernoulli(p, q) * p.total_count
  return op.where(p.total_count:eq(q.total_count), each,
    op.where(p.total_count:gt(q.total_count), math.huge, 0 / 0))
end)

same("Geometric", function(p, q) return bernoulli(p, q) / p.probs end)

same("Poisson", function(p, q)
  return p.rate * (p.rate / q.rate):log() - (p.rate - q.rate)
end)

local function categorical(p, q)
  if p.classes ~= q.classes then
    core.fail("shape", "kl_divergence", ("%d classes and %d"):format(p.classes, q.classes))
  end
  local never = p.probs:eq(0)
  return op.where(never, 0, p.probs * (p.logits - q.logits)):sum(-1)
end
same("Categorical", categorical)
same("OneHotCategorical", categorical)

rules["Exponential Gamma"] = function(p, q)
  local ratio, b = q.rate / p.rate, q.concentration
  return -b * ratio:log() + ratio + b:lgamma() + b * EULER - (1 + EULER)
end

rules["Uniform Normal"] = function(p, q)
  local width, mean = p.high - p.low, (p.high + p.low) * 0.5 - q.loc
  local square = (width * width * (1 / 12) + mean * mean) / (q.scale * q.scale * 2)
  return (q.scale / width):log() + 0.5 * math.log(2 * math.pi) + square
end

same("Independent", function(p, q)
  if p.n ~= q.n then
    core.fail("shape", "kl_divergence", ("%d dimensions of events and %d"):format(p.n, q.n))
  end
  local value, dims = kl.kl_divergence(p.base, q.base), {}
  for i = 1, p.n do dims[i] = -i end
  return p.n > 0 and value:sum { dim = dims } or value
end)

--- The mean, over what p draws, of log p - log q: how far p is from q.
---
--- Raises (value): a pair for which no formula is known.
---
---     local d = mrt.distributions
---     mrt.distributions.kl_divergence(d.Normal(0, 1), d.Normal(1, 1))  --> 0.5
---@param p mrt.Distribution
---@param q mrt.Distribution
---@return mrt.Tensor  `[batch]`
function kl.kl_divergence(p, q)
  local wrong = not Distribution.is(p) and 1 or not Distribution.is(q) and 2
  if wrong then
    argument.refuse("kl_divergence", "argument %d: a distribution wanted, got %s", wrong,
      options.show(wrong == 1 and p or q))
  end
  local rule = rules[p.name .. " " .. q.name]
  if rule then return rule(p, q) end
  argument.refuse("kl_divergence", "no formula for %s and %s: average log_prob over samples",
    p.name, q.name)
end

--- Add a formula, or change one.
---
---     local d = mrt.distributions
---     d.register_kl("Normal", "Normal", function(p, q) return (p.loc - q.loc):square() end)
---
--- Shapes: a tensor of what the parameters broadcast to.
--- Raises: what is no distribution, or no function.
---@param p string  the names of the classes
---@param q string
---@param rule fun(p: mrt.Distribution, q: mrt.Distribution): mrt.Tensor
function kl.register_kl(p, q, rule)
  if type(p) ~= "string" or type(q) ~= "string" then
    argument.refuse("register_kl", "two names of classes wanted, got %s and %s", options.show(p),
      options.show(q))
  end
  argument.callable("register_kl", rule)
  rules[p .. " " .. q] = rule
end

kl.kl = kl.kl_divergence

return kl
