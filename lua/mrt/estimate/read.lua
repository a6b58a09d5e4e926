--- read.lua -- what every estimate checks: names, counts, dtypes
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local read = {}

--- Bytes of an element.  More dtypes than mrt computes in: an estimate asks for
--- no kernel.
---@type table<string, integer>
read.dtypes = { f64 = 8, f32 = 4, f16 = 2, bf16 = 2, fp8 = 1, i64 = 8, i32 = 4,
  i8 = 1, u8 = 1, bool = 1 }

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ", ")
end

--- Raise an error of code "value".
---@param who string
---@param text string  a format
---@param ... any
function read.refuse(who, text, ...) core.fail("value", who, text:format(...)) end

--- Return `given` if it is one of `choices`, a set; else raise and list them.
---@param who string
---@param what string
---@param given any
---@param choices table<string, any>
---@return string
function read.choice(who, what, given, choices)
  if choices[given] then return given end
  read.refuse(who, "%s = %s, there is %s", what, tostring(given), names(choices))
end

--- Return the bytes of an element of `dtype`.
---@param who string
---@param dtype string
---@return integer bytes
function read.bytes(who, dtype)
  return read.dtypes[read.choice(who, "dtype", dtype, read.dtypes)]
end

--- Check a whole number.  Sums are kept in floating point, exact to 2^53, so that
--- nothing wraps around.
---@param who string
---@param name string
---@param value any
---@param least integer
---@return number count
function read.count(who, name, value, least)
  local whole = type(value) == "number" and math.tointeger(value)
  if not whole or whole < least then
    read.refuse(who, "%s = %s, a whole number of at least %d wanted", name,
      tostring(value), least)
  end
  return whole + 0.0
end

read.needed, read.optional, read.any = {}, {}, {}

-- What an option is once it is checked.
local function checked(who, name, value, default, least)
  if value == read.needed then read.refuse(who, "%s is missing", name) end
  if value == read.optional or value == read.any then return nil end
  if default == read.any then return value end
  if type(default) == "number" or type(default) == "table" then
    return read.count(who, name, value, least)
  end
  if type(value) ~= type(default) then
    read.refuse(who, "%s = %s, a %s wanted", name, tostring(value), type(default))
  end
  return value
end

--- Read options: a default of `read.needed` must be given, one that is a number
--- is a count, `read.optional` is a count that may be left out, `read.any` what the
--- caller checks and may be left out.
---@param who string
---@param given table?
---@param defaults table<string, any>
---@param zero? table<string, boolean>  counts that may be 0
---@return table
function read.options(who, given, defaults, zero)
  local o = options.read(who, given, defaults, true)
  for name, default in pairs(defaults) do
    o[name] = checked(who, name, o[name], default, zero and zero[name] and 0 or 1)
  end
  return o
end

--- Return a number of bytes, parts of a byte rounded up.
---@param n number
---@return integer bytes  a float where no integer holds it
function read.whole(n)
  -- A share such as 24/t of a whole number may miss it by a last bit.
  local near = math.floor(n + 0.5)
  return math.abs(n - near) < 1e-6 and near or math.ceil(n)
end

return read
