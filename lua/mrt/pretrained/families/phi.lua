--- phi.lua -- Phi 1 to 2, whose halves are parallel, and Phi 3, a Llama of fused matrices
---
--- SPDX-License-Identifier: MIT

local llama = require "mrt.pretrained.families.llama"
local rope = require "mrt.pretrained.rope"
local windows = require "mrt.pretrained.windows"

local phi = {}

local function read(c)
  local dim, heads = c:take("hidden_size", "size"), c:take("num_attention_heads", "size")
  local context, width = c:take("max_position_embeddings", "size", 2048), dim // heads
  local turns = rope.read(c, { head_dim = width, context = context, part = 0.5 })
  return { vocab = c:take("vocab_size", "size"), dim = dim,
    layers = c:take("num_hidden_layers", "size"), heads = heads,
    kv_heads = c:take("num_key_value_heads", "size", heads), head_dim = width,
    hidden = c:take("intermediate_size", "size", 4 * dim),
    context = rope.context(turns, context), norm = "layer",
    eps = c:take("layer_norm_eps", "number", 1e-5),
    activation = c:activation("hidden_act", "gelu_new"), gated = false,
    bias = { qkv = true, out = true, mlp = true, head = true }, parallel = "one",
    qk_norm = c:take("qk_layernorm", "flag", false) and "head" or nil,
    tie = c:take("tie_word_embeddings", "flag", false),
    rope = turns }
end

local function write(o)
  local out = { hidden_size = o.dim, num_attention_heads = o.heads, vocab_size = o.vocab,
    max_position_embeddings = rope.original(o), num_hidden_layers = o.layers,
    num_key_value_heads = o.kv_heads, intermediate_size = o.hidden, layer_norm_eps = o.eps,
    hidden_act = o.activation == "gelu_tanh" and "gelu_new" or o.activation,
    qk_layernorm = o.qk_norm == "head", tie_word_embeddings = o.tie }
  rope.write(o.rope, o.head_dim, out)
  out.partial_rotary_factor = o.rope.width / o.head_dim
  return out
end

phi.phi = {
  model_type = "phi",
  architectures = { "PhiForCausalLM" },
  prefix = "model.",
  options = read,
  config = write,
  names = {
    { "tokens", "model.embed_tokens" },
    { "blocks.#.norm1", "model.layers.#.input_layernorm" },
    { "blocks.#.attention.q", "model.layers.#.self_attn.q_proj" },
    { "blocks.#.attention.k", "model.layers.#.self_attn.k_proj" },
    { "blocks.#.attention.v", "model.layers.#.self_attn.v_proj" },
    { "blocks.#.attention.q_norm", "model.layers.#.self_attn.q_layernorm" },
    { "blocks.#.attention.k_norm", "model.layers.#.self_attn.k_layernorm" },
    { "blocks.#.attention.proj", "model.layers.#.self_attn.dense" },
    { "blocks.#.mlp.up", "model.layers.#.mlp.fc1" },
    { "blocks.#.mlp.down", "model.layers.#.mlp.fc2" },
    { "norm", "model.final_layernorm" }, { "head", "lm_head" },
    { "head_bias", "lm_head.bias", whole = true },
  },
}

phi.phi3 = {
  model_type = "phi3",
  architectures = { "Phi3ForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c, { eps = 1e-5, context = 4096, original = 4096 })
    o.windows = windows.read_one(c)
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    out.head_dim = nil
    windows.write_one(o, out)
    out.original_max_position_embeddings = o.rope.scaling and o.rope.scaling.original or o.context
    return out
  end,
  names = llama.names({ { "norm1", "input_layernorm" },
    { { "attention.q", "attention.k", "attention.v" }, "self_attn.qkv_proj" },
    { "attention.proj", "self_attn.o_proj" }, { "norm2", "post_attention_layernorm" },
    { { "mlp.gate", "mlp.up" }, "mlp.gate_up_proj" }, { "mlp.down", "mlp.down_proj" } }),
}

return phi
