--- compound.lua -- distributions of distributions: independent parts, mixtures
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local Distribution = require "mrt.distributions.distribution"
local options = require "mrt.util.options"

local op = core.op
local kinds = {}

local function want(who, name, value, kind)
  if Distribution.is(value, kind) then return end
  argument.refuse(who, "%s: a %s wanted, got %s", name, kind or "distribution",
    options.show(value))
end

-- The sum over the last `n` dimensions.
local function sum_last(x, n)
  local dims = {}
  for i = 1, n do dims[i] = -i end
  return n > 0 and x:sum { dim = dims } or x
end

--- Take the last `n` dimensions of a batch for parts of one event, whose probabilities are
--- multiplied.
---
---     local d = mrt.distributions     -- a diagonal normal distribution of rows
---     d.Independent(d.Normal(mrt.zeros(4, 3), mrt.ones(4, 3)), 1):sample():type()  --> f32[4,3]
---@overload fun(base: mrt.Distribution, n: integer): mrt.Distribution
local Independent = Distribution.class("Independent", { "base_distribution",
  "reinterpreted_batch_ndims" })
kinds.Independent = Independent

function Independent:init(o)
  local base, n = o.base_distribution, o.reinterpreted_batch_ndims
  want("Independent", "base_distribution", base)
  if math.type(n) ~= "integer" or n < 0 or n > #base.batch_shape then
    argument.refuse("Independent", "%s dimensions of a batch [%s]", options.show(n),
      table.concat(base.batch_shape, ","))
  end
  local batch = base.batch_shape
  self.base, self.n, self.dtype = base, n, base.dtype
  self.batch_shape = table.move(batch, 1, #batch - n, 1, {})
  self.event_shape = table.move(batch, #batch - n + 1, #batch, 1, {})
  table.move(base.event_shape, 1, #base.event_shape, n + 1, self.event_shape)
end

for _, name in ipairs { "mean", "variance", "mode" } do
  Independent.fields[name] = function(d) return d.base[name] end
end

function Independent:sample(...) return self.base:sample(...) end
function Independent:rsample(...) return self.base:rsample(...) end
function Independent:log_prob(x) return sum_last(self.base:log_prob(x), self.n) end
function Independent:entropy() return sum_last(self.base:entropy(), self.n) end

--- Draw from one of several distributions of a kind: the last dimension of the batch of
--- `component_distribution`, chosen by a Categorical.
---
---     local d = mrt.distributions
---     local parts = d.Normal(mrt.tensor{-1.0, 1.0}, mrt.ones(2))
---     d.MixtureSameFamily(d.Categorical(mrt.ones(2)), parts).mean  --> 0
---@overload fun(mixture: mrt.Distribution, component: mrt.Distribution): mrt.Distribution
local Mixture = Distribution.class("MixtureSameFamily", { "mixture_distribution",
  "component_distribution" })
kinds.MixtureSameFamily = Mixture

function Mixture:init(o)
  local mixture, component = o.mixture_distribution, o.component_distribution
  want(Mixture.name, "mixture_distribution", mixture, "Categorical")
  want(Mixture.name, "component_distribution", component)
  local batch = component.batch_shape
  if #batch ~= #mixture.batch_shape + 1 or batch[#batch] ~= mixture.classes then
    core.fail("shape", Mixture.name, ("a mixture of %d in a batch [%s] with components of batch "
      .. "[%s]: that of the mixture, then %d, wanted"):format(mixture.classes,
        table.concat(mixture.batch_shape, ","), table.concat(batch, ","), mixture.classes))
  end
  self.mixture, self.component, self.dtype = mixture, component, component.dtype
  self.batch_shape = table.move(batch, 1, #batch - 1, 1, {})
  self.event_shape = component.event_shape
end

-- x [batch, K, event] weighed by the mixture and added up over K.
local function weighed(d, x)
  local probs, events = d.mixture.probs, #d.event_shape
  for _ = 1, events do probs = probs:unsqueeze(-1) end
  return (probs * x):sum(-1 - events)
end

function Mixture.fields.mean(d) return weighed(d, d.component.mean) end
function Mixture.fields.variance(d)
  local mean = d.component.mean
  local off = mean - d.mean:unsqueeze(-1 - #d.event_shape)
  return weighed(d, d.component.variance + off * off)
end

function Mixture:sample(...)
  local all, events = self.component:sample(...), #self.event_shape
  local ids = self.mixture:sample(...)
  for _ = 0, events do ids = ids:unsqueeze(-1) end
  local shape, at = all:size(), all:dim() - events
  shape[at] = 1
  return all:gather(at, op.expand(ids, shape)):squeeze(at)
end

function Mixture:log_prob(x)
  x = Distribution.value(self, x)
  if x:dim() < #self.event_shape then
    core.fail("shape", Mixture.name, ("the value is %s, [..., %s] wanted"):format(x:type(),
      table.concat(self.event_shape, ",")))
  end
  x = x:unsqueeze(x:dim() + 1 - #self.event_shape)
  return (self.component:log_prob(x) + self.mixture.logits):logsumexp(-1)
end

function Mixture:cdf(x)
  return (self.component:cdf(Distribution.value(self, x):unsqueeze(-1)) * self.mixture.probs)
    :sum(-1)
end

return kinds
