--- tokenizer_spec.lua -- texts as ids and back
---
--- SPDX-License-Identifier: MIT

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
