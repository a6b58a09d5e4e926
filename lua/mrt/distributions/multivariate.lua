--- multivariate.lua -- normal numbers that depend on each other
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local Distribution = require "mrt.distributions.distribution"

local op = core.op
local value, extended = Distribution.value, Distribution.extended

local LOG_2PI <const> = math.log(2 * math.pi)

--- Normal vectors `[..., K]` of mean `loc` and one of three matrices `[..., K, K]`: the
--- covariance, its inverse, or the covariance's factor L L^T with zeros above the diagonal.
---
---     mrt.distributions.MultivariateNormal(mrt.zeros(2), mrt.eye(2)):log_prob(mrt.zeros(2))
---     --> -1.837877
---@overload fun(loc: mrt.Tensor, covariance_matrix?: mrt.Tensor, ...: mrt.Tensor): mrt.Distribution
local MultivariateNormal = Distribution.class("MultivariateNormal", { "loc",
  "covariance_matrix", "precision_matrix", "scale_tril" })

-- The factor, whichever matrix is given.
local function factor(o)
  local given
  for _, name in ipairs { "covariance_matrix", "precision_matrix", "scale_tril" } do
    if o[name] ~= nil then
      if given then
        argument.refuse("MultivariateNormal", "%s and %s, one of them wanted", given, name)
      end
      given = name
    end
  end
  if not given then
    argument.refuse("MultivariateNormal",
      "covariance_matrix, precision_matrix or scale_tril wanted")
  end
  local matrix = argument.tensor("MultivariateNormal", given, o[given])
  if matrix:dim() < 2 or matrix:size(-1) ~= matrix:size(-2) then
    core.fail("shape", "MultivariateNormal", ("%s is %s, [..., K, K] wanted"):format(given,
      matrix:type()))
  end
  if given == "scale_tril" then return matrix end
  if given == "precision_matrix" then matrix = mrt.linalg.inv(matrix) end
  return mrt.linalg.cholesky(matrix)
end

function MultivariateNormal:init(o)
  local loc = argument.tensor("MultivariateNormal", "loc", o.loc)
  local L = factor(o)
  local K = L:size(-1)
  if loc:dim() < 1 or loc:size(-1) ~= K then
    core.fail("shape", "MultivariateNormal", ("loc %s, [..., %d] wanted for matrices %s"):format(
      loc:type(), K, L:type()))
  end
  -- their batches broadcast: the factor's last dimension gives way to that of loc
  local both = op.add(loc, op.cast(L:select(-1, 1), loc:get_dtype()))
  self.dtype = both:get_dtype()
  self.batch_shape, self.event_shape = both:get_shape(), { K }
  table.remove(self.batch_shape)
  self.loc = op.expand(loc, both:get_shape()):to(self.dtype)
  local matrices = both:get_shape()
  matrices[#matrices + 1] = K
  self.scale_tril = op.expand(L:to(self.dtype), matrices)
end

function MultivariateNormal.fields.mean(d) return d.loc end
function MultivariateNormal.fields.mode(d) return d.loc end
function MultivariateNormal.fields.variance(d)
  return (d.scale_tril * d.scale_tril):sum(-1)
end
function MultivariateNormal.fields.covariance_matrix(d)
  return d.scale_tril:matmul(d.scale_tril:transpose(-2, -1))
end
function MultivariateNormal.fields.precision_matrix(d)
  return mrt.linalg.inv(d.covariance_matrix)
end

-- The logarithm of the factor's determinant.
local function log_det(d) return d.scale_tril:diagonal(0, -2, -1):log():sum(-1) end

function MultivariateNormal:rsample(...)
  local noise = mrt.randn(extended(self, ...), { dtype = self.dtype })
  return self.loc + self.scale_tril:matmul(noise:unsqueeze(-1)):squeeze(-1)
end

-- |L^-1 d|^2 of vectors d [..., K].
local function distance(L, d)
  local shape = d:get_shape()
  shape[#shape + 1] = shape[#shape]
  local z = mrt.linalg.solve_triangular(op.expand(L, shape), d:unsqueeze(-1), { upper = false })
  return (z * z):sum { dim = { -2, -1 } }
end

function MultivariateNormal:log_prob(x)
  local d = value(self, x) - self.loc
  local K = self.event_shape[1]
  return distance(self.scale_tril, d) * -0.5 - 0.5 * K * LOG_2PI - log_det(self)
end

function MultivariateNormal:entropy()
  return log_det(self) + 0.5 * self.event_shape[1] * (1 + LOG_2PI)
end

--- The divergence of two of them (kl.lua).
---@param p mrt.Distribution
---@param q mrt.Distribution
---@return mrt.Tensor
local function divergence(p, q)
  local K = p.event_shape[1]
  if K ~= q.event_shape[1] then
    core.fail("shape", "kl_divergence", ("vectors of %d and of %d"):format(K, q.event_shape[1]))
  end
  local shape = op.add(p.loc, q.loc):get_shape()
  shape[#shape + 1] = K
  local ratio = mrt.linalg.solve_triangular(op.expand(q.scale_tril, shape),
    op.expand(p.scale_tril, shape), { upper = false })
  return log_det(q) - log_det(p) + ((ratio * ratio):sum { dim = { -2, -1 } }
    + distance(q.scale_tril, q.loc - p.loc) - K) * 0.5
end

return { kinds = { MultivariateNormal = MultivariateNormal }, divergence = divergence }
