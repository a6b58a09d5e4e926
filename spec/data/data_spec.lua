--- data_spec.lua -- every example once, in an order the seed fixes
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local data = mrt.data

local function first_rows(loader)
  local rows = {}
  for x in loader:epoch() do
    for _, row in ipairs(x:totable()) do rows[#rows + 1] = row end
  end
  return rows
end

local function sorted(list)
  table.sort(list)
  return list
end

describe("an order", function()
  it("is a permutation of any length", function()
    for _, n in ipairs { 1, 2, 3, 7, 64, 255, 256, 257, 5000 } do
      local order, seen = data.random.order(n, n * 77), {}
      for i = 0, n - 1 do seen[order(i)] = true end
      for i = 0, n - 1 do assert.is_true(seen[i]) end
      assert.is_nil(seen[n])
    end
  end)

  it("favours no permutation", function()
    local counts, kinds = {}, 0
    for key = 1, 2400 do
      local order = data.random.order(4, data.random.new(key):bits())
      local name = order(0) .. order(1) .. order(2)
      kinds = kinds + (counts[name] and 0 or 1)
      counts[name] = (counts[name] or 0) + 1
    end
    assert.equal(24, kinds)
    for _, count in pairs(counts) do
      assert.is_true(count > 60 and count < 140, "100 expected, " .. count)
    end
  end)
end)

describe("text", function()
  it("numbers bytes and characters in order", function()
    local text = data.text { text = "hello" }
    assert.equal(4, text.vocab)
    assert.equal(5, text.tokens)
    assert.same({ 1, 0, 2, 2, 3 }, text:encode "hello")
    assert.equal("hole", text:decode { 1, 3, 2, 0 })
    text = data.text({ text = "aé€a" }, { unit = "character" })
    assert.same({ "a", "é", "€" }, text.symbols)
    assert.same({ 2, 0 }, text:encode "€a")
    assert.equal(6, data.text { text = "aé€a" }.vocab)
  end)

  it("says what it cannot encode or read", function()
    assert.error_matches(function() data.text { text = "ab" }:encode "abc" end,
      '"c" is not in the vocabulary')
    local text, message, code = data.text "no/such/file.txt"
    assert.is_nil(text)
    assert.matches("no/such/file.txt", message)
    assert.equal("file", code)
    text, message = data.text({ text = "a\xff" }, { unit = "character" })
    assert.is_nil(text)
    assert.equal("not UTF-8 at byte 2", message)
  end)

  it("gives windows and the same one later", function()
    local text = data.text { text = "abcdefghij" }
    local loader = text:loader { batch = 1, context = 3, shuffle = false }
    local x, y = loader:next()
    assert.equal("u8[1,3]", x:type())
    assert.equal("abc", text:decode(x:totable()[1]))
    assert.equal("bcd", text:decode(y:totable()[1]))
    assert.equal("def", text:decode(loader:next():totable()[1]))
    assert.equal(3, loader.batches)
  end)

  it("visits each window of an epoch once", function()
    local text = data.text { text = ("0123456789abcdef"):rep(10) }
    local loader = text:loader { batch = 5, context = 4, seed = 9 }
    local starts = {}
    for _, row in ipairs(first_rows(loader)) do starts[#starts + 1] = row[1] end
    assert.equal(#starts, loader.count // 5 * 5)
    local again = text:loader { batch = 5, context = 4, seed = 9 }
    assert.same(first_rows(loader), first_rows(again))
    assert.not_same(first_rows(loader), first_rows(
      text:loader { batch = 5, context = 4, seed = 10 }))
  end)

  it("has wider ids where a byte does not do", function()
    local characters = {}
    for i = 1, 300 do characters[i] = utf8.char(0x4e00 + i) end
    local text = data.text({ text = table.concat(characters) },
      { unit = "character" })
    local x, y = text:loader { batch = 1, context = 280, shuffle = false }:next()
    assert.equal("i32[1,280]", x:type())
    assert.equal(279, x:totable()[1][280])
    assert.equal(280, y:totable()[1][280])
  end)

  it("splits with one vocabulary", function()
    local a, b = data.text { text = "aaaaaaaaab" }:split(0.9)
    assert.equal(9, a.tokens)
    assert.equal(1, b.tokens)
    assert.equal(2, b.vocab)
    assert.error_matches(function() b:loader { batch = 1, context = 4 } end,
      "0 examples do not fill a mini%-batch of 1")
  end)
end)

describe("batches", function()
  local x = mrt.arange(10):to "f32":reshape(10, 1)
  local y = mrt.arange(10):to "u8"

  it("keep rows together and visit each once", function()
    local loader = data.batches({ x, y }, { batch = 4, seed = 3 })
    local seen, sizes = {}, {}
    for a, b in loader:epoch() do
      sizes[#sizes + 1] = a:size(1)
      local labels = b:totable()
      for i, row in ipairs(a:totable()) do
        assert.equal(labels[i], row[1])
        seen[#seen + 1] = labels[i]
      end
    end
    assert.same({ 4, 4, 2 }, sizes)
    assert.not_same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, { table.unpack(seen) })
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, sorted(seen))
  end)

  it("shuffle anew each epoch, and go on from a state", function()
    local options = { batch = 5, seed = 3, drop_last = true }
    local loader = data.batches({ y }, options)
    local order = {}
    for i = 1, 8 do order[i] = loader:next():totable() end
    assert.not_same({ order[1], order[2] }, { order[3], order[4] })
    local other = data.batches({ y }, options)
    for _ = 1, 3 do other:next() end
    local resumed = data.batches({ y }, { batch = 5, drop_last = true })
    resumed:load_state(other:state())
    for i = 4, 8 do assert.same(order[i], resumed:next():totable()) end
  end)

  it("take all rows for full-batch descent", function()
    local loader = data.batches({ x, y }, { batch = "all" })
    for _ = 1, 3 do
      local a, b = loader:next()
      assert.equal(10, a:size(1))
      assert.same(y:totable(), b:totable())
    end
  end)

  it("refuse tensors with different numbers of rows", function()
    assert.error_matches(function()
      data.batches({ x, mrt.zeros(9) }, { batch = 2 })
    end, "tensor 2 is f32%[9%], 10 rows wanted")
  end)
end)

describe("a stream", function()
  it("gathers samples of any iterator", function()
    local i = 0
    local stream = data.stream(function()
      i = i + 1
      if i <= 5 then return { i, -i }, i * 10 end
    end, { batch = 2, dtypes = { "f32", "i64" } })
    local a, b = stream:next()
    assert.same({ { 1, -1 }, { 2, -2 } }, a:totable())
    assert.equal("i64[2]", b:type())
    local sizes = {}
    for x in stream:epoch() do sizes[#sizes + 1] = x:size(1) end
    assert.same({ 2, 1 }, sizes)
    assert.is_nil(stream:next())
  end)

  it("gathers tensors", function()
    local i = 0
    local stream = data.stream(function()
      i = i + 1
      return mrt.ones(3) * i
    end, { batch = 2 })
    assert.same({ { 1, 1, 1 }, { 2, 2, 2 } }, stream:next():totable())
  end)
end)
