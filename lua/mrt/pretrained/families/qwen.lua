--- qwen.lua -- Qwen2 and Qwen3
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

return qwen
