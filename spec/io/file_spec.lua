--- file_spec.lua -- tensors in files: what is written is read, the rest refused
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"

local folder

local function path(name) return folder .. "/" .. name end

local function write(name, bytes) return files.write(path(name), bytes) end

local function read(name) return files.read(path(name)) end

-- Loading fails as the world does: nil, message, code.
local function refused(code, pattern, file)
  local value, message, kind = mrt.load(file)
  assert.is_nil(value)
  assert.matches(pattern, message)
  assert.equal(code, kind)
end

local tensors = {
  a = mrt.arange(6):reshape(2, 3):to "f32", b = mrt.tensor { true, false },
  c = mrt.randn(3, 4):to "bf16", d = mrt.tensor(3), e = mrt.zeros(0, 3),
  f = mrt.arange(300):to "i32", g = mrt.arange(9):to "u8",
  h = mrt.randn(2, 2):to "f16", i = mrt.randn(5, { dtype = "f64" }),
}

-- CRC-32 of bytes, in eight digits.
local function crc32(bytes)
  local crc = 0xffffffff
  for i = 1, #bytes do
    crc = crc ~ bytes:byte(i)
    for _ = 1, 8 do crc = crc >> 1 ~ (crc & 1) * 0xedb88320 end
  end
  return ("%08x"):format(crc ~ 0xffffffff)
end

local function same(got)
  local count = 0
  for name, t in pairs(got) do
    assert.equal(tensors[name]:type(), t:type())
    assert.equal(tensors[name]:bytes(), t:bytes())
    count = count + 1
  end
  assert.equal(9, count)
end

describe("a file of tensors", function()
  lazy_setup(function()
    folder = files.folder()
  end)

  it("keeps every bit of every dtype", function()
    assert(mrt.save(path "x.safetensors", tensors, { step = "7" }))
    local got, metadata = assert(mrt.load(path "x.safetensors"))
    same(got)
    assert.equal("7", metadata.step)
    assert.equal("pt", metadata.format)  -- else transformers refuses the file
    for _, compress in ipairs { false, true } do
      assert(mrt.save(path "x.npz", tensors, { compress = compress }))
      same(assert(mrt.load(path "x.npz")))
    end
    for _, t in pairs(tensors) do
      assert(mrt.save(path "x.npy", t))
      assert.equal(t:bytes(), assert(mrt.load(path "x.npy")):bytes())
    end
  end)

  it("is what the reference would write", function()
    assert(mrt.save(path "r.safetensors", { b = mrt.tensor({ 1, 2 }, "u8"),
      a = mrt.tensor({ 3 }, "u8"), w = mrt.tensor { { 1.5 } } },
      { k = 'é"', ["mrt.crc32"] = "of another file" }))
    local header = '{"__metadata__":{"mrt.crc32":"00000000%s","k":"é\\"","format":"pt"},'
      .. '"w":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},'
      .. '"a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]},'
      .. '"b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]}}'
    header = header:format(crc32(string.pack("<f", 1.5)) .. crc32 "\3" .. crc32 "\1\2")
    header = header .. (" "):rep(-#header % 8)
    header = header:gsub("00000000", crc32(header), 1)
    assert.equal(string.pack("<I8", #header) .. header
      .. string.pack("<f", 1.5) .. "\3\1\2", read "r.safetensors")
    assert(mrt.save(path "r.npy", mrt.tensor({ { 1, 2 } }, "i32")))
    local npy = "\x93NUMPY\1\0\x76\0{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }"
    assert.equal(npy .. (" "):rep(127 - #npy) .. "\n" .. string.pack("<i4i4", 1, 2),
      read "r.npy")
  end)

  it("is refused when a bit of it has turned", function()
    local name = path "t.safetensors"
    assert(mrt.save(name, { a = mrt.arange(5), e = mrt.zeros(0), f = mrt.tensor { true } },
      { k = "v" }))
    local bytes = files.read(name)
    for at = 1, #bytes do
      local turned = bytes:byte(at) ~ 1 << at % 8
      files.write(name, bytes:sub(1, at - 1) .. string.char(turned) .. bytes:sub(at + 1))
      local value, message, code = mrt.load(name)
      local key = bytes:find("mrt.crc32", 1, true)
      if at < key or at >= key + #"mrt.crc32" then  -- without it nothing is compared
        assert.is_nil(value, at)
        assert.equal("data", code)
        assert.matches("t.safetensors: ", message, 1, true)
      end
    end
  end)

  it("is compared with its checksum when it is read whole, or on demand", function()
    local name = path "c.safetensors"
    assert(mrt.save(name, { v = mrt.zeros(100), w = mrt.ones(100) }))
    local bytes = files.read(name)
    files.write(name, bytes:sub(1, -2) .. "x")
    local file <close> = assert(mrt.open(name))
    assert.equal(0, assert(file:read "v"):sum():item())
    assert.equal(1, file.source:rows(file.index.w, { 0 }):item())
    assert.is_true(file:verify "v")
    for _, method in ipairs { "read", "verify" } do
      local value, message, code = file[method](file, "w")
      assert.is_nil(value)
      assert.matches("c.safetensors: 'w': its checksum is wrong", message, 1, true)
      assert.equal("data", code)
    end
    -- a program that keeps metadata, whatever it changes
    files.write(name, bytes:gsub('"w"', '"u"'))
    refused("data", "a program that changed it has kept 'mrt.crc32'", name)
  end)

  it("restores a model", function()
    local nn = mrt.nn
    local one, two = nn.Linear(3, 4), nn.Linear(3, 4)
    assert(mrt.save(path "m.safetensors", one:state()))
    two:load_state(assert(mrt.load(path "m.safetensors")))
    assert.equal(one.weight:bytes(), two.weight:bytes())
  end)

  it("is opened without reading its numbers, several as one", function()
    assert(mrt.save(path "1.safetensors", { a = tensors.a, b = tensors.b }))
    assert(mrt.save(path "2.safetensors", { c = tensors.c }))
    local index = write("m.safetensors.index.json",
      '{"metadata":{"total_size":50},"weight_map":{"a":"1.safetensors",'
      .. '"b":"1.safetensors","c":"2.safetensors"}}')
    local file = assert(mrt.open(index))
    assert.same({ "a", "b", "c" }, file.names)
    assert.same({ name = "c", stored = "BF16", dtype = "bf16", shape = { 3, 4 } },
      file:info "c")
    assert.equal(tensors.c:bytes(), assert(file:read "c"):bytes())
    assert.error_matches(function() file:read "d" end, "there is no 'd'")
    file:close()
    assert.error_matches(function() file:read "c" end, "closed")
    for bad, why in pairs { ['{"w":"no.safetensors"}'] = "No such file",
      ['{"w":"../1.safetensors"}'] = "no file beside it",
      ['{"w":"1.safetensors"}'] = "'w' is not in", ['{"a":1}'] = "in no file" } do
      refused(why:find "such" and "file" or "data", why,
        write("b.safetensors.index.json", '{"weight_map":' .. bad .. "}"))
    end
  end)

  it("appears whole or not at all", function()
    assert(mrt.save(path "w.safetensors", { a = tensors.a }))
    local before = read "w.safetensors"
    local v = mrt.variable(mrt.zeros(1 << 50))  -- more than there is
    assert.is_false(pcall(mrt.save, path "w.safetensors", { a = tensors.a, v = v }))
    assert.equal(before, read "w.safetensors")
    for _, name in ipairs(core.list_folder(folder)) do
      assert.is_nil(name:find("partial", 1, true))
    end
    local dead = "w.safetensors.partial-0123456789abcdef"  -- of one that died
    write(dead, ("x"):rep(1000))
    assert(mrt.save(path "w.safetensors", { b = tensors.b }))
    assert.is_nil(io.open(path(dead)))
    assert.equal(tensors.b:bytes(), mrt.load(path "w.safetensors").b:bytes())
    local done, message, code = mrt.save(path "no/w.safetensors", {})
    assert.is_nil(done)
    assert.matches("No such file", message)
    assert.equal("file", code)
  end)

  it("is refused by a path or names that cannot be", function()
    for pattern, call in pairs {
      ["'x.txt' ends in none of .safetensors"] = function() mrt.load "x.txt" end,
      ["a path wanted, got nil"] = function() mrt.load() end,
      ["'a' is 3, a tensor wanted"] = function() mrt.save(path "x.safetensors", { a = 3 }) end,
      ["not UTF%-8"] = function() mrt.save(path "x.safetensors", { ["\xff"] = tensors.a }) end,
      ["be __metadata__"] = function() mrt.save(path "x.npz.safetensors",
        { __metadata__ = tensors.a }) end,
      ["metadata is 1"] = function() mrt.save(path "x.safetensors", {}, 1) end,
      ["no option 'level'"] = function() mrt.save(path "x.npz", {}, { level = 1 }) end,
      ["only read"] = function() mrt.save(path "m.safetensors.index.json", {}) end,
    } do
      assert.error_matches(call, pattern)
    end
    refused("file", "No such file", path "none.npy")
    os.execute("mkdir " .. path "d.npy")
    refused("file", "not a regular file", path "d.npy")
  end)
end)

describe("a safetensors header", function()
  lazy_setup(function()
    folder = files.folder()
  end)

  local function header(text, data)
    return write("h.safetensors", string.pack("<I8", #text) .. text .. (data or ""))
  end
  local function entry(dtype, shape, offsets)
    return ('{"dtype":"%s","shape":%s,"data_offsets":[%s]}'):format(dtype, shape, offsets)
  end
  local function one(...) return '{"w":' .. entry(...) .. "}" end

  it("may have white space around it, scalars and empty tensors", function()
    local got = assert(mrt.load(header(" \n" .. '{"e":' .. entry("F32", "[0,9]", "0,0")
      .. ',"s":' .. entry("F32", "[]", "0,4") .. ',"f":' .. entry("U8", "[0]", "4,4")
      .. "}  ", ("\0"):rep(4))))
    assert.equal("f32[0,9]", got.e:type())
    assert.equal(0.0, got.s:item())
    assert.same({}, assert(mrt.load(header "{}")))
  end)

  it("must be exact", function()
    local two = '{"v":' .. entry("U8", "[1]", "0,1") .. ',"%s":' .. entry("U8", "[1]", "%s")
      .. "}"
    for _, case in ipairs {
      { "no list of dimensions", one("U8", "1", "0,1"), "x" },
      { "dimension 1 is no size", one("U8", "[-1]", "0,1"), "x" },
      { "dimension 1 is no size", one("U8", "[1.0]", "0,1"), "x" },
      { "9 dimensions", one("U8", "[1,1,1,1,1,1,1,1,1]", "0,1"), "x" },
      { "size overflows", one("U8", "[9223372036854775807,4]", "0,1"), "x" },
      { "too big", one("U8", "[9223372036854775808]", "0,1"), "x" },
      { "wants 96 bits", one("F32", "[3]", "0,8"), ("x"):rep(8) },
      { "wants 4 bits", one("F4", "[1]", "0,1"), "x" },
      { "no range", one("U8", "[1]", "1,0"), "x" },
      { "no range", one("U8", "[1]", "0"), "x" },
      { "there is no dtype U9", one("U9", "[1]", "0,1"), "x" },
      { "take 1 bytes, there are 2", one("U8", "[1]", "0,1"), "xx" },
      { "take 2 bytes, there are 1", one("U8", "[2]", "0,2"), "x" },
      { "begins at 1", one("U8", "[1]", "1,2"), "xx" },
      { "begins at 0", two:format("w", "0,1"), "x" },
      { "duplicate", two:format("v", "1,2"), "xx" },
      { "duplicate", '{"w":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}', "x" },
      { "'k' is no string", '{"__metadata__":{"k":1}}' },
      { "no object", '{"__metadata__":[]}' },
      { "dtype, shape and data_offsets wanted", '{"w":{}}' },
      { "levels", ("["):rep(100000) },
      { "levels", one("U8", "[" .. ("1,"):rep(99) .. "1]", "0,1"), "x" },
      { "more than 1048576 values", "{" .. ('"":0,'):rep(1 << 20) .. '"":0}' },
      { "an object wanted", "[]" },
      { "JSON", "" },
      { "JSON", '{"a\\u0000":1}' },
      { "JSON", '{"\xff":1}' },
      { "'w' is F8_E8M0, which no tensor can be", one("F8_E8M0", "[1]", "0,1"), "x" },
      { "0 or 1 wanted", one("BOOL", "[1]", "0,1"), "x" },
    } do
      refused("data", case[1], header(case[2], case[3]))
    end
    refused("data", "a header of 100000001 bytes",
      write("h.safetensors", string.pack("<I8", 100000001)))
    refused("data", "a header of 50 bytes", write("h.safetensors", string.pack("<I8", 50)))
    refused("data", "3 bytes", write("h.safetensors", "abc"))
  end)

  it("may name a dtype that no tensor has: of that no rows are read either", function()
    local file <close> = assert(mrt.open(header(one("F8_E8M0", "[2]", "0,2"), "xx")))
    file.source:expect(1, { 0 })
    for _, call in ipairs { file.source.rows, file.source.verify } do
      local value, message, code = call(file.source, 1, { 0 })
      assert.is_nil(value)
      assert.matches("F8_E8M0, which no tensor can be", message)
      assert.equal("data", code)
    end
  end)

  it("may not shrink under a reader", function()
    local file = assert(mrt.open(header(one("U8", "[4096]", "0,4096"), ("x"):rep(4096))))
    write("h.safetensors", "")
    local value, message, code = file:read "w"
    assert.is_nil(value)
    assert.matches("has become shorter", message)
    assert.equal("file", code)
  end)
end)

describe("an npy header", function()
  lazy_setup(function()
    folder = files.folder()
  end)

  local function npy(text, data, version)
    version = version or 1
    return write("h.npy", "\x93NUMPY" .. string.char(version, 0)
      .. string.pack(version == 1 and "<I2" or "<I4", #text) .. text .. (data or ""))
  end

  it("may come in any order, with any byte order", function()
    for version = 1, 3 do
      local t = assert(mrt.load(npy("{'shape': (2, 3), \"fortran_order\": True, 'descr': '>i2'}\n",
        string.pack(">i2i2i2i2i2i2", 1, 4, 2, 5, -3, 6), version)))
      assert.equal("i32[2,3]", t:type())
      assert.same({ { 1, 2, -3 }, { 4, 5, 6 } }, t:totable())
    end
    local t = assert(mrt.load(npy("{'descr': '>f8', 'fortran_order': False, 'shape': (), }",
      string.pack(">d", 0.1))))
    assert.equal(0.1, t:item())
    t = assert(mrt.load(npy("{'descr':'<u4','fortran_order':False,'shape':(1,)}",
      "\xff\xff\xff\xff")))
    assert.equal(4294967295, t:totable()[1])
  end)

  it("must be exact", function()
    local text = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }"
    for _, case in ipairs {
      { "Python objects", text:format("'|O'", "False", "(1,)") },
      { "is <c8, which no tensor", text:format("'<c8'", "False", "(1,)") },
      { "cannot be read", text:format("[('a', '<f4')]", "False", "(1,)") },
      { "cannot be read", text:format("'<f4'", "0", "(1,)") },
      { "cannot be read", text:format("'<f4'", "False", "(1") },
      { "cannot be read", text:format("'<f4'", "False", "(-1,)") },
      { "cannot be read", text:format("'<f4'", "False", "(99999999999999999999,)") },
      { "cannot be read", text:format("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)") },
      { "cannot be read", "{'descr': '<f4', 'shape': (), }" },
      { "cannot be read", "{'shape': (), 'shape': (), 'shape': ()}" },
      { "overflows", text:format("'<f4'", "False", "(4611686018427387904, 4)") },
      { "wants 8 bytes for each of 4 rows", text:format("'<f4'", "False", "(4, 2)") },
    } do
      refused("data", case[1], npy(case[2], ("x"):rep(31)))
    end
    refused("data", "no npy header", write("h.npy", "\x93NUMPY\1\0\xff\xff{"))
    refused("data", "no npy header", write("h.npy", ""))
  end)
end)

describe("an npz archive", function()
  it("that has been tampered with is refused", function()
    local name = files.name ".npz"
    assert(mrt.save(name, { w = mrt.ones(100) }, { compress = true }))
    local bytes = files.read(name)
    local function change(at, with)
      files.write(name, bytes:sub(1, at - 1) .. with .. bytes:sub(at + #with))
    end
    local entry = bytes:find("PK\1\2", 1, true)
    local size = entry + 46 + 5 + 4  -- zip64: unpacked, packed, place
    local function failure()
      local value, message, code = mrt.load(name)
      assert.is_nil(value)
      assert.equal("data", code)
      return message
    end
    change(entry + 16, "abcd")
    assert.matches("checksum is wrong", failure())
    change(size, string.pack("<I8", 1 << 40))
    assert.matches("cannot hold 1099511627776", failure())
    change(size + 8, string.pack("<I8", 1 << 62))
    assert.matches("directory is damaged", failure())
    change(size + 16, string.pack("<I8", 1 << 63))
    assert.matches("directory is damaged", failure())
    change(entry + 8, "\1")
    assert.matches("encrypted", failure())
    change(entry + 10, "\12")
    assert.matches("method 12", failure())
    change(1, "XX")
    assert.matches("directory is damaged", failure())
    change(#bytes, "X")
    assert.matches("not a zip archive", failure())
  end)

  it("is compared with its checksum when it is first read, stored too", function()
    local name = files.name ".npz"
    assert(mrt.save(name, { v = mrt.zeros(100), w = mrt.ones(100) }))
    local file <close> = assert(io.open(name, "r+b"))
    local at = file:read "a":find(string.pack("<f", 1), 1, true)
    file:seek("set", at + 40)
    file:write "x"
    file:flush()
    local opened <close> = assert(mrt.open(name))
    assert.equal(0, assert(opened:read "v"):sum():item())
    for _ = 1, 2 do
      local value, message, code = opened:read "w"
      assert.is_nil(value)
      assert.matches("'w': its checksum is wrong", message)
      assert.equal("data", code)
    end
  end)
end)
