--- data_spec.lua -- files of samples: what is learned of them, and lines that are none
---
--- SPDX-License-Identifier: MIT

local finetune = require "mrt.finetune"
local lines = require "mrt.finetune.lines"
local tiny = require "finetune.tiny"

local function read(text, o, ending)
  local path = tiny.file(text, ending)
  finally(function() os.remove(path) end)
  local given = { tokenizer = tiny.tokenizer, context = 32 }
  for name, value in pairs(o or {}) do given[name] = value end
  return finetune.read(path, given)
end

-- The tokens of a sample as text, those that are learned in capitals.
local function shown(sample)
  local bytes, learned = {}, {}
  for i = 1, #(sample.learn or { 1, #sample.ids // 4 }), 2 do
    local list = sample.learn or { 1, #sample.ids // 4 }
    for k = list[i], list[i + 1] do learned[k] = true end
  end
  for i = 1, #sample.ids // 4 do
    local id = string.unpack("<i4", sample.ids, 4 * i - 3)
    local c = id == 0 and "$" or string.char(id)
    bytes[i] = learned[i] and c:upper() or c
  end
  return table.concat(bytes)
end

describe("lines", function()
  it("come whole, whatever ends them, and none is longer than is read", function()
    local path = tiny.file("ab\r\n\n" .. ("x"):rep(600000) .. "\nq")
    finally(function() os.remove(path) end)
    local file <close> = assert(io.open(path, "rb"))
    local got = {}
    for number, text in lines.of(file, 300000) do got[number] = text end
    assert.same({ "ab", "", false, "q" }, got)
  end)
end)

describe("samples", function()
  it("are texts, completions and what the assistant says", function()
    local data = assert(read [[
{"text": "all"}

{"prompt": "one", "completion": " two"}
{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}
]])
    assert.same({ "ALL$", "one TWO$", "<u>hi</u><a>YO</A>" },
      { shown(data.samples[1]), shown(data.samples[2]), shown(data.samples[3]) })
    assert.same({ 3 + 5 + 6, 3 }, { data.learned, #data.samples })
  end)

  it("learn each turn of the assistant", function()
    local data = assert(read('{"messages": [{"role": "assistant", "content": "a"}, '
      .. '{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]}'))
    assert.equal("<a>A</A><u>b</u><a>C</A>", shown(data.samples[1]))
  end)

  it("of plain text and long ones are cut, and it is told", function()
    local data = assert(read(("abcdefgh"):rep(10), nil, ".txt"))
    assert.same({ 3, 81 + 2, 1, 3, 0 },
      { #data.samples, data.tokens, data.cut, data.pieces, data.lost })
    data = assert(read('{"prompt": "a", "completion": "' .. ("b"):rep(50) .. '"}\n{"prompt": "'
      .. ("p"):rep(40) .. '", "completion": "c"}'))
    assert.same({ 1, 2, 1, 33 }, { #data.samples, data.cut, data.empty, data.tokens })
    assert.matches("2 longer than the context: cut into 2, 28 tokens lost", tostring(data))
    assert.matches("1 left out: nothing to learn", tostring(data))
  end)
end)

describe("lines that are no sample", function()
  local bad = {
    { '{"text": "a"', "no JSON" }, { '{"text": "a"} x', "no JSON: something follows at column 15" },
    { "[1, 2]", "none of 'text'" }, { "null", "an object wanted" },
    { '{"tex": "a"}', "none of 'text', 'prompt' with 'completion', and 'messages'" },
    { '{"prompt": "a"}', "no 'completion'" },
    { '{"text": 5}', "'text' is a number, a string wanted" },
    { '{"messages": []}', "'messages': a list of them wanted" },
    { '{"messages": [{"content": "a"}]}', "message 1: 'role' and 'content' wanted" },
    { '{"messages": [{"role": "user", "content": "a"}]}', "no message is the assistant's" },
    { ("["):rep(100000), "no JSON" },
  }

  it("stop with their number and reason", function()
    for _, case in ipairs(bad) do
      local data, message, code = read('{"text": "good"}\n' .. case[1] .. "\n")
      assert.is_nil(data)
      assert.equal("data", code)
      assert.is_truthy(message:find(":2: " .. case[2], 1, true) or message:find(":2: JSON of", 1,
        true), message)
    end
  end)

  it("are left out, and told, where that is asked for", function()
    local text = { '{"text": "good"}' }
    for i, case in ipairs(bad) do text[i + 1] = case[1] end
    local data = assert(read(table.concat(text, "\n"), { bad_lines = "skip" }))
    assert.same({ 1, #bad, 2 }, { #data.samples, data.skipped, data.bad[1].line })
    assert.matches("line 4 left out: none of 'text'", tostring(data))
  end)

  it("leave nothing, which is told too", function()
    local data, message, code = read("nothing\n", { bad_lines = "skip" })
    assert.is_nil(data)
    assert.matches("no sample, line 1: no JSON", message)
    assert.equal("data", code)
    assert.equal("file", select(3, finetune.read("/no/such/file.jsonl",
      { tokenizer = tiny.tokenizer, context = 8 })))
  end)
end)
