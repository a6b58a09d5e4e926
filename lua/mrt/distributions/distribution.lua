--- distribution.lua -- what distributions share: parameters, shapes, samples
---
--- A distribution has a batch of independent parameters, `batch_shape`, each of which draws
--- something of `event_shape`.  All is lazy, and may stand in a compiled function; `mean`,
--- `variance` and `stddev` are fields.
---
--- Parameters are checked where they are numbers of Lua; a tensor's elements are not looked
--- at, and give NaN where they cannot be.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"

local op = core.op

---@class mrt.Distribution
---@field batch_shape integer[]
---@field event_shape integer[]
---@field mean mrt.Tensor
---@field variance mrt.Tensor
---@field stddev mrt.Tensor  the root of the variance
---@field mode mrt.Tensor    what is likeliest, where the distribution has one
---@field entropy fun(self: mrt.Distribution): mrt.Tensor  `[batch]`
local Distribution = {}

local dtypes = core.dtypes()

local classes = setmetatable({}, { __mode = "k" })

--- Is this a distribution (of that name)?
---
---     mrt.distributions.Normal(0, 1):sample(2):type()
---
--- Raises: nothing; anything may be asked.
---@param value any
---@param name? string
---@return boolean
function Distribution.is(value, name)
  local class = type(value) == "table" and getmetatable(value)
  return classes[class] ~= nil and (name == nil or class.name == name)
end

-- Arguments by name.  A distribution is a table, and no options.
local function read(name, names, ...)
  local n, o = select("#", ...), {}
  if n == 0 or not Distribution.is((select(n, ...))) then return argument.read(name, names, ...) end
  for i = 1, n do
    if not names[i] then argument.refuse(name, "%d arguments, %d wanted", n, #names) end
    o[names[i]] = (select(i, ...))
  end
  return o
end

--- Make a kind of distribution.  `init(self, o)` gets its arguments by name; `fields` has
--- functions of what reads like a field.
---@param name string
---@param names string[]  of the arguments, in their order
---@return table class
---@nodoc
function Distribution.class(name, names)
  local class = { name = name, fields = {} }
  class.__index = function(self, key)
    local own = class[key]
    if own == nil then own = Distribution[key] end
    if own ~= nil then return own end
    local field = class.fields[key] or Distribution.fields[key]
    return field and field(self)
  end
  class.__tostring = function(self)
    local o, parts = rawget(self, "arguments"), {}
    for _, key in ipairs(names) do
      if o[key] ~= nil then
        parts[#parts + 1] = ("%s = %s"):format(key, describe.value(o[key]))
      end
    end
    return ("%s { %s }, batch [%s], event [%s]"):format(name, table.concat(parts, ", "),
      table.concat(self.batch_shape, ","), table.concat(self.event_shape, ","))
  end
  classes[class] = true
  return setmetatable(class, { __tostring = function() return "class " .. name end,
    __call = core.front(function(_, ...)
      local o, known = read(name, names, ...), {}
      for _, key in ipairs(names) do known[key] = true end
      options.check_names(name, o, known)
      local self = setmetatable({ event_shape = {}, arguments = o }, class)
      class.init(self, o)
      return self
    end, nil, name) })
end

Distribution.fields = {
  stddev = function(self) return self.variance:sqrt() end,
}

-- ---- parameters ----------------------------------------------------------------

local checks = {
  any = function() return true end,
  positive = function(x) return x > 0 end,
  share = function(x) return x >= 0 and x <= 1 end,
  count = function(x) return x >= 0 and x == math.floor(x) end,
}
local words = { positive = "more than 0", share = "0 to 1", count = "a whole number" }

--- Raise unless a parameter is a float tensor or a number that can be.
---@param who string
---@param name string
---@param value any
---@param kind "any"|"positive"|"share"|"count"
---@nodoc
function Distribution.want(who, name, value, kind)
  if type(value) == "number" then
    if checks[kind](value) then return end
    argument.refuse(who, "%s = %g, %s wanted", name, value, words[kind])
  elseif not core.is_tensor(value) then
    argument.refuse(who, "%s: a tensor or a number wanted, got %s", name, options.show(value))
  elseif not dtypes[value:get_dtype()].floating then
    core.fail("dtype", who, ("%s is %s, floats wanted"):format(name, value:type()))
  end
end

local function joint_shape(who, list)
  local rank, shape = 0, {}
  for _, x in ipairs(list) do rank = math.max(rank, x:dim()) end
  for d = 1, rank do shape[d] = 1 end
  for _, x in ipairs(list) do
    for d = 1, x:dim() do
      local at, n = rank - x:dim() + d, x:size(d)
      if shape[at] == 1 then
        shape[at] = n
      elseif n ~= 1 and n ~= shape[at] then
        core.fail("shape", who, ("%s and %s do not broadcast"):format(list[1]:type(), x:type()))
      end
    end
  end
  return shape
end

--- Make parameters tensors of one shape and dtype, the batch's: fields of the distribution.
---@param self mrt.Distribution
---@param o table           what they were given as
---@param kinds table<string, string>  by name, for Distribution.want
---@param names string[]    those of `kinds`, in the order of messages
---@nodoc
function Distribution.set(self, o, kinds, names)
  local who, dtype, list = self.name, "f32", {}
  for _, name in ipairs(names) do
    Distribution.want(who, name, o[name], kinds[name])
    if core.is_tensor(o[name]) then
      if o[name]:get_dtype() == "f64" then dtype = "f64" end
    end
  end
  for i, name in ipairs(names) do
    local value = o[name]
    list[i] = core.is_tensor(value) and value:to(dtype)
      or op.full { shape = {}, value = value, dtype = dtype }
  end
  local shape = joint_shape(who, list)
  for i, name in ipairs(names) do rawset(self, name, op.expand(list[i], shape)) end
  rawset(self, "batch_shape", shape)
  rawset(self, "dtype", dtype)
end

--- Make `probs` and `logits` of the one that was given.
---@param self mrt.Distribution
---@param o {probs: any, logits: any}
---@param to_logits fun(p: mrt.Tensor): mrt.Tensor
---@param to_probs fun(x: mrt.Tensor): mrt.Tensor
---@param more? string[]  other parameters, whole numbers, which broadcast with them
---@nodoc
function Distribution.set_either(self, o, to_logits, to_probs, more)
  if (o.probs == nil) == (o.logits == nil) then
    argument.refuse(self.name, "either probs or logits wanted")
  end
  local given = o.probs ~= nil and "probs" or "logits"
  local kinds, names = { probs = "share", logits = "any" }, { given }
  for _, name in ipairs(more or {}) do kinds[name], names[#names + 1] = "count", name end
  Distribution.set(self, o, kinds, names)
  if o.probs ~= nil then
    rawset(self, "logits", to_logits(self.probs))
  else
    rawset(self, "probs", to_probs(self.logits))
  end
end

-- ---- shapes ----------------------------------------------------------------------

--- The shape of samples: what is given, the batch, the event.
---@param self mrt.Distribution
---@param ... integer|integer[]
---@return integer[]
---@nodoc
function Distribution.extended(self, ...)
  local first, shape = (...), {}
  local given = type(first) == "table" and first or { ... }
  for i, n in ipairs(given) do
    if math.type(n) ~= "integer" or n < 0 then
      argument.refuse(self.name, "shape %d: a size wanted, got %s", i, options.show(n))
    end
    shape[i] = n
  end
  table.move(self.batch_shape, 1, #self.batch_shape, #shape + 1, shape)
  return table.move(self.event_shape, 1, #self.event_shape, #shape + 1, shape)
end

--- One number for the whole batch, in the parameters' dtype.
---@param self mrt.Distribution
---@param x number
---@return mrt.Tensor
---@nodoc
function Distribution.constant(self, x)
  return op.full { shape = self.batch_shape, value = x, dtype = self.dtype }
end

--- A value to look at, in the parameters' dtype.
---@param self mrt.Distribution
---@param x mrt.Operand
---@return mrt.Tensor
---@nodoc
function Distribution.value(self, x)
  if type(x) == "number" then
    return op.full { shape = {}, value = x, dtype = self.dtype }
  end
  return argument.tensor(self.name, "the value", x):to(self.dtype)
end

--- Numbers in [0, 1), of samples' shape.
---@param self mrt.Distribution
---@param shape integer[]
---@return mrt.Tensor
---@nodoc
function Distribution.uniform(self, shape) return mrt.rand(shape, { dtype = self.dtype }) end

-- ---- what all have -----------------------------------------------------------------

local function lacks(what, why)
  return function(self)
    core.fail("value", self.name, ("no %s%s"):format(what, why or ""))
  end
end

--- Draw: `d:sample()`, `d:sample(10)`, `d:sample{10, 3}` -> that shape, then the batch's, then
--- the event's.  No gradient goes through.
---
---     mrt.distributions.Normal(0, 1):sample(2):type()  --> f32[2]
---
--- Raises: sizes below 0.
---@param ... integer|integer[]
---@return mrt.Tensor
function Distribution:sample(...) return self:rsample(...):detach() end

--- Draw as a differentiable function of the parameters and of noise that does not depend on
--- them, where there is one.
---@param ... integer|integer[]
---@return mrt.Tensor
Distribution.rsample = lacks("rsample", ": its samples are no smooth function of its parameters")

--- The logarithm of the probability, or of its density, of a value.
---@param x mrt.Operand  broadcasts with `[batch, event]`
---@return mrt.Tensor  `[..., batch]`
Distribution.log_prob = lacks "log_prob"

Distribution.entropy = lacks "entropy"

--- The probability of values up to x.
---@param x mrt.Operand
---@return mrt.Tensor
Distribution.cdf = lacks "cdf"

--- The value up to which a share p of the probability lies.
---@param p mrt.Operand  in [0, 1]
---@return mrt.Tensor
Distribution.icdf = lacks "icdf"

--- e to the entropy.
---
---     mrt.distributions.Categorical(mrt.tensor{1.0, 1.0}):perplexity()  --> 2
---
--- Shapes: `[...]` of the parameters.
---@return mrt.Tensor
function Distribution:perplexity() return self:entropy():exp() end

return Distribution
