--- gpt2.lua -- GPT-2: learned positions, layer norms, matrices as [inputs, outputs]
---
--- SPDX-License-Identifier: MIT

local function read(c)
  local dim, heads = c:take("n_embd", "size"), c:take("n_head", "size")
  c:ignore("n_ctx", "reorder_and_upcast_attn", "summary_type", "summary_use_proj",
    "summary_activation", "summary_proj_to_labels", "summary_first_dropout")
  c:only("add_cross_attention", false)
  return { vocab = c:take("vocab_size", "size"), dim = dim, layers = c:take("n_layer", "size"),
    heads = heads, context = c:take("n_positions", "size"),
    hidden = c:maybe("n_inner", "size") or 4 * dim, norm = "layer",
    eps = c:take("layer_norm_epsilon", "number", 1e-5),
    activation = c:activation("activation_function", "gelu_new"), gated = false, bias = true,
    positions = "learned", tie = c:take("tie_word_embeddings", "flag", true),
    scale = not c:take("scale_attn_weights", "flag", true) and 1 or nil,
    layer_scale = c:take("scale_attn_by_inverse_layer_idx", "flag", false) }
end

local function write(o)
  return { n_embd = o.dim, n_head = o.heads, vocab_size = o.vocab, n_layer = o.layers,
    n_positions = o.context, n_inner = o.hidden, layer_norm_epsilon = o.eps,
    activation_function = o.activation == "gelu_tanh" and "gelu_new" or o.activation,
    tie_word_embeddings = o.tie, scale_attn_weights = o.scale == nil,
    scale_attn_by_inverse_layer_idx = o.layer_scale }
end

return { family = {
  model_type = "gpt2",
  architectures = { "GPT2LMHeadModel" },
  prefix = "transformer.",
  options = read,
  config = write,
  names = {
    { "tokens", "transformer.wte" }, { "positions", "transformer.wpe" },
    { "blocks.#.norm1", "transformer.h.#.ln_1" },
    { { "blocks.#.attention.q", "blocks.#.attention.k", "blocks.#.attention.v" },
      "transformer.h.#.attn.c_attn", turn = true },
    { "blocks.#.attention.proj", "transformer.h.#.attn.c_proj", turn = true },
    { "blocks.#.norm2", "transformer.h.#.ln_2" },
    { "blocks.#.mlp.up", "transformer.h.#.mlp.c_fc", turn = true },
    { "blocks.#.mlp.down", "transformer.h.#.mlp.c_proj", turn = true },
    { "norm", "transformer.ln_f" }, { "head", "lm_head" },
  },
} }
