--- transformer -- PyTorch's transformers: attention, layers, stacks of them
---
---   attend.lua     attention with masks, of heads
---   attention.lua  MultiheadAttention
---   layer.lua      one layer of an encoder, of a decoder
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local clone = require "mrt.nn.clone"
local initial = require "mrt.nn.initial"
local LayerNorm = require "mrt.nn.layer_norm"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"
local layers = require "mrt.nn.transformer.layer"

local transformer = { MultiheadAttention = require "mrt.nn.transformer.attention" }
for name, class in pairs(layers) do transformer[name] = class end

-- A stack of copies of a layer, with a norm behind them.
local function stack(name)
  local class = Module(name, "tensor")
  function class:init(layer, count, norm)
    if type(layer) ~= "table" or layer.parameters ~= Module.parameters
      or Module.is_class(layer) then
      core.fail("value", name, "a layer wanted, got " .. options.show(layer))
    end
    options.size(name, "num_layers", count)
    local list = {}
    for i = 1, count do list[i] = clone(layer) end
    self.layers = list -- one after the other: fields are in this order
    self.norm = norm
  end
  function class:forward(x, ...)
    for _, layer in ipairs(self.layers) do x = layer(x, ...) end
    return self.norm and self.norm(x) or x
  end
  function class:describe() return ("%d layers"):format(#self.layers) end
  transformer[name] = class
end

--- Make an encoder: copies of a layer, one behind the other, and perhaps a norm.
---
---     nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 8), 6)
---@class mrt.nn.TransformerEncoder: mrt.nn.Module
---@overload fun(layer: mrt.nn.Module, num_layers: integer, norm?: mrt.nn.Module): mrt.nn.Module
stack "TransformerEncoder"

--- Make a decoder: it is called with the target and the encoder's result.
---
---     local decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4), 2)
---@class mrt.nn.TransformerDecoder: mrt.nn.Module
---@overload fun(layer: mrt.nn.Module, num_layers: integer, norm?: mrt.nn.Module): mrt.nn.Module
stack "TransformerDecoder"

---@class mrt.nn.TransformerOptions: mrt.nn.TransformerLayerOptions
---@field d_model? integer             default 512
---@field nhead? integer               default 8
---@field num_encoder_layers? integer  default 6
---@field num_decoder_layers? integer  default 6

--- Make an encoder and a decoder.
---
---     local net = nn.Transformer { d_model = 16, nhead = 4, dim_feedforward = 32 }
---@class mrt.nn.Transformer: mrt.nn.Module
---@overload fun(options?: mrt.nn.TransformerOptions): mrt.nn.Transformer
local Transformer = Module("Transformer", "tensor")
transformer.Transformer = Transformer

local names = { "d_model", "nhead", "num_encoder_layers", "num_decoder_layers",
  "dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first", "norm_first",
  "bias" }
local of_layers = { "dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first",
  "norm_first", "bias" }

function Transformer:init(...)
  local given = argument.read("Transformer", names, ...)
  local o = options.read("Transformer", given, { d_model = 512, nhead = 8,
    num_encoder_layers = 6, num_decoder_layers = 6, dim_feedforward = 2048, dropout = 0.1,
    activation = options.of(nil, "relu"), layer_norm_eps = 1e-5, batch_first = false,
    norm_first = false, bias = true })
  local own = {}
  for _, name in ipairs(of_layers) do own[name] = o[name] end
  local function norm() return LayerNorm(o.d_model, { eps = o.layer_norm_eps, bias = o.bias }) end
  self.encoder = transformer.TransformerEncoder(
    layers.TransformerEncoderLayer(o.d_model, o.nhead, own), o.num_encoder_layers, norm())
  self.decoder = transformer.TransformerDecoder(
    layers.TransformerDecoderLayer(o.d_model, o.nhead, own), o.num_decoder_layers, norm())
  local recipe = initial.xavier_uniform()
  for _, p in ipairs(self:parameters()) do
    if p:dim() > 1 then p:assign(recipe(table.unpack(p:size()))) end
  end
end

local call_names = { "src_mask", "tgt_mask", "memory_mask", "src_key_padding_mask",
  "tgt_key_padding_mask", "memory_key_padding_mask", "src_is_causal", "tgt_is_causal",
  "memory_is_causal" }
local call_defaults = { src_is_causal = false, tgt_is_causal = false, memory_is_causal = false }
for i = 1, 6 do call_defaults[call_names[i]] = options.of "tensor" end

---@param src mrt.Tensor  `[S, N, E]`, `[N, S, E]` if batch_first, or `[S, E]`
---@param tgt mrt.Tensor  `[T, N, E]` ...
---@param ... any         src_mask, tgt_mask, memory_mask, src_key_padding_mask,
---  tgt_key_padding_mask, memory_key_padding_mask, src_is_causal, tgt_is_causal,
---  memory_is_causal
---@return mrt.Tensor     of tgt's shape
function Transformer:forward(src, tgt, ...)
  local o = options.read("Transformer", argument.read("Transformer", call_names, ...),
    call_defaults)
  argument.tensor("Transformer", "the target", tgt)
  local memory = self.encoder(src, { src_mask = o.src_mask,
    src_key_padding_mask = o.src_key_padding_mask, is_causal = o.src_is_causal })
  return self.decoder(tgt, memory, { tgt_mask = o.tgt_mask, memory_mask = o.memory_mask,
    tgt_key_padding_mask = o.tgt_key_padding_mask,
    memory_key_padding_mask = o.memory_key_padding_mask,
    tgt_is_causal = o.tgt_is_causal, memory_is_causal = o.memory_is_causal })
end

--- Return a mask to add that hides what comes later: 0 up to the diagonal, -inf above.
---
---     nn.Transformer.generate_square_subsequent_mask(3):type()  --> f32[3,3]
---
--- Raises: a size below 1.
---@param size integer
---@return mrt.Tensor  `[size, size]`, f32
function Transformer.generate_square_subsequent_mask(size)
  options.size("generate_square_subsequent_mask", "size", size)
  return mrt.full({ size, size }, -math.huge):triu(1)
end

return transformer
