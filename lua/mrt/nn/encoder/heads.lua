--- heads.lua -- what stands on an encoder: words under masks, classes
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local LayerNorm = require "mrt.nn.layer_norm"
local MLP = require "mrt.nn.decoder.mlp"

local heads = {}

--- Which word stands at each place: `[B,T,dim]` -> `[B,T,vocab]`, by the table of tokens.
---@class mrt.nn.encoder.Words: mrt.nn.Module
heads.Words = Module("EncoderWords", "tensor")

function heads.Words:init(o, init)
  self.dense = Linear(o.dim, o.dim, { init = init })
  self.norm = LayerNorm(o.dim, { eps = o.eps })
  self.bias = mrt.parameter(mrt.zeros(o.vocab))
  self.activation = o.words_activation or o.activation
end

---@param x mrt.Tensor        `[B,T,dim]`
---@param tokens mrt.nn.Embedding
---@return mrt.Tensor
function heads.Words:forward(x, tokens)
  x = self.norm(MLP.activations[self.activation](self.dense(x)))
  return tokens:logits(x) + self.bias
end

--- What the first position says of the whole: `[B,T,dim]` -> `[B,dim]`.
---@class mrt.nn.encoder.Pooler: mrt.nn.Module
heads.Pooler = Module("EncoderPooler", "tensor")

local functions = { tanh = function(x) return x:tanh() end, relu = function(x) return x:relu() end }

--- The functions a pooler may end in.
heads.poolers = { tanh = true, relu = true }

function heads.Pooler:init(o, init)
  self.dense = Linear(o.dim, o.dim, { init = init })
  self.activation = o.pooler
end

function heads.Pooler:forward(x)
  return functions[self.activation](self.dense(x:select(2, 1)))
end

--- Classes of the whole, by its pooler: `[B,T,dim]` -> `[B,classes]`.
---@class mrt.nn.encoder.Classes: mrt.nn.Module
heads.Classes = Module("EncoderClasses", "tensor")

function heads.Classes:init(o, init)
  self.pooler = heads.Pooler(o, init)
  self.out = Linear(o.dim, o.classes, { init = init })
end

function heads.Classes:forward(x) return self.out(self.pooler(x)) end

return heads
