--- data_file_spec.lua -- data sets in files: rows, tokens, tables, encodings
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local data = mrt.data

local folder

local function path(name) return folder .. "/" .. name end

local function write(name, bytes) return files.write(path(name), bytes) end

local function refused(pattern, value, message, code)
  assert.is_nil(value)
  assert.matches(pattern, message)
  assert.equal("data", code)
end

setup(function()
  folder = files.folder()
end)

describe("idx", function()
  local function idx(kind, sizes, bytes)
    return string.pack(">I2BB", 0, kind, #sizes)
      .. string.pack((">I4"):rep(#sizes), table.unpack(sizes)) .. bytes
  end

  it("is read as it is, packed or not", function()
    local images = assert(data.idx(write("i", idx(8, { 2, 1, 3 }, "abcdef"))))
    assert.equal("u8[2,1,3]", images:type())
    assert.equal(2, #images)
    assert.equal("def", images:read { 1 }:bytes())
    assert.equal("abcdef", images:tensor():bytes())
    assert(os.execute(("gzip -nf %s"):format(path "i")))
    assert.equal("abcdef", assert(data.idx(path "i.gz")):tensor():bytes())
    local wide = assert(data.idx(write("w", idx(0x0b, { 3 }, string.pack(">i2i2i2", 1, -2, 3)))))
    assert.same({ 1, -2, 3 }, wide:tensor():totable())
  end)

  it("that is not what it says is refused", function()
    refused("not an idx file", data.idx(write("i", "abcd")))
    refused("5 bytes of numbers, 4 wanted", data.idx(write("i", idx(8, { 4 }, "abcde"))))
    refused("wants 4 bytes", data.idx(write("i", idx(8, { 1, 4 }, "abc"))))
    refused("overflows", data.idx(write("i", idx(8, { -1 >> 32, -1 >> 32, -1 >> 32 }, ""))))
    refused("type 0x07", data.idx(write("i", idx(7, { 1 }, "a"))))
    refused("gzip stream is damaged", data.idx(write("i", "\x1f\x8b" .. ("\xff"):rep(40))))
    local function packed(bytes, size)  -- stored, with a size at the end
      return "\x1f\x8b\8\0\0\0\0\0\0\3\1" .. string.pack("<I2I2", #bytes, ~#bytes & 0xffff)
        .. bytes .. string.pack("<I4I4", 0, size)
    end
    local long = idx(8, { 40 }, ("a"):rep(40))
    refused("cannot hold 4294967295", data.idx(write("i", packed(long, -1 >> 32))))
    refused("unpacked it is 30000 bytes, 48 wanted",
      data.idx(write("i", packed(long, 30000))))
    refused("gzip stream is damaged", data.idx(write("i", packed(long, 48))))
    refused("gzip stream is damaged", data.idx(write("i", "\x1f\x8b" .. ("\0"):rep(40))))
    assert.error_matches(function() assert(data.idx(write("i", idx(8, { 1 }, "a")))):read { 1 } end,
      "1 rows from 1 on of 'array', which has 1")
  end)
end)

describe("CIFAR", function()
  local function record(label, fill) return label .. fill:rep(3072) end

  it("is joined over its files", function()
    local images, labels = assert(data.cifar10 {
      write("1", record("\3", "a") .. record("\4", "b")), write("2", record("\9", "c")) })
    assert.equal("u8[3,3,32,32]", images:type())
    assert.same({ 3, 4, 9 }, labels:tensor():totable())
    assert.same({ 9, 3, 4 }, labels:read { 2, 0, 1 }:totable())
    assert.equal(("c"):rep(3072) .. ("a"):rep(3072), images:read { 2, 0 }:bytes())
    local fine, coarse
    images, fine, coarse = assert(data.cifar100(write("h", record("\5\77", "x"))))
    assert.same({ { 77 }, { 5 } }, { fine:tensor():totable(), coarse:tensor():totable() })
    assert.equal("u8[1,3,32,32]", images:type())
  end)

  it("must have whole records and true labels", function()
    refused("multiple of 3073", data.cifar10(write("1", "abc")))
    refused("record 2: labels 10, at most 9", data.cifar10(write("1",
      record("\1", "a") .. record("\10", "b"))))
  end)
end)

describe("tokens", function()
  local function llm(magic, version, count, bytes)
    return string.pack("<i4i4I4", magic, version, count) .. ("\0"):rep(1012) .. bytes
  end

  it("come with llm.c's header or none", function()
    local raw = string.pack("<I2I2I2I2", 1, 2, 50256, 65535)
    for _, bytes in ipairs { raw, llm(20240520, 1, 4, raw) } do
      local tokens = assert(data.tokens(write("t", bytes)))
      assert.equal(4, tokens.tokens)
      assert.same({ { 1, 2, 50256 }, { 2, 50256, 65535 } }, tokens:read({ 0, 1 }, 3):totable())
    end
    local llama = assert(data.tokens(write("t", llm(20240801, 7, 2,
      string.pack("<I4I4", 128255, 7)))))
    assert.equal("i64[1,2]", llama:read({ 0 }, 2):type())
    assert.same({ { 128255, 7 } }, llama:read({ 0 }, 2):totable())
  end)

  it("are windows, of a part too", function()
    local numbers = {}
    for i = 1, 100 do numbers[i] = i end
    local all = assert(data.tokens(write("t", string.pack(("<I2"):rep(100),
      table.unpack(numbers)))))
    local _, val = all:split(0.5)
    assert.equal(50, val.tokens)
    local x, y = val:loader { batch = 2, context = 8, shuffle = false }:next()
    assert.same({ 51, 59 }, { x:totable()[1][1], x:totable()[2][1] })
    assert.same({ 52, 67 }, { y:totable()[1][1], y:totable()[2][8] })
    assert.error_matches(function() val:read({ 45 }, 20) end, "which has 100")
  end)

  it("that are not what they say are refused", function()
    refused("3 bytes of tokens", data.tokens(write("t", "abc")))
    refused("2 bytes of tokens, 9 of 2", data.tokens(write("t", llm(20240520, 1, 9, "ab"))))
    refused("version 2 of 20240520, 1", data.tokens(write("t", llm(20240520, 2, 1, "ab"))))
    refused("cut off", data.tokens(write("t", string.pack("<i4", 20240520))))
  end)
end)

describe("a table", function()
  it("has names, numbers and labels", function()
    local t = assert(data.csv(write("t.csv",
      'len,"the ""w""",kind\r\n1,2.5,cat\r\n\r\n-3e2, 4 ,"a, dog"\r\n5,0x10,cat\r\n')))
    assert.same({ "len", 'the "w"', "kind" }, t.names)
    assert.equal(3, t.rows)
    assert.same({ { 2.5, 1 }, { 4, -300 }, { 16, 5 } }, t:numbers({ 2, "len" }):totable())
    local y, words = t:labels "kind"
    assert.same({ 1, 0, 1 }, y:totable())
    assert.same({ "a, dog", "cat" }, words)
    assert.same({ 0, 1, 0 }, t:labels("kind", { "cat", "a, dog" }):totable())
    refused("row 3: 'a, dog' is not among", t:labels("kind", { "cat" }))
    refused("row 2, column 3: 'cat' is no number", t:numbers())
    assert.error_matches(function() t:numbers "nope" end, 'no column "nope" of 3')
    assert.error_matches(function() t:numbers { 1, 1 } end, "column 1 of 3 is wanted twice")
  end)

  it("finds its separator and whether it has a header", function()
    for _, separator in ipairs { ",", ";", "\t", "|" } do
      local t = assert(data.csv(write("t", ("1,2\n3,4"):gsub(",", separator))))
      assert.same({ { 1, 2 }, { 3, 4 } }, t:numbers():totable())
      assert.same({ "1", "2" }, t.names)
    end
    local t = assert(data.csv(write("t", "\xef\xbb\xbfa,b\n1,2"), { header = true }))
    assert.same({ "a", "b" }, t.names)
    assert.equal(0, assert(data.csv(write("t", ""))).rows)
  end)

  it("says where it is broken, and what is missing", function()
    refused("row 2 has less than 2", data.csv(write("t", "1,2\n3\n")))
    refused("row 2 has more than 2", data.csv(write("t", "1,2\n3,4,5\n")))
    refused("row 2, column 1: its quotes do not end", data.csv(write("t", '1,2\n"3,4\n')))
    refused("row 1, column 2: its quotes do not end", data.csv(write("t", '1,"2"3\n')))
    local t = assert(data.csv(write("t", "1,\n,2\n")))
    refused("row 1, column 2: '' is no number", t:numbers())
    assert.same({ { 1, -1 }, { -1, 2 } }, t:numbers(nil, { missing = -1 }):totable())
  end)
end)

describe("a loader of files", function()
  local rows
  before_each(function()
    local bytes = {}
    for i = 0, 99 do bytes[i + 1] = string.char(i) end
    assert(mrt.save(path "r.npy", mrt.from_bytes(table.concat(bytes), "u8", { 100 })))
    rows = assert(data.npy(path "r.npy"))
  end)

  it("gives what one of tensors would", function()
    local from_file = data.batches({ rows }, { batch = 7, seed = 3 })
    local from_memory = data.batches({ rows:tensor() }, { batch = 7, seed = 3 })
    for _ = 1, 40 do
      assert.equal(from_memory:next():bytes(), from_file:next():bytes())
    end
    assert.error_matches(function() data.batches({ rows, mrt.ones(3) }, { batch = 1 }) end,
      "tensor 2 is f32%[3%], 100 rows wanted")
    assert.error_matches(function() data.batches({ 3 }, { batch = 1 }) end, "is a number")
  end)

  it("goes on in the middle of an epoch from three integers", function()
    local loader = data.batches({ rows }, { batch = 7, seed = 3 })
    for _ = 1, 20 do loader:next() end
    local state = loader:state()
    local again = data.batches({ rows }, { batch = 7 })
    again:load_state(state)
    for _ = 1, 40 do assert.equal(loader:next():bytes(), again:next():bytes()) end
    assert.error_matches(function() again:load_state {} end, "epoch is missing")
    assert.error_matches(function()
      again:load_state { epoch = 0, position = 16, seed = 1 }
    end, "an epoch has 15")
  end)
end)

describe("byte-pair encoding", function()
  local function small()
    local vocab = write("v.json", '{"a":0,"b":1,"\u{120}":2,"ab":3,"\u{120}ab":4,"!":5,"\'":6,'
      .. '"s":7,"\'s":8,"\u{c3}":9,"\u{a9}":10,"<|end|>":11,"\u{10a}":12}')
    return data.bpe(vocab, write("m.txt", "#version: 0.2\na b\n\u{120} ab\n' s\n"))
  end

  it("refuses merges of a tokenizer that cuts texts otherwise", function()
    local vocab = write("v.json", '{"(":0,"a":1,"(a":2}') -- a bracket with its letters
    local bpe, message, code = data.bpe(vocab, write("m.txt", "( a\n"))
    assert.is_nil(bpe)
    assert.matches("1 of 1 merges, such as that to '%(a', cross", message)
    assert.equal("data", code)
  end)

  it("merges what comes first, word by word", function()
    local bpe = assert(small())
    assert.equal(13, bpe.vocab)
    assert.same({ 3, 4 }, bpe:encode "ab ab")
    assert.same({ 3, 8, 2, 4 }, bpe:encode "ab's  ab")      -- the last space goes with ab
    assert.same({ 0, 3, 5, 2, 12, 2 }, bpe:encode "aab! \n ")
    assert.same({ 1, 9, 10 }, bpe:encode "b\u{e9}")
    assert.same({}, bpe:encode "")
    local text = "ab's  ab!\nb\u{e9}a\xc3"
    assert.equal(text, bpe:decode(bpe:encode(text)))
    assert.equal("<|end|>", bpe:decode { 11 })
    assert.error_matches(function() bpe:encode "abc" end, "byte 0x63 is not in the vocabulary")
    assert.error_matches(function() bpe:decode { 13 } end, "no token 13 of 13")
    local x = data.text({ text = "ab ab ab ab ab" }, { unit = bpe })
      :loader { batch = 1, context = 3, shuffle = false }:next()
    assert.same({ { 3, 4, 4 } }, x:totable())
  end)

  it("refuses files that make no sense", function()
    local function open(vocab, merges)
      return data.bpe(write("v.json", vocab), write("m.txt", merges))
    end
    refused("another token has its id", open('{"a":0,"b":0}', ""))
    refused("it comes twice", open('{"a":0,"a":1}', ""))
    refused("ids up to 9999999", open('{"a":9999999}', ""))
    refused("no such JSON", open('{"a":"b"}', ""))
    refused("stands for no bytes", open('{"\u{3042}":0}', ""))
    refused("merge 1, 'a b', is not", open('{"a":0,"b":1}', "a b"))
    refused("merge 1, 'ab', is not", open('{"a":0,"b":1}', "ab"))
    refused("JSON", open("{", ""))
    local _, message, code = data.bpe(path "none", path "none")
    assert.matches("No such file", message)
    assert.equal("file", code)
  end)

  it("is GPT-2's", function()
    local given = os.getenv "MRT_DATA"
    local bpe = given and data.bpe(given .. "/gpt2_bpe/vocab.json",
      given .. "/gpt2_bpe/merges.txt")
    if not bpe then pending "MRT_DATA names no folder with gpt2_bpe/" return end
    assert.same({ 15496, 11, 995, 0 }, bpe:encode "Hello, world!")
    local file <close> = assert(io.open(given .. "/text/tinyshakespeare.txt", "rb"))
    local text = file:read "a"
    assert.equal(301966, #bpe:pack(text:sub(1, 1003854)) // 4)
    assert.equal(36059, #bpe:pack(text:sub(1003855)) // 4)
    assert.equal(text, bpe:decode(bpe:encode(text)))
  end)
end)

describe("reading ahead", function()
  local COUNT <const>, WIDTH <const> = 40, 5000
  local function images()
    local rows = {}
    for i = 1, COUNT do rows[i] = string.char(i):rep(WIDTH) end
    return data.idx(write("a", string.pack(">I2BBI4I4", 0, 8, 2, COUNT, WIDTH)
      .. table.concat(rows)))
  end
  local function loader(x, seed)
    return data.batches({ assert(x or images()) }, { batch = 6, seed = seed })
  end
  local function bytes_of(l, n)
    local out = {}
    for i = 1, n do out[i] = l:next():bytes() end
    return out
  end

  it("changes no mini-batch, whatever is asked for", function()
    local plain = loader(nil, 3)
    plain.expect = nil
    local wanted = bytes_of(plain, 20)
    assert.same(wanted, bytes_of(loader(nil, 3), 20))
    local l = loader(nil, 3)
    bytes_of(l, 9)                       -- a tenth is being read, not yet given
    local state = l:state()
    assert.same({ epoch = 1, position = 2, seed = 3 }, state)
    for _ = 1, 3 do                      -- back, and on from the same place
      l:load_state(state)
      assert.same({ table.unpack(wanted, 10, 14) }, bytes_of(l, 5))
    end
    local x = assert(images())           -- two loaders of one file
    local a, b = loader(x, 3), loader(x, 4)
    for i = 1, 20 do
      assert.equal(wanted[i], a:next():bytes())
      b:next()
      b:epoch()()
    end
  end)

  it("takes a bounded amount of memory, and gives it back", function()
    local source = assert(core.open_source(assert(images()) and path "a", "idx"))
    collectgarbage()
    local before = mrt.memory().now
    source:rows(1, { 0 })
    for i = 0, COUNT - 1 do source:expect(1, { i }) end
    collectgarbage()
    assert.is_true(mrt.memory().now - before <= 8 * (WIDTH + 64))
    for i = 0, COUNT - 1 do
      assert.equal(string.char(i + 1):rep(WIDTH), source:rows(1, { i }):bytes())
    end
    source:expect(1, { 0, 1 })
    source:expect(1, { 0, COUNT })       -- there is none: reading says so
    assert.error_matches(function() source:rows(1, { 0, COUNT }) end, "which has 40")
    source:close()
    collectgarbage()
    assert.equal(before, mrt.memory().now)
  end)

  it("raises what goes wrong where the rows are wanted", function()
    local l = loader()
    l:next()
    write("a", "")
    assert.error_matches(function() l:next() end,
      "data_file_spec.*has become shorter while it was read")
  end)
end)
