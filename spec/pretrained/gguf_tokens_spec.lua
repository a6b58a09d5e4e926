--- gguf_tokens_spec.lua -- tokenizers in GGUF: what is written is read back, the rest refused
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn
local codec = require "mrt.util.json"
local files = require "support.files"
local pieces = require "mrt.pretrained.gguf.pieces"
local pre = require "mrt.pretrained.gguf.pre"
local text = require "mrt.text.gguf"
local tokens = require "mrt.pretrained.gguf.tokens_write"

local LLAMA3 <const> = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
  .. " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

local bytes = { type = "ByteLevel", add_prefix_space = false, use_regex = true }
local named = { type = "ByteLevel", add_prefix_space = false, use_regex = false }

local function split(pattern)
  return { type = "Sequence", pretokenizers = { { type = "Split",
    pattern = { Regex = pattern }, behavior = "Isolated", invert = false }, named } }
end

local function folder(list)
  local path = files.folder()
  for name, content in pairs(list) do
    files.write(path .. "/" .. name, type(content) == "table" and codec.encode(content) or content)
  end
  return path
end

-- A byte-level tokenizer of all bytes and a few merges.
local function byte_level(change)
  local vocab, id = {}, 0
  local function add(token)
    vocab[token] = id
    id = id + 1
  end
  for b = 33, 126 do add(utf8.char(b)) end
  for b = 161, 172 do add(utf8.char(b)) end
  for b = 174, 255 do add(utf8.char(b)) end
  for b = 256, 323 do add(utf8.char(b)) end
  for _, token in ipairs { "he", "ll", "hell", "hello", "\u{120}w" } do add(token) end
  local json = { version = "1.0", pre_tokenizer = bytes, decoder = bytes,
    added_tokens = { { id = id, content = "<|end|>", special = true, single_word = false,
      lstrip = false, rstrip = false, normalized = false } },
    model = { type = "BPE", vocab = vocab,
      merges = { "h e", "l l", "he ll", "hell o", "\u{120} w" } } }
  if change then change(json) end
  return json
end

-- The keys of a folder's tokenizer.
local function keys_of(path, vocab)
  local into = {}
  local done, message, code = tokens.write(into, path, { vocab = vocab or 264, config = {} })
  if not done then return nil, message, code end
  return into
end

-- As they are read: without the types.
local function plain(keys)
  local out = {}
  for key, value in pairs(keys) do out[key] = type(value) == "table" and value.values or value end
  return out
end

describe("a tokenizer in GGUF", function()
  it("has llama.cpp's name of its pattern", function()
    assert.equal("gpt-2", pre.name(bytes, false))
    assert.equal("smollm", pre.name({ type = "Sequence", pretokenizers = {
      { type = "Digits", individual_digits = true }, bytes } }, false))
    assert.equal("llama-bpe", pre.name(split(LLAMA3), true))
    assert.equal("dbrx", pre.name(split(LLAMA3), false))
    assert.equal("qwen2", pre.name(split((LLAMA3:gsub("{1,3}", ""))), false))
    assert.is_nil(pre.name(split "\\w+", false))
    assert.is_nil(pre.name({ type = "ByteLevel", add_prefix_space = true }, false))
    for _, name in ipairs { "gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "gpt-4o", "tekken" } do
      local given, ignore = pre.of(name)
      assert.equal(name, pre.name(given, ignore))
    end
    assert.same(pre.of "gpt-2", (pre.of "phi-2"))
    assert.is_nil(pre.of "unheard-of")
  end)

  it("is read as it was written: bytes", function()
    local path = folder { ["tokenizer.json"] = byte_level(),
      ["tokenizer_config.json"] = { eos_token = { content = "<|end|>" },
        chat_template = "{{ messages }}" } }
    local keys = assert(keys_of(path))
    assert.equal("gpt2 gpt-2 false false", ("%s %s %s %s"):format(keys["tokenizer.ggml.model"],
      keys["tokenizer.ggml.pre"], keys["tokenizer.ggml.add_bos_token"],
      keys["tokenizer.ggml.add_eos_token"]))
    local list = keys["tokenizer.ggml.tokens"].values
    local kinds = keys["tokenizer.ggml.token_type"].values
    assert.equal(264, #list)
    assert.equal("<|end|>", list[262])
    assert.equal("[PAD263]", list[264])
    assert.same({ 1, 3, 5, 5 }, { table.unpack(kinds, 261, 264) })
    local file = files.name ".gguf"
    assert(mrt.save(file, {}, keys))
    local a, b = assert(mrt.text.tokenizer(path)), assert(mrt.text.tokenizer(file))
    local said = "hello world hell, 世界 <|end|> x"
    assert.same(a:encode(said), b:encode(said))
    assert.equal(said, b:decode(b:encode(said)))
    assert.equal(261, b.eos)
    assert.equal("{{ messages }}", b.chat_template)
  end)

  it("is read as it was written: sentencepiece's", function()
    local model = { unigram = false, prefix = true, squeeze = false, charsmap = "",
      ids = { unk = 0, bos = 1, eos = 2 }, list = { { text = "<unk>", score = 0.0, kind = 2 },
        { text = "<s>", score = 0.0, kind = 3 }, { text = "</s>", score = 0.0, kind = 3 },
        { text = "<0x0A>", score = 0.0, kind = 6 }, { text = "\u{2581}a", score = -1.0, kind = 1 },
        { text = "\u{2581}ab", score = -2.0, kind = 1 }, { text = "ab", score = -3.0, kind = 1 },
        { text = "\u{2581}", score = -4.0, kind = 1 }, { text = "a", score = -5.0, kind = 1 },
        { text = "b", score = -6.0, kind = 1 } } }
    local got = assert(pieces.read(pieces.write(model)))
    model.ids = nil
    assert.same(model, got)
    model.ids = {}
    local path = folder { ["tokenizer.model"] = pieces.write(model),
      ["tokenizer_config.json"] = { bos_token = "<s>",
        tokenizer_class = "LlamaTokenizer" } }
    local typed = assert(keys_of(path, 11))
    local file, keys = files.name ".gguf", plain(typed)
    assert(mrt.save(file, {}, typed))
    local a, b = assert(mrt.text.tokenizer(path)), assert(mrt.text.tokenizer(file))
    assert.same(a:encode "a ab aab b", b:encode "a ab aab b")
    assert.equal("a ab aab b", b:decode(b:encode "a ab aab b", { skip_special = true }))
    assert.equal("llama", keys["tokenizer.ggml.model"])
    assert.equal(1, keys["tokenizer.ggml.bos_token_id"])
    assert.is_true(keys["tokenizer.ggml.add_bos_token"])
    local json = codec.decode(assert(text.json(keys)))
    assert.same({ "\u{2581} a", "\u{2581} ab", "\u{2581}a b", "a b" }, json.model.merges)
    assert.equal(4, json.model.vocab["\u{2581}a"])
    assert.is_nil(json.model.vocab["[PAD10]"])
    assert.equal("<s>", json.post_processor.single[1].SpecialToken.id)
    -- a tokenizer.json that was made of such a model says the same
    local again = plain(assert(keys_of(folder { ["tokenizer.json"] = json }, 11)))
    for _, name in ipairs { "tokens", "token_type", "add_space_prefix", "add_bos_token" } do
      assert.same(keys["tokenizer.ggml." .. name], again["tokenizer.ggml." .. name], name)
    end
  end)

  it("is read as it was written: unigram", function()
    local texts = { "<unk>", "<s>", "</s>", "\u{2581}", "\u{2581}a", "\u{2581}ab", "ab", "abb",
      "a", "b", "\u{2581}b" }
    local list = {}
    for i, said in ipairs(texts) do
      list[i] = { text = said, score = -0.7 * i, kind = i == 1 and 2 or i < 4 and 3 or 1 }
    end
    for _, squeeze in ipairs { true, false } do
      local model = { unigram = true, prefix = true, squeeze = squeeze, charsmap = "", list = list,
        ids = { unk = 0, bos = 1, eos = 2 } }
      local path = folder { ["tokenizer.model"] = pieces.write(model),
        ["tokenizer_config.json"] = { eos_token = "</s>", unk_token = "<unk>",
          add_eos_token = true, tokenizer_class = "T5Tokenizer" } }
      local file = files.name ".gguf"
      assert(mrt.save(file, {}, (assert(keys_of(path, #texts)))))
      local a, b = assert(mrt.text.tokenizer(path)), assert(mrt.text.tokenizer(file))
      for _, said in ipairs { "a ab aab b", "  abba   ab ", "", "zabz", "abbabb" } do
        assert.same(a:encode(said), b:encode(said), said)
      end
      assert.equal(2, b.eos)
      assert.equal("a ab", b:decode(b:encode "a ab", { skip_special = true }))
    end
  end)

  it("becomes the files of a folder, or says why not", function()
    local function saved(list, vocab, o)
      local path = folder(list)
      local model = nn.Decoder { vocab = vocab, dim = 8, layers = 1, heads = 2, context = 32 }
      assert(model:save(path, { family = "llama" }))
      local file, to = files.name ".gguf", files.folder()
      assert(assert(nn.load(path)):save(file))
      local done, message, code = assert(nn.load(file)):save(to, o)
      return done and to, message, code, path
    end
    local to, _, _, from = saved({ ["tokenizer.json"] = byte_level(),
      ["tokenizer_config.json"] = { eos_token = "<|end|>", chat_template = "{{ 1 }}" } }, 264)
    local a, b = assert(mrt.text.tokenizer(from)), assert(mrt.text.tokenizer(to))
    for _, said in ipairs { "hello world hell, \xe4\xb8\x96 <|end|> x", "  a\n b" } do
      assert.same(a:encode(said), b:encode(said))
    end
    assert.equal("{{ 1 }}", b.chat_template)
    assert.equal("<|end|>", b.config.eos_token)
    local list = { ["tokenizer.model"] = pieces.write { unigram = true, prefix = true,
      squeeze = true, charsmap = "", ids = {}, list = { { text = "<unk>", score = 0.0, kind = 2 },
        { text = "a", score = -1.0, kind = 1 } } } }
    local none, message, code = saved(list, 2)
    assert.is_falsy(none)
    assert.equal("data", code)
    assert.matches("its tokenizer, unigram, has no form", message)
    assert.is_nil(io.open(assert(saved(list, 2, { tokenizer = false })) .. "/tokenizer.json"))
  end)

  it("is none where the folder has none", function()
    assert.same({ ["tokenizer.ggml.model"] = "none" }, (keys_of(folder {})))
  end)

  it("is refused where llama.cpp has no word for it", function()
    local function refused(pattern, list)
      local keys, message, code = keys_of(folder(list))
      assert.is_nil(keys)
      assert.matches(pattern, message)
      assert.equal("data", code)
    end
    local function json(pattern, change) refused(pattern, { ["tokenizer.json"] =
      byte_level(change) }) end
    json("a pre_tokenizer for which llama.cpp has no name", function(j)
      j.pre_tokenizer = split "\\w+"
    end)
    json("a normalizer Lowercase", function(j) j.normalizer = { type = "Lowercase" } end)
    json("a model of type WordPiece", function(j) j.model.type = "WordPiece" end)
    json("a model of type nil", function(j) j.model = nil end)
    refused("no sentencepiece model", { ["tokenizer.model"] = "\xff\xff" })
    refused("no sentencepiece model", { ["tokenizer.model"] = "" })
    refused("unigram with bytes for what it lacks", { ["tokenizer.model"] = pieces.write {
      unigram = true, prefix = true, squeeze = true, charsmap = "", ids = {},
      list = { { text = "<0x00>", score = 0.0, kind = 6 } } } })
    refused("no JSON object", { ["tokenizer.json"] = "[" })
    local function unread(pattern, keys)
      local out, message = text.json(keys)
      assert.is_nil(out)
      assert.matches(pattern, message)
    end
    unread("a tokenizer of type \"rwkv\"", { ["tokenizer.ggml.model"] = "rwkv" })
    unread("tokens: a list of strings", { ["tokenizer.ggml.model"] = "gpt2" })
    unread("pre = \"odd\" is not known", { ["tokenizer.ggml.model"] = "gpt2",
      ["tokenizer.ggml.pre"] = "odd", ["tokenizer.ggml.tokens"] = { "a" } })
    unread("scores: a number for each", { ["tokenizer.ggml.model"] = "llama",
      ["tokenizer.ggml.tokens"] = { "a" } })
  end)
end)
