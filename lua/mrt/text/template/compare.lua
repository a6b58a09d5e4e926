--- compare.lua -- equality, order and membership, as Python has them
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local operators = require "mrt.text.template.operators"
local value = require "mrt.text.template.value"

local compare = {}

local defined, number, type_of = operators.defined, operators.number, value.type

local equal

local function equal_items(run, a, b)
  if a.n ~= b.n then return false end
  for i = 1, a.n do
    if not equal(run, a[i], b[i]) then return false end
  end
  return true
end

local function equal_dicts(run, a, b)
  if a.n ~= b.n then return false end
  for _, key in ipairs(a.keys) do
    local other = value.get(b, key)
    if other == nil or not equal(run, value.get(a, key), other) then return false end
  end
  return true
end

local equals = {
  [value.List] = equal_items, [value.Tuple] = equal_items, [value.Dict] = equal_dicts,
  [value.Undefined] = function() return true end,
  [value.Markup] = function(_, a, b) return a.text == b.text end,
  [value.Range] = function(_, a, b)
    return a.n == b.n and (a.n == 0 or a.start == b.start and (a.n == 1 or a.step == b.step))
  end,
}

local function plain_text(v) return value.kind(v) == value.Markup and v.text or v end

--- a == b.
---@param run mrt.template.Run
---@return boolean
function compare.equal(run, a, b)
  run:spend(1)
  if type(a) ~= "table" and type(b) ~= "table" then
    local x, y = number(a), number(b)
    if x and y then return x == y end
    return a == b
  end
  a, b = plain_text(a), plain_text(b)
  if rawequal(a, b) then return true end
  local k = value.kind(a)
  if not k or k ~= value.kind(b) or not equals[k] then return a == b end
  run:enter()
  local same = equals[k](run, a, b)
  run:leave()
  return same
end
equal = compare.equal

--- a < b.  Raises where the two have no order.
---@param run mrt.template.Run
---@return boolean
function compare.less(run, a, b, name)
  run:spend(1)
  local x, y = number(a), number(b)
  if x and y then return x < y end
  if type(a) == "string" and type(b) == "string" then return a < b end
  defined(a); defined(b)
  local k = value.kind(a)
  if not ((k == value.List or k == value.Tuple) and k == value.kind(b)) then
    fail.here("'%s' not supported between '%s' and '%s'", name or "<", type_of(a), type_of(b))
  end
  run:enter()
  local less
  for i = 1, math.min(a.n, b.n) do
    if not equal(run, a[i], b[i]) then
      less = compare.less(run, a[i], b[i], name)
      break
    end
  end
  run:leave()
  if less == nil then return a.n < b.n end
  return less
end
local less = compare.less

local function is_nan(v) return v ~= v end

local by_sign = {
  ["=="] = equal,
  ["!="] = function(run, a, b) return not equal(run, a, b) end,
  ["<"] = function(run, a, b) return less(run, a, b, "<") end,
  [">"] = function(run, a, b) return less(run, b, a, ">") end,
  ["<="] = function(run, a, b)
    return not less(run, b, a, "<=") and not is_nan(a) and not is_nan(b)
  end,
  [">="] = function(run, a, b)
    return not less(run, a, b, ">=") and not is_nan(a) and not is_nan(b)
  end,
}
compare.by_sign = by_sign

local function in_text(run, a, text)
  a = plain_text(a)
  if type(a) ~= "string" then
    fail.here("'in <string>' requires a string on its left, not %s", type_of(a))
  end
  run:spend(#a * #text // 256 + #text // 64)
  return text:find(a, 1, true) ~= nil
end

-- What a dict cannot have as a key.
local function check_key(a)
  local k = value.kind(a)
  if k == value.Dict or k == value.List then fail.here("unhashable type: '%s'", type_of(a)) end
end

--- a in b.
---@return boolean
local function contains(run, a, b)
  b = plain_text(b)
  if type(b) == "string" then return in_text(run, a, b) end
  local k = value.kind(b)
  if k == value.Dict or (k == value.View and b.name == "dict_keys") then check_key(a) end
  if k == value.Dict then return value.get(b, a) ~= nil end
  local items, n = value.items(run, b)
  if not items then fail.here("argument of type '%s' is not iterable", type_of(b)) end
  for i = 1, n do
    if equal(run, a, items[i]) then return true end
  end
  return false
end

by_sign["in"] = contains
by_sign["not in"] = function(run, a, b) return not contains(run, a, b) end

return compare
