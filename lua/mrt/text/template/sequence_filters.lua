--- sequence_filters.lua -- the filters of lists and dicts: `v | name(...)`
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.text.template.arguments"
local compare = require "mrt.text.template.compare"
local fail = require "mrt.text.template.fail"
local filters = require "mrt.text.template.filters"
local methods = require "mrt.text.template.methods"
local operators = require "mrt.text.template.operators"
local print = require "mrt.text.template.print"
local tests = require "mrt.text.template.tests"
local unicode = require "mrt.text.template.unicode"
local value = require "mrt.text.template.value"

local text, integer = arguments.text, arguments.integer

local function filter(names, parameters, f)
  for name in names:gmatch "%a+" do
    filters[name] = { signature = arguments.signature(parameters), call = f }
  end
end

local function is_set(v) return v ~= nil and v ~= value.none and value.truth(v) end

-- What finds "a.b.0" in an item; `default` stands for what is not there.
local function getter(run, path, default)
  if path == nil or path == value.none then return function(v) return v end end
  local parts = { path }
  if type(path) == "string" then
    parts = {}
    for part in (path .. "."):gmatch "([^.]*)%." do
      parts[#parts + 1] = part:find "^%d+$" and tonumber(part) or part
    end
  end
  if default == value.none then default = nil end
  return function(v)
    for _, part in ipairs(parts) do
      v = methods.item(run, v, part)
      if default ~= nil and value.is_undefined(v) then v = default end
    end
    return v
  end
end

-- Strings of either case are one, unless the case counts.
local function folded(case_sensitive, v)
  return not is_set(case_sensitive) and type(v) == "string" and unicode.lower(v) or v
end

-- ---- items -----------------------------------------------------------------

filter("list", "", function(run, v)
  local items, n = value.each(run, v)
  run:take(16 * n)
  return value.list(table.move(items, 1, n, 1, {}), n)
end)

filter("items", "", function(run, v)
  if value.is_undefined(v) then return value.iter({}) end
  if value.kind(v) ~= value.Dict then fail.here "items: a dict is wanted" end
  return value.iter(methods.pairs_of(run, v))
end)

filter("first", "", function(run, v)
  if value.kind(v) == value.Iter and v.at <= v.n then
    v.at = v.at + 1
    return v.items[v.at - 1]
  end
  if type(v) == "string" and v ~= "" then return v:match(unicode.first) end
  local items, n = value.each(run, v)
  if n == 0 then return value.undefined "the sequence is empty" end
  return items[1]
end)

filter("last", "", function(run, v)
  if value.kind(v) == value.Iter then fail.here "last: a generator cannot be reversed" end
  local items, n = value.each(run, v)
  if n == 0 then return value.undefined "the sequence is empty" end
  return items[n]
end)

filter("reverse", "", function(run, v)
  local items, n = value.each(run, v)
  run:take(16 * n)
  local out = {}
  for i = 1, n do out[i] = items[n + 1 - i] end
  if type(v) == "string" then return run:made(table.concat(out)) end
  return value.kind(v) == value.Iter and value.list(out, n) or value.iter(out, n)
end)

filter("join", "d? attribute?", function(run, v, separator, attribute)
  local items, n = value.each(run, v)
  separator = separator == nil and "" or print.str(run, separator)
  local get, parts, bytes = getter(run, attribute), {}, 0.0
  for i = 1, n do
    parts[i] = print.str(run, get(items[i]))
    bytes = bytes + #parts[i] + #separator
  end
  run:take(bytes)
  return table.concat(parts, separator)
end)

filter("unique", "case_sensitive? attribute?", function(run, v, case_sensitive, attribute)
  local items, n = value.each(run, v)
  local get, seen, out = getter(run, attribute), value.dict(), {}
  for i = 1, n do
    local key = folded(case_sensitive, get(items[i]))
    if value.get(seen, key) == nil then
      value.put(seen, key, true)
      out[#out + 1] = items[i]
    end
  end
  return value.iter(out)
end)

filter("batch", "linecount fill_with?", function(run, v, count, fill)
  local items, n = value.each(run, v)
  count = integer("batch", count)
  if count < 1 then fail.here "batch: a count of 1 or more is wanted" end
  local rows = {}
  for i = 1, n, count do
    local row = table.move(items, i, math.min(n, i + count - 1), 1, {})
    local had = math.min(count, n - i + 1)
    if fill ~= nil and fill ~= value.none then
      run:take(16.0 * (count - had))
      for k = had + 1, count do row[k] = fill end
      had = count
    end
    rows[#rows + 1] = value.list(row, had)
  end
  return value.iter(rows)
end)

-- ---- order -----------------------------------------------------------------

-- A stable sort of { key, value } by `less`.
local function merge_sort(rows, n, less)
  local width = 1
  while width < n do
    local out = {}
    for first = 1, n, 2 * width do
      local a, b = first, first + width
      local a_end, b_end = math.min(b - 1, n), math.min(b + width - 1, n)
      for k = first, b_end do
        if a <= a_end and (b > b_end or not less(rows[b][1], rows[a][1])) then
          out[k], a = rows[a], a + 1
        else
          out[k], b = rows[b], b + 1
        end
      end
    end
    rows, width = out, 2 * width
  end
  return rows
end

local function sorted(run, items, n, key_of, reverse)
  local rows = {}
  for i = 1, n do rows[i] = { key_of(items[i]), items[i] } end
  run:take(64 * n)
  local descending = is_set(reverse)
  rows = merge_sort(rows, n, function(a, b)
    if descending then a, b = b, a end
    return compare.less(run, a, b)
  end)
  local out = {}
  for i = 1, n do out[i] = rows[i][2] end
  return out
end

-- Keys by several attributes, "a,b", are lists.
local function sort_key(run, attribute, case_sensitive)
  local gets = {}
  if type(attribute) == "string" then
    for path in (attribute .. ","):gmatch "([^,]*)," do gets[#gets + 1] = getter(run, path) end
  else
    gets[1] = getter(run, attribute)
  end
  return function(v)
    local keys = {}
    for i, get in ipairs(gets) do keys[i] = folded(case_sensitive, get(v)) end
    return value.list(keys, #gets)
  end
end

filter("sort", "reverse? case_sensitive? attribute?",
  function(run, v, reverse, case_sensitive, attribute)
    local items, n = value.each(run, v)
    return value.list(sorted(run, items, n, sort_key(run, attribute, case_sensitive), reverse), n)
  end)

filter("dictsort", "case_sensitive? by? reverse?", function(run, v, case_sensitive, by, reverse)
  if value.kind(operators.defined(v)) ~= value.Dict then fail.here "dictsort: a dict is wanted" end
  by = text("dictsort", by, "key")
  local place = by == "key" and 1 or by == "value" and 2
  if not place then fail.here 'dictsort: by is "key" or "value"' end
  local pairs_of = methods.pairs_of(run, v)
  return value.list(sorted(run, pairs_of, v.n, function(pair)
    return folded(case_sensitive, pair[place])
  end, reverse), v.n)
end)

local function extreme(better)
  return function(run, v, case_sensitive, attribute)
    local items, n = value.each(run, v)
    if n == 0 then return value.undefined "the sequence is empty" end
    local get = getter(run, attribute)
    local best, best_key = items[1], folded(case_sensitive, get(items[1]))
    for i = 2, n do
      local key = folded(case_sensitive, get(items[i]))
      if better(run, key, best_key) then best, best_key = items[i], key end
    end
    return best
  end
end

filter("min", "case_sensitive? attribute?", extreme(compare.less))
filter("max", "case_sensitive? attribute?", extreme(function(run, a, b)
  return compare.less(run, b, a, ">")
end))

filter("sum", "attribute? start?", function(run, v, attribute, start)
  local items, n = value.each(run, v)
  local get, total = getter(run, attribute), start == nil and 0 or start
  if type(total) == "string" then fail.here "sum: strings are joined by join" end
  for i = 1, n do total = operators.binary["+"](run, total, get(items[i])) end
  return total
end)

-- ---- filters and tests on each item ----------------------------------------

-- The arguments behind the first `skip`.
local function rest_of(args, skip)
  local n = math.max(0, args.n - skip)
  local rest = table.move(args, skip + 1, args.n, 1, {})
  rest.n = n
  return rest
end

filters.map = { raw = function(run, v, args, named)
  if not value.truth(v) then return value.iter({}) end
  local change
  local attribute = named and args.n == 0 and value.get(named, "attribute")
  if attribute then
    for _, name in ipairs(named.keys) do
      if name ~= "attribute" and name ~= "default" then
        fail.here("map takes no argument '%s'", name)
      end
    end
    change = getter(run, attribute, value.get(named, "default"))
  else
    if args.n == 0 then fail.here "map: a filter, or attribute=, is wanted" end
    local name, rest = text("map", args[1]), rest_of(args, 1)
    change = function(item) return filters.apply(run, name, item, rest, named) end
  end
  local items, n = value.each(run, v)
  run:take(16 * n)
  local out = {}
  for i = 1, n do out[i] = change(items[i]) end
  return value.iter(out, n)
end }

-- select and reject, by a test of the item or of its attribute.
local function choose(who, wanted, by_attribute)
  filters[who] = { raw = function(run, v, args, named)
    if not value.truth(v) then return value.iter({}) end
    local skip = by_attribute and 1 or 0
    if args.n < skip then fail.here("%s: an attribute is wanted", who) end
    local get = getter(run, by_attribute and args[1] or nil)
    local name, rest = args[skip + 1], rest_of(args, skip + 1)
    local items, n = value.each(run, v)
    local out = {}
    for i = 1, n do
      local item = get(items[i])
      local yes
      if name ~= nil then
        yes = tests.apply(run, text(who, name), item, rest, named)
      else
        yes = value.truth(item)
      end
      if yes == wanted then out[#out + 1] = items[i] end
    end
    run:take(16 * #out)
    return value.iter(out)
  end }
end

choose("select", true)
choose("reject", false)
choose("selectattr", true, true)
choose("rejectattr", false, true)

-- ---- by name ---------------------------------------------------------------

--- Apply the filter of a name.
---@param run mrt.template.Run
---@param name string
---@param v any
---@param args table    args.n of them
---@param named table?  a dict
---@return any
function filters.apply(run, name, v, args, named)
  local found = filters[name]
  if type(found) ~= "table" then fail.here("the filter '%s' is not understood", name) end
  run:spend(1)
  if found.raw then return found.raw(run, v, args, named) end
  local list = arguments.bind(name, found.signature, args, named)
  return found.call(run, v, table.unpack(list, 1, #found.signature.names))
end

return filters
