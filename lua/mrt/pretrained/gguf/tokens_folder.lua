--- tokens_folder.lua -- the tokenizer of a GGUF file as the files of a folder
---
--- transformers reads tokenizer.json with the same ids.  Unigram is refused: what it has in that
--- form treats spaces otherwise than sentencepiece and llama.cpp.
---
--- SPDX-License-Identifier: MIT

local file = require "mrt.io.file"
local gguf = require "mrt.text.gguf"
local write_json = require "mrt.pretrained.write_json"

local kinds = { bos = "bos", eos = "eos", pad = "padding", unk = "unknown" }

local function config_of(metadata)
  local texts = metadata["tokenizer.ggml.tokens"]
  local out = { tokenizer_class = "PreTrainedTokenizerFast", clean_up_tokenization_spaces = false,
    model_max_length = metadata[metadata["general.architecture"] .. ".context_length"] }
  for name, long in pairs(kinds) do
    local id = metadata[("tokenizer.ggml.%s_token_id"):format(long)]
    out[name .. "_token"] = math.type(id) == "integer" and texts[id + 1] or nil
  end
  local template = metadata["tokenizer.chat_template"]
  out.chat_template = type(template) == "string" and template or nil
  return out
end

--- The files, by name; none where the GGUF file has no tokenizer.
---
--- Returns nil: a file that cannot be read (code "file"); a tokenizer that has no such form, by
--- name (code "data").
---@param path string  of the GGUF file
---@return table<string, string>? files
---@return string? message
---@return string? code
return function(path)
  local opened <close>, message, code = file.open(path, "gguf")
  if not opened then return nil, message, code end
  local metadata = opened.metadata
  local kind = metadata["tokenizer.ggml.model"]
  if kind == nil or kind == "none" then return {} end
  if kind == "t5" then
    return nil, path .. ": its tokenizer, unigram, has no form in which transformers finds the "
      .. "same ids; { tokenizer = false } saves the model alone", "data"
  end
  local text, why = gguf.json(metadata)
  if not text then
    return nil, ("%s: %s; { tokenizer = false } saves the model alone"):format(path, why), "data"
  end
  return { ["tokenizer.json"] = text,
    ["tokenizer_config.json"] = write_json(config_of(metadata)) }
end
