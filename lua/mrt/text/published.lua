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

-- ---- classes: in small letters, without "Tokenizer" --------------------------------

local function set_of(names, value)
  local set = {}
  for name in names:gmatch "%S+" do set[name] = value or true end
  return set
end

--- Classes whose vocab.json and merges.txt cut words otherwise than GPT-2.
published.merges = set_of("qwen2 qwen3 qwen2moe qwen3moe", qwen)
--- Those that first put texts in form C.
published.composed = published.merges

--- Classes of which it is not known here how they cut texts.
published.other_merges = set_of [[clip clipseg blenderbot blenderbotsmall herbert fsmt xlm bertweet
  phobert ctrl whisper biogpt flaubert openaigpt owlvit]]

--- Classes whose vocab.txt is BERT's.
published.wordpiece = set_of [[bert distilbert electra mobilebert convbert layoutlm squeezebert
  megatronbert visualbert nezha ernie retribert realm qdqbert nomicbert lxmert
  dprquestionencoder dprcontextencoder]]
published.wordpiece[""] = true

--- Classes whose ids are not those of their sentencepiece model, or which change texts first.
published.other_ids = set_of [[xlmroberta camembert mbart mbart50 nllb m2m100 xglm bartpho marian
  bigbird rembert plbart speech2text fnet cpm pegasus albert xlnet debertav2 barthez]]

local roberta <const> = { bos = "<s>", eos = "</s>", unk = "<unk>", pad = "<pad>", cls = "<s>",
  sep = "</s>", mask = "<mask>" }
local bert <const> = { unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]",
  mask = "[MASK]" }
local llama <const> = { bos = "<s>", eos = "</s>", unk = "<unk>" }
local t5 <const> = { eos = "</s>", unk = "<unk>", pad = "<pad>" }
local gemma <const> = { bos = "<bos>", eos = "<eos>", unk = "<unk>", pad = "<pad>" }

--- Tokens that have a part, unless files say otherwise.
published.parts = set_of("roberta bart longformer led mvp", roberta)
for name in pairs(published.wordpiece) do published.parts[name] = bert end
published.parts[""] = nil
for name in ("llama codellama mistral mixtral"):gmatch "%S+" do published.parts[name] = llama end
for name in ("gemma gemma2 gemma3 gemma3text"):gmatch "%S+" do published.parts[name] = gemma end
published.parts.t5, published.parts.mt5 = t5, t5

--- Classes that begin, or end, every text unless their files say otherwise.
published.adds = set_of("llama codellama mistral mixtral gemma gemma2 gemma3 gemma3text",
  { bos = true })
published.adds.t5, published.adds.mt5 = { eos = true }, { eos = true }
for name in ("roberta bart longformer led mvp"):gmatch "%S+" do
  published.adds[name] = { bos = true, eos = true }
end

-- T5's words that stand for what is left out: behind the vocabulary, the last one first.
local function sentinels(config, core)
  local count, special = config.extra_ids or 100, {}
  if math.type(count) ~= "integer" or count < 0 or count > 10000 then return {} end
  for i = 0, count - 1 do
    special[("<extra_id_%d>"):format(i)] = core:count() + count - 1 - i
  end
  return special
end

--- What is known of a tokenizer by its class alone; nil: nothing.
---@param files {class: string, config: table}
---@param core userdata
---@return table? known
function published.known(files, core)
  local known = published.parts[files.class]
  if files.class ~= "t5" or files.config.added_tokens_decoder
    or core:id "<extra_id_0>" then return known end
  return { eos = known.eos, unk = known.unk, pad = known.pad,
    special = sentinels(files.config, core) }
end

--- How those put two texts together that do it otherwise than Llama.
published.pairs = set_of("roberta bart longformer led mvp", "roberta")
published.pairs.t5, published.pairs.mt5 = "t5", "t5"

--- The class that tokenizer_config.json names, or else config.json by its model; "": none.
---@param config table  tokenizer_config.json
---@param model table   config.json
---@return string
function published.class(config, model)
  local name = config.tokenizer_class or model.tokenizer_class or model.model_type
  if type(name) ~= "string" then return "" end
  return (name:gsub("Fast$", ""):gsub("Tokenizer$", ""):lower():gsub("[^%w]", ""))
end

return published
