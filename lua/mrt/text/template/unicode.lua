--- unicode.lua -- strings as characters: lengths, slices, blanks, case, lines
---
--- Strings are valid UTF-8; those of ASCII alone take the short way.
---
--- SPDX-License-Identifier: MIT

local unicode = {}

local CHAR = utf8.charpattern
local FIRST = "^" .. CHAR
unicode.first = FIRST -- the pattern of the character at a place

--- Is it ASCII alone?
---@param s string
---@return boolean
function unicode.is_ascii(s) return not s:find "[\x80-\xff]" end
local is_ascii = unicode.is_ascii

--- Characters of a string.
---@param s string
---@return integer
function unicode.len(s) return is_ascii(s) and #s or utf8.len(s) end

--- The characters as a list.
---@param s string
---@return string[]
function unicode.chars(s)
  local list = {}
  for c in s:gmatch(CHAR) do list[#list + 1] = c end
  return list
end

--- Characters from `first` to before `last`, counted from 0, both within the string.
---@param s string
---@param first integer
---@param last integer
---@return string
function unicode.sub(s, first, last)
  if last <= first then return "" end
  if is_ascii(s) then return s:sub(first + 1, last) end
  local from = utf8.offset(s, first + 1)
  return s:sub(from, utf8.offset(s, last - first + 1, from) - 1)
end

--- The number of characters before byte `at`.
---@param s string
---@param at integer  from 1
---@return integer
function unicode.before(s, at)
  return is_ascii(s) and at - 1 or utf8.len(s:sub(1, at - 1))
end

-- ---- blanks ----------------------------------------------------------------

local blank = {}
for code in pairs { [0x85] = 1, [0xa0] = 1, [0x1680] = 1, [0x2028] = 1, [0x2029] = 1,
  [0x202f] = 1, [0x205f] = 1, [0x3000] = 1, [0x20] = 1 } do
  blank[utf8.char(code)] = true
end
for code = 0x2000, 0x200a do blank[utf8.char(code)] = true end
for code = 0x09, 0x0d do blank[string.char(code)] = true end
for code = 0x1c, 0x1f do blank[string.char(code)] = true end

unicode.blank = blank

--- The first place at or behind `at` that is no blank.
---@param s string
---@param at integer
---@return integer
function unicode.skip_space(s, at)
  while true do
    at = s:match("^[ \t-\r\x1c-\x1f]*()", at)
    local c = s:match("^[\xc2\xe1-\xe3][\x80-\xbf]+", at)
    c = c and c:match(FIRST)
    if not (c and blank[c]) then return at end
    at = at + #c
  end
end

-- The end of s without the blanks there.
local function trimmed_end(s)
  local last = #s
  while true do
    last = s:sub(1, last):match "^.*[^ \t-\r\x1c-\x1f]()"
    if not last then return 0 end
    last = last - 1
    local at = last
    while s:byte(at) & 0xc0 == 0x80 do at = at - 1 end
    if not blank[s:sub(at, last)] then return last end
    last = at - 1
  end
end

-- Without the characters of a set at its ends.
local function strip_set(s, set, side)
  local first, last = 1, #s
  while side ~= "right" and first <= last do
    local c = s:match(FIRST, first)
    if not set[c] then break end
    first = first + #c
  end
  while side ~= "left" and last >= first do
    local at = last
    while s:byte(at) & 0xc0 == 0x80 do at = at - 1 end
    if not set[s:sub(at, last)] then break end
    last = at - 1
  end
  return s:sub(first, last)
end

--- Without the blanks, or the characters given, at its ends.
---@param s string
---@param chars? string
---@param side? "left"|"right"
---@return string
function unicode.strip(s, chars, side)
  if chars then
    local set = {}
    for c in chars:gmatch(CHAR) do set[c] = true end
    return strip_set(s, set, side)
  end
  if side ~= "left" then s = s:sub(1, trimmed_end(s)) end
  return side == "right" and s or s:sub(unicode.skip_space(s, 1))
end

-- What ends a line: `ends[c]` for its first byte's character.
local ends = {}
for code in pairs { [10] = 1, [11] = 1, [12] = 1, [13] = 1, [28] = 1, [29] = 1, [30] = 1,
  [0x85] = 1, [0x2028] = 1, [0x2029] = 1 } do
  ends[utf8.char(code)] = true
end

--- The lines of a text, as Python's splitlines has them.
---@param s string
---@param keep? boolean  with what ends them
---@return string[]
function unicode.lines(s, keep)
  local lines, from, at = {}, 1, 1
  while true do
    at = s:find("[\n-\r\x1c-\x1e\xc2\xe2]", at)
    if not at then break end
    local c = s:match(FIRST, at)
    local stop = at + #c
    if ends[c] then
      if c == "\r" and s:sub(stop, stop) == "\n" then stop = stop + 1 end
      lines[#lines + 1] = s:sub(from, keep and stop - 1 or at - 1)
      from = stop
    end
    at = stop
  end
  if from <= #s then lines[#lines + 1] = s:sub(from) end
  return lines
end

-- ---- case ------------------------------------------------------------------

local maps

-- Character -> what it becomes, of one table of case.lua.
local function read(text, map)
  for word in text:gmatch "%S+" do
    local code, codes = word:match "^(%x+)=([%x+]+)$"
    if code then
      local chars = {}
      for c in codes:gmatch "%x+" do chars[#chars + 1] = utf8.char(tonumber(c, 16)) end
      map[utf8.char(tonumber(code, 16))] = table.concat(chars)
    else
      local first, last, step, delta = word:match "^(%x+)%-?(%x*)/?(%d*)([-+]%d+)$"
      first = tonumber(first, 16)
      last = tonumber(last, 16) or first
      for c = first, last, tonumber(step) or 1 do
        map[utf8.char(c)] = utf8.char(c + tonumber(delta))
      end
    end
  end
  return map
end

local function case_maps()
  if maps then return maps end
  local case = require "mrt.text.template.case"
  local upper, lower = read(case.upper, {}), read(case.lower, {})
  local title = setmetatable(read(case.title, {}), { __index = upper })
  maps = { upper = upper, lower = lower, title = title }
  return maps
end

local function turn(s, map) return (s:gsub("[\xc2-\xf4][\x80-\xbf]+", function(run)
  return (run:gsub(CHAR, map))
end)) end

--- Does the character have a case?
---@param c string
---@return boolean
function unicode.is_cased(c)
  if c:find "^%a$" then return true end
  local m = c > "\x7f" and case_maps()
  return m and (m.upper[c] or m.lower[c]) ~= nil or false
end

---@param s string
---@return string
function unicode.upper(s)
  local plain = s:upper()
  return is_ascii(s) and plain or turn(plain, case_maps().upper)
end

-- A capital sigma that ends a word becomes another small letter than others.
local function final_sigma(s, at, stop)
  local before, after = s:sub(math.max(1, at - 64), at - 1), s:sub(stop, stop + 64)
  local last
  for c in before:gmatch(CHAR) do
    if not c:find "^[.'^`:]$" then last = c end
  end
  local next_char = after:match("^[.'^`:]*(" .. CHAR .. ")")
  return last ~= nil and unicode.is_cased(last)
    and not (next_char and unicode.is_cased(next_char))
end

---@param s string
---@return string
function unicode.lower(s)
  local plain = s:lower()
  if is_ascii(s) then return plain end
  if s:find("Σ", 1, true) then
    plain = plain:gsub("()Σ()", function(at, stop)
      return final_sigma(s, at, stop) and "ς" or nil
    end)
  end
  return turn(plain, case_maps().lower)
end

--- One character as the first of a word.
---@param c string
---@return string
function unicode.title_char(c)
  return #c == 1 and c:upper() or case_maps().title[c] or c
end

---@param s string
---@return string
function unicode.capitalize(s)
  local first = s:match(FIRST)
  return first and unicode.title_char(first) .. unicode.lower(s):sub(#unicode.lower(first) + 1)
    or ""
end

--- Each run of letters begins as a title does, the rest in lower case.
---@param s string
---@return string
function unicode.title(s)
  local parts, inside = {}, false
  for at, c, stop in s:gmatch("()(" .. CHAR .. ")()") do
    local small = c == "Σ" and final_sigma(s, at, stop) and "ς" or unicode.lower(c)
    parts[#parts + 1] = inside and small or unicode.title_char(c)
    inside = unicode.is_cased(c)
  end
  return table.concat(parts)
end

---@param s string
---@return string
function unicode.swapcase(s)
  return (s:gsub("()(" .. CHAR .. ")()", function(at, c, stop)
    local up = unicode.upper(c)
    if up ~= c then return up end
    return c == "Σ" and final_sigma(s, at, stop) and "ς" or unicode.lower(c)
  end))
end

return unicode
