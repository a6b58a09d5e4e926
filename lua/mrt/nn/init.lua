--- nn -- layers: modules with named parameters, a file for each
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local activation = require "mrt.nn.activation"
local conv_nd = require "mrt.nn.conv_nd"
local loss = require "mrt.nn.loss"
local pads = require "mrt.nn.pad"
local pool = require "mrt.nn.pool"
local recurrent = require "mrt.nn.recurrent"

---@class mrt.nn
local nn = {
  Module = require "mrt.nn.module",
  initial = require "mrt.nn.initial",
  init = require "mrt.nn.fill",

  Linear = require "mrt.nn.linear",
  QuantizedLinear = require "mrt.nn.quantized_linear",
  QuantizedEmbedding = require "mrt.nn.quantized_embedding",
  TwoOfFourLinear = require "mrt.nn.two_of_four_linear",
  Conv2d = require "mrt.nn.conv",
  ConvTranspose2d = require "mrt.nn.conv_transpose",
  Conv1d = conv_nd.Conv1d,
  Conv3d = conv_nd.Conv3d,
  ConvTranspose1d = conv_nd.ConvTranspose1d,
  ConvTranspose3d = conv_nd.ConvTranspose3d,
  MaxPool1d = pool.MaxPool1d,
  MaxPool2d = pool.MaxPool2d,
  MaxPool3d = pool.MaxPool3d,
  AvgPool1d = pool.AvgPool1d,
  AvgPool2d = pool.AvgPool2d,
  AvgPool3d = pool.AvgPool3d,
  LPPool1d = pool.LPPool1d,
  LPPool2d = pool.LPPool2d,
  LPPool3d = pool.LPPool3d,
  AdaptiveAvgPool1d = pool.AdaptiveAvgPool1d,
  AdaptiveAvgPool2d = pool.AdaptiveAvgPool2d,
  AdaptiveAvgPool3d = pool.AdaptiveAvgPool3d,
  AdaptiveMaxPool1d = pool.AdaptiveMaxPool1d,
  AdaptiveMaxPool2d = pool.AdaptiveMaxPool2d,
  AdaptiveMaxPool3d = pool.AdaptiveMaxPool3d,
  ZeroPad1d = pads.ZeroPad1d,
  ZeroPad2d = pads.ZeroPad2d,
  ZeroPad3d = pads.ZeroPad3d,
  ReflectionPad1d = pads.ReflectionPad1d,
  ReflectionPad2d = pads.ReflectionPad2d,
  ReflectionPad3d = pads.ReflectionPad3d,
  ReplicationPad1d = pads.ReplicationPad1d,
  ReplicationPad2d = pads.ReplicationPad2d,
  ReplicationPad3d = pads.ReplicationPad3d,
  CircularPad1d = pads.CircularPad1d,
  CircularPad2d = pads.CircularPad2d,
  CircularPad3d = pads.CircularPad3d,
  LocalResponseNorm = pool.LocalResponseNorm,
  Unfold = pool.Unfold,
  Fold = pool.Fold,
  PixelShuffle = pool.PixelShuffle,
  PixelUnshuffle = pool.PixelUnshuffle,
  ChannelShuffle = pool.ChannelShuffle,
  GlobalAvgPool = pool.GlobalAvgPool,
  Upsample = pool.Upsample,
  Flatten = pool.Flatten,
  Embedding = require "mrt.nn.embedding",
  EmbeddingBag = require "mrt.nn.embedding_bag",
  LayerNorm = require "mrt.nn.layer_norm",
  BatchNorm = require "mrt.nn.batch_norm",
  GroupNorm = require "mrt.nn.group_norm",
  RMSNorm = require "mrt.nn.rms_norm",
  Dropout = require "mrt.nn.dropout",
  Augment = require "mrt.nn.augment",
  CausalSelfAttention = require "mrt.nn.attention",
  LinearAttention = require "mrt.nn.linear_attention",
  Mamba = require "mrt.nn.mamba",
  MLP = require "mrt.nn.mlp",
  Block = require "mrt.nn.block",
  RNN = recurrent.RNN,
  LSTM = recurrent.LSTM,
  GRU = recurrent.GRU,
  Sequential = require "mrt.nn.sequential",
  GPT = require "mrt.nn.gpt",
  gpt2 = require "mrt.nn.gpt2",
  Llama = require "mrt.nn.llama",
  Decoder = require "mrt.nn.decoder",
  Encoder = require "mrt.nn.encoder",
  ViT = require "mrt.nn.encoder.vit",
  ResNet = require "mrt.nn.resnet",
  VGG = require "mrt.nn.vgg",
  UNet = require "mrt.nn.unet",

  generate = require "mrt.nn.generate",
  quantize = require "mrt.nn.quantize",
  lora = require "mrt.nn.lora",
  load = require "mrt.pretrained".load,
}

-- Of models with a family: what reads and writes files loads when it is called.
function nn.Decoder:save_adapter(path) return require "mrt.pretrained.peft".save(self, path) end
for _, model in ipairs { nn.Decoder, nn.Encoder, nn.ViT } do
  rawset(model, "save", function(self, path, o)
    return require "mrt.pretrained".save(self, path, o)
  end)
end
function nn.Decoder:load_adapter(path) return require "mrt.pretrained.peft".load(self, path) end

-- Functions, and the same as layers.
local distance = require "mrt.nn.distance"
nn.pairwise_distance, nn.cosine_similarity = distance.pairwise_distance,
  distance.cosine_similarity
local losses = require "mrt.nn.loss.module"(loss)
local families = { activation, loss, losses }
for _, file in ipairs { "distance_layer", "transformer", "cell", "channel_dropout", "spatial_norm",
  "bilinear", "container", "reparametrize" } do
  families[#families + 1] = require("mrt.nn." .. file)
end
for _, family in ipairs(families) do
  for name, value in pairs(family) do nn[name] = value end
end

-- `model:generate { prompt = ... }`: see mrt.generate.
for _, model in ipairs { nn.Decoder, nn.GPT, nn.Llama } do
  rawset(model, "generate", require("mrt.generate").stream)
end

-- Behind a C function a caller that ends in `return nn.mse_loss(x, y)` keeps its line.
for _, functions in ipairs { nn, nn.init, nn.initial } do
  for name, f in pairs(functions) do
    if type(f) == "function" then functions[name] = core.front(f, nil, name) end
  end
end

return require "mrt.util.hints".attach("nn", nn)
