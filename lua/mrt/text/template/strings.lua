--- strings.lua -- the methods of strings
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.text.template.arguments"
local fail = require "mrt.text.template.fail"
local unicode = require "mrt.text.template.unicode"
local value = require "mrt.text.template.value"

local strings = {}

local text, integer, maybe_text = arguments.text, arguments.integer, arguments.maybe_text

-- What a search may cost at worst, in steps.
local function searching(run, s, what)
  run:spend((#s + 1) * #what // 256)
  run:scan(#s)
end

-- Start and end in characters as bytes: the first byte, and the last.
local function window(s, start, stop, who)
  local n = unicode.len(s)
  local function clip(v, default)
    v = arguments.maybe_integer(who, v, default)
    if v < 0 then v = v + n end
    return math.max(0, math.min(n, v))
  end
  local from, to = clip(start, 0), clip(stop, n)
  if arguments.maybe_integer(who, start, 0) > n then return nil end
  if to < from then return nil end
  if unicode.is_ascii(s) then return from + 1, to end
  return utf8.offset(s, from + 1), utf8.offset(s, to + 1) - 1
end

-- The first byte of `what` in s, the last one where `right`; nil if it is not there.
local function find(run, s, what, first, last, right)
  searching(run, s, what)
  if not right then
    local at = s:find(what, first, true)
    return at and at + #what - 1 <= last and at or nil
  end
  if what == "" then return last + 1 end
  local back = s:sub(first, last):reverse():find(what:reverse(), 1, true)
  return back and last - back - #what + 2
end

local function finder(name, right, wanted)
  return function(run, s, what, start, stop)
    what = text(name, what)
    local first, last = window(s, start, stop, name)
    local at = first and find(run, s, what, first, last, right)
    if at then return unicode.before(s, at) end
    if wanted then fail.here("%s: the substring is not found", name) end
    return -1
  end
end

-- The places of `what`, from the left, at most `limit` of them.
local function places(run, s, what, limit)
  searching(run, s, what)
  local list, at = {}, 1
  while #list < limit do
    local first = s:find(what, at, true)
    if not first then break end
    list[#list + 1] = first
    at = first + #what
  end
  run:spend(#list)
  return list
end

--- s with `new` in the place of `old`, `count` times at most (negative: all).
function strings.replace(run, s, old, new, count)
  if old == new then return s end
  count = count < 0 and math.maxinteger or count
  if old == "" then
    local chars = unicode.chars(s)
    run:take((#chars + 1.0) * #new)
    local parts = {}
    for i = 1, #chars + 1 do
      if i <= count then parts[#parts + 1] = new end
      parts[#parts + 1] = chars[i]
    end
    return run:made(table.concat(parts))
  end
  local list = places(run, s, old, count)
  if #list == 0 then return s end
  run:take(#s + (#new + 0.0) * #list)
  local parts, from = {}, 1
  for _, at in ipairs(list) do
    parts[#parts + 1] = s:sub(from, at - 1)
    parts[#parts + 1] = new
    from = at + #old
  end
  parts[#parts + 1] = s:sub(from)
  return table.concat(parts)
end

-- ---- splitting -------------------------------------------------------------

local WORD = "^[^%s\x1c-\x1f\x80-\xff]+()"

-- The byte behind the word that begins at `at`.
local function word_end(s, at)
  while at <= #s do
    at = s:match(WORD, at) or at
    local c = s:match(unicode.first, at)
    if not c or unicode.blank[c] then break end
    at = at + #c
  end
  return at
end

-- The words between blanks, and where they begin; what is left after `limit` splits is
-- the last.
local function words(s, limit)
  local list, begins, at = {}, {}, unicode.skip_space(s, 1)
  while at <= #s do
    local n = #list + 1
    begins[n] = at
    if n > limit then
      list[n] = s:sub(at)
      break
    end
    local stop = word_end(s, at)
    list[n] = s:sub(at, stop - 1)
    at = unicode.skip_space(s, stop)
  end
  return list, begins
end

local function words_from_right(s, limit)
  local all, begins = words(s, math.maxinteger)
  if #all <= limit then return all end
  local first = #all - limit + 1
  local rest = begins[first] and s:sub(1, begins[first] - 1) or s
  return table.move(all, first, #all, 2, { unicode.strip(rest, nil, "right") })
end

local function pieces(run, s, separator, limit, right)
  local list = places(run, s, separator, right and math.maxinteger or limit)
  local parts, from = {}, 1
  for i = right and math.max(1, #list - limit + 1) or 1, #list do
    parts[#parts + 1] = s:sub(from, list[i] - 1)
    from = list[i] + #separator
  end
  parts[#parts + 1] = s:sub(from)
  return parts
end

local function splitter(name, right)
  return function(run, s, separator, limit)
    separator = maybe_text(name, separator)
    limit = integer(name, limit, -1)
    if limit < 0 then limit = math.maxinteger end
    run:take(#s)
    run:spend(#s // 4)
    if not separator then
      return value.list(right and words_from_right(s, limit) or words(s, limit))
    end
    if separator == "" then fail.here("%s: the separator is empty", name) end
    return value.list(pieces(run, s, separator, limit, right))
  end
end

local function partition(name, right)
  return function(run, s, separator)
    separator = text(name, separator)
    if separator == "" then fail.here("%s: the separator is empty", name) end
    local at = find(run, s, separator, 1, #s, right)
    if not at then
      return value.tuple(right and { "", "", s } or { s, "", "" })
    end
    return value.tuple { s:sub(1, at - 1), separator, s:sub(at + #separator) }
  end
end

--- The items joined: each must be a string.
function strings.join(run, s, items)
  local list, n = value.each(run, items)
  local parts, bytes = {}, 0.0
  for i = 1, n do
    if type(list[i]) ~= "string" and value.kind(list[i]) ~= value.Markup then
      fail.here("join: item %d is %s, a string is wanted", i - 1, value.type(list[i]))
    end
    parts[i] = text("join", list[i])
    bytes = bytes + #parts[i] + #s
  end
  run:take(bytes)
  return table.concat(parts, s)
end

-- ---- tests of strings ------------------------------------------------------

-- Does it begin, or end, with one of these?
local function affix(name, at_end)
  return function(run, s, wanted, start, stop)
    local first, last = window(s, start, stop, name)
    local list = value.kind(wanted) == value.Tuple and wanted or { wanted, n = 1 }
    run:spend(list.n)
    for i = 1, list.n do
      local w = text(name, list[i])
      if first and #w <= last - first + 1 then
        local from = at_end and last - #w + 1 or first
        if s:sub(from, from + #w - 1) == w then return true end
      end
    end
    return false
  end
end

-- Questions about the characters, which beyond ASCII need tables that are not here.
local function question(name, pattern)
  return function(_, s)
    if not unicode.is_ascii(s) then
      fail.here("%s of text beyond ASCII is not understood", name)
    end
    return s:find(pattern) ~= nil
  end
end

local function cased(map)
  return function(run, s)
    run:spend(#s // 4)
    local any = false
    for c in s:gmatch(utf8.charpattern) do
      if unicode.is_cased(c) then
        if map(c) ~= c then return false end
        any = true
      end
    end
    return any
  end
end

local function padded(name, left, right)
  return function(run, s, width, fill)
    width, fill = integer(name, width), text(name, fill, " ")
    if unicode.len(fill) ~= 1 then fail.here("%s: one character is wanted to fill", name) end
    local missing = width - unicode.len(s)
    if missing <= 0 then return s end
    run:take((missing + 0.0) * #fill)
    local before = left and (right and missing // 2 + (missing & width & 1) or missing) or 0
    return fill:rep(before) .. s .. fill:rep(missing - before)
  end
end

local function changed(change)
  return function(run, s)
    run:spend(#s // 8)
    return run:made(change(s))
  end
end

local function stripped(name, side)
  return function(run, s, chars)
    if chars then run:spend(#s // 8) else run:scan(#s) end
    return unicode.strip(s, maybe_text(name, chars), side)
  end
end

local methods = {}

-- Methods by name: their parameters, and what they do with the run, the string and those.
strings.methods = methods
local function method(name, parameters, f)
  methods[name] = { signature = arguments.signature(parameters), call = f }
end

method("upper", "", changed(unicode.upper))
method("lower", "", changed(unicode.lower))
method("casefold", "", function(run, s)
  if not unicode.is_ascii(s) then fail.here "casefold of text beyond ASCII is not understood" end
  return run:made(s:lower())
end)
method("title", "", changed(unicode.title))
method("capitalize", "", changed(unicode.capitalize))
method("swapcase", "", changed(unicode.swapcase))
method("strip", "chars?", stripped("strip"))
method("lstrip", "chars?", stripped("lstrip", "left"))
method("rstrip", "chars?", stripped("rstrip", "right"))
method("split", "sep? maxsplit?", splitter("split"))
method("rsplit", "sep? maxsplit?", splitter("rsplit", true))
method("partition", "sep", partition("partition"))
method("rpartition", "sep", partition("rpartition", true))
method("splitlines", "keepends?", function(run, s, keep)
  run:take(#s)
  run:spend(#s // 8)
  return value.list(unicode.lines(s, keep ~= nil and value.truth(keep)))
end)
method("replace", "old new count?", function(run, s, old, new, count)
  return strings.replace(run, s, text("replace", old), text("replace", new),
    integer("replace", count, -1))
end)
method("startswith", "prefix start? end?", affix("startswith"))
method("endswith", "suffix start? end?", affix("endswith", true))
method("removeprefix", "prefix", function(_, s, prefix)
  prefix = text("removeprefix", prefix)
  return s:sub(1, #prefix) == prefix and s:sub(#prefix + 1) or s
end)
method("removesuffix", "suffix", function(_, s, suffix)
  suffix = text("removesuffix", suffix)
  return suffix ~= "" and s:sub(-#suffix) == suffix and s:sub(1, -#suffix - 1) or s
end)
method("find", "sub start? end?", finder("find"))
method("rfind", "sub start? end?", finder("rfind", true))
method("index", "sub start? end?", finder("index", false, true))
method("rindex", "sub start? end?", finder("rindex", true, true))
method("count", "sub start? end?", function(run, s, what, start, stop)
  what = text("count", what)
  local first, last = window(s, start, stop, "count")
  if not first then return 0 end
  s = s:sub(first, last)
  return what == "" and unicode.len(s) + 1 or #places(run, s, what, math.maxinteger)
end)
method("join", "iterable", strings.join)
method("zfill", "width", function(run, s, width)
  local missing = integer("zfill", width) - unicode.len(s)
  if missing <= 0 then return s end
  run:take(missing + 0.0)
  local sign, rest = s:match "^([-+]?)(.*)$"
  return sign .. ("0"):rep(missing) .. rest
end)
method("ljust", "width fillchar?", padded("ljust", false, true))
method("rjust", "width fillchar?", padded("rjust", true, false))
method("center", "width fillchar?", padded("center", true, true))
method("isdigit", "", question("isdigit", "^%d+$"))
method("isnumeric", "", question("isnumeric", "^%d+$"))
method("isdecimal", "", question("isdecimal", "^%d+$"))
method("isalpha", "", question("isalpha", "^%a+$"))
method("isalnum", "", question("isalnum", "^%w+$"))
method("isspace", "", function(_, s) return s ~= "" and unicode.strip(s) == "" end)
method("isupper", "", cased(unicode.upper))
method("islower", "", cased(unicode.lower))

return strings
