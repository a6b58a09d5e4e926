--- folder.lua -- a small chat model in a folder, as transformers writes one
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"
local files = require "support.files"
local mrt = require "mrt"

local folder = {}

folder.config = { model_type = "llama", architectures = { "LlamaForCausalLM" }, vocab_size = 260,
  hidden_size = 32, intermediate_size = 48, num_hidden_layers = 2, num_attention_heads = 4,
  num_key_value_heads = 2, max_position_embeddings = 256, rms_norm_eps = 1e-5,
  rope_theta = 10000, tie_word_embeddings = true, hidden_act = "silu", bos_token_id = 256,
  eos_token_id = 257 }

local template = "{% for m in messages %}<|start|>{{ m['role'] }}:{{ m['content'] }}<|end|>"
  .. "{% endfor %}{% if add_generation_prompt %}<|start|>assistant:{% endif %}"

-- The characters that stand for bytes in a byte-level vocabulary.
local function byte_names()
  local names, next_free = {}, 256
  for byte = 0, 255 do
    local own = byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
    names[byte] = utf8.char(own and byte or next_free)
    if not own then next_free = next_free + 1 end
  end
  return names
end

local function write_tokenizer(path)
  local vocab, added = {}, {}
  for byte, name in pairs(byte_names()) do vocab[name] = byte end
  for i, name in ipairs { "<|start|>", "<|end|>" } do
    added[i] = { id = 255 + i, content = name, special = true, normalized = false,
      single_word = false, lstrip = false, rstrip = false }
  end
  local level = { type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
    use_regex = true }
  files.write(path .. "/tokenizer.json", json.encode { version = "1.0", added_tokens = added,
    pre_tokenizer = level, decoder = level,
    model = { type = "BPE", vocab = vocab, merges = json.array {} } })
  files.write(path .. "/tokenizer_config.json", json.encode { chat_template = template,
    bos_token = "<|start|>", eos_token = "<|end|>",
    tokenizer_class = "PreTrainedTokenizerFast" })
end

-- Numbers that make no token much likelier than all others.
local function weights()
  local c, state = folder.config, {}
  mrt.seed(11)
  local function add(name, ...)
    state["model." .. name] = select("#", ...) == 1 and mrt.ones(...) or mrt.randn(...) * 0.3
  end
  local width = c.hidden_size // c.num_attention_heads * c.num_key_value_heads
  add("embed_tokens.weight", c.vocab_size, c.hidden_size)
  add("norm.weight", c.hidden_size)
  for i = 0, c.num_hidden_layers - 1 do
    local at = ("layers.%d."):format(i)
    add(at .. "input_layernorm.weight", c.hidden_size)
    add(at .. "post_attention_layernorm.weight", c.hidden_size)
    add(at .. "self_attn.q_proj.weight", c.hidden_size, c.hidden_size)
    add(at .. "self_attn.k_proj.weight", width, c.hidden_size)
    add(at .. "self_attn.v_proj.weight", width, c.hidden_size)
    add(at .. "self_attn.o_proj.weight", c.hidden_size, c.hidden_size)
    add(at .. "mlp.gate_proj.weight", c.intermediate_size, c.hidden_size)
    add(at .. "mlp.up_proj.weight", c.intermediate_size, c.hidden_size)
    add(at .. "mlp.down_proj.weight", c.hidden_size, c.intermediate_size)
  end
  return state
end

--- Make the folder.
---@return string path
function folder.make()
  local path = files.name()
  assert(os.execute(("mkdir -p '%s'"):format(path)))
  files.write(path .. "/config.json", json.encode(folder.config))
  files.write(path .. "/generation_config.json", json.encode { eos_token_id = { 257, 256 } })
  write_tokenizer(path)
  mrt.save(path .. "/model.safetensors", weights())
  return path
end

return folder
