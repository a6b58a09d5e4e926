--- nn -- layers: modules with named parameters, a file for each
---
--- SPDX-License-Identifier: MIT

local activation = require "mrt.nn.activation"
local loss = require "mrt.nn.loss"
local pool = require "mrt.nn.pool"
local recurrent = require "mrt.nn.recurrent"

local nn = {
  Module = require "mrt.nn.module",
  initial = require "mrt.nn.initial",
  init = require "mrt.nn.fill",

  Linear = require "mrt.nn.linear",
  QuantizedLinear = require "mrt.nn.quantized_linear",
  TwoOfFourLinear = require "mrt.nn.two_of_four_linear",
  Conv2d = require "mrt.nn.conv",
  ConvTranspose2d = require "mrt.nn.conv_transpose",
  MaxPool2d = pool.MaxPool2d,
  AvgPool2d = pool.AvgPool2d,
  AdaptiveAvgPool2d = pool.AdaptiveAvgPool2d,
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
  MLP = require "mrt.nn.mlp",
  Block = require "mrt.nn.block",
  RNN = recurrent.RNN,
  LSTM = recurrent.LSTM,
  GRU = recurrent.GRU,
  Sequential = require "mrt.nn.sequential",
  GPT = require "mrt.nn.gpt",
  gpt2 = require "mrt.nn.gpt2",
  Llama = require "mrt.nn.llama",
  ResNet = require "mrt.nn.resnet",
  VGG = require "mrt.nn.vgg",
  UNet = require "mrt.nn.unet",

  ReLU = activation.ReLU,
  GELU = activation.GELU,
  SiLU = activation.SiLU,
  Tanh = activation.Tanh,
  Sigmoid = activation.Sigmoid,

  generate = require "mrt.nn.generate",
  quantize = require "mrt.nn.quantize",
  lora = require "mrt.nn.lora",
}

-- Functions, and the same as layers.
local distance = require "mrt.nn.distance"
nn.pairwise_distance, nn.cosine_similarity = distance.pairwise_distance,
  distance.cosine_similarity
local losses = require "mrt.nn.loss.module"(loss)
local families = { loss, losses }
for _, file in ipairs { "distance_layer", "transformer", "cell", "channel_dropout", "spatial_norm",
  "bilinear", "container", "reparametrize" } do
  families[#families + 1] = require("mrt.nn." .. file)
end
for _, family in ipairs(families) do
  for name, value in pairs(family) do nn[name] = value end
end

return nn
