--- layer.lua -- layers of a transformer, with PyTorch's parts and names
---
--- Vaswani et al. 2017 (arXiv:1706.03762); with `norm_first` each half is normalised before,
--- not after (Xiong et al., arXiv:2002.04745).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local Attention = require "mrt.nn.transformer.attention"
local Dropout = require "mrt.nn.dropout"
local LayerNorm = require "mrt.nn.layer_norm"
local Linear = require "mrt.nn.linear"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

local layers = {}

---@class mrt.nn.TransformerLayerOptions
---@field dim_feedforward? integer  default 2048
---@field dropout? number         of probabilities and of the result of each half, default 0.1
---@field activation? "relu"|"gelu"|fun(x: mrt.Tensor): mrt.Tensor  default "relu"
---@field layer_norm_eps? number  default 1e-5
---@field batch_first? boolean    `[N, T, E]` in place of `[T, N, E]`, default false
---@field norm_first? boolean     default false
---@field bias? boolean           default true

local names = { "dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first",
  "norm_first", "bias" }
local defaults = { dim_feedforward = 2048, dropout = 0.1, activation = options.of(nil, "relu"),
  layer_norm_eps = 1e-5, batch_first = false, norm_first = false, bias = true }

local activations = { relu = function(x) return x:relu() end,
  gelu = function(x) return x:gelu() end }

-- Read the options, and the activation as a function.
local function read(who, ...)
  local o = options.read(who, argument.read(who, names, ...), defaults)
  o.activate = activations[o.activation] or o.activation
  if options.is_callable(o.activate) then return o end
  core.fail("value", who, ("activation %s, \"relu\", \"gelu\" or a function wanted")
    :format(options.show(o.activation)))
end

local function feed_forward(self, dim, o)
  self.linear1 = Linear(dim, o.dim_feedforward, { bias = o.bias })
  self.dropout = Dropout(o.dropout)
  self.linear2 = Linear(o.dim_feedforward, dim, { bias = o.bias })
end

local function norm(dim, o) return LayerNorm(dim, { eps = o.layer_norm_eps, bias = o.bias }) end

-- One half: x + f(norm x), or norm(x + f(x)).
local function half(self, x, normalise, f)
  if self.norm_first then return x + f(normalise(x)) end
  return normalise(x + f(x))
end

local function mlp(self, dropout)
  return function(x) return dropout(self.linear2(self.dropout(self.activate(self.linear1(x))))) end
end

local function attention(layer, memory, mask, padding, causal, dropout)
  return function(x)
    return dropout((layer(x, memory or x, memory or x, { attn_mask = mask,
      key_padding_mask = padding, is_causal = causal, need_weights = false })))
  end
end

--- Make a layer of an encoder: self-attention, then two linear layers.
---
---     nn.TransformerEncoderLayer(64, 8, {dim_feedforward = 256, batch_first = true})
---@class mrt.nn.TransformerEncoderLayer: mrt.nn.Module
---@overload fun(dim: integer, heads: integer, o?: mrt.nn.TransformerLayerOptions): mrt.nn.Module
local Encoder = Module("TransformerEncoderLayer", "tensor")
layers.TransformerEncoderLayer = Encoder

function Encoder:init(dim, heads, ...)
  local o = read("TransformerEncoderLayer", ...)
  self.self_attn = Attention(dim, heads, { dropout = o.dropout, bias = o.bias,
    batch_first = o.batch_first })
  feed_forward(self, dim, o)
  for i = 1, 2 do self["norm" .. i] = norm(dim, o) end
  for i = 1, 2 do self["dropout" .. i] = Dropout(o.dropout) end
  self.norm_first, self.activate = o.norm_first, o.activate
end

local encoder_names = { "src_mask", "src_key_padding_mask", "is_causal" }
local encoder_defaults = { src_mask = options.of "tensor",
  src_key_padding_mask = options.of "tensor", is_causal = false }

---@param x mrt.Tensor  `[T, N, E]`, `[N, T, E]` if batch_first, or `[T, E]`
---@param ... any       src_mask, src_key_padding_mask, is_causal: as of MultiheadAttention
---@return mrt.Tensor   of x's shape
function Encoder:forward(x, ...)
  local o = options.read("TransformerEncoderLayer",
    argument.read("TransformerEncoderLayer", encoder_names, ...), encoder_defaults)
  x = half(self, x, self.norm1, attention(self.self_attn, nil, o.src_mask,
    o.src_key_padding_mask, o.is_causal, self.dropout1))
  return half(self, x, self.norm2, mlp(self, self.dropout2))
end

--- Make a layer of a decoder: self-attention, attention to the encoder's result, then two
--- linear layers.
---
---     nn.TransformerDecoderLayer(16, 4)(mrt.zeros(2, 5, 16), mrt.zeros(2, 5, 16)):type()
---     --> f32[2,5,16]
---@class mrt.nn.TransformerDecoderLayer: mrt.nn.Module
---@overload fun(dim: integer, heads: integer, o?: mrt.nn.TransformerLayerOptions): mrt.nn.Module
local Decoder = Module("TransformerDecoderLayer", "tensor")
layers.TransformerDecoderLayer = Decoder

function Decoder:init(dim, heads, ...)
  local o = read("TransformerDecoderLayer", ...)
  local given = { dropout = o.dropout, bias = o.bias, batch_first = o.batch_first }
  self.self_attn = Attention(dim, heads, given)
  self.multihead_attn = Attention(dim, heads, given)
  feed_forward(self, dim, o)
  for i = 1, 3 do self["norm" .. i] = norm(dim, o) end
  for i = 1, 3 do self["dropout" .. i] = Dropout(o.dropout) end
  self.norm_first, self.activate = o.norm_first, o.activate
end

local decoder_names = { "tgt_mask", "memory_mask", "tgt_key_padding_mask",
  "memory_key_padding_mask", "tgt_is_causal", "memory_is_causal" }
local decoder_defaults = { tgt_mask = options.of "tensor", memory_mask = options.of "tensor",
  tgt_key_padding_mask = options.of "tensor", memory_key_padding_mask = options.of "tensor",
  tgt_is_causal = false, memory_is_causal = false }

---@param x mrt.Tensor       the target, `[T, N, E]` ...
---@param memory mrt.Tensor  what the encoder gave, `[S, N, E]` ...
---@param ... any            tgt_mask, memory_mask, tgt_key_padding_mask,
---  memory_key_padding_mask, tgt_is_causal, memory_is_causal
---@return mrt.Tensor        of x's shape
function Decoder:forward(x, memory, ...)
  local who <const> = "TransformerDecoderLayer"
  local o = options.read(who, argument.read(who, decoder_names, ...), decoder_defaults)
  argument.tensor(who, "memory", memory)
  x = half(self, x, self.norm1, attention(self.self_attn, nil, o.tgt_mask,
    o.tgt_key_padding_mask, o.tgt_is_causal, self.dropout1))
  x = half(self, x, self.norm2, attention(self.multihead_attn, memory, o.memory_mask,
    o.memory_key_padding_mask, o.memory_is_causal, self.dropout2))
  return half(self, x, self.norm3, mlp(self, self.dropout3))
end

return layers
