--- archs.lua -- architectures of GGUF: what llama.cpp computes for each, and its keys
---
--- A row says what an architecture fixes, in the words of nn.Decoder's options; a model that
--- asks for something else is refused by the option's name, for llama.cpp would compute another
--- function without a word.
---
---     arch         general.architecture
---     names        its tensors: names.lua
---     fixed        options that have to have these values, beside those of `usual`
---     free         options that a key or a tensor tells
---     pairs        queries and keys turn neighbouring rows (names.lua)
---     plus         norms are stored as 1 + weight
---     eps          the key of the norms' epsilon
---     windows      how many layers follow each other of which all but the last (`every`) have a
---                  window; nil: none has one
---     said         windows are a key all the same
---     large        of so many layers scores are divided by the root of dim / heads
---     head         the head is there even where it is the table of tokens
---     config       of the keys, the fields of config.json that only this family has
---
--- SPDX-License-Identifier: MIT

local names = require "mrt.pretrained.gguf.names"

local archs = {}

--- What holds where a row does not say otherwise.
archs.usual = { norm = "rms", norm_place = "pre", activation = "silu", gated = true,
  qk_norm = false, clip = false, positions = "rotary", position_offset = 0, rope_local = false,
  softcap = false, final_softcap = false, scale = false, layer_scale = false, embed_scale = false,
  embed_dim = false, parallel = false, experts = false }

local RMS <const>, LAYER <const> = "attention.layer_norm_rms_epsilon",
  "attention.layer_norm_epsilon"

local function like_llama(k, config)
  config.hidden_size, config.num_hidden_layers = k.dim, k.layers
  config.num_attention_heads, config.num_key_value_heads = k.heads, k.kv_heads
  config.intermediate_size, config.max_position_embeddings = k.hidden, k.context
  config.head_dim, config.rms_norm_eps = k.head_dim, k.eps
  config.rope_theta, config.rope_scaling = k.base, k.scaling
end

local function with_experts(k, config)
  config.num_experts, config.num_local_experts = k.experts.count, nil
  config.num_experts_per_tok = k.experts.top
  config.moe_intermediate_size = k.experts.hidden
  config.shared_expert_intermediate_size = k.experts.shared
  config.decoder_sparse_step, config.mlp_only_layers = 1, {}
end

local function gemma(k, config)
  like_llama(k, config)
  config.hidden_activation, config.query_pre_attn_scalar = "gelu_pytorch_tanh", k.head_dim
  config.attn_logit_softcapping, config.final_logit_softcapping = k.softcap, k.final_softcap
  config.sliding_window, config.layer_types = k.window, k.layer_types
end

local rows = {
  { arch = "llama", model_types = { "llama", "mistral" }, names = names.llama, pairs = true,
    eps = RMS, config = function(k, config)
      like_llama(k, config)
      config.attention_bias, config.mlp_bias = k.has "blk.0.attn_q.bias",
        k.has "blk.0.ffn_up.bias"
    end },
  { arch = "llama", model_types = { "mixtral" }, names = names.mixtral, pairs = true, eps = RMS,
    experts = true, free = { experts = true }, config = function(k, config)
      like_llama(k, config)
      config.num_local_experts, config.num_experts_per_tok = k.experts.count, k.experts.top
    end },
  { arch = "qwen2", model_types = { "qwen2" }, names = names.llama, eps = RMS,
    config = function(k, config)
      like_llama(k, config)
      config.head_dim = nil
    end },
  { arch = "qwen3", model_types = { "qwen3" }, names = names.llama, eps = RMS,
    fixed = { qk_norm = "head" }, config = like_llama },
  { arch = "qwen2moe", model_types = { "qwen2_moe" }, names = names.qwen_moe, eps = RMS,
    experts = true, free = { experts = true }, normalize = false, head = true,
    config = function(k, config)
      like_llama(k, config)
      with_experts(k, config)
      config.head_dim, config.norm_topk_prob, config.qkv_bias = nil, false, true
    end },
  { arch = "qwen3moe", model_types = { "qwen3_moe" }, names = names.qwen_moe, eps = RMS,
    experts = true, free = { experts = true }, fixed = { qk_norm = "head" }, normalize = true,
    config = function(k, config)
      like_llama(k, config)
      with_experts(k, config)
      config.norm_topk_prob = true
    end },
  { arch = "gemma", model_types = { "gemma" }, names = names.llama, eps = RMS, plus = true,
    fixed = { norm = "rms1", activation = "gelu_tanh" }, free = { embed_scale = true },
    config = function(k, config)
      like_llama(k, config)
      config.hidden_activation = "gelu_pytorch_tanh"
    end },
  { arch = "gemma2", model_types = { "gemma2" }, names = names.gemma2, eps = RMS, plus = true,
    fixed = { norm = "rms1", activation = "gelu_tanh", norm_place = "both" },
    free = { embed_scale = true, softcap = true, final_softcap = true, scale = true },
    windows = 2, large = 46, config = gemma },
  { arch = "gemma3", model_types = { "gemma3_text" }, names = names.gemma2, eps = RMS,
    plus = true,
    fixed = { norm = "rms1", activation = "gelu_tanh", norm_place = "both", qk_norm = "head" },
    free = { embed_scale = true, final_softcap = true, scale = true, rope_local = true },
    windows = 6, large = 62, config = function(k, config)
      gemma(k, config)
      config.rope_local_base_freq = k.local_base
    end },
  { arch = "gpt2", model_types = { "gpt2" }, names = names.gpt2, eps = LAYER,
    fixed = { norm = "layer", activation = "gelu_tanh", gated = false, positions = "learned" },
    config = function(k, config)
      config.n_embd, config.n_layer, config.n_head = k.dim, k.layers, k.heads
      config.n_inner, config.n_positions, config.layer_norm_epsilon = k.hidden, k.context, k.eps
    end },
  { arch = "gptneox", model_types = { "gpt_neox" }, names = names.gptneox, eps = LAYER,
    head = true, fixed = { norm = "layer", activation = "gelu", gated = false },
    free = { parallel = true }, config = function(k, config)
      like_llama(k, config)
      config.head_dim, config.rms_norm_eps, config.num_key_value_heads = nil, nil, nil
      config.layer_norm_eps, config.rotary_emb_base = k.eps, k.base
      config.rotary_pct, config.rope_theta = k.width / k.head_dim, nil
      config.use_parallel_residual = k.parallel
    end },
  { arch = "phi2", model_types = { "phi" }, names = names.phi2, eps = LAYER, head = true,
    fixed = { norm = "layer", activation = "gelu_tanh", gated = false, parallel = "one" },
    config = function(k, config)
      like_llama(k, config)
      config.head_dim, config.rms_norm_eps = nil, nil
      config.layer_norm_eps, config.partial_rotary_factor = k.eps, k.width / k.head_dim
    end },
  { arch = "phi3", model_types = { "phi3" }, names = names.phi3, eps = RMS, said = true,
    config = function(k, config)
      like_llama(k, config)
      config.sliding_window = k.window
      config.head_dim, config.partial_rotary_factor = nil, k.width / k.head_dim
      config.original_max_position_embeddings = k.scaling
        and k.scaling.original_max_position_embeddings or k.context
    end },
  { arch = "olmo", model_types = { "olmo" }, names = names.llama, pairs = true, eps = LAYER,
    fixed = { norm = "plain" }, free = { clip = true }, config = function(k, config)
      like_llama(k, config)
      config.head_dim, config.rms_norm_eps, config.clip_qkv = nil, nil, k.clip
    end },
  { arch = "olmo2", model_types = { "olmo2" }, names = names.olmo2, eps = RMS, head = true,
    fixed = { norm_place = "post", qk_norm = "width" }, config = function(k, config)
      like_llama(k, config)
      config.head_dim = nil
    end },
}

--- The row of a model_type of config.json.
---@param model_type string
---@return table? row
function archs.of_type(model_type)
  for _, row in ipairs(rows) do
    for _, one in ipairs(row.model_types) do
      if one == model_type then return row end
    end
  end
end

--- The row of an architecture of GGUF.
---@param arch string
---@param experts boolean  it has experts
---@return table? row
function archs.of_arch(arch, experts)
  local found
  for _, row in ipairs(rows) do
    if row.arch == arch and (not found or (row.experts or false) == experts) then found = row end
  end
  return found
end

--- All architectures, in order.
---@return string[]
function archs.known()
  local list, seen = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.arch] then list[#list + 1], seen[row.arch] = row.arch, true end
  end
  return list
end

return archs
