--- names.lua -- names of tensors in GGUF, and what differs in their numbers
---
--- An entry is `{theirs, in GGUF, how...}`: names of transformers and of GGUF without what stands
--- behind ("weight", "bias"); `#` is the layer, `*` an expert, whose tensors are one in GGUF. How:
---
---     turn = true     theirs is [inputs, outputs]
---     rope = "q"|"k"  rows of each head in pairs that turn together, where the row of the
---                     architecture says `pairs`
---     plus = true     GGUF has 1 + the weight of a norm
---     heads = true    theirs has q, k, v of head 1, of head 2, ...; GGUF all q, all k, all v
---
--- SPDX-License-Identifier: MIT

local names = {}

local function escaped(text)
  return (text:gsub("[%.%-]", "%%%0"):gsub("#", "(%%d+)"):gsub("%*", "(%%d+)"))
end

-- { pattern, entry } of both sides, made when an architecture is first used.
local compiled = setmetatable({}, { __mode = "k" })

local function patterns(entries)
  local both = compiled[entries]
  if not both then
    both = { theirs = {}, ours = {} }
    for i, entry in ipairs(entries) do
      both.theirs[i] = "^" .. escaped(entry[1]) .. "%.(%a+)$"
      both.ours[i] = "^" .. escaped(entry[2]) .. "%.(%a+)$"
    end
    compiled[entries] = both
  end
  return both
end

local function fill(text, layer, expert)
  if layer then text = text:gsub("#", layer) end
  if expert then text = text:gsub("%*", expert) end
  return text
end

-- Captures in the order of the pattern: layer, expert, what is behind.
local function captures(entry, side, a, b, c)
  local has_layer, has_expert = entry[side]:find("#", 1, true), entry[side]:find("*", 1, true)
  if has_layer and has_expert then return a, b, c end
  if has_layer then return a, nil, b end
  return nil, nil, a
end

--- The name in GGUF of a tensor of theirs.
---@param entries table[]
---@param name string
---@return string? gguf
---@return table? entry
---@return integer? expert  from 0, where it is one of several in a tensor
function names.to(entries, name)
  for i, pattern in ipairs(patterns(entries).theirs) do
    local a, b, c = name:match(pattern)
    if a then
      local entry = entries[i]
      local layer, expert, behind = captures(entry, 1, a, b, c)
      return fill(entry[2], layer) .. "." .. behind, entry, expert and tonumber(expert)
    end
  end
end

--- Their name of a tensor in GGUF; `*` in it stands for the expert.
---@param entries table[]
---@param name string
---@return string? theirs
---@return table? entry
function names.from(entries, name)
  for i, pattern in ipairs(patterns(entries).ours) do
    local a, b = name:match(pattern)
    if a then
      local entry = entries[i]
      local layer, _, behind = captures(entry, 2, a, b)
      return fill(entry[1], layer) .. "." .. behind, entry
    end
  end
end

-- ---- lists -------------------------------------------------------------------

local function layered(prefix, list)
  local out = {}
  for i, entry in ipairs(list) do
    local row = { prefix .. entry[1], "blk.#." .. entry[2] }
    for key, value in pairs(entry) do
      if type(key) == "string" then row[key] = value end
    end
    out[i] = row
  end
  return out
end

local function joined(...)
  local out = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #out + 1, out) end
  return out
end

local attention = {
  { "self_attn.q_proj", "attn_q", rope = "q" }, { "self_attn.k_proj", "attn_k", rope = "k" },
  { "self_attn.v_proj", "attn_v" }, { "self_attn.o_proj", "attn_output" },
  { "self_attn.q_norm", "attn_q_norm", plus = true },
  { "self_attn.k_norm", "attn_k_norm", plus = true },
}
local mlp = { { "mlp.gate_proj", "ffn_gate" }, { "mlp.up_proj", "ffn_up" },
  { "mlp.down_proj", "ffn_down" } }
local before = { { "input_layernorm", "attn_norm", plus = true },
  { "post_attention_layernorm", "ffn_norm", plus = true } }
local ends = { { "model.embed_tokens", "token_embd" },
  { "model.norm", "output_norm", plus = true }, { "lm_head", "output" } }

local function like_llama(...) return joined(ends, layered("model.layers.#.", joined(...))) end

names.llama = like_llama(before, attention, mlp)
names.mixtral = like_llama(before, attention, {
  { "block_sparse_moe.gate", "ffn_gate_inp" },
  { "block_sparse_moe.experts.*.w1", "ffn_gate_exps" },
  { "block_sparse_moe.experts.*.w3", "ffn_up_exps" },
  { "block_sparse_moe.experts.*.w2", "ffn_down_exps" } })
names.qwen_moe = like_llama(before, attention, {
  { "mlp.gate", "ffn_gate_inp" },
  { "mlp.experts.*.gate_proj", "ffn_gate_exps" }, { "mlp.experts.*.up_proj", "ffn_up_exps" },
  { "mlp.experts.*.down_proj", "ffn_down_exps" },
  { "mlp.shared_expert_gate", "ffn_gate_inp_shexp" },
  { "mlp.shared_expert.gate_proj", "ffn_gate_shexp" },
  { "mlp.shared_expert.up_proj", "ffn_up_shexp" },
  { "mlp.shared_expert.down_proj", "ffn_down_shexp" } })
names.gemma2 = like_llama({ { "input_layernorm", "attn_norm", plus = true },
  { "post_attention_layernorm", "post_attention_norm", plus = true },
  { "pre_feedforward_layernorm", "ffn_norm", plus = true },
  { "post_feedforward_layernorm", "post_ffw_norm", plus = true } }, attention, mlp)
names.olmo2 = like_llama({ { "post_attention_layernorm", "post_attention_norm" },
  { "post_feedforward_layernorm", "post_ffw_norm" } }, attention, mlp)
names.phi3 = like_llama(before, { { "self_attn.qkv_proj", "attn_qkv" },
  { "self_attn.o_proj", "attn_output" }, { "mlp.gate_up_proj", "ffn_up" },
  { "mlp.down_proj", "ffn_down" } })
names.phi2 = joined({ { "model.embed_tokens", "token_embd" },
  { "model.final_layernorm", "output_norm" }, { "lm_head", "output" } },
  layered("model.layers.#.", { { "input_layernorm", "attn_norm" },
    { "self_attn.q_proj", "attn_q" }, { "self_attn.k_proj", "attn_k" },
    { "self_attn.v_proj", "attn_v" }, { "self_attn.dense", "attn_output" },
    { "mlp.fc1", "ffn_up" }, { "mlp.fc2", "ffn_down" } }))
names.gpt2 = joined({ { "transformer.wte", "token_embd" }, { "transformer.wpe", "position_embd" },
  { "transformer.ln_f", "output_norm" }, { "lm_head", "output" } },
  layered("transformer.h.#.", { { "ln_1", "attn_norm" }, { "ln_2", "ffn_norm" },
    { "attn.c_attn", "attn_qkv", turn = true }, { "attn.c_proj", "attn_output", turn = true },
    { "mlp.c_fc", "ffn_up", turn = true }, { "mlp.c_proj", "ffn_down", turn = true } }))
names.gptneox = joined({ { "gpt_neox.embed_in", "token_embd" },
  { "gpt_neox.final_layer_norm", "output_norm" }, { "embed_out", "output" } },
  layered("gpt_neox.layers.#.", { { "input_layernorm", "attn_norm" },
    { "post_attention_layernorm", "ffn_norm" },
    { "attention.query_key_value", "attn_qkv", heads = true },
    { "attention.dense", "attn_output" }, { "mlp.dense_h_to_4h", "ffn_up" },
    { "mlp.dense_4h_to_h", "ffn_down" } }))

return names
