--- gguf_spec.lua -- GGUF is read and written as gguf-py and ggml do, to the bit
---
--- golden.gguf was made by golden.py.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"

local read_types <const> = { "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "Q2_K",
  "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS" }
local written_types <const> = { "BF16", "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K",
  "Q5_K", "Q6_K" }

local function save(tensors, metadata, o)
  local path = files.name ".gguf"
  assert(mrt.save(path, tensors, metadata, o))
  return path
end

-- The bytes of the one tensor of a file, which is all that is behind its front.
local function numbers_of(path, size)
  local bytes = files.read(path)
  return bytes:sub(#bytes - size - (-size % 32) + 1):sub(1, size)
end

-- ---- a file by hand ------------------------------------------------------------

local function pair(key, code, format, ...)
  return string.pack("<s8I4" .. format, key, code, ...)
end

local function tensor(name, dims, code, offset)
  local parts = { string.pack("<s8I4", name, #dims) }
  for i, d in ipairs(dims) do parts[i + 1] = string.pack("<I8", d) end
  return table.concat(parts) .. string.pack("<I4I8", code, offset)
end

local function by_hand(o)
  local front = table.concat { o.magic or "GGUF", string.pack("<I4I8I8", o.version or 3,
    o.tensors or #(o.infos or {}), o.keys or #(o.pairs or {})), table.concat(o.pairs or {}),
    table.concat(o.infos or {}) }
  return front .. ("\0"):rep(-#front % (o.alignment or 32)) .. (o.data or "")
end

local function refused(pattern, o)
  local path = files.name ".gguf"
  files.write(path, type(o) == "string" and o or by_hand(o))
  local value, message, code = mrt.load(path)
  assert.is_nil(value)
  assert.matches(pattern, message)
  assert.equal("data", code)
end

describe("a GGUF file", function()
  local golden, metadata, types

  lazy_setup(function()
    golden, metadata = assert(mrt.load "spec/io/golden.gguf")
    types = assert(mrt.open "spec/io/golden.gguf").types
  end)

  it("has metadata with types", function()
    local wanted = { u8 = 200, i8 = -3, u16 = 60000, i16 = -30000, u32 = 4000000000,
      i32 = -2000000000, u64 = 1 << 60, i64 = -(1 << 60), f32 = 0.5, f64 = 0.1, bool = true,
      string = "héllo", strings = { "a", "", "世" }, integers = { 1, -2, 3 },
      floats = { 0.5, -1.5 }, bools = { true, false } }
    for name, value in pairs(wanted) do assert.same(value, metadata["golden." .. name]) end
    assert.equal("u64", types["golden.u64"])
    assert.equal("string[]", types["golden.strings"])
    assert.equal("i32[]", types["golden.integers"])
  end)

  it("unpacks blocks to the bits of gguf-py, by rows too", function()
    for _, name in ipairs(read_types) do
      assert.equal(golden[name .. ".f32"]:bytes(), golden[name]:bytes(), name)
    end
    local x = mrt.randn(7, 64)
    local path = save({ x = x }, nil, { type = "q8_0" })
    local source = assert(core.open_source(path, "gguf"))
    local whole = assert(source:read(1))
    assert.equal(whole[{ { 3, 4 } }]:bytes(), assert(source:rows(1, { 2, 3 })):bytes())
  end)

  it("packs numbers to the bytes of gguf-py and of ggml", function()
    for _, name in ipairs(written_types) do
      local wanted = {}
      for i, v in ipairs(golden["x." .. name]:reshape(-1):totable()) do
        wanted[i] = string.char(v & 255)
      end
      local path = save({ x = golden.x }, nil, { type = name:lower() })
      assert.equal(table.concat(wanted), numbers_of(path, #wanted), name)
    end
  end)

  it("keeps what was written", function()
    local tensors = { a = mrt.randn(2, 3, 4, 5), b = mrt.randn(7):to "bf16",
      c = mrt.randn(3, 3):to "f16", d = mrt.arange(5):to "i32", e = mrt.arange(6):to "i64",
      f = mrt.randn(2, { dtype = "f64" }), g = mrt.tensor(3), h = mrt.zeros(0, 3),
      lazy = mrt.ones(4, 4) * 2 }
    local path = save(tensors, { ["general.architecture"] = "llama", ["general.alignment"] = 64,
      a = -1, b = 1.5, c = { 1, 2.5 }, d = { "x", "y" }, e = { type = "u64", value = 3 },
      f = { type = "string", values = {} }, g = { 1, 3000000000 }, h = { true }, i = 1 << 40 })
    local got, meta = assert(mrt.load(path))
    for name, t in pairs(tensors) do
      assert.equal(t:type(), got[name]:type())
      assert.equal(t:bytes(), got[name]:bytes())
    end
    assert.same({ ["general.architecture"] = "llama", ["general.alignment"] = 64, a = -1,
      b = 1.5, c = { 1, 2.5 }, d = { "x", "y" }, e = 3, f = {}, g = { 1, 3000000000 },
      h = { true }, i = 1 << 40 }, meta)
    local kinds = assert(mrt.open(path)).types
    assert.equal("i32,f32,f32[],string[],u64,string[],i64[],u64", table.concat({ kinds.a, kinds.b,
      kinds.c, kinds.d, kinds.e, kinds.f, kinds.g, kinds.i }, ","))
    assert.equal(files.read(path):find("general.architecture", 1, true), 33)
  end)

  it("has types by name or by a function", function()
    local tensors = { w = mrt.ones(2, 32), b = mrt.ones(32), n = mrt.ones(3) }
    local function stored(o)
      local file <close> = assert(mrt.open(save(tensors, nil, o)))
      return ("%s %s %s"):format(file:info "w".stored, file:info "b".stored, file:info "n".stored)
    end
    assert.equal("F32 F32 F32", stored())
    assert.equal("Q4_0 F32 F32", stored { type = { w = "q4_0" } })
    assert.equal("BF16 F16 F16", stored { type = function(_, t)
      return #t.shape == 2 and "bf16" or "f16"
    end })
  end)

  it("is refused where it cannot be written", function()
    local path = files.name ".gguf"
    local function raises(pattern, tensors, meta, o)
      assert.error_matches(function() mrt.save(path, tensors, meta, o) end, pattern)
      assert.is_nil(io.open(path))
    end
    local x = mrt.ones(2, 48)
    raises("'x': rows of 48 numbers are no multiple of Q4_0's 32", { x = x }, nil,
      { type = "q4_0" })
    raises("there is no type 'q9'", { x = x }, nil, { type = "q9" })
    raises("nothing here writes type 'q2_k'", { x = mrt.ones(256) }, nil, { type = "q2_k" })
    raises("'x' has NaN, which q8_0 cannot hold", { x = mrt.full({ 32 }, 0 / 0) }, nil,
      { type = "q8_0" })
    raises("'x' has 70000, which f16 cannot hold", { x = mrt.full({ 3 }, 7e4) }, nil,
      { type = "f16" })
    raises("'x' is i32, which is not written as q8_0", { x = mrt.arange(32):to "i32" }, nil,
      { type = "q8_0" })
    raises("dimensions, at most 4", { x = mrt.ones(1, 1, 1, 1, 1) })
    raises("more than 63 bytes", { [("x"):rep(64)] = x })
    raises("no type", { x = mrt.tensor { true } })
    raises("metadata 'k': a list of values of one type", { x = x }, { k = { 1, "a" } })
    raises("metadata 'k': an empty list", { x = x }, { k = {} })
    raises("metadata 'k': 300 is no u8", { x = x }, { k = { type = "u8", value = 300 } })
    raises("metadata 'k': there is no type \"u7\"", { x = x }, { k = { type = "u7", value = 3 } })
    raises("metadata 'k' is a function", { x = x }, { k = print })
    raises("general.alignment: a power of two", { x = x }, { ["general.alignment"] = 48 })
    assert.error_matches(function() mrt.save(files.name ".npy", x, nil, {}) end, "no options")
  end)

  it("is refused where it lies", function()
    refused("does not begin with GGUF", { magic = "GGML" })
    refused("a big%-endian file", { version = 3 << 24 })
    refused("version 1 of GGUF, 2 or 3 wanted", { version = 1 })
    refused("bytes wanted at byte", "GGUF\3\0\0\0\1")
    refused("more than 32 bytes can hold", { tensors = 1 << 60 })
    refused("more than 32 bytes can hold", { keys = 1 << 60 })
    refused("a name of %d+ bytes", { pairs = { string.pack("<I8I8", 1 << 62, 0) } })
    refused("there is no type 13 of metadata", { pairs = { pair("k", 13, "I8", 0) } })
    refused("is a list of lists", { pairs = { pair("k", 9, "I4I8I8", 9, 1, 0) } })
    refused("bytes wanted", { pairs = { pair("k", 9, "I4I8", 4, -1) } })
    refused("bytes wanted", { pairs = { pair("k", 9, "I4I8", 8, -1) } })
    refused("'k' is there twice", { pairs = { pair("k", 0, "B", 1), pair("k", 0, "B", 1) } })
    refused("zero byte", { pairs = { pair("k\0x", 0, "B", 1) } })
    refused("general.alignment is no power", { pairs = { pair("general.alignment", 4, "I4", 24) } })
    local data = ("\0"):rep(64)
    local function tensors(pattern, ...) refused(pattern, { infos = { ... }, data = data }) end
    tensors("5 dimensions", tensor("w", { 1, 1, 1, 1, 1 }, 0, 0))
    tensors("the size overflows", tensor("w", { 1 << 40, 1 << 40 }, 0, 0))
    tensors("the size overflows", tensor("w", { -1 }, 0, 0))
    tensors("there is no type 5", tensor("w", { 1 }, 5, 0))
    tensors("rows of 8 numbers are no multiple of Q4_0's 32", tensor("w", { 8 }, 2, 0))
    tensors("'w' is at 16, no multiple of 32", tensor("w", { 1 }, 0, 16))
    tensors("'w' wants 68 bytes", tensor("w", { 17 }, 0, 0))
    tensors("'w' wants 4 bytes", tensor("w", { 1 }, 0, 1 << 40))
    tensors("'w' is there twice", tensor("w", { 1 }, 0, 0), tensor("w", { 1 }, 0, 32))
    tensors("overlap", tensor("v", { 9 }, 0, 0), tensor("w", { 1 }, 0, 32))
    tensors("'w' is IQ1_S, which no tensor can be", tensor("w", { 256 }, 19, 0))
    local bytes = files.read "spec/io/golden.gguf"
    for size = 0, #bytes - 33, 61 do
      local path = files.write(files.name ".gguf", bytes:sub(1, size))
      assert.is_nil((mrt.load(path)))
    end
  end)
end)
