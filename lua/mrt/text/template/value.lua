--- value.lua -- the values of templates, which are Python's
---
--- Strings, numbers and booleans are Lua's.  Tables of the kinds below are the others;
--- what a program gives as plain Lua tables becomes lists and dicts (`value.from`).
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local unicode = require "mrt.text.template.unicode"

local value = {}

-- A kind: the metatable of its values, with Python's name of the type.
local is_kind = {}
local function kind(name)
  local mt = { type = name }
  is_kind[mt] = true
  return mt
end

local List, Tuple, Dict = kind "list", kind "tuple", kind "dict"
local Iter, View, Range = kind "generator", kind "dict_view", kind "range"
local Undefined, Namespace = kind "Undefined", kind "Namespace"
local Function, Markup, Loop = kind "function", kind "Markup", kind "LoopContext"
value.List, value.Tuple, value.Dict, value.Iter, value.View = List, Tuple, Dict, Iter, View
value.Range, value.Undefined, value.Namespace = Range, Undefined, Namespace
value.Function, value.Markup, value.Loop = Function, Markup, Loop

--- None: what JSON's null is.
value.none = setmetatable({}, kind "NoneType")
local none = value.none

---@class mrt.template.Undefined
---@field hint string  what is said where it is used

--- What a name or attribute is that is not there.
---@param hint string
---@return mrt.template.Undefined
function value.undefined(hint) return setmetatable({ hint = hint }, Undefined) end

---@param v any
---@return boolean
function value.is_undefined(v) return getmetatable(v) == Undefined and type(v) == "table" end

-- The kind of a table of ours, nil for other values.
local function kind_of(v) return type(v) == "table" and getmetatable(v) or nil end
value.kind = kind_of

--- Python's name of the type.
---@param v any
---@return string
function value.type(v)
  local t = type(v)
  if t == "table" then return getmetatable(v).name or getmetatable(v).type end
  return t == "string" and "str" or t == "boolean" and "bool"
    or math.type(v) == "integer" and "int" or "float"
end

-- ---- lists and dicts -------------------------------------------------------

--- A list of what is given, which it takes over: items 1 to n.
---@param items table
---@param n? integer
---@return table
function value.list(items, n)
  items.n = n or #items
  return setmetatable(items, List)
end

function value.tuple(items, n)
  items.n = n or #items
  return setmetatable(items, Tuple)
end

--- What is gone through once.
function value.iter(items, n)
  return setmetatable({ items = items, n = n or #items, at = 1 }, Iter)
end

--- The keys, values or items of a dict.
---@param items table
---@param name string  dict_keys, dict_values, dict_items
function value.view(items, name)
  return setmetatable({ items = items, n = #items, name = name }, View)
end

--- A function that templates can call: `call(run, args, named)`, args.n of them.
function value.callable(name, call) return setmetatable({ name = name, call = call }, Function) end

function value.dict() return setmetatable({ keys = {}, map = {}, n = 0 }, Dict) end

-- What a key is found by: 1, 1.0 and true are one.
local function hash(key)
  if key == true then return 1 elseif key == false then return 0 end
  if type(key) == "table" and key ~= none then
    fail.here("a %s as the key of a dict is not understood", value.type(key))
  end
  if key ~= key then fail.here "nan as the key of a dict is not understood" end
  return key
end

--- Put a value into a dict; a new key comes last.
function value.put(dict, key, v)
  local h = hash(key)
  if dict.map[h] == nil then
    dict.n = dict.n + 1
    dict.keys[dict.n] = key
  end
  dict.map[h] = v
end

--- What a dict has under a key, nil if nothing.
function value.get(dict, key) return dict.map[hash(key)] end

--- As `get`, and nil too for what cannot be a key.
function value.find(dict, key)
  if type(key) == "table" and key ~= none or key ~= key then return nil end
  return dict.map[hash(key)]
end

-- ---- from Lua --------------------------------------------------------------

local DEEPEST = 64
local from

local function text_from(s, what)
  if utf8.len(s) then return s end
  fail.here("%s is a string that is no UTF-8", what)
end

-- The names of a map: in the order its metatable gives (`__jsonorder`), then by name.
local function names_of(t, what)
  local names, seen = {}, {}
  local order = getmetatable(t) and getmetatable(t).__jsonorder
  for _, name in ipairs(type(order) == "table" and order or {}) do
    if t[name] ~= nil and not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  local rest = {}
  for name in pairs(t) do
    if type(name) ~= "string" then
      fail.here("%s has the key %s: keys are names, or 1 to n of a list", what, tostring(name))
    end
    if not seen[name] then rest[#rest + 1] = text_from(name, what .. "'s key") end
  end
  table.sort(rest)
  return table.move(rest, 1, #rest, #names + 1, names)
end

local function list_from(t, what, depth)
  local n, count = #t, 0
  for _ in pairs(t) do count = count + 1 end
  if count ~= n then fail.here("%s is neither a list without holes nor a map by name", what) end
  local list = {}
  for i = 1, n do list[i] = from(t[i], ("%s[%d]"):format(what, i), depth) end
  return value.list(list, n)
end

local function dict_from(t, what, depth)
  local dict = value.dict()
  for _, name in ipairs(names_of(t, what)) do
    value.put(dict, name, from(t[name], what .. "." .. name, depth))
  end
  return dict
end

local function table_from(t, what, depth)
  if depth > DEEPEST then fail.here("%s lies in more than %d tables", what, DEEPEST) end
  local mt = getmetatable(t) or {}
  if is_kind[mt] then return t end
  if mt.__tojson and next(t) == nil then return none end
  local is_list = t[1] ~= nil or next(t) == nil and mt.__jsontype ~= "object"
  return (is_list and list_from or dict_from)(t, what, depth + 1)
end

--- A Lua value as one of templates.
---
--- Raises (fail.lua): functions, tensors, strings that are no UTF-8, tables that are
--- neither list nor map, or deeper than 64.
---@param v any
---@param what string  its name, for messages
---@param depth? integer
---@return any
function value.from(v, what, depth)
  local t = type(v)
  if t == "string" then return text_from(v, what) end
  if t == "number" or t == "boolean" then return v end
  if t == "table" then return table_from(v, what, depth or 0) end
  fail.here("%s is a %s: strings, numbers, booleans, lists and maps of them are wanted", what, t)
end
from = value.from

-- ---- truth, length, items --------------------------------------------------

local sized = { [List] = true, [Tuple] = true, [Dict] = true, [View] = true, [Range] = true }

--- Python's truth of a value.
---@param v any
---@return boolean
function value.truth(v)
  local t = type(v)
  if t == "boolean" then return v end
  if t == "string" then return v ~= "" end
  if t == "number" then return v ~= 0 end
  local k = getmetatable(v)
  if sized[k] then return v.n > 0 end
  if k == Markup then return v.text ~= "" end
  return k ~= Undefined and v ~= none
end

--- Its length, nil where it has none.
---@param v any
---@return integer?
function value.length(v)
  if type(v) == "string" then return unicode.len(v) end
  local k = kind_of(v)
  if k == Undefined then return 0 end
  if k == Markup then return unicode.len(v.text) end
  if k == Loop then return #v.items end
  return sized[k] and v.n or nil
end

--- A range's number i, counted from 0.
function value.range_at(r, i) return r.start + i * r.step end

--- What a loop over the value goes through, as a table 1 to n, which is not to be
--- changed; nil where it cannot be gone through.  A generator is empty afterwards.
---@param run mrt.template.Run
---@param v any
---@return table? items
---@return integer n
function value.items(run, v)
  if type(v) == "string" then
    run:spend(#v)
    local chars = unicode.chars(v)
    return chars, #chars
  end
  local k = kind_of(v)
  if k == List or k == Tuple then return v, v.n end
  if k == Dict then return v.keys, v.n end
  if k == View then return v.items, v.n end
  if k == Undefined then return {}, 0 end
  if k == Markup then return value.items(run, v.text) end
  if k == Iter then
    local at = v.at
    v.at = v.n + 1
    return table.move(v.items, at, v.n, 1, {}), v.n - at + 1
  end
  if k == Range then
    run:spend(v.n)
    local list = {}
    for i = 1, v.n do list[i] = value.range_at(v, i - 1) end
    return list, v.n
  end
  return nil, 0
end

--- As `items`; raises where the value cannot be gone through.
function value.each(run, v)
  local items, n = value.items(run, v)
  if not items then fail.here("'%s' object is not iterable", value.type(v)) end
  run:spend(n)
  return items, n
end

return value
