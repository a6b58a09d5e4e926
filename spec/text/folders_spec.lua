--- folders_spec.lua -- tokenizers of folders as they are published
---
--- SPDX-License-Identifier: MIT

local codec = require "mrt.util.json"
local decode64 = require "support.base64"
local files = require "support.files"
local mrt = require "mrt"

local function write(folder, name, bytes)
  local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
  assert(file:write(bytes))
end

local function read_golden()
  local file <close> = assert(io.open "spec/text/folders.json")
  return codec.decode(file:read "a", { null = codec.null })
end

local golden <const> = read_golden()

local function some(value) return value ~= codec.null and value or nil end

-- A folder of these files: names of golden ones, or values that become JSON.
local function folder_of(parts)
  local folder = files.folder()
  for name, given in pairs(parts) do
    local data = golden.files[given] or type(given) == "string" and given or codec.encode(given)
    write(folder, name, name:find "%.model$" and decode64(data) or data)
  end
  return folder
end

local function open(parts) return mrt.text.tokenizer(folder_of(parts)) end

local function refused(pattern, parts)
  local tok, message, code = open(parts)
  assert.is_nil(tok)
  assert.matches(pattern, message)
  assert.equal("data", code)
end

describe("a tokenizer's folder", function()
  for name, parts in pairs(golden.folders) do
    it("like " .. name .. " gives the ids of transformers", function()
      local tok = assert(open(parts))
      for i, text in ipairs(golden.texts) do
        assert.same({ text, golden.ids[name][i] }, { text, tok:encode(text) })
      end
    end)
  end

  for name, parts in pairs(golden.folders) do
    it("like " .. name .. " makes pairs as transformers does", function()
      local tok = assert(open(parts))
      for i, case in ipairs(golden.cases) do
        local a, b = golden.texts[case[1] + 1], golden.texts[case[2] + 1]
        local o = { pair = b, most = some(case[3]), truncation = some(case[4]) }
        local wanted = some(golden.pairs[name][i])
        if wanted then
          local ids, types = tok:encode(a, o)
          assert.same({ a, b, wanted[1], wanted[2] }, { a, b, ids, types })
        else
          assert.error_matches(function() tok:encode(a, o) end, "are too many for")
        end
      end
    end)
  end

  it("takes pairs only with what they need", function()
    local tok = assert(open { ["vocab.txt"] = "words" })
    assert.error_matches(function() tok:encode("a", { most = 3 }) end, "are for a pair")
    assert.error_matches(function() tok:encode("a", { pair = "b", most = 0 }) end,
      "a number of ids")
    assert.error_matches(function() tok:encode("a", { pair = "b", truncation = "x" }) end,
      "longest_first, only_first or only_second wanted")
  end)

  it("says which tokens have a part", function()
    local tok = assert(open { ["vocab.txt"] = "words" })
    assert.same({ "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]" }, { tok:token(tok.cls),
      tok:token(tok.sep), tok:token(tok.mask), tok:token(tok.pad), tok:token(tok.unk) })
    assert.is_true(tok:is_special(tok.cls))
    assert.equal("the dog", tok:decode(tok:encode "the dog", { skip_special = true }))
  end)

  it("is refused where how it cuts texts is not known", function()
    refused("vocab.txt of EsmTokenizer is not understood", { ["vocab.txt"] = "words",
      ["tokenizer_config.json"] = { tokenizer_class = "EsmTokenizer" } })
    refused("there is no '%[CLS%]' in it", { ["vocab.txt"] = "a\nb\n[UNK]\n" })
    refused("do_basic_tokenize", { ["vocab.txt"] = "words",
      ["tokenizer_config.json"] = { do_basic_tokenize = false } })
    refused("'lowercase': true or false wanted", { ["vocab.txt"] = "words",
      ["tokenizer_config.json"] = { do_lower_case = 3 } })
    refused("how CLIPTokenizer cuts texts", { ["vocab.json"] = "vocab.json",
      ["merges.txt"] = "merges.txt",
      ["tokenizer_config.json"] = { tokenizer_class = "CLIPTokenizer" } })
    refused("the ids of albert are not", { ["spiece.model"] = "unigram",
      ["config.json"] = { model_type = "albert" } })
    refused("'<x>' cannot have id 7", { ["tokenizer.json"] = "tokenizer.json",
      ["added_tokens.json"] = { ["<x>"] = 7 } })
    refused("config.json", { ["vocab.txt"] = "words", ["config.json"] = "{" })
  end)
end)

describe("a folder's chat templates", function()
  local base <const> = { ["vocab.txt"] = "words" }
  local messages <const> = { { role = "user", content = "Hi" } }

  local function with(parts)
    for name, given in pairs(base) do parts[name] = given end
    return folder_of(parts)
  end

  it("are read wherever they are published", function()
    local tok = assert(mrt.text.tokenizer(with {
      ["chat_template.json"] = { chat_template = "J" } }))
    assert.equal("J", tok:chat(messages))
    assert.equal(2, #tok.files)
    tok = assert(mrt.text.tokenizer(with { ["chat_template.json"] = { chat_template = "J" },
      ["chat_template.jinja"] = "F{{ cls_token }}" }))
    assert.equal("F[CLS]", tok:chat(messages))
    tok = assert(mrt.text.tokenizer(with { ["tokenizer_config.json"] = { chat_template = {
      { name = "default", template = "D" }, { name = "tool_use", template = "T" },
      { name = "rag", template = "R" } } } }))
    assert.same({ "D", "R", "T" }, { tok:chat(messages), tok:chat(messages, { template = "rag" }),
      (tok:chat(messages, { tools = {} })) })
    local none, message, code = tok:chat(messages, { template = "odd" })
    assert.is_nil(none)
    assert.equal("the tokenizer has no chat template 'odd': it has default, rag, tool_use", message)
    assert.equal("data", code)
  end)

  it("have files of their own", function()
    local folder = with { ["chat_template.jinja"] = "F" }
    assert(os.execute(("mkdir '%s/additional_chat_templates'"):format(folder)))
    write(folder, "additional_chat_templates/rag.jinja", "R{{ messages[0].content }}")
    local tok = assert(mrt.text.tokenizer(folder))
    assert.same({ "F", "RHi", 3 }, { tok:chat(messages),
      (tok:chat(messages, { template = "rag" })), #tok.files })
  end)

  it("are refused where they are no texts", function()
    refused("a chat template without a name", { ["vocab.txt"] = "words",
      ["tokenizer_config.json"] = { chat_template = { { name = "default" } } } })
    refused("chat_template.json: a chat template that is no text", { ["vocab.txt"] = "words",
      ["chat_template.json"] = { chat_template = 3 } })
  end)
end)
