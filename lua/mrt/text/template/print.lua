--- print.lua -- values as Python prints them: str, repr, floats
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local value = require "mrt.text.template.value"

local print = {}

local kinds = value

-- ---- numbers ---------------------------------------------------------------

-- The shortest digits that are read back as x, and the exponent of the first of them.
local function digits_of(x)
  for precision = 1, 17 do
    local text = ("%." .. precision - 1 .. "e"):format(x)
    if tonumber(text) == x then
      local first, rest, exponent = text:match "^(%d)%.?(%d*)e([-+]%d+)$"
      return first .. rest, tonumber(exponent)
    end
  end
end

local function with_exponent(digits, exponent)
  local fraction = #digits > 1 and "." .. digits:sub(2) or ""
  return ("%s%se%s%02d"):format(digits:sub(1, 1), fraction, exponent < 0 and "-" or "+",
    math.abs(exponent))
end

local function without_exponent(digits, exponent)
  if exponent < 0 then return "0." .. ("0"):rep(-exponent - 1) .. digits end
  digits = digits .. ("0"):rep(exponent + 1 - #digits)
  local fraction = digits:sub(exponent + 2)
  return digits:sub(1, exponent + 1) .. "." .. (fraction == "" and "0" or fraction)
end

--- A float in the fewest digits that are read back as it: 1.0, 1e+16, 0.1.
---@param x number
---@return string
function print.float(x)
  if x ~= x then return "nan" end
  local sign = (x < 0 or x == 0 and 1 / x < 0) and "-" or ""
  x = math.abs(x)
  if x == math.huge then return sign .. "inf" elseif x == 0 then return sign .. "0.0" end
  local digits, exponent = digits_of(x)
  local write = (exponent < -4 or exponent >= 16) and with_exponent or without_exponent
  return sign .. write(digits, exponent)
end

-- ---- strings ---------------------------------------------------------------

-- Code points that repr escapes: controls, formats, separators, private use.
local hidden = { 0x7f, 0xa0, 0xad, 0xad, 0x378, 0x379, 0x600, 0x605, 0x61c, 0x61c, 0x6dd, 0x6dd,
  0x70f, 0x70f, 0x890, 0x891, 0x8e2, 0x8e2, 0x1680, 0x1680, 0x180e, 0x180e, 0x2000, 0x200f,
  0x2028, 0x202f, 0x205f, 0x206f, 0x3000, 0x3000, 0xd800, 0xf8ff, 0xfeff, 0xfeff,
  0xfff0, 0xfffb, 0xfffe, 0xffff, 0xe0000, 0xe00ff, 0xe01f0, 0x10ffff }

local function is_hidden(code)
  for i = 1, #hidden, 2 do
    if code < hidden[i] then return false end
    if code <= hidden[i + 1] then return true end
  end
  return true
end

local named = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\" }

--- A string in quotes, as Python's repr.
---@param s string
---@return string
function print.quote(s)
  local quote = s:find("'", 1, true) and not s:find('"', 1, true) and '"' or "'"
  s = s:gsub("[%c\\" .. quote .. "]", function(c)
    return named[c] or c == quote and "\\" .. c or ("\\x%02x"):format(c:byte())
  end)
  s = s:gsub("[\xc2-\xf4][\x80-\xbf]+", function(run)
    return (run:gsub(utf8.charpattern, function(c)
      local code = utf8.codepoint(c)
      if not is_hidden(code) then return c end
      return (code < 0x100 and "\\x%02x" or code < 0x10000 and "\\u%04x" or "\\U%08x")
        :format(code)
    end))
  end)
  return quote .. s .. quote
end

-- ---- anything --------------------------------------------------------------

local repr

local function items_of(run, items, n)
  local parts = {}
  for i = 1, n do parts[i] = repr(run, items[i]) end
  return table.concat(parts, ", ")
end

local by_kind = {
  [kinds.List] = function(run, v) return "[" .. items_of(run, v, v.n) .. "]" end,
  [kinds.Tuple] = function(run, v)
    return "(" .. items_of(run, v, v.n) .. (v.n == 1 and ",)" or ")")
  end,
  [kinds.Dict] = function(run, v)
    local parts = {}
    for i, key in ipairs(v.keys) do
      parts[i] = repr(run, key) .. ": " .. repr(run, value.get(v, key))
    end
    return "{" .. table.concat(parts, ", ") .. "}"
  end,
  [kinds.View] = function(run, v)
    return ("%s([%s])"):format(v.name, items_of(run, v.items, v.n))
  end,
  [kinds.Range] = function(_, v)
    local step = v.step == 1 and "" or (", %d"):format(v.step)
    return ("range(%d, %d%s)"):format(v.start, v.stop, step)
  end,
  [kinds.Namespace] = function(run, v) return "<TemplateNamespace " .. repr(run, v.dict) .. ">" end,
  [kinds.Undefined] = function() return "Undefined" end,
  [kinds.Markup] = function(_, v) return "Markup(" .. print.quote(v.text) .. ")" end,
}

--- The repr of a value: strings in quotes.
---@param run mrt.template.Run
---@param v any
---@return string
function print.repr(run, v)
  local t = type(v)
  run:spend(1)
  if t == "string" then return run:made(print.quote(v)) end
  if t == "boolean" then return v and "True" or "False" end
  if t == "number" then return math.type(v) == "integer" and ("%d"):format(v) or print.float(v) end
  if v == value.none then return "None" end
  local show = by_kind[getmetatable(v)]
  if not show then fail.here("a %s cannot be printed", value.type(v)) end
  run:enter()
  local text = run:made(show(run, v))
  run:leave()
  return text
end
repr = print.repr

--- The str of a value: what `{{ }}` writes.
---@param run mrt.template.Run
---@param v any
---@return string
function print.str(run, v)
  if type(v) == "string" then return v end
  if value.is_undefined(v) then return "" end
  if value.kind(v) == kinds.Markup then return v.text end
  return repr(run, v)
end

return print
