--- tokenizer_spec.lua -- texts as ids and back
---
--- SPDX-License-Identifier: MIT

local codec = require "mrt.util.json"
local decode64 = require "support.base64"
local files = require "support.files"
local mrt = require "mrt"

local function open(json) return mrt.text.tokenizer(files.temporary(json)) end

-- A byte-level vocabulary of a, b, space, newline and what they are merged to.
local small <const> = [[{"version": "1.0", "added_tokens": [
  {"id": 7, "content": "<|end|>", "special": true, "normalized": false}],
 "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
   {"type": "Split", "pattern": {"Regex": " ?\\p{L}+|\\s+"}, "behavior": "Isolated",
    "invert": false},
   {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
 "decoder": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2, "ab": 3, "\u0120ab": 4,
  "\u00c3": 5, "\u00a9": 6}, "merges": [["a", "b"], "\u0120 ab"]}}]]

describe("a tokenizer", function()
  it("gives ids, and text for ids", function()
    local tok = assert(open(small))
    assert.equal(8, tok.vocab)
    assert.same({ 3, 4, 7, 0, 5, 6, 2 }, tok:encode "ab ab<|end|>a\u{e9} ")
    assert.equal("ab ab<|end|>a\u{e9} ", tok:decode { 3, 4, 7, 0, 5, 6, 2 })
    assert.equal("ab", tok:decode({ 3, 7 }, { skip_special = true }))
    assert.same({ 0 }, tok:encode("<|end|>a", { parse_special = false }))
    assert.equal(7, tok:id "<|end|>")
    assert.equal("\u{120}ab", tok:token(4))
    assert.is_nil(tok:token(8))
    assert.error_matches(function() tok:decode { 8 } end, "no token 8 of 8")
  end)

  it("gives text as it becomes certain", function()
    local tok = assert(open(small))
    local stream = tok:stream()
    local parts = {}
    for _, id in ipairs { 3, 5, 6, 7, 5 } do parts[#parts + 1] = stream:push(id) end
    assert.same({ "ab", "", "\u{e9}", "", "" }, parts)
    assert.equal("\xc3", stream:finish())
  end)

  it("is a unit of texts", function()
    local unit = assert(open(small))
    local text = assert(mrt.data.text({ text = ("ab"):rep(20, " ") }, { unit = unit }))
    local x = text:loader { batch = 1, context = 3, shuffle = false }:next()
    assert.same({ { 3, 4, 4 } }, x:totable())
  end)

  it("takes a long word in little time", function()
    local tok = assert(open(small))
    assert.equal(200000, #tok:encode(("ab"):rep(200000)))
  end)
end)

-- ---- beside other programs -------------------------------------------------------------

local function read_golden()
  local file <close> = assert(io.open "spec/text/golden.json", "spec/text/golden.json")
  return codec.decode(file:read "a")
end

local golden <const> = read_golden()

local function write(folder, name, bytes)
  local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
  assert(file:write(bytes))
end

local function folder_of(kind)
  local folder = files.folder()
  write(folder, golden[kind].file, decode64(golden[kind].data))
  return folder
end

describe("a tokenizer like", function()
  for kind, given in pairs(golden) do
    it(kind .. " gives the ids of its own program", function()
      local tok = assert(mrt.text.tokenizer(folder_of(kind)))
      local plain = kind:find "^sp_" ~= nil or kind == "cl100k"
      for _, case in ipairs(given.cases) do
        local text, ids, back = table.unpack(case)
        assert.same(ids, tok:encode(text, { special = not plain, parse_special = not plain }),
          text)
        local ours = tok:decode(ids)
        if utf8.len(ours) then assert.equal(back, ours) end
        local stream, parts = tok:stream { skip_special = false }, {}
        for _, id in ipairs(ids) do parts[#parts + 1] = stream:push(id) end
        assert.equal(ours, table.concat(parts) .. stream:finish())
      end
    end)
  end
end)

describe("a tokenizer.json", function()
  it("has corners, which are those of its own program", function()
    local file <close> = assert(io.open "spec/text/odd.json")
    for i, one in ipairs(codec.decode(file:read "a")) do
      local tok = assert(open(one[1]))
      for _, case in ipairs(one[2]) do
        assert.same({ i, case[1], case[2], case[3] },
          { i, case[1], tok:encode(case[1]), tok:decode(case[2]) })
      end
    end
  end)
end)

-- ---- what is refused -------------------------------------------------------------------

describe("a tokenizer's file", function()
  local model <const> = [["model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}]]

  local function refused(pattern, json)
    local tok, message, code = open(json)
    assert.is_nil(tok)
    assert.matches(pattern, message)
    assert.equal("data", code)
  end

  it("is refused by what it asks for and is not there", function()
    refused("pre_tokenizer: Scripts is not understood",
      '{"pre_tokenizer": {"type": "Scripts"}, ' .. model .. "}")
    refused("normalizer: 'x' of Lowercase is not", '{"normalizer": {"type": "Lowercase", "x": 1}, '
      .. model .. "}")
    refused("dropout", '{"model": {"type": "BPE", "dropout": 0.1, "vocab": {"a": 0}, '
      .. '"merges": []}}')
    refused("'y' of it is not understood", '{"y": 1, ' .. model .. "}")
    refused("model: Magic is not", '{"model": {"type": "Magic", "vocab": {"a": 0}}}')
    for pattern, why in pairs { ["(?<n>a)"] = "%(%?<n", ["\\\\R"] = "\\R", ["(a"] = "a",
      ["[[:punct:]]"] = "%[:punct", ["a{2}?"] = "{2}", ["\\\\p{Klingon}"] = "unknown property" } do
      refused(why, ([[{"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "%s"},
        "behavior": "Isolated"}, %s}]]):format(pattern, model))
    end
  end)

  it("is refused where it is broken", function()
    refused("no tokenizer", "{")
    refused("no tokenizer", "")
    refused("no tokenizer", "\10\4abcd\18\200")
    refused("not UTF%-8 at byte 2", '{"\xff')
    refused("it comes twice", '{"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}}')
    refused("ids up to", '{"model": {"type": "BPE", "vocab": {"a": 16000000}, "merges": []}}')
    refused("is not two tokens", '{"model": {"type": "BPE", "vocab": {"a": 0}, '
      .. '"merges": [["a", "b"]]}}')
    refused("unk_id 3 of 1", '{"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 3}}')
    refused("a pattern is wanted", "YQ== 0\nYg== 1\n")
    refused("map", '{"normalizer": {"type": "Precompiled", "precompiled_charsmap": "////fw"}, '
      .. model .. "}")
  end)

  it("ends in bounded time, whatever its pattern", function()
    local tok = assert(open([[{"pre_tokenizer": {"type": "Split", "pattern": {"Regex":
      "(?:a+)+b|(?:a|a)+$"}, "behavior": "Isolated"}, ]] .. model .. "}"))
    assert.error_matches(function() tok:encode(("a"):rep(5000)) end, "takes too long")
    local grows = assert(open([[{"normalizer": {"type": "Sequence", "normalizers": [
      ]] .. ([[{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"},]]):rep(9)
      .. [[{"type": "NFC"}]}, ]] .. model .. "}"))
    assert.error_matches(function() grows:encode(("a"):rep(5000)) end, "make more than")
  end)
end)

describe("a text that is no UTF-8", function()
  it("has U+FFFD in it, where bytes have no tokens", function()
    local tok = assert(open [[{"model": {"type": "WordLevel", "vocab": {"a\ufffd": 0, "?": 1},
      "unk_token": "?"}}]])
    assert.same({ 0 }, tok:encode "a\xff")
    assert.same({ 0 }, tok:encode "a\xe3\x81")
    assert.same({ 1 }, tok:encode "a\xe3\xe3")
  end)
end)

describe("a folder", function()
  it("says what begins, ends and is beside the vocabulary", function()
    local folder = folder_of "sp_bpe"
    write(folder, "tokenizer_config.json", [[{"tokenizer_class": "LlamaTokenizer",
      "bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ 1 }}",
      "added_tokens_decoder": {"400": {"content": "<|im_end|>", "special": true}}}]])
    local tok = assert(mrt.text.tokenizer(folder))
    assert.same({ 1, 2, 401 }, { tok.bos, tok.eos, tok.vocab })
    local ids = tok:encode "the<|im_end|>"
    assert.same({ 1, 400 }, { ids[1], ids[#ids] })
    assert.equal("the", tok:decode(ids, { skip_special = true }))
    assert.equal(2, #tok.files)
    assert.equal("{{ 1 }}", tok.chat_template)
    write(folder, "tokenizer_config.json",
      [[{"added_tokens_decoder": {"5": {"content": "<new>"}}}]])
    local none, message, code = mrt.text.tokenizer(folder)
    assert.is_nil(none)
    assert.matches("'<new>' cannot have id 5", message)
    assert.equal("data", code)
  end)

  it("of ids that are not its model's is refused", function()
    local folder = folder_of "sp_unigram"
    write(folder, "tokenizer_config.json", [[{"tokenizer_class": "XLMRobertaTokenizer"}]])
    local _, message = mrt.text.tokenizer(folder)
    assert.matches("the ids of XLMRobertaTokenizer", message)
  end)
end)
