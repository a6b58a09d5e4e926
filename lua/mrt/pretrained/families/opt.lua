--- opt.lua -- OPT: learned positions behind two rows of no use, and of the 350m norms on
--- sums and narrower embeddings
---
--- SPDX-License-Identifier: MIT

local OFFSET <const> = 2

local function read(c)
  local dim = c:take("hidden_size", "size")
  local width = c:take("word_embed_proj_dim", "size", dim)
  local bias = c:take("enable_bias", "flag", true)
  local before = c:take("do_layer_norm_before", "flag", true)
  c:only("_remove_final_layer_norm", false)
  c:only("layer_norm_elementwise_affine", true)
  return { vocab = c:take("vocab_size", "size"), dim = dim,
    layers = c:take("num_hidden_layers", "size"), heads = c:take("num_attention_heads", "size"),
    hidden = c:take("ffn_dim", "size"), context = c:take("max_position_embeddings", "size", 2048),
    norm = "layer", eps = 1e-5, norm_place = before and "pre" or "sum",
    activation = c:activation("activation_function", "relu"), gated = false, bias = bias,
    positions = "learned", position_offset = OFFSET, embed_dim = width ~= dim and width or nil,
    tie = c:take("tie_word_embeddings", "flag", true) }
end

local function write(o)
  return { hidden_size = o.dim, word_embed_proj_dim = o.embed_dim or o.dim,
    enable_bias = o.bias.qkv, do_layer_norm_before = o.norm_place == "pre", vocab_size = o.vocab,
    num_hidden_layers = o.layers, num_attention_heads = o.heads, ffn_dim = o.hidden,
    max_position_embeddings = o.context,
    activation_function = o.activation == "gelu_tanh" and "gelu_new" or o.activation,
    tie_word_embeddings = o.tie }
end

return { family = {
  model_type = "opt",
  architectures = { "OPTForCausalLM" },
  prefix = "model.decoder.",
  options = read,
  config = write,
  names = {
    { "tokens", "model.decoder.embed_tokens" },
    { "positions", "model.decoder.embed_positions" },
    { "embed_in", "model.decoder.project_in" }, { "embed_out", "model.decoder.project_out" },
    { "blocks.#.norm1", "model.decoder.layers.#.self_attn_layer_norm" },
    { "blocks.#.attention.q", "model.decoder.layers.#.self_attn.q_proj" },
    { "blocks.#.attention.k", "model.decoder.layers.#.self_attn.k_proj" },
    { "blocks.#.attention.v", "model.decoder.layers.#.self_attn.v_proj" },
    { "blocks.#.attention.proj", "model.decoder.layers.#.self_attn.out_proj" },
    { "blocks.#.norm2", "model.decoder.layers.#.final_layer_norm" },
    { "blocks.#.mlp.up", "model.decoder.layers.#.fc1" },
    { "blocks.#.mlp.down", "model.decoder.layers.#.fc2" },
    { "norm", "model.decoder.final_layer_norm" }, { "head", "lm_head" },
  },
} }
