--- published.lua -- what published vocabularies do not say themselves
---
--- Files of tiktoken have tokens and ranks alone, vocab.json and merges.txt no more: how they
--- cut texts into words, and their special tokens, is known by their names.
---
--- SPDX-License-Identifier: MIT

local published = {}

local gpt2 <const> = [['(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]
local cl100k <const> = [['(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|]]
  .. [[ ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s]]
local lower <const>, upper <const> = [[\p{Ll}\p{Lm}\p{Lo}\p{M}]], [[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]]
local endings <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)?]]
local o200k <const> = ("[^\\r\\n\\p{L}\\p{N}]?[%s]*[%s]+%s|[^\\r\\n\\p{L}\\p{N}]?[%s]+[%s]*%s|")
  :format(upper, lower, endings, upper, lower, endings)
  .. [[\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+]]
local llama3 <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|]]
  .. [[ ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]
local qwen <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|]]
  .. [[ ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]

local function llama3_special()
  local list = { "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>" }
  for i = 2, 246 do list[#list + 1] = ("<|reserved_special_token_%d|>"):format(i) end
  local special = {}
  for i, token in ipairs(list) do special[token] = 127999 + i end
  return special
end

local function qwen_special()
  local special = { ["<|endoftext|>"] = 151643, ["<|im_start|>"] = 151644,
    ["<|im_end|>"] = 151645 }
  for i = 0, 204 do special[("<|extra_%d|>"):format(i)] = 151646 + i end
  return special
end

---@class mrt.text.Published
---@field pattern string   in the syntax of Rust's regex crate
---@field special table<string, integer>
---@field bos string?
---@field eos string?

---@type table<string, mrt.text.Published>
published.ranks = {
  r50k_base = { pattern = gpt2, special = { ["<|endoftext|>"] = 50256 } },
  p50k_base = { pattern = gpt2, special = { ["<|endoftext|>"] = 50256 } },
  cl100k_base = { pattern = cl100k, special = { ["<|endoftext|>"] = 100257,
    ["<|fim_prefix|>"] = 100258, ["<|fim_middle|>"] = 100259, ["<|fim_suffix|>"] = 100260,
    ["<|endofprompt|>"] = 100276 } },
  o200k_base = { pattern = o200k, special = { ["<|endoftext|>"] = 199999,
    ["<|endofprompt|>"] = 200018 } },
  llama3 = { pattern = llama3, special = llama3_special(), bos = "<|begin_of_text|>",
    eos = "<|end_of_text|>" },
  qwen = { pattern = qwen, special = qwen_special(), eos = "<|endoftext|>" },
}

--- What is known of ranks by the name of their file, or by a name that was given; nil: nothing.
---@param path string
---@param given string?
---@return mrt.text.Published?
function published.of_ranks(path, given)
  if given then return published.ranks[given] end
  local name = path:match "([^/]*)$":gsub("%.tiktoken$", "")
  if name == "tokenizer.model" then name = "llama3" end
  return published.ranks[name]
end

--- GPT-2's own files have one special token and no file beside them that says it.
---@param core userdata
---@return {special: table<string, integer>, bos: string, eos: string}?
function published.gpt2(core)
  local token <const> = "<|endoftext|>"
  local id = core:id(token)
  return id and { special = { [token] = id }, bos = token, eos = token }
end

--- Classes whose vocab.json and merges.txt cut words otherwise than GPT-2; and first put texts
--- in form C.
published.merges = { Qwen2Tokenizer = qwen, Qwen2TokenizerFast = qwen, Qwen3Tokenizer = qwen }

--- Classes whose ids are not those of their sentencepiece model.
published.other_ids = {}
for name in ([[XLMRoberta Camembert MBart MBart50 Nllb M2M100 XGLM Bartpho Marian BigBird RemBert
  Plbart Speech2Text FNet Cpm Pegasus]]):gmatch "%S+" do
  published.other_ids[name] = true
end

--- Classes that begin, or end, every text unless their files say otherwise.
published.adds = { Llama = { bos = true }, Gemma = { bos = true }, CodeLlama = { bos = true },
  T5 = { eos = true }, MT5 = { eos = true } }

return published
