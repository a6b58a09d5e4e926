--- olmo.lua -- OLMo, whose norms have no weights, and OLMo 2, whose norms stand behind
---
--- SPDX-License-Identifier: MIT

local llama = require "mrt.pretrained.families.llama"
local qwen = require "mrt.pretrained.families.qwen"

local olmo = {}

local function read(c)
  local o = llama.read(c, { eps = 1e-5 })
  local bias = c:take("attention_bias", "flag", false)
  o.bias = { qkv = bias, out = bias }
  return o
end

local function write(o)
  local out = llama.write(o)
  out.head_dim, out.attention_bias = nil, o.bias.qkv
  return out
end

olmo.olmo = {
  model_type = "olmo",
  architectures = { "OlmoForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = read(c)
    o.norm, o.eps, o.clip = "plain", 1e-5, c:maybe("clip_qkv", "number")
    return o
  end,
  config = function(o)
    local out = write(o)
    out.rms_norm_eps, out.clip_qkv = nil, o.clip
    return out
  end,
  names = llama.names(llama.layer),
}

olmo.olmo2 = {
  model_type = "olmo2",
  architectures = { "Olmo2ForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = read(c)
    o.norm_place, o.qk_norm = "post", "width"
    return o
  end,
  config = write,
  names = llama.names(llama.layer, { { "norm1", "post_attention_layernorm" },
    { "norm2", "post_feedforward_layernorm" } }, qwen.norms),
}

return olmo
