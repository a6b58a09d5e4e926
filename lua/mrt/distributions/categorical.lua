--- categorical.lua -- one of several classes, as an id or as a one-hot row
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local Distribution = require "mrt.distributions.distribution"

local op = core.op
local value, extended = Distribution.value, Distribution.extended
local kinds = {}

local function to_logits(p)
  local eps = mrt.dtype_info(p:get_dtype()).epsilon
  return p:clamp(eps, 1 - eps):log()
end

local function init(self, o)
  for _, name in ipairs { "probs", "logits" } do
    if o[name] ~= nil then argument.tensor(self.name, name, o[name]) end
  end
  Distribution.set_either(self, o, to_logits, function(x) return x end)
  if #self.batch_shape == 0 then
    core.fail("shape", self.name, (o.probs or o.logits):type() .. ", [..., K] wanted")
  end
  self.classes = table.remove(self.batch_shape)
  if o.probs ~= nil then
    self.probs = self.probs / self.probs:sum(-1, true)
    self.logits = to_logits(self.probs)
  else
    self.logits = self.logits:log_softmax(-1)
    self.probs = self.logits:softmax(-1)
  end
end

-- Ids: the class whose logit and Gumbel noise are the largest, which is class k with
-- probability p_k (Gumbel 1954).
local function ids_of(self, shape)
  shape[#shape + 1] = self.classes
  local tiny = mrt.dtype_info(self.dtype).epsilon / 4
  local u = Distribution.uniform(self, shape):maximum(tiny)
  local logits = op.where(self.probs:eq(0), -math.huge, self.logits)
  return (logits - (-u:log()):log()):argmax(-1)
end

-- -sum p log p, 0 log 0 = 0.
local function entropy(self)
  local least = -mrt.dtype_info(self.dtype).largest
  return -(self.probs * self.logits:maximum(least)):sum(-1)
end

--- Class k of K, i64 from 0, with probability probs[k] (any positive numbers) or softmax of
--- logits.
---
---     mrt.distributions.Categorical{logits = model(x)}:sample()
---@overload fun(probs: mrt.Tensor|table, logits?: mrt.Tensor): mrt.Distribution
local Categorical = Distribution.class("Categorical", { "probs", "logits" })
kinds.Categorical = Categorical
Categorical.init, Categorical.entropy = init, entropy

function Categorical.fields.mean(d) return Distribution.constant(d, 0 / 0) end
function Categorical.fields.variance(d) return Distribution.constant(d, 0 / 0) end
function Categorical.fields.mode(d) return d.probs:argmax(-1) end

function Categorical:sample(...) return ids_of(self, extended(self, ...)) end

---@param x mrt.Tensor  ids
---@return mrt.Tensor
function Categorical:log_prob(x)
  if math.type(x) == "integer" then x = mrt.tensor(x, "i64") end
  argument.tensor("Categorical", "the value", x)
  local ids = x:to "i64"
  local shape = op.add(ids:to(self.dtype), self.logits:select(self.logits:dim(), 1)):size()
  ids = op.expand(ids, shape):unsqueeze(-1)
  shape[#shape + 1] = self.classes
  return op.expand(self.logits, shape):gather(-1, ids):squeeze(-1)
end

--- The same as rows with a 1 at the class.
---
---     mrt.distributions.OneHotCategorical(mrt.tensor{1.0, 1.0}):sample():sum()  --> 1
---@overload fun(probs: mrt.Tensor|table, logits?: mrt.Tensor): mrt.Distribution
local OneHot = Distribution.class("OneHotCategorical", { "probs", "logits" })
kinds.OneHotCategorical = OneHot
OneHot.entropy = entropy

function OneHot:init(o)
  init(self, o)
  self.event_shape = { self.classes }
end

function OneHot.fields.mean(d) return d.probs end
function OneHot.fields.variance(d) return d.probs * (1 - d.probs) end
function OneHot.fields.mode(d) return d.probs:argmax(-1):one_hot(d.classes):to(d.dtype) end

function OneHot:sample(...)
  local shape = extended(self, ...)
  table.remove(shape)
  return ids_of(self, shape):one_hot(self.classes):to(self.dtype)
end

function OneHot:log_prob(x)
  x = value(self, x)
  return op.where(x:eq(0), 0, x * self.logits):sum(-1)
end

return kinds
