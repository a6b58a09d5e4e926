--- format.lua -- "%s of %d" % (a, b) and "{} of {}".format(a, b)
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local print = require "mrt.text.template.print"
local unicode = require "mrt.text.template.unicode"
local value = require "mrt.text.template.value"

local format = {}

local WIDEST = 1000

-- Fill up to a width in characters.
local function pad(text, width, side, fill)
  local missing = (width or 0) - unicode.len(text)
  if missing <= 0 then return text end
  if side == "^" then
    local left = missing // 2
    return fill:rep(left) .. text .. fill:rep(missing - left)
  end
  return side == "<" and text .. fill:rep(missing) or fill:rep(missing) .. text
end

local function check_width(...)
  for _, n in ipairs { ... } do
    if n > WIDEST then fail.here("a width of %d is more than %d", n, WIDEST) end
  end
end

-- ---- % ---------------------------------------------------------------------

local function as_number(v, what)
  if v == true then return 1 elseif v == false then return 0 end
  if type(v) ~= "number" then
    fail.here("%%%s: a number is wanted, not %s", what, value.type(v))
  end
  return v
end

-- A number as an integer, towards 0 where the letter takes floats.
local function whole_of(v, letter)
  v = as_number(v, letter)
  if math.type(v) == "float" then
    if letter:find "[xXo]" then fail.here("%%%s: an integer is wanted, not float", letter) end
    v = v == v and math.tointeger(v < 0 and math.ceil(v) or math.floor(v))
  end
  if not v or v == math.mininteger then fail.here "an integer beyond 64 bits" end
  return v
end

-- A number's sign and digits.
local function integer_text(v, letter)
  v = whole_of(v, letter)
  local form = letter:find "[iu]" and "d" or letter
  return v < 0 and "-" or "", ("%" .. form):format(math.abs(v))
end

local function float_text(v, letter, precision)
  v = as_number(v, letter) + 0.0
  local sign = v < 0 and "-" or ""
  if v ~= v or v == math.huge or v == -math.huge then
    return sign, v ~= v and "nan" or "inf"
  end
  return sign, ("%." .. (precision or 6) .. letter):format(math.abs(v))
end

local function cut(text, precision)
  return precision and unicode.sub(text, 0, math.min(precision, unicode.len(text))) or text
end

-- By the letter of a conversion: the sign and the rest of a number, or a text.
local conversions = {
  s = function(run, v, _, precision) return nil, cut(print.str(run, v), precision) end,
  r = function(run, v, _, precision) return nil, cut(print.repr(run, v), precision) end,
  c = function(_, v)
    if type(v) ~= "string" or unicode.len(v) ~= 1 then fail.here "%c: a character is wanted" end
    return nil, v
  end,
}
for letter in ("diuxXo"):gmatch "." do
  conversions[letter] = function(_, v, _, precision)
    local sign, text = integer_text(v, letter)
    return sign, precision and ("0"):rep(precision - #text) .. text or text
  end
end
for letter in ("eEfFgG"):gmatch "." do
  conversions[letter] = function(_, v, _, precision) return float_text(v, letter, precision) end
end

-- One value by its conversion: flags, width, precision, letter.
local function convert(run, v, flags, width, precision, letter)
  local conversion = conversions[letter]
  if not conversion then fail.here("the conversion %%%s is not understood", letter) end
  local sign, text = conversion(run, v, letter, precision)
  local left = flags:find("-", 1, true)
  if sign then
    if sign == "" then sign = flags:match "%+" or flags:match " " or "" end
    if flags:find("0", 1, true) and not left then
      text = ("0"):rep((width or 0) - #text - #sign) .. text
    end
    text = sign .. text
  end
  return pad(text, width, left and "<" or ">", " ")
end

-- Where the next value comes from: by name, by turn of a tuple, or the one value.
local function source_of(args)
  local k = value.kind(args)
  local used, count = 0, k == value.Tuple and args.n or 1
  local function get(name)
    if name then
      if k ~= value.Dict then fail.here "%(name)s: a dict is wanted" end
      local v = value.get(args, name)
      if v == nil then fail.here("%%(%s): there is no such key", name) end
      used = count
      return v
    end
    used = used + 1
    if used > count then fail.here "not enough values for the format" end
    if k == value.Tuple then return args[used] end
    return args
  end
  return get, function()
    if used < count and k ~= value.Dict then fail.here "more values than the format takes" end
  end
end

-- The conversion behind a "%" at `first`: its value's name, how, and where it ends.
local function read_conversion(text, first)
  local name, from = text:match("^%(([^()]*)%)()", first + 1)
  local flags, width, precision, letter, stop =
    text:match("^([-+ #0]*)(%d*)(%.?%d*)[hlL]?(.)()", from or first + 1)
  if not letter then fail.here "an incomplete format" end
  if flags:find("#", 1, true) then fail.here "the flag # of a format is not understood" end
  width = tonumber(width)
  precision = precision ~= "" and (tonumber(precision:sub(2)) or 0) or nil
  check_width(width or 0, precision or 0)
  return name, flags, width, precision, letter, stop
end

--- `text % args`: a tuple of values, a dict, or one value.
---@param run mrt.template.Run
---@param text string
---@param args any
---@return string
function format.printf(run, text, args)
  local get, finish = source_of(args)
  local parts, at = {}, 1
  while true do
    local first = text:find("%", at, true)
    if not first then break end
    parts[#parts + 1] = text:sub(at, first - 1)
    local name, flags, width, precision, letter, stop = read_conversion(text, first)
    parts[#parts + 1] = letter == "%" and "%"
      or convert(run, get(name), flags, width, precision, letter)
    run:spend(1)
    at = stop
  end
  finish()
  parts[#parts + 1] = text:sub(at)
  return run:made(table.concat(parts))
end

-- ---- str.format ------------------------------------------------------------

-- Groups of three digits with a comma.
local function grouped(text)
  local whole, rest = text:match "^(%d+)(.*)$"
  return whole:reverse():gsub("%d%d%d", "%0,"):reverse():gsub("^,", "") .. rest
end

-- The spec behind the colon: [[fill]align][sign][0][width][,][.precision][type].
local function read_spec(text)
  local o = {}
  local rest
  o.fill, o.align, rest = text:match("^(" .. utf8.charpattern .. ")([<>^])(.*)$")
  if not o.fill then o.align, rest = text:match "^([<>^]?)(.*)$" end
  local width, precision, after
  o.sign, o.zero, width, o.comma, precision, o.letter, after =
    rest:match "^([-+ ]?)(0?)(%d*)(,?)(%.?%d*)([a-zA-Z%%]?)(.*)$"
  if after ~= "" then fail.here("the format '%s' is not understood", text) end
  o.width, o.precision = tonumber(width) or 0, tonumber(precision:sub(2))
  check_width(o.width, o.precision or 0)
  o.fill, o.align = o.fill or " ", o.align ~= "" and o.align or nil
  return o
end

local function string_by_spec(v, o, spec)
  if o.letter:find "[^s]" or o.sign .. o.zero .. o.comma ~= "" then
    fail.here("the format '%s' is not one of strings", spec)
  end
  return pad(cut(v, o.precision), o.width, o.align or "<", o.fill)
end

-- The sign and the digits of a number.
local function digits_by_spec(v, o, spec)
  local letter = o.letter
  if letter:find "^[feEgFG]$" then return float_text(v, letter, o.precision) end
  if letter == "%" then
    local sign, text = float_text(v * 100, "f", o.precision)
    return sign, text .. "%"
  end
  if math.type(v) == "integer" and not o.precision and letter:find "^[dxXo]?$" then
    return integer_text(v, letter == "" and "d" or letter)
  end
  fail.here("the format '%s' is not understood", spec)
end

local function number_by_spec(v, o, spec)
  local sign, text = digits_by_spec(v, o, spec)
  if sign == "" and o.sign ~= "-" then sign = o.sign end
  if o.comma ~= "" then text = grouped(text) end
  if o.zero ~= "" then return sign .. pad(text, o.width - #sign, ">", "0") end
  return pad(sign .. text, o.width, o.align or ">", o.fill)
end

local function by_spec(run, v, spec)
  if spec == "" then return print.str(run, v) end
  if type(v) == "string" then return string_by_spec(v, read_spec(spec), spec) end
  if type(v) == "number" then return number_by_spec(v, read_spec(spec), spec) end
  fail.here("the format '%s' is not one of a %s", spec, value.type(v))
end

local function no_value(body) fail.here("there is no value for the field {%s}", body) end

-- What is between two braces; `get` finds the value of its name, "" for the next.
local function field(run, body, get, item)
  local first, path, conversion, spec = body:match "^([^.%[!:]*)([^!:]*)(!?[rs]?):?(.*)$"
  if not first or spec:find "[{}]" then fail.here("the field {%s} is not understood", body) end
  local v = get(first)
  if v == nil then no_value(body) end
  for dot, name in path:gmatch "([.%[])([^.%[%]]+)%]?" do
    v = item(v, dot == "[" and math.tointeger(tonumber(name)) or name)
  end
  if conversion == "!r" then v = print.repr(run, v) end
  if conversion == "!s" then v = print.str(run, v) end
  return by_spec(run, v, spec)
end

--- `text.format(...)`: {}, {0}, {name}, with [key] and .name behind them by `item`.
---@param run mrt.template.Run
---@param text string
---@param args table  values 1 to args.n
---@param named table?  values by name
---@param item fun(v: any, key: any): any
---@return string
function format.braces(run, text, args, named, item)
  local parts, at, turn = {}, 1, 0
  local function get(name)
    if name == "" then
      turn = turn + 1
      return args[turn]
    end
    local index = math.tointeger(tonumber(name))
    if index then return args[index + 1] end
    return named and named[name]
  end
  while true do
    local first = text:find("[{}]", at)
    if not first then break end
    parts[#parts + 1] = text:sub(at, first - 1)
    local c = text:sub(first, first)
    run:spend(1)
    if text:sub(first + 1, first + 1) == c then
      parts[#parts + 1], at = c, first + 2
    else
      local stop = c == "{" and text:find("}", first, true)
      if not stop then fail.here("a single '%s' in a format", c) end
      parts[#parts + 1] = field(run, text:sub(first + 1, stop - 1), get, item)
      at = stop + 1
    end
  end
  parts[#parts + 1] = text:sub(at)
  return run:made(table.concat(parts))
end

return format
