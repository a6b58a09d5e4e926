--- methods.lua -- attributes and items: `v.name`, `v[key]`
---
--- As in the sandbox that chat templates are written for: what would change a list or a
--- dict, and names that begin with "_", cannot be reached.
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.text.template.arguments"
local compare = require "mrt.text.template.compare"
local fail = require "mrt.text.template.fail"
local format = require "mrt.text.template.format"
local operators = require "mrt.text.template.operators"
local strings = require "mrt.text.template.strings"
local unicode = require "mrt.text.template.unicode"
local value = require "mrt.text.template.value"

local methods = {}

local function method(parameters, f)
  return { signature = arguments.signature(parameters), call = f }
end

local function index_of(run, v, wanted, start, stop)
  local first = arguments.integer("index", start, 0)
  local last = arguments.integer("index", stop, v.n)
  if first < 0 then first = math.max(0, first + v.n) end
  if last < 0 then last = last + v.n end
  for i = first + 1, math.min(last, v.n) do
    if compare.equal(run, v[i], wanted) then return i - 1 end
  end
  fail.here("index: the value is not in the %s", value.type(v))
end

local function count_of(run, v, wanted)
  local n = 0
  for i = 1, v.n do
    if compare.equal(run, v[i], wanted) then n = n + 1 end
  end
  return n
end

local function values_of(v)
  local list = {}
  for i, key in ipairs(v.keys) do list[i] = value.get(v, key) end
  return list
end

--- The pairs of a dict.
---@return table[]
function methods.pairs_of(run, v)
  run:spend(v.n)
  run:take(64 * v.n)
  local list = {}
  for i, key in ipairs(v.keys) do list[i] = value.tuple { key, value.get(v, key) } end
  return list
end

local function copy(run, v)
  run:spend(v.n)
  run:take(16 * v.n)
  if value.kind(v) == value.List then return value.list(table.move(v, 1, v.n, 1, {}), v.n) end
  local new = value.dict()
  for _, key in ipairs(v.keys) do value.put(new, key, value.get(v, key)) end
  return new
end

local sequence = { index = method("value start? stop?", index_of),
  count = method("value", count_of) }

-- A method of the numbers of a range.
local function of_numbers(f)
  return function(run, v, ...)
    local numbers, n = value.items(run, v)
    return f(run, value.tuple(numbers, n), ...)
  end
end

local by_kind = {
  [value.Range] = { index = method("value", of_numbers(index_of)),
    count = method("value", of_numbers(count_of)) },
  [value.Tuple] = sequence,
  [value.List] = setmetatable({ copy = method("", copy) }, { __index = sequence }),
  [value.Dict] = {
    get = method("key default?", function(_, v, key, default)
      local found = value.get(v, key)
      if found ~= nil then return found end
      return default == nil and value.none or default
    end),
    keys = method("", function(run, v)
      run:spend(v.n)
      return value.view(table.move(v.keys, 1, v.n, 1, {}), "dict_keys")
    end),
    values = method("", function(run, v)
      run:spend(v.n)
      return value.view(values_of(v), "dict_values")
    end),
    items = method("", function(run, v)
      return value.view(methods.pairs_of(run, v), "dict_items")
    end),
    copy = method("", copy),
  },
}

-- Methods that change what they are called on, which the sandbox does not have.
local changing = { [value.List] = {}, [value.Dict] = {} }
for name in ("append clear pop reverse insert sort extend remove"):gmatch "%a+" do
  changing[value.List][name] = true
end
for name in ("clear pop popitem setdefault update"):gmatch "%a+" do
  changing[value.Dict][name] = true
end

-- Methods that Python's strings have and these do not.
local unknown = {}
for name in ([[encode expandtabs format_map isascii isidentifier isprintable istitle maketrans
  translate]]):gmatch "%g+" do
  unknown[name] = true
end

-- str.format, which gets its fields by the rules of this file.
local function formatter(s)
  return value.callable("format", function(run, args, named)
    return format.braces(run, s, args, named and named.map, function(v, key)
      local found = methods.item(run, v, key)
      if value.is_undefined(found) then fail.here(("%s"):format(found.hint)) end
      return found
    end)
  end)
end

local function string_method(s, name)
  if unknown[name] then fail.here("the method %s of strings is not understood", name) end
  if name == "format" then return formatter(s) end
  return strings.methods[name]
end

-- A method bound to its value, nil where there is none of this name.
local function bound(v, name)
  if value.kind(v) == value.Markup then v = v.text end
  local k = value.kind(v)
  if changing[k] and changing[k][name] then
    return value.undefined(("%s of a %s would change it, which templates cannot")
      :format(name, value.type(v)))
  end
  local found
  if type(v) == "string" then found = string_method(v, name) else
    found = by_kind[k] and by_kind[k][name]
  end
  if not found or value.kind(found) == value.Function then return found end
  return value.callable(name, function(run, args, named)
    local list = arguments.bind(name, found.signature, args, named)
    return found.call(run, v, table.unpack(list, 1, #found.signature.names))
  end)
end

-- Python's word for a value in messages about what it lacks.
local function shown(v)
  if v == value.none then return "None" end
  return ("'%s object'"):format(value.type(v))
end

-- ---- the loop --------------------------------------------------------------

local function neighbour(items, i, n, hint)
  if i < 1 or i > n then return value.undefined(hint) end
  return items[i]
end

local loop = {
  index = function(l) return l.index end,
  index0 = function(l) return l.index - 1 end,
  revindex = function(l) return l.n - l.index + 1 end,
  revindex0 = function(l) return l.n - l.index end,
  first = function(l) return l.index == 1 end,
  last = function(l) return l.index == l.n end,
  length = function(l) return l.n end,
  depth = function() return 1 end,
  depth0 = function() return 0 end,
  previtem = function(l)
    return neighbour(l.items, l.index - 1, l.n, "there is no previous item")
  end,
  nextitem = function(l)
    return neighbour(l.items, l.index + 1, l.n, "there is no next item")
  end,
  cycle = function(l)
    return value.callable("cycle", function(_, args)
      if args.n == 0 then fail.here "cycle: no items" end
      return args[(l.index - 1) % args.n + 1]
    end)
  end,
  changed = function(l)
    return value.callable("changed", function(run, args)
      local now = value.tuple(args, args.n)
      local same = l.seen and compare.equal(run, l.seen, now)
      l.seen = now
      return not same
    end)
  end,
}

-- ---- access ----------------------------------------------------------------

local function missing(v, name)
  local hint = type(name) == "string" and "%s has no attribute '%s'" or "%s has no element %s"
  return value.undefined(hint:format(shown(v), tostring(name)))
end

--- `v.name`: a method, else what is there under the name, else undefined.
---@param run mrt.template.Run
---@param v any
---@param name string
---@return any
function methods.attribute(_, v, name)
  operators.defined(v)
  local k = value.kind(v)
  if k == value.Loop and loop[name] then return loop[name](v) end
  if k == value.Namespace then
    local found = value.get(v.dict, name)
    if found == nil then return missing(v, name) end
    return found
  end
  local found = bound(v, name)
  if found ~= nil then return found end
  if k == value.Dict then found = value.get(v, name) end
  if found == nil then return missing(v, name) end
  return found
end

-- The item of a string, list, tuple or range, counted from 0 or from the end.
local function at_index(run, v, i)
  local n = value.length(v)
  if i < 0 then i = i + n end
  if i < 0 or i >= n then return missing(v, i) end
  if type(v) == "string" then
    run:scan(#v)
    return unicode.sub(v, i, i + 1)
  end
  if value.kind(v) == value.Range then return value.range_at(v, i) end
  return v[i + 1]
end

local indexed = { [value.List] = true, [value.Tuple] = true, [value.Range] = true }

-- What lies under a key, before methods are looked for; nil for nothing.
local function under(run, v, key)
  local k = value.kind(v)
  if k == value.Dict then return value.find(v, key) end
  if k == value.Namespace or k == value.Loop then return methods.attribute(run, v, key) end
  if not indexed[k] and type(v) ~= "string" then return nil end
  local i = key == true and 1 or key == false and 0 or key
  if math.type(i) == "integer" then return at_index(run, v, i) end
end

--- `v[key]`: what is there under the key, else a method, else undefined.
---@param run mrt.template.Run
---@param v any
---@param key any
---@return any
function methods.item(run, v, key)
  operators.defined(v)
  if value.kind(v) == value.Markup then v = v.text end
  local found = under(run, v, key)
  if found ~= nil then return found end
  found = type(key) == "string" and bound(v, key)
  return found or missing(v, key)
end

return methods
