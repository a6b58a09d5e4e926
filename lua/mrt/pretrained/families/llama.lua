--- llama.lua -- Llama 1 to 3 and SmolLM; what Mistral and Qwen share with them
---
--- SPDX-License-Identifier: MIT

local rope = require "mrt.pretrained.rope"

local llama = {}

--- The options that config.json of a family like Llama says.
---@param c mrt.pretrained.Config
---@param o? {base: number?, head_dim: integer?, eps: number?, activation: string?,
---  activation_name: string?, tie: boolean?, context: integer?, original: integer?}  their defaults
---@return mrt.nn.DecoderOptions
function llama.read(c, o)
  o = o or {}
  local dim, heads = c:take("hidden_size", "size"), c:take("num_attention_heads", "size")
  local width = c:take("head_dim", "size", o.head_dim or dim // heads)
  local context = c:take("max_position_embeddings", "size", o.context or 2048)
  local turns = rope.read(c, { head_dim = width, context = context, base = o.base,
    original = o.original })
  return { vocab = c:take("vocab_size", "size"), dim = dim,
    layers = c:take("num_hidden_layers", "size"), heads = heads,
    kv_heads = c:take("num_key_value_heads", "size", heads), head_dim = width,
    hidden = c:take("intermediate_size", "size"),
    context = rope.context(turns, context), norm = "rms",
    eps = c:take("rms_norm_eps", "number", o.eps or 1e-6),
    activation = c:activation(o.activation_name or "hidden_act", o.activation or "silu"),
    gated = true,
    tie = c:take("tie_word_embeddings", "flag", o.tie or false),
    rope = turns }
end

--- The fields that `read` reads.
---@param o mrt.nn.DecoderOptions
---@return table
function llama.write(o)
  local out = { hidden_size = o.dim, num_attention_heads = o.heads, head_dim = o.head_dim,
    max_position_embeddings = rope.original(o), vocab_size = o.vocab, num_hidden_layers = o.layers,
    num_key_value_heads = o.kv_heads, intermediate_size = o.hidden, rms_norm_eps = o.eps,
    hidden_act = o.activation == "gelu_tanh" and "gelu_pytorch_tanh" or o.activation,
    tie_word_embeddings = o.tie }
  rope.write(o.rope, o.head_dim, out)
  return out
end

--- Names within a layer, those of Llama.
llama.layer = {
  { "norm1", "input_layernorm" }, { "attention.q", "self_attn.q_proj" },
  { "attention.k", "self_attn.k_proj" }, { "attention.v", "self_attn.v_proj" },
  { "attention.proj", "self_attn.o_proj" }, { "norm2", "post_attention_layernorm" },
  { "mlp.gate", "mlp.gate_proj" }, { "mlp.up", "mlp.up_proj" }, { "mlp.down", "mlp.down_proj" },
}

--- Names of a whole model with these in its layers.
---@param ... table[]  lists of names; of two for one of ours the later counts
---@return table[]
function llama.names(...)
  local out = { { "tokens", "model.embed_tokens" } }
  local place = {}
  for _, list in ipairs { ... } do
    for _, entry in ipairs(list) do
      local ours = type(entry[1]) == "table" and entry[1][1] or entry[1]
      local key = entry.each and ours .. "*" or ours -- layers without experts have theirs
      place[key] = place[key] or #out + 1
      local row = { "blocks.#." .. ours, "model.layers.#." .. entry[2] }
      if type(entry[1]) == "table" then
        row[1] = {}
        for i, part in ipairs(entry[1]) do row[1][i] = "blocks.#." .. part end
      end
      for how, value in pairs(entry) do
        if type(how) == "string" then row[how] = value end
      end
      out[place[key]] = row
    end
  end
  out[#out + 1] = { "norm", "model.norm" }
  out[#out + 1] = { "head", "lm_head" }
  return out
end

llama.family = {
  model_type = "llama",
  architectures = { "LlamaForCausalLM" },
  prefix = "model.",
  options = function(c)
    local o = llama.read(c)
    local bias = c:take("attention_bias", "flag", false)
    o.bias = { qkv = bias, out = bias, mlp = c:take("mlp_bias", "flag", false) }
    o.rope.interleaved = false
    c:ignore("rope_interleaved", "max_sequence_length")
    return o
  end,
  config = function(o)
    local out = llama.write(o)
    out.attention_bias, out.mlp_bias = o.bias.qkv, o.bias.mlp
    return out
  end,
  names = llama.names(llama.layer),
}

return llama
