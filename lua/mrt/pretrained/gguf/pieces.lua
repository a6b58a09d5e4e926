--- pieces.lua -- a sentencepiece model's file: its pieces, and how it treats spaces
---
--- A protobuf message (sentencepiece_model.proto): pieces are field 1, the trainer's settings
--- field 2, the normalizer's field 3; of each a few fields are wanted and the others skipped.
---
--- SPDX-License-Identifier: MIT

local pieces = {}

local Broken = {}

local function varint(bytes, at)
  local value, shift = 0, 0
  repeat
    local byte = bytes:byte(at)
    if not byte or shift > 63 then error(Broken, 0) end
    value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
  until byte < 128
  return value, at
end

-- Call `see(field, value)` with each field of a message: numbers, floats or bytes.
local function each(bytes, see)
  local at = 1
  while at <= #bytes do
    local tag, value
    tag, at = varint(bytes, at)
    local kind = tag & 7
    if kind == 0 then
      value, at = varint(bytes, at)
    elseif kind == 2 then
      local size
      size, at = varint(bytes, at)
      if size < 0 or size > #bytes - at + 1 then error(Broken, 0) end
      value, at = bytes:sub(at, at + size - 1), at + size
    elseif kind == 5 or kind == 1 then
      local width = kind == 5 and 4 or 8
      if #bytes - at + 1 < width then error(Broken, 0) end
      value, at = bytes:sub(at, at + width - 1), at + width
    else
      error(Broken, 0)
    end
    see(tag >> 3, value)
  end
end

local function read_piece(bytes)
  local piece = { text = "", score = 0.0, kind = 1 }
  each(bytes, function(field, value)
    if field == 1 then piece.text = value end
    if field == 2 and #value == 4 then piece.score = string.unpack("<f", value) end
    if field == 3 then piece.kind = value end
  end)
  return piece
end

-- What a field of the whole says.
local readers = {
  function(out, value) out.list[#out.list + 1] = read_piece(value) end,
  function(out, value)
    each(value, function(field, v)
      if field == 3 then out.unigram, out.other = v == 1, v > 2 or nil end
    end)
  end,
  function(out, value)
    each(value, function(field, v)
      if field == 2 then out.charsmap = v end
      if field == 3 then out.prefix = v ~= 0 end
      if field == 4 then out.squeeze = v ~= 0 end
    end)
  end,
}

local function read(bytes)
  local out = { list = {}, unigram = true, prefix = true, squeeze = true, charsmap = "" }
  each(bytes, function(field, value)
    if readers[field] then readers[field](out, value) end
  end)
  return out
end

---@class mrt.pretrained.gguf.Pieces
---@field list {text: string, score: number, kind: integer}[]
---@field unigram boolean   else merges
---@field prefix boolean    a space is put before a text
---@field squeeze boolean   spaces that follow a space are left out
---@field charsmap string   how characters are replaced; "": they are not
---@field ids? table<string, integer>  of unk, bos, eos, pad, for writing

--- Read one.
---@param bytes string
---@return mrt.pretrained.gguf.Pieces?
---@return string? message
function pieces.read(bytes)
  local ok, model = pcall(read, bytes)
  if not ok then
    if model ~= Broken and type(model) ~= "string" then error(model, 0) end
    return nil, "no sentencepiece model"
  end
  if #model.list == 0 or model.other then return nil, "no sentencepiece model of BPE or unigram" end
  return model
end

-- ---- writing -----------------------------------------------------------------

local function number(value)
  local out = {}
  repeat
    local low = value & 127
    value = value >> 7
    out[#out + 1] = string.char(value > 0 and low | 128 or low)
  until value == 0
  return table.concat(out)
end
local function field(n, bytes) return number(n << 3 | 2) .. number(#bytes) .. bytes end
local function setting(n, value) return number(n << 3) .. number(value) end

--- The bytes of such a file.
---@param model mrt.pretrained.gguf.Pieces
---@return string
function pieces.write(model)
  local out, byte_fallback = {}, 0
  for i, piece in ipairs(model.list) do
    if piece.kind == 6 then byte_fallback = 1 end
    out[i] = field(1, field(1, piece.text) .. number(2 << 3 | 5) .. string.pack("<f", piece.score)
      .. setting(3, piece.kind))
  end
  local trainer = { setting(3, model.unigram and 1 or 2), setting(35, byte_fallback) }
  for name, n in pairs { unk = 40, bos = 41, eos = 42, pad = 43 } do
    local id = model.ids[name]
    trainer[#trainer + 1] = setting(n, id or -1)
  end
  out[#out + 1] = field(2, table.concat(trainer))
  out[#out + 1] = field(3, field(1, "identity") .. field(2, model.charsmap)
    .. setting(3, model.prefix and 1 or 0) .. setting(4, model.squeeze and 1 or 0)
    .. setting(5, 1))
  return table.concat(out)
end

return pieces
