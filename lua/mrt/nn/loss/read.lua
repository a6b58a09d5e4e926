--- read.lua -- what all losses are given: tensors that fit, options, a reduction
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local read = {}

---@alias mrt.nn.Reduction "mean"|"sum"|"none"

local reductions = {
  mean = function(x) return x:mean() end,
  sum = function(x) return x:sum() end,
  none = function(x) return x end,
}

--- Make the tensor one number, as the option says.
---@param who string
---@param o {reduction: string}
---@param x mrt.Tensor
---@return mrt.Tensor
function read.reduce(who, o, x)
  read.reduction(who, o)
  return reductions[o.reduction](x)
end

--- Raise unless the reduction is one that there is.
---@param who string
---@param o {reduction: string}
---@param more? string  another that there is
function read.reduction(who, o, more)
  if reductions[o.reduction] or more and o.reduction == more then return end
  core.fail("value", who, ("reduction '%s', one of mean, sum, none%s wanted")
    :format(tostring(o.reduction), more and ", " .. more or ""))
end

local known = {} -- names of options in their order, by loss

--- Say which options a loss has, in the order in which they may stand behind its
--- tensors; return what reads them.
---@param who string
---@param names string[]
---@param defaults table  as for options.read; reduction = "mean" is added
---@return fun(...: any): table
function read.options(who, names, defaults)
  known[who] = names
  if defaults.reduction == nil then defaults.reduction = "mean" end
  local preset -- where nothing is given; nobody writes to it
  return function(first, ...)
    if first == nil and select("#", ...) == 0 then
      preset = preset or options.read(who, {}, defaults)
      return preset
    end
    return options.read(who, argument.read(who, names, first, ...), defaults)
  end
end

--- The options of a loss, in order.
---@param who string
---@return string[]
function read.names(who) return known[who] end

--- Raise unless all are tensors; the names are for messages.
---@param who string
---@param names string[]
---@param ... any
function read.tensors(who, names, ...)
  for i, name in ipairs(names) do argument.tensor(who, "the " .. name, (select(i, ...))) end
end

--- Do two tensors have one shape?
---@param x mrt.Tensor
---@param y mrt.Tensor
---@return boolean
function read.same_shape(x, y)
  if x:dim() ~= y:dim() then return false end
  for d = 1, x:dim() do
    if x:size(d) ~= y:size(d) then return false end
  end
  return true
end

--- Raise unless the second has the shape of the first; it, in the first's dtype.
---@param who string
---@param x mrt.Tensor
---@param y mrt.Tensor
---@return mrt.Tensor
function read.like(who, x, y)
  argument.tensor(who, "the first", x)
  argument.tensor(who, "the second", y)
  if not read.same_shape(x, y) then
    core.fail("shape", who, ("%s against %s, equal shapes wanted"):format(x:type(), y:type()))
  end
  return y:to(x:get_dtype())
end

return read
