--- neox.lua -- GPT-NeoX and Pythia: part of each head turns, halves are parallel
---
--- SPDX-License-Identifier: MIT

local rope = require "mrt.pretrained.rope"

local function read(c)
  local dim, heads = c:take("hidden_size", "size"), c:take("num_attention_heads", "size")
  local context, width = c:take("max_position_embeddings", "size", 2048), dim // heads
  local bias = c:take("attention_bias", "flag", true)
  local turns = rope.read(c, { head_dim = width, context = context,
    base = c:take("rotary_emb_base", "number", 10000),
    part = c:take("rotary_pct", "number", 0.25) })
  return { vocab = c:take("vocab_size", "size"), dim = dim,
    layers = c:take("num_hidden_layers", "size"), heads = heads, head_dim = width,
    hidden = c:take("intermediate_size", "size", 4 * dim),
    context = rope.context(turns, context), norm = "layer",
    eps = c:take("layer_norm_eps", "number", 1e-5), activation = c:activation("hidden_act", "gelu"),
    gated = false, bias = { qkv = bias, out = bias, mlp = true },
    parallel = c:take("use_parallel_residual", "flag", true) and "two" or nil,
    tie = c:take("tie_word_embeddings", "flag", false),
    rope = turns }
end

local function write(o)
  local out = { hidden_size = o.dim, num_attention_heads = o.heads, vocab_size = o.vocab,
    max_position_embeddings = rope.original(o), num_hidden_layers = o.layers,
    intermediate_size = o.hidden, layer_norm_eps = o.eps,
    hidden_act = o.activation == "gelu_tanh" and "gelu_new" or o.activation,
    use_parallel_residual = o.parallel == "two", tie_word_embeddings = o.tie,
    attention_bias = o.bias.qkv }
  rope.write(o.rope, o.head_dim, out)
  out.rope_theta, out.partial_rotary_factor = nil, nil
  out.rotary_emb_base, out.rotary_pct = o.rope.base, o.rope.width / o.head_dim
  return out
end

return { family = {
  model_type = "gpt_neox",
  architectures = { "GPTNeoXForCausalLM" },
  prefix = "gpt_neox.",
  options = read,
  config = write,
  names = {
    { "tokens", "gpt_neox.embed_in" },
    { "blocks.#.norm1", "gpt_neox.layers.#.input_layernorm" },
    { { "blocks.#.attention.q", "blocks.#.attention.k", "blocks.#.attention.v" },
      "gpt_neox.layers.#.attention.query_key_value", heads = true },
    { "blocks.#.attention.proj", "gpt_neox.layers.#.attention.dense" },
    { "blocks.#.norm2", "gpt_neox.layers.#.post_attention_layernorm" },
    { "blocks.#.mlp.up", "gpt_neox.layers.#.mlp.dense_h_to_4h" },
    { "blocks.#.mlp.down", "gpt_neox.layers.#.mlp.dense_4h_to_h" },
    { "norm", "gpt_neox.final_layer_norm" }, { "head", "embed_out" },
  },
} }
