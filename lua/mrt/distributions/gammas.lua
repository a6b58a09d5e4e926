--- gammas.lua -- gamma, beta, Dirichlet, chi-squared and Student's t: of gamma variates
---
--- Samples are exact (core/op/sample.c), and differentiable in the concentrations by implicit
--- reparameterisation (Figurnov, Mohamed & Mnih, arXiv:1805.08498).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local Distribution = require "mrt.distributions.distribution"

local op = core.op
local value, extended = Distribution.value, Distribution.extended
local kinds = {}

-- Gamma variates of these concentrations and rate 1, of a shape.
local function variates(concentration, shape)
  return op.standard_gamma(op.expand(concentration, shape):copy())
end

--- Density rate^a x^(a - 1) e^(-rate x) / Gamma(a), a the concentration.
---
---     mrt.distributions.Gamma(3, 2).mean  --> 1.5
---@overload fun(concentration: mrt.Operand, rate: mrt.Operand): mrt.Distribution
local Gamma = Distribution.class("Gamma", { "concentration", "rate" })
kinds.Gamma = Gamma

function Gamma:init(o)
  Distribution.set(self, o, { concentration = "positive", rate = "positive" },
    { "concentration", "rate" })
end

function Gamma.fields.mean(d) return d.concentration / d.rate end
function Gamma.fields.mode(d) return (d.concentration - 1):maximum(0) / d.rate end
function Gamma.fields.variance(d) return d.concentration / (d.rate * d.rate) end

function Gamma:rsample(...)
  return variates(self.concentration, extended(self, ...)) / self.rate
end

function Gamma:log_prob(x)
  x = value(self, x)
  local a = self.concentration
  return a * self.rate:log() + (a - 1):xlogy(x) - self.rate * x - a:lgamma()
end

function Gamma:entropy()
  local a = self.concentration
  return a - self.rate:log() + a:lgamma() + (1 - a) * a:digamma()
end

--- The sum of `df` squares of normal numbers.
---
---     mrt.distributions.Chi2(3).mean  --> 3
---
--- Raises: df that is not above 0.
---@overload fun(df: mrt.Operand): mrt.Distribution
function kinds.Chi2(df)
  if type(df) == "table" then df = df.df end
  Distribution.want("Chi2", "df", df, "positive")
  return Gamma(df * 0.5, 0.5)
end

--- Numbers in (0, 1), density x^(a - 1) (1 - x)^(b - 1) / B(a, b).
---
---     mrt.distributions.Beta(2, 2).mean  --> 0.5
---@overload fun(concentration1: mrt.Operand, concentration0: mrt.Operand): mrt.Distribution
local Beta = Distribution.class("Beta", { "concentration1", "concentration0" })
kinds.Beta = Beta

function Beta:init(o)
  Distribution.set(self, o, { concentration1 = "positive", concentration0 = "positive" },
    { "concentration1", "concentration0" })
end

local function total(d) return d.concentration1 + d.concentration0 end

function Beta.fields.mean(d) return d.concentration1 / total(d) end
function Beta.fields.mode(d)
  local a, b = d.concentration1, d.concentration0
  local inside = a:gt(1):logical_and(b:gt(1))
  return op.where(inside, (a - 1) / (a + b - 2), 0 / 0)
end
function Beta.fields.variance(d)
  local sum = total(d)
  return d.concentration1 * d.concentration0 / (sum * sum * (sum + 1))
end

function Beta:rsample(...)
  local shape = extended(self, ...)
  local x = variates(self.concentration1, shape)
  return x / (x + variates(self.concentration0, shape))
end

-- log B(a, b)
local function log_beta(a, b) return a:lgamma() + b:lgamma() - (a + b):lgamma() end

function Beta:log_prob(x)
  x = value(self, x)
  local a, b = self.concentration1, self.concentration0
  return (a - 1):xlogy(x) + (b - 1) * (-x):log1p() - log_beta(a, b)
end

function Beta:entropy()
  local a, b = self.concentration1, self.concentration0
  return log_beta(a, b) - (a - 1) * a:digamma() - (b - 1) * b:digamma()
    + (a + b - 2) * (a + b):digamma()
end

--- Shares that add up to 1, density proportional to the product of x_i^(a_i - 1).
---
---     mrt.distributions.Dirichlet(mrt.tensor{1.0, 3.0}).mean  --> [0.25 0.75]
---@overload fun(concentration: mrt.Tensor): mrt.Distribution  `[..., K]`
local Dirichlet = Distribution.class("Dirichlet", { "concentration" })
kinds.Dirichlet = Dirichlet

function Dirichlet:init(o)
  argument.tensor("Dirichlet", "concentration", o.concentration)
  Distribution.set(self, o, { concentration = "positive" }, { "concentration" })
  if #self.batch_shape == 0 then
    core.fail("shape", "Dirichlet", self.concentration:type() .. ", [..., K] wanted")
  end
  self.event_shape = { table.remove(self.batch_shape) }
end

function Dirichlet.fields.mean(d) return d.concentration / d.concentration:sum(-1, true) end
function Dirichlet.fields.variance(d)
  local sum, mean = d.concentration:sum(-1, true), d.mean
  return mean * (1 - mean) / (sum + 1)
end

function Dirichlet:rsample(...)
  local x = variates(self.concentration, extended(self, ...))
  return x / x:sum(-1, true)
end

function Dirichlet:log_prob(x)
  x = value(self, x)
  local a = self.concentration
  return (a - 1):xlogy(x):sum(-1) + a:sum(-1):lgamma() - a:lgamma():sum(-1)
end

function Dirichlet:entropy()
  local a, k = self.concentration, self.event_shape[1]
  local sum = a:sum(-1)
  return a:lgamma():sum(-1) - sum:lgamma() - (k - sum) * sum:digamma()
    - ((a - 1) * a:digamma()):sum(-1)
end

--- A normal number divided by the root of a mean of `df` squares of such.
---
---     mrt.distributions.StudentT(5).variance  --> 1.666667
---@overload fun(df: mrt.Operand, loc?: mrt.Operand, scale?: mrt.Operand): mrt.Distribution
local StudentT = Distribution.class("StudentT", { "df", "loc", "scale" })
kinds.StudentT = StudentT

function StudentT:init(o)
  local given = { df = o.df, loc = o.loc or 0, scale = o.scale or 1 }
  Distribution.set(self, given, { df = "positive", loc = "any", scale = "positive" },
    { "df", "loc", "scale" })
end

function StudentT.fields.mean(d) return op.where(d.df:gt(1), d.loc, 0 / 0) end
function StudentT.fields.mode(d) return d.loc end
function StudentT.fields.variance(d)
  local is_finite, constant = d.df:gt(2), Distribution.constant
  local df = op.where(is_finite, d.df, 4)
  local other = op.where(d.df:gt(1), constant(d, math.huge), constant(d, 0 / 0))
  return op.where(is_finite, d.scale * d.scale * df / (df - 2), other)
end

function StudentT:rsample(...)
  local shape = extended(self, ...)
  local x = mrt.randn(shape, { dtype = self.dtype })
  return self.loc + self.scale * x * (self.df * 0.5 / variates(self.df * 0.5, shape)):sqrt()
end

-- log of B(df / 2, 1 / 2) sqrt(df)
local function log_constant(df)
  return df:log() * 0.5 + 0.5 * math.log(math.pi) + (df * 0.5):lgamma()
    - ((df + 1) * 0.5):lgamma()
end

function StudentT:log_prob(x)
  local z = (value(self, x) - self.loc) / self.scale
  return (z * z / self.df):log1p() * (self.df + 1) * -0.5 - self.scale:log()
    - log_constant(self.df)
end

function StudentT:entropy()
  local half = (self.df + 1) * 0.5
  return self.scale:log() + half * (half:digamma() - (self.df * 0.5):digamma())
    + log_constant(self.df)
end

return kinds
