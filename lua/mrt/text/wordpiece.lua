--- wordpiece.lua -- BERT's vocab.txt, a token a line
---
--- The file and tokenizer_config.json become the tokenizer.json that says the same, which is
--- then read like any other.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"

local wordpiece = {}

local largest <const> = 64 << 20

-- Token -> number of its line, from 0; of lines that are alike the last.
local function read_lines(path)
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  if #text > largest then return nil, path .. ": larger than any vocabulary", "data" end
  local ids, id = {}, 0
  for line in text:gsub("\r\n?", "\n"):gmatch "([^\n]*)\n?" do
    ids[line] = id
    id = id + 1
  end
  -- What stands behind the last line's end is no line.
  if ids[""] == id - 1 then ids[""] = nil end
  return ids
end

local function flag(config, name, default)
  local value = config[name]
  if value == nil or value == json.null then value = default end
  return value
end

-- [CLS] text [SEP], and [CLS] text [SEP] other [SEP].
local function post_processor(ids, first, last)
  local function special(name, kind) return { SpecialToken = { id = name, type_id = kind } } end
  local function text(name, kind) return { Sequence = { id = name, type_id = kind } } end
  local named = {}
  for _, name in ipairs { first, last } do
    named[name] = { id = name, ids = { ids[name] }, tokens = { name } }
  end
  return { type = "TemplateProcessing", special_tokens = named,
    single = { special(first, 0), text("A", 0), special(last, 0) },
    pair = { special(first, 0), text("A", 0), special(last, 0), text("B", 1), special(last, 1) } }
end

--- The tokenizer.json of a vocab.txt.
---@param path string
---@param config table  tokenizer_config.json
---@param names table<string, string>  the tokens that are `unk`, `cls` and `sep`
---@return string? text
---@return string? message
---@return string? code
function wordpiece.json(path, config, names)
  local ids, message, code = read_lines(path)
  if not ids then return nil, message, code end
  if flag(config, "do_basic_tokenize", true) ~= true then
    return nil, path .. ": do_basic_tokenize = false is not understood", "data"
  end
  for _, part in ipairs { "unk", "cls", "sep" } do
    if not ids[names[part]] then
      return nil, ("%s: there is no '%s' in it, so it is not BERT's: a tokenizer.json is wanted")
        :format(path, names[part]), "data"
    end
  end
  local ok, text = pcall(json.encode, { version = "1.0",
    normalizer = { type = "BertNormalizer", clean_text = true,
      handle_chinese_chars = flag(config, "tokenize_chinese_chars", true),
      strip_accents = flag(config, "strip_accents", json.null),
      lowercase = flag(config, "do_lower_case", true) },
    pre_tokenizer = { type = "BertPreTokenizer" },
    post_processor = post_processor(ids, names.cls, names.sep),
    decoder = { type = "WordPiece", prefix = "##", cleanup = true },
    model = { type = "WordPiece", unk_token = names.unk, continuing_subword_prefix = "##",
      max_input_chars_per_word = 100, vocab = ids } })
  if not ok then return nil, path .. ": " .. tostring(text.message or text), "data" end
  return text
end

return wordpiece
