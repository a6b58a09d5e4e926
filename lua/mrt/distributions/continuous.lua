--- continuous.lua -- normal, log-normal, uniform, exponential, Laplace, Gumbel, Cauchy
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Distribution = require "mrt.distributions.distribution"

local op = core.op
local value, extended = Distribution.value, Distribution.extended
local kinds = {}

local LOG_ROOT_2PI <const> = 0.5 * math.log(2 * math.pi)
local ROOT_2 <const> = 2 ^ 0.5
local EULER <const> = 0.57721566490153286061
local PI2 <const> = math.pi ^ 2

-- A kind with a place and a width.
local function located(name)
  local class = Distribution.class(name, { "loc", "scale" })
  function class:init(o)
    Distribution.set(self, o, { loc = "any", scale = "positive" }, { "loc", "scale" })
  end
  kinds[name] = class
  return class
end

--- The normal distribution, of mean `loc` and standard deviation `scale`.
---
---     local d = mrt.distributions.Normal(0, 1)
---     d:sample(1000):mean()
---@overload fun(loc: mrt.Operand, scale: mrt.Operand): mrt.Distribution
local Normal = located "Normal"

function Normal.fields.mean(d) return d.loc end
function Normal.fields.mode(d) return d.loc end
function Normal.fields.variance(d) return d.scale * d.scale end

function Normal:rsample(...)
  return self.loc + mrt.randn(extended(self, ...), { dtype = self.dtype }) * self.scale
end

function Normal:log_prob(x)
  local z = (value(self, x) - self.loc) / self.scale
  return z * z * -0.5 - self.scale:log() - LOG_ROOT_2PI
end

function Normal:entropy() return self.scale:log() + (0.5 + LOG_ROOT_2PI) end

function Normal:cdf(x)
  return ((value(self, x) - self.loc) / (self.scale * ROOT_2)):erf() * 0.5 + 0.5
end

function Normal:icdf(p)
  return self.loc + self.scale * ((value(self, p) * 2 - 1):erfinv() * ROOT_2)
end

--- The distribution of e^x, x normal.
---
---     mrt.distributions.LogNormal(0, 1).mean  --> 1.648721
---@overload fun(loc: mrt.Operand, scale: mrt.Operand): mrt.Distribution
local LogNormal = located "LogNormal"

local function base(d) return Normal(d.loc, d.scale) end

function LogNormal.fields.mean(d) return (d.loc + d.scale * d.scale * 0.5):exp() end
function LogNormal.fields.mode(d) return (d.loc - d.scale * d.scale):exp() end
function LogNormal.fields.variance(d)
  local v = d.scale * d.scale
  return v:expm1() * (d.loc * 2 + v):exp()
end

function LogNormal:rsample(...) return base(self):rsample(...):exp() end

function LogNormal:log_prob(x)
  local y = value(self, x):log()
  return base(self):log_prob(y) - y
end

function LogNormal:entropy() return base(self):entropy() + self.loc end
function LogNormal:cdf(x) return base(self):cdf(value(self, x):log()) end
function LogNormal:icdf(p) return base(self):icdf(p):exp() end

--- Equal density from `low` on, below `high`.
---
---     mrt.distributions.Uniform(0, 4).mean  --> 2
---@overload fun(low: mrt.Operand, high: mrt.Operand): mrt.Distribution
local Uniform = Distribution.class("Uniform", { "low", "high" })
kinds.Uniform = Uniform

function Uniform:init(o)
  Distribution.set(self, o, { low = "any", high = "any" }, { "low", "high" })
  if type(o.low) == "number" and type(o.high) == "number" and not (o.low < o.high) then
    core.fail("value", "Uniform", ("low %g, high %g, low below high wanted"):format(o.low, o.high))
  end
end

function Uniform.fields.mean(d) return (d.low + d.high) * 0.5 end
function Uniform.fields.variance(d)
  local width = d.high - d.low
  return width * width * (1 / 12)
end

function Uniform:rsample(...)
  return self.low + Distribution.uniform(self, extended(self, ...)) * (self.high - self.low)
end

function Uniform:log_prob(x)
  x = value(self, x)
  local inside = x:ge(self.low):logical_and(x:lt(self.high))
  return op.where(inside, 0, -math.huge) - (self.high - self.low):log()
end

function Uniform:entropy() return (self.high - self.low):log() end
function Uniform:cdf(x)
  return ((value(self, x) - self.low) / (self.high - self.low)):clamp(0, 1)
end
function Uniform:icdf(p) return self.low + value(self, p) * (self.high - self.low) end

--- Waiting times: density rate e^(-rate x) from 0 on.
---
---     mrt.distributions.Exponential(2).mean  --> 0.5
---@overload fun(rate: mrt.Operand): mrt.Distribution
local Exponential = Distribution.class("Exponential", { "rate" })
kinds.Exponential = Exponential

function Exponential:init(o) Distribution.set(self, o, { rate = "positive" }, { "rate" }) end

function Exponential.fields.mean(d) return 1 / d.rate end
function Exponential.fields.mode(d) return d.rate * 0 end
function Exponential.fields.variance(d) return 1 / (d.rate * d.rate) end

function Exponential:rsample(...)
  return -(-Distribution.uniform(self, extended(self, ...))):log1p() / self.rate
end

function Exponential:log_prob(x)
  x = value(self, x)
  return op.where(x:ge(0), self.rate:log() - self.rate * x, -math.huge)
end

function Exponential:entropy() return 1 - self.rate:log() end
function Exponential:cdf(x) return -(-(self.rate * value(self, x):maximum(0))):expm1() end
function Exponential:icdf(p) return -(-value(self, p)):log1p() / self.rate end

--- Density e^(-|x - loc| / scale) / (2 scale).
---
---     mrt.distributions.Laplace(0, 1).variance  --> 2
---@overload fun(loc: mrt.Operand, scale: mrt.Operand): mrt.Distribution
local Laplace = located "Laplace"

function Laplace.fields.mean(d) return d.loc end
function Laplace.fields.mode(d) return d.loc end
function Laplace.fields.variance(d) return d.scale * d.scale * 2 end

local function laplace_of(self, t) -- t in (-1, 1)
  return self.loc - self.scale * t:sign() * (-t:abs()):log1p()
end

function Laplace:rsample(...)
  local most = 1 - mrt.dtype_info(self.dtype).epsilon
  local t = Distribution.uniform(self, extended(self, ...)) * 2 - 1
  return laplace_of(self, t:clamp(-most, most))
end

function Laplace:log_prob(x)
  return -(value(self, x) - self.loc):abs() / self.scale - (self.scale * 2):log()
end

function Laplace:entropy() return (self.scale * 2):log() + 1 end

function Laplace:cdf(x)
  local d = value(self, x) - self.loc
  return 0.5 - d:sign() * (-d:abs() / self.scale):expm1() * 0.5
end

function Laplace:icdf(p) return laplace_of(self, value(self, p) * 2 - 1) end

--- The largest of many: P(X <= x) = e^(-e^(-(x - loc) / scale)).
---
---     mrt.distributions.Gumbel(0, 1).mean  --> 0.5772157
---@overload fun(loc: mrt.Operand, scale: mrt.Operand): mrt.Distribution
local Gumbel = located "Gumbel"

function Gumbel.fields.mean(d) return d.loc + d.scale * EULER end
function Gumbel.fields.mode(d) return d.loc end
function Gumbel.fields.variance(d) return d.scale * d.scale * (PI2 / 6) end

function Gumbel:rsample(...)
  local tiny = mrt.dtype_info(self.dtype).epsilon / 4
  local u = Distribution.uniform(self, extended(self, ...)):maximum(tiny)
  return self.loc - self.scale * (-u:log()):log()
end

function Gumbel:log_prob(x)
  local z = (value(self, x) - self.loc) / self.scale
  return -(z + (-z):exp()) - self.scale:log()
end

function Gumbel:entropy() return self.scale:log() + (1 + EULER) end
function Gumbel:cdf(x) return (-(-(value(self, x) - self.loc) / self.scale):exp()):exp() end
function Gumbel:icdf(p) return self.loc - self.scale * (-value(self, p):log()):log() end

--- Density 1 / (pi scale (1 + z^2)), z = (x - loc) / scale; it has no mean.
---
---     mrt.distributions.Cauchy(0, 1):log_prob(0)  --> -1.14473
---@overload fun(loc: mrt.Operand, scale: mrt.Operand): mrt.Distribution
local Cauchy = located "Cauchy"

function Cauchy.fields.mean(d) return Distribution.constant(d, 0 / 0) end
function Cauchy.fields.mode(d) return d.loc end
function Cauchy.fields.variance(d) return Distribution.constant(d, math.huge) end

-- The quotient of two normal numbers.
function Cauchy:rsample(...)
  local shape, o = extended(self, ...), { dtype = self.dtype }
  return self.loc + self.scale * (mrt.randn(shape, o) / mrt.randn(shape, o))
end

function Cauchy:log_prob(x)
  local z = (value(self, x) - self.loc) / self.scale
  return -(z * z):log1p() - self.scale:log() - math.log(math.pi)
end

function Cauchy:entropy() return self.scale:log() + math.log(4 * math.pi) end

return kinds
