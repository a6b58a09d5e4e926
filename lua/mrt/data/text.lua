--- text.lua -- a text as numbers, for language models
---
--- The ids lie in one Lua string, a byte each where the vocabulary allows it
--- (four otherwise), so a window of the text is a substring and a mini-batch a
--- concatenation.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local loader = require "mrt.data.loader"
local options = require "mrt.options"
local random = require "mrt.data.random"

---@class mrt.data.Text
---@field vocab integer      how many symbols there are
---@field symbols string[]   the symbol of id i is symbols[i + 1]
---@field tokens integer     how long the text is, in symbols
---@field dtype "u8"|"i32"   of the tensors that loaders give
local Text = {}
Text.__index = Text

local function read_files(files)
  local parts = {}
  for i, path in ipairs(files) do
    local file, message = io.open(path, "rb")
    if not file then return nil, message, "file" end
    local part, why = file:read "a"
    file:close()
    if not part then return nil, path .. ": " .. why, "file" end
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

local usage = [[a path, {files = {...}} or {text = "..."} wanted]]

--- Read a text and number its symbols: distinct bytes or UTF-8 characters, in
--- order.
---
---     local text = assert(data.text "input.txt")
---     local train, val = text:split(0.9)
---     local loader = train:loader{batch = 12, context = 64, seed = 1}
---     local x, y = loader:next()                        -- u8[12,64] each
---
--- Returns nil: a file that cannot be read, or is not UTF-8 where characters
--- are wanted.
---@param source string|{files: string[]}|{text: string}  a path, or several
---@param given? {unit: "byte"|"character"}  default "byte"
---@return mrt.data.Text? text
---@return string? message
---@return string? code
local function text(source, given)
  local o = options.read("text", given, { unit = "byte" })
  if not units[o.unit] then
    core.fail("value", "text", ("unit = %s, \"byte\" or \"character\" wanted")
      :format(tostring(o.unit)))
  end
  if type(source) == "string" then source = { files = { source } } end
  if type(source) ~= "table" or not (source.text or source.files) then
    core.fail("value", "text", usage)
  end
  local content, message, code = source.text, nil, nil
  if not content then content, message, code = read_files(source.files) end
  if not content then return nil, message, code end
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
---@param s string
---@return integer[] ids
function Text:encode(s)
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
---@param ids integer[]
---@return string
function Text:decode(ids)
  local symbols = {}
  for i, id in ipairs(ids) do symbols[i] = self.symbols[id + 1] or "?" end
  return table.concat(symbols)
end

local function part(self, first, last)
  local piece = setmetatable({}, { __index = self })
  piece.data = self.data:sub(first * self.width + 1, last * self.width)
  piece.tokens = last - first
  return piece
end

--- Cut the text in two, with one vocabulary.
---@param share number  of the first part, in (0, 1)
---@return mrt.data.Text first
---@return mrt.data.Text second
function Text:split(share)
  local border = math.floor(self.tokens * share)
  return part(self, 0, border), part(self, border, self.tokens)
end

---@class mrt.data.WindowOptions
---@field batch integer
---@field context integer     symbols in a window
---@field shuffle? boolean    default true
---@field seed? integer       default 0
---@field drop_last? boolean  default true

--- Make a loader of windows: `x` is `context` symbols, `y` the same one later,
--- both `[batch, context]`.
---
--- An epoch cuts the text into windows side by side and visits each once;
--- shuffled epochs begin cutting at different places, so that in the long run
--- every symbol stands at every place.
---
--- Raises: a text too short for one mini-batch.
---@param given mrt.data.WindowOptions
---@return mrt.data.Loader
function Text:loader(given)
  local o = options.read("loader", given, { batch = options.none,
    context = options.none, shuffle = true, seed = 0, drop_last = true })
  local context, width = o.context, self.width
  if math.type(context) ~= "integer" or context < 1 then
    core.fail("value", "loader", "context, a positive integer, is missing")
  end
  local phases = o.shuffle and self.tokens >= 2 * context and context or 1

  local function window(at)
    return self.data:sub(at * width + 1, (at + context) * width)
  end
  local function fetch(indices, key)
    local phase = key and random.new(key):integer(phases) or 0
    local x, y = {}, {}
    for i, index in ipairs(indices) do
      local at = phase + index * context
      x[i], y[i] = window(at), window(at + 1)
    end
    local shape = { #indices, context }
    return mrt.from_bytes(table.concat(x), self.dtype, shape),
      mrt.from_bytes(table.concat(y), self.dtype, shape)
  end

  return loader.new { count = math.max(0, (self.tokens - phases) // context),
    batch = o.batch, fetch = fetch, shuffle = o.shuffle, seed = o.seed,
    drop_last = o.drop_last }
end

return text
