--- lexer.lua -- the text of a template as tokens
---
--- Text, `{{ ... }}`, `{% ... %}`, `{# ... #}` and `{% raw %}`, with the whitespace rules
--- of chat templates: the newline after a block is dropped (trim_blocks), so is the blank
--- before one that begins a line (lstrip_blocks), and `-` strips, `+` keeps.  One pass;
--- its time is linear in the source.
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local unicode = require "mrt.text.template.unicode"

local lexer = {}

---@class mrt.template.Token
---@field type string   data, block_begin, block_end, variable_begin, variable_end, name,
---  string, integer, float, op, eof
---@field value any     of an op, its text
---@field line integer

local closing = { ["("] = ")", ["["] = "]", ["{"] = "}" }
local operators = {}
for text in ("// ** == != >= <= + - * / % ~ [ ] ( ) { } > < = . : | , ;"):gmatch "%S+" do
  operators[text] = true
end

local Lexer = {}
Lexer.__index = Lexer

function Lexer:add(kind, value)
  self.tokens[#self.tokens + 1] = { type = kind, value = value, line = self.line }
end

-- Go on behind `to`, counting lines.
function Lexer:advance(to)
  local at = self.at
  while true do
    at = self.source:find("\n", at, true)
    if not at or at > to then break end
    self.line, at = self.line + 1, at + 1
  end
  self.line_start = self.source:sub(to, to) == "\n"
  self.at = to + 1
end

-- ---- text ------------------------------------------------------------------

-- The text before a tag: what its sign, or the blanks before it on its line, strip.
function Lexer:data(text, sign, kind)
  if sign == "-" then
    text = unicode.strip(text, nil, "right")
  elseif sign ~= "+" and kind ~= "variable" then
    local line = text:match ".*\n()" or (self.line_start and 1)
    if line and unicode.strip(text:sub(line)) == "" then text = text:sub(1, line - 1) end
  end
  if text ~= "" then self:add("data", text) end
end

-- Behind the end of a tag that ends at `last`: what its sign strips.
function Lexer:after(sign, last, trims)
  if sign == "-" then
    last = unicode.skip_space(self.source, last + 1) - 1
  elseif sign ~= "+" and trims and self.source:sub(last + 1, last + 1) == "\n" then
    last = last + 1
  end
  self:advance(last)
end

function Lexer:comment(first)
  local line = self.line
  local at = self.source:find("#}", first, true)
  if not at then fail.at(line, "a comment has no end, #}") end
  local sign = at > first and self.source:sub(at - 1, at - 1) or ""
  self:after(sign, at + 1, true)
end

-- `{% raw %}`, whose tag ends at `last`: the text up to `{% endraw %}`.
function Lexer:raw(sign, last)
  local line = self.line
  if sign == "-" then last = unicode.skip_space(self.source, last + 1) - 1 end
  self:advance(last)
  local from, at = self.at, self.at
  while true do
    local first = self.source:find("{%", at, true)
    if not first then fail.at(line, "{% raw %} has no end") end
    local before, after, stop =
      self.source:match("^{%%([-+]?)%s*endraw%s*([-+]?)%%}()", first)
    if before then
      self:data(self.source:sub(from, first - 1), before, "raw")
      return self:after(after, stop - 1, true)
    end
    at = first + 2
  end
end

-- The byte of the next tag's brace, nil where there is none.
local function next_tag(source, at)
  while true do
    at = source:find("{", at, true)
    if not at or source:find("^[{%%#]", at + 1) then return at end
    at = at + 1
  end
end

local tag_kinds = { ["{"] = "variable", ["%"] = "block", ["#"] = "comment" }

-- The text up to the next tag, and that tag; false at the end.
function Lexer:root()
  local source = self.source
  local from, at = self.at, next_tag(self.source, self.at)
  if not at then
    if from <= #source then self:add("data", source:sub(from)) end
    return false
  end
  local kind = tag_kinds[source:sub(at + 1, at + 1)]
  local sign = source:match("^[-+]", at + 2) or ""
  self:data(source:sub(from, at - 1), sign, kind)
  local inside = at + 2 + #sign
  self:advance(inside - 1)
  if kind == "comment" then return self:comment(inside) end
  local raw_sign, stop = source:match("^%s*raw%s*(%-?)%%}()", inside)
  if kind == "block" and raw_sign then return self:raw(raw_sign, stop - 1) end
  self:add(kind .. "_begin")
  self:tag(kind)
end

-- ---- inside a tag ----------------------------------------------------------

-- The end of the tag, if it is here.
function Lexer:tag_end(kind)
  local sign = self.source:match("^[-+]", self.at) or ""
  local close = kind == "block" and "%}" or "}}"
  if kind == "variable" and sign == "+" then return false end
  local at = self.at + #sign
  if self.source:sub(at, at + 1) ~= close then return false end
  self:add(kind .. "_end")
  self:after(sign, at + 1, kind == "block")
  return true
end

function Lexer:operator(opened)
  local source, at = self.source, self.at
  local text = source:sub(at, at + 1)
  if not operators[text] then text = source:sub(at, at) end
  if not operators[text] then
    fail.at(self.line, "unexpected character %q", source:match(unicode.first, at))
  end
  if closing[text] then
    opened[#opened + 1] = closing[text]
  elseif text == ")" or text == "]" or text == "}" then
    local wanted = table.remove(opened)
    if wanted ~= text then
      fail.at(self.line, "unexpected '%s'%s", text,
        wanted and (", '%s' wanted"):format(wanted) or "")
    end
  end
  self:add("op", text)
  self:advance(at + #text - 1)
end

local numbers = {
  { "float", "^%d[%d_]*%.%d[%d_]*[eE][-+]?%d[%d_]*" }, { "float", "^%d[%d_]*[eE][-+]?%d[%d_]*" },
  { "float", "^%d[%d_]*%.%d[%d_]*" },
  { "integer", "^0[xX][%x_]+" }, { "integer", "^0[oO][0-7_]+" }, { "integer", "^0[bB][01_]+" },
  { "integer", "^[1-9][%d_]*" }, { "integer", "^0[0_]*" },
}

local bases = { o = 8, b = 2 }

function Lexer:number()
  local whole = self.source:sub(self.at - 1, self.at - 1) == "." -- x.0.1 is two items
  for _, row in ipairs(numbers) do
    local text = not (whole and row[1] == "float") and self.source:match(row[2], self.at)
    if text then
      local plain = text:gsub("_", "")
      local base = bases[plain:sub(2, 2):lower()]
      local number = base and tonumber(plain:sub(3), base) or tonumber(plain)
      if row[1] == "float" then number = number + 0.0 end
      if row[1] == "integer" and math.type(number) ~= "integer" or #plain > 300 then
        fail.at(self.line, "the number %s is beyond 64 bits", plain:sub(1, 30))
      end
      self:add(row[1], number)
      return self:advance(self.at + #text - 1)
    end
  end
end

local plain_escapes = { a = "\a", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v",
  ["\\"] = "\\", ["'"] = "'", ['"'] = '"', ["\n"] = "" }
local hex_digits = { x = 2, u = 4, U = 8 }

-- A character that the source could not escape, as Python has it: an escape by then.
local function escape_wide(body, at)
  local char = body:match(unicode.first, at)
  local code = utf8.codepoint(char)
  local form = code < 0x100 and "\\x%02x" or code < 0x10000 and "\\u%04x" or "\\U%08x"
  return form:format(code), at + #char
end

-- The code of \x, \u, \U or an octal escape at `at`, nil for others, and what follows.
local function escaped_code(body, at, line)
  local c = body:sub(at, at)
  local octal = body:match("^[0-7]+", at)
  if octal then
    octal = octal:sub(1, 3)
    return tonumber(octal, 8), at + #octal
  end
  local digits = hex_digits[c]
  if not digits then return nil end
  local text = (body:match("^%x+", at + 1) or ""):sub(1, digits)
  if #text < digits then fail.at(line, "the escape \\%s wants %d digits", c, digits) end
  return tonumber(text, 16), at + 1 + digits
end

-- The character of an escape that begins behind the backslash at `at`, and what follows.
local function escape(body, at, line)
  local c = body:sub(at, at)
  if plain_escapes[c] then return plain_escapes[c], at + 1 end
  local code, stop = escaped_code(body, at, line)
  if not code then
    if c == "N" then fail.at(line, "characters by name, \\N{...}, are not understood") end
    if c > "\x7f" then return escape_wide(body, at) end
    return "\\" .. c, at + 1
  end
  if code > 0x10ffff or code >= 0xd800 and code < 0xe000 then
    fail.at(line, "the escape \\%s is no character", body:sub(at, stop - 1))
  end
  return utf8.char(code), stop
end

local function unescape(body, line)
  if not body:find("\\", 1, true) then return body end
  local parts, from = {}, 1
  while true do
    local at = body:find("\\", from, true)
    if not at then break end
    parts[#parts + 1] = body:sub(from, at - 1)
    parts[#parts + 1], from = escape(body, at + 1, line)
  end
  return table.concat(parts) .. body:sub(from)
end

function Lexer:string(quote)
  local first = self.at + 1
  local at, stops = first, quote == "'" and "[\\']" or '[\\"]'
  while true do
    at = self.source:find(stops, at)
    if not at then fail.at(self.line, "a string has no end") end
    if self.source:sub(at, at) == quote then break end
    at = at + 2
  end
  self:add("string", unescape(self.source:sub(first, at - 1), self.line))
  self:advance(at)
end

function Lexer:tag(kind)
  local source, line = self.source, self.line
  local opened = {}
  while true do
    local at = unicode.skip_space(source, self.at)
    if at > self.at then self:advance(at - 1) end
    if self.at > #source then fail.at(line, "a tag has no end") end
    if #opened == 0 and self:tag_end(kind) then return end
    local c = source:sub(self.at, self.at)
    if c:find "%d" then
      self:number()
    elseif c:find "[%a_\x80-\xff]" then
      local name = source:match("^[%w_\x80-\xff]+", self.at)
      self:add("name", name)
      self:advance(self.at + #name - 1)
    elseif c == "'" or c == '"' then
      self:string(c)
    else
      self:operator(opened)
    end
  end
end

--- Return the tokens of a template, the last of type "eof".
---
--- Raises (see fail.lua): what cannot be read, with its line.
---@param source string  UTF-8
---@return mrt.template.Token[]
function lexer.tokens(source)
  source = source:gsub("\r\n?", "\n"):gsub("\n$", "")
  local self = setmetatable({ source = source, at = 1, line = 1, line_start = true,
    tokens = {} }, Lexer)
  while self:root() ~= false do end
  self:add "eof"
  return self.tokens
end

return lexer
