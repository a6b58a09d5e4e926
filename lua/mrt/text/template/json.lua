--- json.lua -- values as JSON, as Python's json.dumps writes them, and read again
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local print = require "mrt.text.template.print"
local value = require "mrt.text.template.value"

local json = {}

-- ---- writing ---------------------------------------------------------------

local named = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
  ["\b"] = "\\b", ["\f"] = "\\f" }

local function escape(c) return named[c] or ("\\u%04x"):format(c:byte()) end

local function escape_wide(c)
  local code = utf8.codepoint(c)
  if code < 0x10000 then return ("\\u%04x"):format(code) end
  code = code - 0x10000
  return ("\\u%04x\\u%04x"):format(0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff))
end

local function quote(s, o)
  s = s:gsub('[%z\1-\x1f"\\]', escape)
  if o.ensure_ascii then
    s = s:gsub("[\xc2-\xf4][\x80-\xbf]+", function(run)
      return (run:gsub(utf8.charpattern, escape_wide))
    end)
  end
  return '"' .. s .. '"'
end

local function number(v)
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v ~= v then return "NaN" end
  if v == math.huge then return "Infinity" elseif v == -math.huge then return "-Infinity" end
  return print.float(v)
end

local words = { [true] = "true", [false] = "false", [value.none] = "null" }

local write

-- Parts between brackets, each on a line of its own where there is an indent.
local function wrap(run, open, parts, close, o, level)
  if #parts == 0 then return open .. close end
  if not o.indent then
    return run:made(open .. table.concat(parts, o.item_separator) .. close)
  end
  run:take(#parts * (level + 1.0) * #o.indent)
  local line = "\n" .. o.indent:rep(level + 1)
  return run:made(open .. line .. table.concat(parts, o.item_separator .. line) .. "\n"
    .. o.indent:rep(level) .. close)
end

local function list(run, v, o, level)
  local parts = {}
  for i = 1, v.n do parts[i] = write(run, v[i], o, level + 1) end
  return wrap(run, "[", parts, "]", o, level)
end

local function key_text(key, o)
  if type(key) == "string" then return quote(key, o) end
  return '"' .. (words[key] or number(key)) .. '"'
end

local function dict(run, v, o, level)
  local keys = v.keys
  if o.sort_keys then
    keys = table.move(keys, 1, v.n, 1, {})
    table.sort(keys, function(a, b)
      if type(a) ~= type(b) or type(a) == "table" or type(a) == "boolean" then
        fail.here "tojson: keys of several kinds have no order"
      end
      return a < b
    end)
  end
  local parts = {}
  for i, key in ipairs(keys) do
    parts[i] = key_text(key, o) .. o.key_separator .. write(run, value.get(v, key), o, level + 1)
  end
  return wrap(run, "{", parts, "}", o, level)
end

write = function(run, v, o, level)
  run:spend(1)
  local t = type(v)
  if t == "string" then return run:made(quote(v, o)) end
  if t == "number" then return number(v) end
  if words[v] then return words[v] end
  local k = getmetatable(v)
  local show = (k == value.List or k == value.Tuple) and list or k == value.Dict and dict
  if k == value.Markup then return run:made(quote(v.text, o)) end
  if not show then
    fail.here("tojson: a value of type %s cannot be written as JSON", value.type(v))
  end
  run:enter()
  local text = show(run, v, o, level)
  run:leave()
  return text
end

---@class mrt.template.JSONOptions
---@field ensure_ascii boolean?
---@field indent string?           of one level
---@field item_separator string
---@field key_separator string
---@field sort_keys boolean?

--- A value of templates as JSON.
---@param run mrt.template.Run
---@param v any
---@param o mrt.template.JSONOptions
---@return string
function json.encode(run, v, o) return write(run, v, o, 0) end

-- ---- reading ---------------------------------------------------------------

local DEEPEST = 64

local Reader = {}
Reader.__index = Reader

local function refuse(self, text) fail.here("JSON, byte %d: %s", self.at, text) end

function Reader:space() self.at = self.text:match("^[ \t\r\n]*()", self.at) end

-- The sign at this place, blanks before it left out.
function Reader:take(sign)
  self:space()
  if self.text:sub(self.at, self.at) ~= sign then return false end
  self.at = self.at + 1
  return true
end

local plain = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r",
  t = "\t" }

function Reader:escape()
  local c = self.text:sub(self.at, self.at)
  self.at = self.at + 1
  if plain[c] then return plain[c] end
  local code = c == "u" and self.text:match("^%x%x%x%x", self.at)
  if not code then refuse(self, "an escape that is none") end
  self.at, code = self.at + 4, tonumber(code, 16)
  if code >= 0xd800 and code < 0xdc00 then
    local low = self.text:match("^\\u(%x%x%x%x)", self.at)
    low = low and tonumber(low, 16) or 0
    if low < 0xdc00 or low > 0xdfff then refuse(self, "half of a pair of surrogates") end
    self.at = self.at + 6
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00)
  elseif code >= 0xdc00 and code < 0xe000 then
    refuse(self, "half of a pair of surrogates")
  end
  return utf8.char(code)
end

function Reader:string()
  local parts = {}
  while true do
    local stop = self.text:find('[%z\1-\x1f"\\]', self.at)
    if not stop then refuse(self, "a string has no end") end
    parts[#parts + 1] = self.text:sub(self.at, stop - 1)
    local c = self.text:sub(stop, stop)
    self.at = stop + 1
    if c == '"' then return table.concat(parts) end
    if c ~= "\\" then refuse(self, "a control character in a string") end
    parts[#parts + 1] = self:escape()
  end
end

function Reader:number()
  local text, stop = self.text:match("^(%-?%d+%.?%d*[eE]?[-+]?%d*)()", self.at)
  local n = text and not text:find "^%-?0%d" and not text:find "%.$" and not text:find "%.[eE]"
    and tonumber(text)
  if not n then refuse(self, "a value is wanted") end
  if math.type(n) == "float" and not text:find "[.eE]" then
    refuse(self, "an integer beyond 64 bits")
  end
  self.at = stop
  return n
end

function Reader:list(depth)
  local items = {}
  if self:take "]" then return items end
  repeat items[#items + 1] = self:value(depth) until not self:take ","
  if not self:take "]" then refuse(self, "',' or ']' wanted") end
  return items
end

function Reader:object(depth)
  local map, order = {}, {}
  local result = setmetatable(map, { __jsontype = "object", __jsonorder = order })
  if self:take "}" then return result end
  repeat
    if not self:take '"' then refuse(self, "a name in quotes wanted") end
    local name = self:string()
    if not self:take ":" then refuse(self, "':' wanted") end
    if map[name] == nil then order[#order + 1] = name end
    map[name] = self:value(depth)
  until not self:take ","
  if not self:take "}" then refuse(self, "',' or '}' wanted") end
  return result
end

local literals = { { "^true()", true }, { "^false()", false }, { "^null()", value.none } }

function Reader:value(depth)
  if depth > DEEPEST then refuse(self, ("more than %d levels"):format(DEEPEST)) end
  if self:take "{" then return self:object(depth + 1) end
  if self:take "[" then return self:list(depth + 1) end
  if self:take '"' then return self:string() end
  for _, row in ipairs(literals) do
    local stop = self.text:match(row[1], self.at)
    if stop then
      self.at = stop
      return row[2]
    end
  end
  return self:number()
end

--- Read JSON into plain tables that keep the order of names, for templates.
---
--- Raises (fail.lua): what is no JSON, at which byte.
---@param text string
---@return any
function json.decode(text)
  if not utf8.len(text) then fail.here "JSON that is no UTF-8" end
  local self = setmetatable({ text = text, at = 1 }, Reader)
  local result = self:value(0)
  self:space()
  if self.at <= #text then refuse(self, "text behind the value") end
  return result
end

--- As `decode`, for those who are not templates.
---
--- Returns nil: what is no JSON, at which byte.
---@param text string
---@return any value
---@return string? message
---@return string? code  "data"
function json.read(text)
  local result, message = fail.catch(nil, json.decode, text)
  if message then return nil, message, "data" end
  return result
end

return json
