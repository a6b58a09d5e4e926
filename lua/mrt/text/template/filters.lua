--- filters.lua -- the filters of single values: `v | name(...)`
---
--- Those of sequences are in sequence_filters.lua.
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.text.template.arguments"
local fail = require "mrt.text.template.fail"
local format = require "mrt.text.template.format"
local json = require "mrt.text.template.json"
local methods = require "mrt.text.template.methods"
local operators = require "mrt.text.template.operators"
local print = require "mrt.text.template.print"
local strings = require "mrt.text.template.strings"
local unicode = require "mrt.text.template.unicode"
local value = require "mrt.text.template.value"

-- name -> { signature, call(run, value, ...) }, or { raw(run, value, args, named) }
local filters = {}

local integer, text = arguments.integer, arguments.text

local function filter(names, parameters, f)
  for name in names:gmatch "%a+" do
    filters[name] = { signature = arguments.signature(parameters), call = f }
  end
end

-- ---- strings ---------------------------------------------------------------

-- A filter that is a method of the value's text.
local function of_text(name)
  local found = strings.methods[name]
  return function(run, v, ...) return found.call(run, print.str(run, v), ...) end
end

filter("upper", "", of_text "upper")
filter("lower", "", of_text "lower")
filter("capitalize", "", of_text "capitalize")
filter("trim", "chars?", of_text "strip")
filter("center", "width?", function(run, v, width)
  return strings.methods.center.call(run, print.str(run, v), integer("center", width, 80))
end)
filter("string", "", function(run, v)
  return value.kind(v) == value.Markup and v or print.str(run, v)
end)
filter("safe", "", function(run, v)
  return setmetatable({ text = print.str(run, v) }, value.Markup)
end)

filter("replace", "old new count?", function(run, v, old, new, count)
  return strings.replace(run, print.str(run, v), print.str(run, old), print.str(run, new),
    arguments.maybe_integer("replace", count, -1))
end)

-- Words begin behind blanks and - ( { [ <.
filter("title", "", function(run, v)
  local s = print.str(run, v)
  run:spend(#s // 4)
  local parts, word = {}, {}
  local function finish()
    if #word > 0 then
      parts[#parts + 1] = unicode.upper(word[1])
      parts[#parts + 1] = unicode.lower(table.concat(word, "", 2))
      word = {}
    end
  end
  for c in s:gmatch(utf8.charpattern) do
    if unicode.blank[c] or c:find "^[-({%[<]$" then
      finish()
      parts[#parts + 1] = c
    else
      word[#word + 1] = c
    end
  end
  finish()
  return run:made(table.concat(parts))
end)

filter("indent", "width? first? blank?", function(run, v, width, first, blank)
  local s = text("indent", v)
  local by = type(width) == "string" and width or nil
  if not by then
    width = integer("indent", width, 4)
    run:take(math.max(0, width) + 0.0)
    by = (" "):rep(width)
  end
  local lines = unicode.lines(s .. "\n")
  run:take(#s + (#lines + 0.0) * #by)
  run:spend(#lines + #s // 16)
  for i, line in ipairs(lines) do
    if i > 1 and (line ~= "" or blank ~= nil and value.truth(blank)) then lines[i] = by .. line end
  end
  local indented = table.concat(lines, "\n")
  return first ~= nil and value.truth(first) and by .. indented or indented
end)

filter("truncate", "length? killwords? end? leeway?", function(run, v, length, kill, last, leeway)
  length, leeway = integer("truncate", length, 255), arguments.maybe_integer("truncate", leeway, 5)
  last = text("truncate", last, "...")
  local room = length - unicode.len(last)
  if room < 0 or leeway < 0 then fail.here "truncate: the length is below that of the end" end
  local size = value.length(v)
  if not size then fail.here("truncate: '%s' has no length", value.type(v)) end
  if size <= length + leeway then return v end
  local s = text("truncate", v)
  local cut = unicode.sub(s, 0, room)
  if kill == nil or not value.truth(kill) then cut = cut:match "^(.*) " or cut end
  return run:made(cut .. last)
end)

filter("wordcount", "", function(run, v)
  local s = print.str(run, v)
  if not unicode.is_ascii(s) then fail.here "wordcount of text beyond ASCII is not understood" end
  local _, n = s:gsub("[%w_]+", "")
  return n
end)

filters.format = { raw = function(run, v, args, named)
  if args.n > 0 and named then fail.here "format: values by place or by name, not both" end
  return format.printf(run, print.str(run, v), named or value.tuple(args, args.n))
end }

-- ---- JSON ------------------------------------------------------------------

-- The separators given, or those of json.dumps.
local function separators_of(separators, indent)
  local k = value.kind(separators)
  if k == value.Tuple or k == value.List then
    if separators.n ~= 2 then fail.here "tojson: separators are two strings" end
    return text("tojson", separators[1], ""), text("tojson", separators[2], "")
  end
  return indent and "," or ", ", ": "
end

local function is_set(v) return v ~= nil and v ~= value.none and value.truth(v) end

filter("tojson", "ensure_ascii? indent? separators? sort_keys?",
  function(run, v, ensure_ascii, indent, separators, sort_keys)
    local by
    if type(indent) == "string" then
      by = indent
    elseif indent ~= nil and indent ~= value.none then
      by = (" "):rep(math.min(math.max(0, integer("tojson", indent)), 1000))
    end
    local items, keys = separators_of(separators, by)
    return json.encode(run, v, { ensure_ascii = is_set(ensure_ascii), indent = by,
      item_separator = items, key_separator = keys, sort_keys = is_set(sort_keys) })
  end)

-- ---- numbers ---------------------------------------------------------------

-- A float as an integer, towards 0; nil for what has none.
local function whole(x)
  if x ~= x or x == math.huge or x == -math.huge then return nil end
  x = x < 0 and math.ceil(x) or math.floor(x)
  return math.tointeger(x) or fail.here "an integer beyond 64 bits"
end

-- A string as Python's float() reads it; nil if it does not.
local words = { inf = math.huge, infinity = math.huge, nan = 0 / 0 }
local function read_float(s)
  s = unicode.strip(s):lower()
  local sign, word = s:match "^([-+]?)(%a+)$"
  if word then return words[word] and (sign == "-" and -words[word] or words[word]) end
  if s:find "__" or s:find "_$" or s:find "^_" or s:find "[^%d._e+-]" then return nil end
  s = s:gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2"):gsub("^%+(%f[%d.])", "%1")
  local n = tonumber(s)
  return n and n + 0.0
end

-- A string as int(s, base) reads it.
local function read_integer(s, base)
  s = unicode.strip(s)
  local sign, digits = s:match "^([-+]?)([%w_]+)$"
  if not digits or digits:find "__" or digits:find "^_" or digits:find "_$" then return nil end
  digits = digits:gsub("_", "")
  local prefix = ({ [16] = "^0[xX]", [8] = "^0[oO]", [2] = "^0[bB]" })[base]
  if prefix then digits = digits:gsub(prefix, "", 1) end
  if #digits > 18 then
    if digits:find("^%d+$") then fail.here "an integer beyond 64 bits" end
    return nil
  end
  local n = tonumber(digits, base)
  return n and (sign == "-" and -n or n)
end

filter("int", "default? base?", function(_, v, default, base)
  operators.defined(v)
  if default == nil then default = 0 end
  if type(v) == "string" then
    local n = read_integer(v, integer("int", base, 10))
    if n then return n end
    local x = read_float(v)
    return x and whole(x) or default
  end
  local n = operators.number(v)
  return n and (math.type(n) == "integer" and n or whole(n)) or default
end)

filter("float", "default?", function(_, v, default)
  operators.defined(v)
  if default == nil then default = 0.0 end
  local n = type(v) == "string" and read_float(v) or operators.number(v)
  return n and n + 0.0 or default
end)

filter("abs", "", function(_, v)
  local n = operators.number(operators.defined(v))
  if not n then fail.here("abs: a number is wanted, not %s", value.type(v)) end
  return n < 0 and operators.sign("-", n) or math.abs(n)
end)

-- The float of this decimal that is nearest to x, halves to even, as Python rounds.
local function round_common(x, digits)
  if digits > 15 or x ~= x or math.abs(x) > 1e300 then return x end
  if digits >= 0 then return tonumber(("%." .. digits .. "f"):format(x)) + 0.0 end
  local unit = 10.0 ^ -digits
  return tonumber(("%.0f"):format(x / unit)) * unit
end

filter("round", "precision? method?", function(_, v, precision, how)
  local x = operators.number(operators.defined(v))
  if not x then fail.here("round: a number is wanted, not %s", value.type(v)) end
  precision, how = integer("round", precision, 0), text("round", how, "common")
  if how == "common" then
    if math.type(x) == "integer" then
      if precision < 0 then fail.here "round of an integer to tens is not understood" end
      return x
    end
    return round_common(x, precision)
  end
  local f = how == "ceil" and math.ceil or how == "floor" and math.floor
  if not f then fail.here "round: the method is common, ceil or floor" end
  local unit = 10.0 ^ precision
  return f(x * unit) / unit
end)

-- ---- anything --------------------------------------------------------------

filter("default d", "default_value? boolean?", function(_, v, default, boolean)
  if value.is_undefined(v) or is_set(boolean) and not value.truth(v) then
    return default == nil and "" or default
  end
  return v
end)

filter("attr", "name", function(run, v, name)
  if value.kind(v) == value.Dict then
    local found = methods.attribute(run, v, text("attr", name))
    return value.kind(found) == value.Function and found
      or value.undefined(("'dict object' has no attribute '%s'"):format(name))
  end
  return methods.attribute(run, v, text("attr", name))
end)

filter("length count", "", function(run, v)
  if type(v) == "string" then run:scan(#v) end
  local n = value.length(v)
  if not n then fail.here("object of type '%s' has no length", value.type(v)) end
  return n
end)

return filters
