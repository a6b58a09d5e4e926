--- gemma.lua -- Gemma 1, 2 and 3 (text): norms of 1 + weight, GeGLU, scaled embeddings
---
--- SPDX-License-Identifier: MIT

local configs = require "mrt.pretrained.config"
local llama = require "mrt.pretrained.families.llama"
local rope = require "mrt.pretrained.rope"
local windows = require "mrt.pretrained.windows"

local gemma = {}

-- What all three share, given what `llama.read` needs to know.
local function read(c, given)
  given.activation, given.tie, given.head_dim = "gelu_pytorch_tanh", true, 256
  given.context = 8192
  local o = llama.read(c, given)
  local bias = c:take("attention_bias", "flag", false)
  c:only("use_bidirectional_attention", false)
  o.norm, o.bias, o.embed_scale = "rms1", { qkv = bias, out = bias }, o.dim ^ 0.5
  return o
end

local function write(o)
  local out = llama.write(o)
  out.attention_bias = o.bias.qkv
  return out
end

gemma.gemma = {
  model_type = "gemma",
  architectures = { "GemmaForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = read(c, {})
    -- Published configs say "gelu" and mean its approximation, which later ones name.
    if c.values.hidden_activation or c.values.hidden_act == "gelu" then
      o.activation = c:activation("hidden_activation", "gelu_pytorch_tanh")
    end
    return o
  end,
  config = write,
  names = llama.names(llama.layer),
}

local both = {
  { "after1", "post_attention_layernorm" }, { "norm2", "pre_feedforward_layernorm" },
  { "after2", "post_feedforward_layernorm" },
}

local function read_capped(c, given)
  local o = read(c, given)
  c:ignore "hidden_act" -- hidden_activation counts
  o.norm_place = "both"
  o.scale = c:take("query_pre_attn_scalar", "number", 256) ^ -0.5
  o.softcap = c:unless_null("attn_logit_softcapping", "number", given.softcap)
  o.final_softcap = c:unless_null("final_logit_softcapping", "number", given.final_softcap)
  return o
end

local function write_capped(o)
  local out = write(o)
  out.hidden_act, out.hidden_activation = nil, out.hidden_act
  out.query_pre_attn_scalar = 1 / o.scale ^ 2
  if math.abs(out.query_pre_attn_scalar - math.floor(out.query_pre_attn_scalar + 0.5)) < 1e-6 then
    out.query_pre_attn_scalar = math.floor(out.query_pre_attn_scalar + 0.5)
  end
  out.attn_logit_softcapping, out.final_logit_softcapping = o.softcap, o.final_softcap
  if not o.softcap then configs.null(out, "attn_logit_softcapping") end
  if not o.final_softcap then configs.null(out, "final_logit_softcapping") end
  windows.write(o, out)
  return out
end

gemma.gemma2 = {
  model_type = "gemma2",
  architectures = { "Gemma2ForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = read_capped(c, { activation_name = "hidden_activation", softcap = 50.0,
      final_softcap = 30.0 })
    o.windows = windows.read(c, o.layers, true, function(layer) return layer % 2 == 1 end)
    return o
  end,
  config = write_capped,
  names = llama.names(llama.layer, both),
}

-- The old form has one object for the full layers, and a base for those with a window.
local function read_local(c, o)
  local base = c:take("rope_local_base_freq", "number", 10000)
  local given = c:maybe("rope_parameters", "map")
  if not given or not given.full_attention then
    return { base = base, width = o.head_dim }
  end
  return rope.of(c, given.sliding_attention or {}, { head_dim = o.head_dim, context = o.context,
    base = base, part = 1 })
end

gemma.gemma3_text = {
  model_type = "gemma3_text",
  architectures = { "Gemma3ForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = read_capped(c, { activation_name = "hidden_activation", base = 1e6 })
    local pattern = c:take("sliding_window_pattern", "size",
      math.tointeger(c:take("_sliding_window_pattern", "size", 6)))
    o.rope_local, o.qk_norm = read_local(c, o), "head"
    o.softcap = nil -- transformers does not use attn_logit_softcapping in this family
    o.windows = windows.read(c, o.layers, true, function(layer) return layer % pattern ~= 0 end)
    return o
  end,
  config = function(o)
    local out = write_capped(o)
    out.rope_local_base_freq = o.rope_local.base
    return out
  end,
  names = llama.names(llama.layer, both, { { "attention.q_norm", "self_attn.q_norm" },
    { "attention.k_norm", "self_attn.k_norm" } }),
}

return gemma
