--- initial.lua -- how parameters begin
---
--- Each function returns a recipe: called with dimensions it gives a lazy
--- tensor, so a model of any size is built without computing anything.
---
--- A weight has as many inputs (outputs) as numbers are read for one result
--- (results are computed from one number): of `[outputs, inputs, ...]` the
--- second (first) dimension times all that follow both, the size of a kernel.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local options = require "mrt.util.options"

local initial = {}

---@alias mrt.nn.Recipe fun(...: integer): mrt.Tensor

-- A number, or its default.
local function number(who, name, value, default)
  if value == nil then value = default end
  if type(value) == "number" then return value end
  core.fail("value", who, ("%s: a number wanted, got %s"):format(name, options.show(value)))
end

--- All zeros.
---
---     nn.initial.zeros()(2)  --> [0.0 0.0]
---@return mrt.nn.Recipe
function initial.zeros() return mrt.zeros end

--- All ones.
---
---     nn.initial.ones()(2)  --> [1.0 1.0]
---@return mrt.nn.Recipe
function initial.ones() return mrt.ones end

--- One number everywhere.
---
---     nn.initial.constant(0.5)(2)  --> [0.5 0.5]
---
--- Raises: what is no number.
---@param value number
---@return mrt.nn.Recipe
function initial.constant(value)
  number("constant", "value", value)
  return function(...) return mrt.full({ ... }, value) end
end

--- Normal.
---
---     nn.initial.normal(0.02)(4, 3):type()  --> f32[4,3]
---
--- Raises: what is no number.
---@param std number    standard deviation
---@param mean? number  default 0
---@return mrt.nn.Recipe
function initial.normal(std, mean)
  number("normal", "std", std)
  mean = number("normal", "mean", mean, 0)
  return function(...)
    local x = mrt.randn(...) * std
    return mean == 0 and x or x + mean
  end
end

--- Uniform in [-bound, bound), or in [low, high) with both given.
---
---     nn.initial.uniform(0.1)(4, 3):type()  --> f32[4,3]
---
--- Raises: what is no number.
---@param low number    or the bound
---@param high? number
---@return mrt.nn.Recipe
function initial.uniform(low, high)
  number("uniform", "low", low)
  if high == nil then low, high = -low, low end
  number("uniform", "high", high)
  return function(...) return mrt.rand(...) * (high - low) + low end
end

local ROUNDS = 5 -- one in 5 million is left to be bounded, of 2 deviations

--- Normal, but numbers further than `cut` standard deviations from the mean are
--- drawn again (after some rounds: bounded).
---
---     nn.initial.truncated_normal(0.02)(4, 3):type()  --> f32[4,3]
---
--- Raises: a std that is no number, a cut that is not above 0.
---@param std number       before cutting
---@param given? {mean: number?, cut: number?}  default 0, 2
---@return mrt.nn.Recipe
function initial.truncated_normal(std, given)
  number("truncated_normal", "std", std)
  local o = options.read("truncated_normal", given, { mean = 0, cut = 2 })
  if not (o.cut > 0) then
    core.fail("value", "truncated_normal", ("cut = %g, more than 0 wanted"):format(o.cut))
  end
  return function(...)
    local x = mrt.randn(...)
    for _ = 2, ROUNDS do x = mrt.where(x:abs():le(o.cut), x, mrt.randn(...)) end
    return x:clamp(-o.cut, o.cut) * std + o.mean
  end
end

-- ---- by the number of inputs and outputs -------------------------------------

local function fans(who, outputs, inputs, ...)
  if not inputs then
    core.fail("shape", who, "a weight of at least two dimensions wanted")
  end
  number(who, "outputs", outputs)
  number(who, "inputs", inputs)
  local kernel = 1
  for _, n in ipairs { ... } do kernel = kernel * number(who, "a side of the kernel", n) end
  return inputs * kernel, outputs * kernel
end

local gains = {
  linear = function() return 1 end,
  sigmoid = function() return 1 end,
  tanh = function() return 5 / 3 end,
  relu = function() return math.sqrt(2) end,
  leaky_relu = function(slope) return math.sqrt(2 / (1 + slope ^ 2)) end,
  selu = function() return 3 / 4 end,
}

--- Return the factor that keeps the variance in front of a nonlinearity, as
--- PyTorch's calculate_gain.
---
---     nn.initial.gain "relu"  --> 1.4142135623731
---
--- Raises: a name that there is not.
---@param name "linear"|"sigmoid"|"tanh"|"relu"|"leaky_relu"|"selu"
---@param slope? number  of leaky_relu, default 0.01
---@return number
function initial.gain(name, slope)
  if not gains[name] then
    core.fail("value", "gain", ("no nonlinearity '%s'"):format(tostring(name)))
  end
  return gains[name](number("gain", "slope", slope, 0.01))
end

--- Glorot & Bengio 2010: uniform, variance gain^2 2 / (inputs + outputs).
---
---     nn.initial.xavier_uniform()(4, 3):type()  --> f32[4,3]
---
--- Raises: a gain that is no number.
---@param gain? number  default 1
---@return mrt.nn.Recipe
function initial.xavier_uniform(gain)
  gain = number("xavier", "gain", gain, 1)
  return function(...)
    local inputs, outputs = fans("xavier", ...)
    return initial.uniform(gain * math.sqrt(6 / (inputs + outputs)))(...)
  end
end

--- The same, normal.
---
---     nn.initial.xavier_normal()(4, 3):type()  --> f32[4,3]
---
--- Raises: a gain that is no number.
---@param gain? number  default 1
---@return mrt.nn.Recipe
function initial.xavier_normal(gain)
  gain = number("xavier", "gain", gain, 1)
  return function(...)
    local inputs, outputs = fans("xavier", ...)
    return initial.normal(gain * math.sqrt(2 / (inputs + outputs)))(...)
  end
end

---@class mrt.nn.KaimingOptions
---@field mode? "inputs"|"outputs"  what keeps its variance: results (the
---  default), or gradients
---@field gain? number              default that of relu, sqrt(2)

-- A recipe from make(standard deviation).
local function kaiming(given, make)
  local o = options.read("kaiming", given, { mode = "inputs", gain = math.sqrt(2) })
  if o.mode ~= "inputs" and o.mode ~= "outputs" then
    core.fail("value", "kaiming", ("mode '%s', inputs or outputs wanted"):format(o.mode))
  end
  return function(...)
    local inputs, outputs = fans("kaiming", ...)
    local n = o.mode == "inputs" and inputs or outputs
    return make(o.gain / math.sqrt(n))(...)
  end
end

--- He et al. 2015: normal, variance gain^2 / inputs.
---
---     nn.initial.kaiming_normal()(4, 3):type()  --> f32[4,3]
---
--- Raises: a mode that there is not.
---@param given? mrt.nn.KaimingOptions
---@return mrt.nn.Recipe
function initial.kaiming_normal(given) return kaiming(given, initial.normal) end

--- The same, uniform.
---
---     nn.initial.kaiming_uniform()(4, 3):type()  --> f32[4,3]
---
--- Raises: a mode that there is not.
---@param given? mrt.nn.KaimingOptions
---@return mrt.nn.Recipe
function initial.kaiming_uniform(given)
  return kaiming(given, function(std) return initial.uniform(math.sqrt(3) * std) end)
end

initial.xavier, initial.kaiming = initial.xavier_uniform, initial.kaiming_normal

local ITERATIONS = 30 -- singular values from 1e-4 to 1, and squarings at the end

--- Saxe et al. 2014: rows (columns, where there are fewer) that are orthogonal
--- and of length `gain`, of the weight as a matrix `[outputs, all else]`.
---
--- A normal matrix divided by what bounds its singular values, which Newton and
--- Schulz's iteration X = 1.5 X - 0.5 X X' X then brings to 1: matrix products
--- only.
---
---     nn.initial.orthogonal()(4, 3):type()  --> f32[4,3]
---
--- Raises: at the call, fewer than two dimensions.
---@param gain? number  default 1
---@return mrt.nn.Recipe
function initial.orthogonal(gain)
  gain = number("orthogonal", "gain", gain, 1)
  return function(...)
    local m, n = ..., fans("orthogonal", ...)
    local x = mrt.randn(m, n) * (1 / (1.1 * (math.sqrt(m) + math.sqrt(n))))
    if m > n then x = x:t() end
    for _ = 1, ITERATIONS do
      x = x * 1.5 - x:matmul(x:t()):matmul(x) * 0.5
    end
    if m > n then x = x:t() end
    return (x * gain):reshape(...)
  end
end

return initial
