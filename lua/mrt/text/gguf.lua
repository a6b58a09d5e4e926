--- gguf.lua -- the tokenizer that a GGUF file has in its keys
---
--- The keys become the tokenizer.json that says the same, or of unigram the sentencepiece model,
--- which is then read like any other.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local file = require "mrt.io.file"
local json = require "mrt.util.json"
local pieces = require "mrt.pretrained.gguf.pieces"
local pre = require "mrt.pretrained.gguf.pre"
local tokens = require "mrt.pretrained.gguf.tokens"

local gguf = {}

local SPACE <const>, LONGEST <const> = "\u{2581}", 4096 -- bytes of a token
local null = json.null

-- Keys of a tokenizer.
local function key(metadata, name) return metadata["tokenizer.ggml." .. name] end

-- A token's id; nil: there is none.
local function id_of(metadata, name)
  local id = key(metadata, name .. "_token_id")
  return math.type(id) == "integer" and id or nil
end

local function list_of(metadata, name, kind)
  local list = key(metadata, name)
  if type(list) ~= "table" then return nil end
  for _, value in ipairs(list) do
    if type(value) ~= kind then return nil end
  end
  return list
end

-- ---- parts of a tokenizer.json -------------------------------------------------

-- Tokens that are found in the text itself.
local function added_tokens(texts, kinds)
  local list = {}
  for i, text in ipairs(texts) do
    local kind = kinds[i]
    if (kind == tokens.CONTROL or kind == tokens.USER) and text ~= "" then
      list[#list + 1] = { id = i - 1, content = text, single_word = false, lstrip = false,
        rstrip = false, normalized = false, special = kind == tokens.CONTROL }
    end
  end
  return json.array(list)
end

-- What is put before and behind a text.
local function post_processor(metadata, texts, bos_by_default)
  local add_bos, add_eos = key(metadata, "add_bos_token"), key(metadata, "add_eos_token")
  local bos, eos = id_of(metadata, "bos"), id_of(metadata, "eos")
  if add_bos == nil then add_bos = bos_by_default end
  local first, last = add_bos and texts[(bos or -1) + 1], add_eos and texts[(eos or -1) + 1]
  if not first and not last then return null end
  local special = {}
  local function name(text, id)
    if not text then return nil end
    special[text] = { id = text, ids = { id }, tokens = { text } }
    return { SpecialToken = { id = text, type_id = 0 } }
  end
  local before, behind = name(first, bos), name(last, eos)
  local function around(list)
    local out = {}
    for _, one in ipairs(list) do
      if before then out[#out + 1] = before end
      out[#out + 1] = { Sequence = one }
      if behind then out[#out + 1] = behind end
    end
    return out
  end
  local a, b = { id = "A", type_id = 0 }, { id = "B", type_id = 1 }
  return { type = "TemplateProcessing", single = around { a }, pair = around { a, b },
    special_tokens = special }
end

local plain = { [tokens.NORMAL] = true, [tokens.UNKNOWN] = true, [tokens.BYTE] = true }

local function vocab_of(texts, kinds)
  local vocab = json.object {}
  for i, text in ipairs(texts) do
    if plain[kinds[i]] and not vocab[text] then vocab[text] = i - 1 end
  end
  return vocab
end

-- ---- byte-level BPE --------------------------------------------------------------

local function of_bytes(metadata, texts, kinds)
  local name = key(metadata, "pre") or "default"
  local cut, ignore = pre.of(name)
  if not cut then return nil, ("tokenizer.ggml.pre = %q is not known"):format(tostring(name)) end
  local merges = list_of(metadata, "merges", "string")
  if not merges then return nil, "tokenizer.ggml.merges: a list of strings wanted" end
  return { normalizer = name == "qwen2" and { type = "NFC" } or null, pre_tokenizer = cut,
    post_processor = post_processor(metadata, texts, ignore),
    decoder = { type = "ByteLevel", add_prefix_space = true, trim_offsets = true,
      use_regex = true },
    model = { type = "BPE", vocab = vocab_of(texts, kinds), ignore_merges = ignore,
      merges = json.array(merges) } }
end

-- ---- sentencepiece ---------------------------------------------------------------

local function scores_of(metadata, texts)
  local scores = list_of(metadata, "scores", "number")
  local fine = scores and #scores == #texts
  for _, score in ipairs(fine and scores or {}) do fine = fine and score == score end
  if fine then return scores end
  return nil, "tokenizer.ggml.scores: a number for each token wanted"
end
--

-- Every way to make a token of two: the better its score, the earlier.
local function merges_of(texts, kinds, scores, vocab)
  local list = {}
  for i, text in ipairs(texts) do
    if kinds[i] == tokens.NORMAL then
      local at = utf8.offset(text, 2)
      while at and at <= #text do
        local a, b = text:sub(1, at - 1), text:sub(at)
        if vocab[a] and vocab[b] then
          list[#list + 1] = { a, b, scores[i], #list }
        end
        at = utf8.offset(text, 2, at)
      end
    end
  end
  table.sort(list, function(p, q)
    if p[3] ~= q[3] then return p[3] > q[3] end
    return p[4] < q[4]
  end)
  for i, merge in ipairs(list) do list[i] = merge[1] .. " " .. merge[2] end
  return json.array(list)
end

local function spaces(prefix)
  local replace = { type = "Replace", pattern = { String = " " }, content = SPACE }
  local decoders = { { type = "Replace", pattern = { String = SPACE }, content = " " },
    { type = "ByteFallback" }, { type = "Fuse" } }
  if not prefix then return replace, { type = "Sequence", decoders = decoders } end
  decoders[4] = { type = "Strip", content = " ", start = 1, stop = 0 }
  return { type = "Sequence", normalizers = { { type = "Prepend", prepend = SPACE }, replace } },
    { type = "Sequence", decoders = decoders }
end

local function of_pieces(metadata, texts, kinds)
  local scores, message = scores_of(metadata, texts)
  if not scores then return nil, message end
  local prefix = key(metadata, "add_space_prefix") ~= false
  local vocab, unknown = vocab_of(texts, kinds), id_of(metadata, "unknown")
  local normalizer, decoder = spaces(prefix)
  return { normalizer = normalizer, pre_tokenizer = null, decoder = decoder,
    post_processor = post_processor(metadata, texts, true),
    model = { type = "BPE", vocab = vocab, merges = merges_of(texts, kinds, scores, vocab),
      unk_token = texts[(unknown or 0) + 1], fuse_unk = true, byte_fallback = true } }
end

-- ---- the whole ---------------------------------------------------------------------

local kinds_of = { gpt2 = of_bytes, llama = of_pieces }

-- Tokens and their kinds.
local function tokens_of(metadata)
  local texts = list_of(metadata, "tokens", "string")
  if not texts then return nil, "tokenizer.ggml.tokens: a list of strings wanted" end
  local given, kinds = list_of(metadata, "token_type", "number") or {}, {}
  for i, text in ipairs(texts) do
    if #text > LONGEST then
      return nil, ("tokenizer.ggml.tokens: one of %d bytes"):format(#text)
    elseif not utf8.len(text) then
      return nil, ("tokenizer.ggml.tokens: token %d is not UTF-8"):format(i - 1)
    end
    kinds[i] = math.tointeger(given[i] or tokens.NORMAL) or tokens.NORMAL
  end
  return texts, kinds
end

--- The sentencepiece model of a file's keys, of unigram.
---@param metadata table<string, any>
---@return string? bytes
---@return string? message
function gguf.model(metadata)
  local texts, kinds = tokens_of(metadata)
  if not texts then return nil, kinds end
  local scores, message = scores_of(metadata, texts)
  if not scores then return nil, message end
  local map, list = list_of(metadata, "precompiled_charsmap", "number") or {}, {}
  for i, text in ipairs(texts) do
    list[i] = { text = text, score = scores[i] + 0.0, kind = kinds[i] }
  end
  for i, byte in ipairs(map) do map[i] = string.char((math.tointeger(byte) or 0) & 255) end
  return pieces.write { unigram = true, list = list, charsmap = table.concat(map),
    prefix = key(metadata, "add_space_prefix") ~= false,
    squeeze = key(metadata, "remove_extra_whitespaces") ~= false,
    ids = { unk = id_of(metadata, "unknown"), bos = id_of(metadata, "bos"),
      eos = id_of(metadata, "eos"), pad = id_of(metadata, "padding") } }
end

--- The tokenizer.json of a file's keys.
---@param metadata table<string, any>
---@return string? text
---@return string? message
function gguf.json(metadata)
  local model = key(metadata, "model")
  local make = kinds_of[model]
  if not make then return nil, ("a tokenizer of type %q"):format(tostring(model)) end
  local texts, kinds = tokens_of(metadata)
  if not texts then return nil, kinds end
  local out, message = make(metadata, texts, kinds)
  if not out then return nil, message end
  out.version, out.truncation, out.padding = "1.0", null, null
  out.added_tokens = added_tokens(texts, kinds)
  local ok, text = pcall(json.encode, out)
  if not ok then return nil, "tokens: " .. text.message end
  return text
end

local names = { bos = "bos", eos = "eos", pad = "padding", unk = "unknown" }

-- The ids of special tokens, and around texts of unigram, whose form says nothing of them.
local function name_special(found, metadata, unigram)
  for name, long in pairs(names) do
    local id = id_of(metadata, long)
    found[name] = id and found.core:token(id) and id or nil
  end
  if not unigram then return end
  found.core:enclose(key(metadata, "add_bos_token") == true and found.bos or nil,
    key(metadata, "add_eos_token") ~= false and found.eos or nil)
end

--- The tokenizer of a file's keys; `path` is for messages.
---@param path string
---@param metadata table<string, any>
---@return table? found
---@return string? message
---@return string? code
function gguf.from(path, metadata)
  local unigram = key(metadata, "model") == "t5"
  local text, why = (unigram and gguf.model or gguf.json)(metadata)
  if not text then return nil, ("%s: %s"):format(path, why), "data" end
  local handle, wrong, kind = core.parse_tokenizer(path, text)
  if not handle then return nil, wrong, kind end
  local template = metadata["tokenizer.chat_template"]
  local found = { core = handle, files = {}, config = {},
    chat_template = type(template) == "string" and template or nil }
  name_special(found, metadata, unigram)
  return found
end

--- Open the tokenizer of a file: see mrt.text.tokenizer.
---@param path string
---@return table? found
---@return string? message
---@return string? code
function gguf.open(path)
  local opened <close>, message, code = file.open(path, "gguf")
  if not opened then return nil, message, code end
  return gguf.from(path, opened.metadata)
end

return gguf
