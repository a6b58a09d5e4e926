--- text.lua -- a text as numbers, for language models
---
--- The ids lie in one Lua string, a byte each where the vocabulary allows it
--- (four otherwise), so a window of the text is a substring and a mini-batch a
--- concatenation.
---
--- SPDX-License-Identifier: MIT

local bpe = require "mrt.data.bpe"
local core = require "mrt.core"
local mrt = require "mrt"
local describe = require "mrt.util.describe"
local loader = require "mrt.data.loader"
local options = require "mrt.util.options"
local tokenizer = require "mrt.text.tokenizer"
local windows = require "mrt.data.windows"

---@class mrt.data.Text
---@field vocab integer      how many symbols there are
---@field symbols string[]?  the symbol of id i is symbols[i + 1]; nil for BPE
---@field ids table<string, integer>  the id of a symbol; empty for BPE
---@field tokens integer     how long the text is, in symbols
---@field dtype "u8"|"i32"   of the tensors that loaders give
local Text = {}
Text.__index = Text

local usage = [[a path, {files = {path, ...}} or {text = "..."} wanted]]

local function read_files(files)
  local parts = {}
  for i, path in ipairs(files) do
    if type(path) ~= "string" then core.fail("value", "text", usage) end
    local part, message, code = core.read_file(path)
    if not part then return nil, message, code end
    parts[i] = part
  end
  return table.concat(parts, "\n")
end

-- The distinct bytes of a text, in order.
local function bytes_of(text)
  local symbols = {}
  for byte = 0, 255 do
    local symbol = string.char(byte)
    if text:find(symbol, 1, true) then symbols[#symbols + 1] = symbol end
  end
  return symbols
end

-- The distinct UTF-8 characters, in order of code point (as strings sort).
local function characters_of(text)
  local seen, symbols = {}, {}
  for symbol in text:gmatch(utf8.charpattern) do
    if not seen[symbol] then
      seen[symbol] = true
      symbols[#symbols + 1] = symbol
    end
  end
  table.sort(symbols, function(a, b)
    return utf8.codepoint(a) < utf8.codepoint(b)
  end)
  return symbols
end

local units = {
  byte = { pattern = ".", symbols = bytes_of },
  character = { pattern = utf8.charpattern, symbols = characters_of },
}

local function is_tokenizer(unit) return bpe.is(unit) or tokenizer.is(unit) end

-- A text in the tokens of a vocabulary.
local function build_tokens(text, unit)
  local data = unit:pack(text, { special = false })
  return setmetatable({ unit = unit, tokenizer = unit, data = data, vocab = unit.vocab,
    ids = {}, dtype = "i32", width = 4, tokens = #data // 4 }, Text)
end

local function build(text, name)
  local unit = units[name]
  local self = setmetatable({ pattern = unit.pattern, unit = name }, Text)
  self.symbols = unit.symbols(text)
  self.vocab = #self.symbols
  self.dtype = self.vocab <= 256 and "u8" or "i32"
  self.width = self.dtype == "u8" and 1 or 4
  self.ids = {}
  local packed = {}
  for i, symbol in ipairs(self.symbols) do
    self.ids[symbol] = i - 1
    packed[symbol] = string.pack(self.width == 1 and "B" or "<i4", i - 1)
  end
  self.data = text:gsub(unit.pattern, packed)
  self.tokens = #self.data // self.width
  return self
end

local function content_of(source)
  if type(source) == "string" then source = { files = { source } } end
  local content = type(source) == "table" and (source.text or source.files)
  local wanted = content and source.text and "string" or "table"
  if type(content) ~= wanted then core.fail("value", "text", usage) end
  if source.text then return source.text end
  return read_files(content)
end

--- Read a text and number its symbols: distinct bytes or UTF-8 characters, in
--- order; or the tokens of a vocabulary.
---
---     local text = assert(data.text "input.txt")
---     local train, val = text:split(0.9)
---     local loader = train:loader{batch = 12, context = 64, seed = 1}
---     local x, y = loader:next()                        -- u8[12,64] each
---
--- Returns nil: a file that cannot be read, or is not UTF-8 where characters
--- are wanted.
---
--- Raises: an option that there is not; a file's faults are a message.
---@param source string|{files: string[]}|{text: string}  a path, or several
---@param given? {unit: "byte"|"character"|mrt.data.BPE|mrt.text.Tokenizer}  default "byte"
---@return mrt.data.Text? text
---@return string? message
---@return string? code
local function text(source, given)
  local o = options.read("text", given, { unit = "byte" }, true)
  if not units[o.unit] and not is_tokenizer(o.unit) then
    core.fail("value", "text", ("unit = %s, \"byte\", \"character\" or a tokenizer wanted")
      :format(tostring(o.unit)))
  end
  local content, message, code = content_of(source)
  if not content then return nil, message, code end
  if is_tokenizer(o.unit) then return build_tokens(content, o.unit) end
  if o.unit == "character" then
    local _, bad = utf8.len(content)
    if bad then
      return nil, ("not UTF-8 at byte %d"):format(bad), "data"
    end
  end
  return build(content, o.unit)
end

--- Return the ids of a text's symbols, from 0.
---
--- Raises: a symbol that is not in the vocabulary.
---
---     text:encode "to be"
---@param s string
---@return integer[] ids
function Text:encode(s)
  if type(s) ~= "string" then
    core.fail("value", "encode", "a string wanted, got " .. options.show(s))
  end
  if self.tokenizer then return self.tokenizer:encode(s, { special = false }) end
  local ids = {}
  for symbol in s:gmatch(self.pattern) do
    local id = self.ids[symbol]
    if not id then
      core.fail("value", "encode", ("%q is not in the vocabulary")
        :format(symbol))
    end
    ids[#ids + 1] = id
  end
  return ids
end

--- Return the text of ids; it undoes `encode`.
---
---     text:decode { 0, 1 }
---
--- Raises: an id that there is not.
---@param ids integer[]
---@return string
function Text:decode(ids)
  if self.tokenizer then return self.tokenizer:decode(ids) end
  if type(ids) ~= "table" then
    core.fail("value", "decode", "a list of ids wanted, got " .. options.show(ids))
  end
  local symbols = {}
  for i, id in ipairs(ids) do
    symbols[i] = type(id) == "number" and self.symbols[id + 1] or "?"
  end
  return table.concat(symbols)
end

local function part(self, first, last)
  local piece = setmetatable({}, { __index = self, __tostring = Text.__tostring })
  piece.data = self.data:sub(first * self.width + 1, last * self.width)
  piece.tokens = last - first
  return piece
end

--- Cut the text in two, with one vocabulary.
---
---     local train, test = text:split(0.9)
---
--- Raises: a share outside of 0 to 1.
---@param share number  of the first part, in (0, 1)
---@return mrt.data.Text first
---@return mrt.data.Text second
function Text:split(share)
  local border = loader.border(self.tokens, share)
  return part(self, 0, border), part(self, border, self.tokens)
end

function Text:__tostring()
  return ("text of %s, vocabulary of %d (%s)"):format(describe.count(self.tokens, "token"),
    self.vocab, type(self.unit) == "string" and self.unit .. "s" or tostring(self.unit))
end

--- Make a loader of windows: see `data.windows`.
---
--- Raises: a text too short for one mini-batch.
---
---     local loader = text:loader { context = 64, batch = 12 }
---@param given mrt.data.WindowOptions
---@return mrt.data.Loader
function Text:loader(given)
  local width, dtype = self.width, self.dtype
  return windows({ tokens = self.tokens, fresh = true, read = function(starts, context)
    local parts = {}
    for i, at in ipairs(starts) do
      parts[i] = self.data:sub(at * width + 1, (at + context) * width)
    end
    return mrt.from_bytes(table.concat(parts), dtype, { #starts, context })
  end }, given)
end

return text
