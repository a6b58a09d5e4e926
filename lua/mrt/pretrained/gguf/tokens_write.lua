--- tokens_write.lua -- a folder's tokenizer as keys of GGUF
---
--- A byte-level tokenizer.json is "gpt2" there; a sentencepiece model, or a tokenizer.json that
--- was made of one, is "llama" (BPE) or "t5" (unigram).  A folder without a tokenizer gives a
--- file without one.  What llama.cpp has no word for is refused by name.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local folder = require "mrt.pretrained.folder"
local pieces = require "mrt.pretrained.gguf.pieces"
local pre = require "mrt.pretrained.gguf.pre"
local published = require "mrt.text.published"
local templates = require "mrt.text.templates"
local tokens = require "mrt.pretrained.gguf.tokens"

local write = {}

-- ---- tokenizer.json ------------------------------------------------------------

local function merges_of(list)
  local out = {}
  for i, merge in ipairs(list) do
    if type(merge) == "table" then
      local a, b = merge[1]:gsub(" ", "\u{120}"), merge[2]:gsub(" ", "\u{120}")
      merge = a .. " " .. b
    end
    out[i] = merge
  end
  return out
end

local function put_added(vocab, json, score)
  for _, added in ipairs(json.added_tokens or {}) do
    if type(added.content) == "string" then tokens.add(vocab, added.id, added, score) end
  end
end

-- The first normalizer that is not among those of these types.
local function odd_normalizer(given, known)
  if type(given) ~= "table" then return nil end
  for _, one in ipairs(given.type == "Sequence" and given.normalizers or { given }) do
    if not known[one.type] then return one.type end
  end
end

local function put_bytes(json, vocab, into)
  local model = json.model
  local name = pre.name(json.pre_tokenizer, model.ignore_merges == true)
  if not name then return nil, "a pre_tokenizer for which llama.cpp has no name" end
  local odd = odd_normalizer(json.normalizer, { NFC = true })
  if odd then return nil, ("a normalizer %s, which llama.cpp has not"):format(odd) end
  for text, id in pairs(model.vocab) do tokens.put(vocab, id, text, tokens.NORMAL, 0.0) end
  put_added(vocab, json, 0.0)
  tokens.keys(vocab, "gpt2", into)
  into["tokenizer.ggml.pre"] = name
  into["tokenizer.ggml.merges"] = { type = "string", values = merges_of(model.merges) }
  return true
end

local function kind_of(text, unknown)
  if text == unknown then return tokens.UNKNOWN end
  return text:find "^<0x%x%x>$" and tokens.BYTE or tokens.NORMAL
end

-- Does a tokenizer like sentencepiece's put a space before the text?
local function has_prefix(json)
  local function look(list)
    for _, one in ipairs(list) do
      if one.type == "Prepend" then return true end
      if one.type == "Metaspace" then
        return (one.prepend_scheme or "always") ~= "never" and one.add_prefix_space ~= false
      end
    end
    return false
  end
  local function parts(given, field)
    if type(given) ~= "table" then return {} end
    return given.type == "Sequence" and given[field] or { given }
  end
  return look(parts(json.normalizer, "normalizers"))
    or look(parts(json.pre_tokenizer, "pretokenizers"))
end

-- Merges say which of two tokens is joined first; sentencepiece's scores do.
local function put_spaces(json, vocab, into)
  local model, rank = json.model, {}
  local odd = odd_normalizer(json.normalizer, { Prepend = true, Replace = true })
  if odd then return nil, ("a normalizer %s, which llama.cpp has not"):format(odd) end
  for i, merge in ipairs(model.merges) do
    local joined = type(merge) == "table" and merge[1] .. merge[2] or merge:gsub(" ", "", 1)
    rank[joined] = rank[joined] or i
  end
  for text, id in pairs(model.vocab) do
    tokens.put(vocab, id, text, kind_of(text, model.unk_token), -(rank[text] or 0) + 0.0)
  end
  put_added(vocab, json, -1000.0)
  tokens.keys(vocab, "llama", into)
  into["tokenizer.ggml.pre"] = "default"
  into["tokenizer.ggml.add_space_prefix"] = has_prefix(json)
  return true
end

local function put_json(json, vocab, into)
  local model = type(json.model) == "table" and json.model or {}
  if model.type ~= "BPE" or type(model.vocab) ~= "table" or type(model.merges) ~= "table" then
    return nil, ("a model of type %s, BPE wanted"):format(tostring(model.type))
  end
  if model.byte_fallback == true then return put_spaces(json, vocab, into) end
  return put_bytes(json, vocab, into)
end

-- ---- sentencepiece -------------------------------------------------------------

local function put_decoder(vocab, list)
  for id, added in pairs(type(list) == "table" and list or {}) do
    if type(added) == "table" and type(added.content) == "string" then
      tokens.add(vocab, math.tointeger(id), added, -1000.0)
    end
  end
end

local function put_pieces(model, vocab, into, config)
  for i, piece in ipairs(model.list) do
    if model.unigram and piece.kind == tokens.BYTE then
      return nil, "unigram with bytes for what it lacks, which llama.cpp has not"
    end
    tokens.put(vocab, i - 1, piece.text, piece.kind, piece.score)
  end
  put_decoder(vocab, config.added_tokens_decoder)
  tokens.keys(vocab, model.unigram and "t5" or "llama", into)
  into["tokenizer.ggml.pre"] = "default"
  into["tokenizer.ggml.add_space_prefix"] = model.prefix
  if not model.unigram then return true end
  into["tokenizer.ggml.remove_extra_whitespaces"] = model.squeeze
  local map = { model.charsmap:byte(1, -1) }
  if #map > 0 then
    into["tokenizer.ggml.precompiled_charsmap"] = { type = "u8", values = map }
  end
  return true
end

-- ---- what stands beside --------------------------------------------------------

-- Which special tokens a tokenizer.json adds.
local function adds(json)
  local bos, eos = false, false
  local given = type(json.post_processor) == "table" and json.post_processor or {}
  for _, one in ipairs(given.processors or { given }) do
    local single = one.type == "TemplateProcessing" and one.single or {}
    bos = bos or #single > 1 and single[1].SpecialToken ~= nil
    eos = eos or #single > 1 and single[#single].SpecialToken ~= nil
  end
  return bos, eos
end

-- Names of kinds in tokenizer_config.json and in keys, one of which llama.cpp spells so.
local kinds = { bos = "bos", eos = "eos", unk = "unknown", pad = "padding", sep = "seperator",
  cls = "cls", mask = "mask" }

-- Ids of special tokens: by the names that tokenizer_config.json has, or config.json's numbers.
local function put_special(vocab, into, config, model)
  local ids = {}
  for i, text in ipairs(vocab.texts) do ids[text] = ids[text] or i - 1 end
  for kind, long in pairs(kinds) do
    local token = config[kind .. "_token"]
    if type(token) == "table" then token = token.content end
    local id = ids[token] or model.config and model.config[kind .. "_token_id"]
    if type(id) == "table" then id = id[1] end
    if math.type(id) == "integer" and id >= 0 and id < #vocab.texts then
      into[("tokenizer.ggml.%s_token_id"):format(long)] = id
    end
  end
end

local function read_if(present, path, name)
  if not present[name] then return {} end
  return folder.json(path .. "/" .. name)
end

local function template_of(present, path, config)
  local all = templates.read(path, config, read_if(present, path, "chat_template.json"))
  return all and all.default
end

-- What a sentencepiece model does not say: whether a text gets bos and eos.
local function put_adds(into, config)
  local usual = published.adds[published.class(config, {})] or {}
  for _, kind in ipairs { "bos", "eos" } do
    local said = config[("add_%s_token"):format(kind)]
    if said == nil then said = usual[kind] end
    into[("tokenizer.ggml.add_%s_token"):format(kind)] = said == true
  end
end

local function put_tokenizer(present, path, vocab, into, config)
  if present["tokenizer.model"] then
    local bytes, message, code = core.read_file(path .. "/tokenizer.model")
    if not bytes then return nil, message, code end
    local model
    model, message = pieces.read(bytes)
    if not model then return nil, ("%s/tokenizer.model: %s"):format(path, message), "data" end
    put_adds(into, config)
    local done, why = put_pieces(model, vocab, into, config)
    if not done then return nil, ("%s/tokenizer.model: %s"):format(path, why), "data" end
    return true
  end
  local json, message, code = folder.json(path .. "/tokenizer.json")
  if not json then return nil, message, code end
  local done
  done, message = put_json(json, vocab, into)
  if not done then return nil, ("%s/tokenizer.json: %s"):format(path, message), "data" end
  into["tokenizer.ggml.add_bos_token"], into["tokenizer.ggml.add_eos_token"] = adds(json)
  return true
end

--- Put the keys of a folder's tokenizer.
---@param into table<string, any>
---@param path string?  the folder; nil: the model has none
---@param model mrt.nn.Decoder
---@return true? done
---@return string? message
---@return string? code
function write.write(into, path, model)
  local present = path and folder.list(path) or {}
  if not present["tokenizer.model"] and not present["tokenizer.json"] then
    into["tokenizer.ggml.model"] = "none"
    return true
  end
  local config, message, code = read_if(present, path, "tokenizer_config.json")
  if not config then return nil, message, code end
  local vocab = tokens.new(model.vocab)
  local done, why, kind = put_tokenizer(present, path, vocab, into, config)
  if not done then return nil, why, kind end
  put_special(vocab, into, config, model)
  into["tokenizer.chat_template"] = template_of(present, path, config)
  return true
end

return write
