--- initial.lua -- how parameters begin
---
--- Each function returns a recipe: called with dimensions it gives a lazy
--- tensor, so a model of any size is built without computing anything.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local initial = {}

---@alias mrt.nn.Recipe fun(...: integer): mrt.Tensor

--- All zeros.
---@return mrt.nn.Recipe
function initial.zeros() return mrt.zeros end

--- All ones.
---@return mrt.nn.Recipe
function initial.ones() return mrt.ones end

--- Normal with mean 0.
---@param std number  standard deviation
---@return mrt.nn.Recipe
function initial.normal(std)
  return function(...) return mrt.randn(...) * std end
end

--- Uniform in [-bound, bound).
---@param bound number
---@return mrt.nn.Recipe
function initial.uniform(bound)
  return function(...) return mrt.rand(...) * (2 * bound) - bound end
end

--- Glorot & Bengio 2010: uniform, variance 2 / (inputs + outputs), for a
--- weight `[outputs, inputs]`.
---@return mrt.nn.Recipe
function initial.xavier()
  return function(outputs, inputs)
    return initial.uniform(math.sqrt(6 / (inputs + outputs)))(outputs, inputs)
  end
end

--- He et al. 2015: normal, variance 2 / inputs, for a weight
--- `[outputs, inputs]` in front of a relu.
---@return mrt.nn.Recipe
function initial.kaiming()
  return function(outputs, inputs)
    return initial.normal(math.sqrt(2 / inputs))(outputs, inputs)
  end
end

return initial
