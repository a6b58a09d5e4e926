--- qwen.lua -- Qwen2 and Qwen3, with experts and without
---
--- SPDX-License-Identifier: MIT

local llama = require "mrt.pretrained.families.llama"
local windows = require "mrt.pretrained.windows"

local qwen = {}

-- Layers from max_window_layers on have a window, unless layer_types says which.
local function read_windows(c, o)
  local on = c:take("use_sliding_window", "flag", false)
  local from = c:take("max_window_layers", "integer", 28)
  return windows.read(c, o.layers, on, function(layer) return layer > from end)
end

local function write_windows(o, out)
  windows.write(o, out)
  out.use_sliding_window = out.sliding_window ~= nil
end

qwen.read_windows, qwen.write_windows = read_windows, write_windows

qwen.qwen2 = {
  model_type = "qwen2",
  architectures = { "Qwen2ForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c)
    o.bias = { qkv = true }
    o.windows = read_windows(c, o)
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    write_windows(o, out)
    out.head_dim = nil
    return out
  end,
  names = llama.names(llama.layer),
}

qwen.norms = { { "attention.q_norm", "self_attn.q_norm" },
  { "attention.k_norm", "self_attn.k_norm" } }

qwen.qwen3 = {
  model_type = "qwen3",
  architectures = { "Qwen3ForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c, { head_dim = 128 })
    local bias = c:take("attention_bias", "flag", false)
    o.bias, o.qk_norm = { qkv = bias, out = bias }, "head"
    o.windows = read_windows(c, o)
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    write_windows(o, out)
    out.attention_bias = o.bias.qkv
    return out
  end,
  names = llama.names(llama.layer, qwen.norms),
}

-- ---- experts -----------------------------------------------------------------

-- Layers have experts but for mlp_only_layers, and each step-th only.
local function read_experts(c, o, count)
  local step = c:take("decoder_sparse_step", "size", 1)
  local plain, layers = {}, {}
  for _, layer in ipairs(c:maybe("mlp_only_layers", "list") or {}) do plain[layer] = true end
  for i = 1, o.layers do layers[i] = not plain[i - 1] and i % step == 0 end
  return { count = c:take("num_experts", "size", c:maybe("num_local_experts", "size") or count),
    top = c:take("num_experts_per_tok", "size"), hidden = c:take("moe_intermediate_size", "size"),
    normalize = c:take("norm_topk_prob", "flag", false), layers = layers }
end

local function write_experts(o, out)
  local e = o.experts
  out.decoder_sparse_step, out.mlp_only_layers = 1, {}
  for i, has in ipairs(e.layers) do
    if not has then table.insert(out.mlp_only_layers, i - 1) end
  end
  out.num_experts, out.num_experts_per_tok = e.count, e.top
  out.moe_intermediate_size, out.norm_topk_prob = e.hidden, e.normalize
end

-- Layers without experts have llama.layer's names.
local experts = {}
for _, part in ipairs { "gate", "up", "down" } do
  experts[#experts + 1] = { "mlp." .. part, ("mlp.experts.*.%s_proj.weight"):format(part),
    each = true }
end
experts[#experts + 1] = { "mlp.router", "mlp.gate" }
local shared = { { "mlp.shared_gate", "mlp.shared_expert_gate" } }
for _, part in ipairs { "gate", "up", "down" } do
  shared[#shared + 1] = { "mlp.shared." .. part, ("mlp.shared_expert.%s_proj"):format(part) }
end

qwen.qwen2_moe = {
  model_type = "qwen2_moe",
  architectures = { "Qwen2MoeForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c)
    o.bias = { qkv = c:take("qkv_bias", "flag", true) }
    o.windows = windows.read(c, o.layers, c:take("use_sliding_window", "flag", false),
      function(layer)
        return layer % 2 == 1 and layer <= c:take("max_window_layers", "integer", 28)
      end)
    o.experts = read_experts(c, o, 60)
    o.experts.shared = c:take("shared_expert_intermediate_size", "size", 5632)
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    write_windows(o, out)
    write_experts(o, out)
    out.head_dim, out.qkv_bias = nil, o.bias.qkv
    out.shared_expert_intermediate_size = o.experts.shared
    return out
  end,
  names = llama.names(llama.layer, experts, shared),
}

qwen.qwen3_moe = {
  model_type = "qwen3_moe",
  architectures = { "Qwen3MoeForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c)
    local bias = c:take("attention_bias", "flag", false)
    o.bias, o.qk_norm = { qkv = bias, out = bias }, "head"
    o.windows = c:take("use_sliding_window", "flag", false) and windows.read_one(c, 4096)
    c:ignore("sliding_window", "max_window_layers")
    o.experts = read_experts(c, o, 128)
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    write_experts(o, out)
    out.attention_bias = o.bias.qkv
    out.use_sliding_window = o.windows[1] ~= false
    windows.write_one(o, out)
    return out
  end,
  names = llama.names(llama.layer, qwen.norms, experts),
}

return qwen
