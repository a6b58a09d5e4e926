--- encoder -- an encoder of tokens, of which BERT and its like are kinds
---
---   options.lua    what encoders are made of
---   heads.lua      words under masks, poolers
---   vit.lua        the encoder of images
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local MLP = require "mrt.nn.decoder.mlp"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local LayerNorm = require "mrt.nn.layer_norm"
local Embedding = require "mrt.nn.embedding"
local Block = require "mrt.nn.decoder.block"
local heads = require "mrt.nn.encoder.heads"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local read = require "mrt.nn.encoder.options"
local scope = require "mrt.nn.scope"

---@class mrt.nn.EncoderOptions
---@field vocab integer
---@field dim integer
---@field layers integer
---@field heads integer
---@field context integer      longest sequence, in tokens
---@field hidden? integer      of the feed-forward half; default 4 dim
---@field padding? integer     an id: positions count the tokens that are not it, and begin
---  behind as many rows (RoBERTa's); default: all tokens count
---@field types? integer       kinds of tokens (the first text, the second); default 0: none
---@field eps? number          of the norms; default 1e-12
---@field activation? "silu"|"gelu"|"gelu_tanh"|"quick_gelu"|"relu"|"relu2"|"tanh"|"mish"
---  default gelu
---@field words_activation? string  of the head of words; default `activation`
---@field qkv_bias? boolean    default true
---@field pooler? "tanh"|"relu"  what the first position says of the whole
---@field head? "words"|"classes"|"tokens"  words under masks; classes of the whole, of
---  each token; default none
---@field classes? integer     default 2

--- Make an encoder: token ids `[B,T]` -> what its head says, `[B,T,vocab]` of "words",
--- `[B,classes]` of "classes", `[B,T,classes]` of "tokens", else `[B,T,dim]`.
---
---     local model = nn.Encoder { vocab = 30522, dim = 768, layers = 12, heads = 12,
---       context = 512, types = 2, head = "words" }
---     local logits = model(tokens, { mask = tokens:ne(0) })
---
--- There is no dropout.  Weights begin normal with standard deviation 0.02.
---@class mrt.nn.Encoder: mrt.nn.Module
---@field options mrt.nn.EncoderOptions  complete
---@field vocab integer
---@field context integer
---@overload fun(options: mrt.nn.EncoderOptions): mrt.nn.Encoder
local Encoder = Module("Encoder", "tensor")

local own = { vocab = options.want "size", context = options.want "size",
  types = options.of("integer", 0), padding = options.of "integer",
  pooler = options.of "string", head = options.of "string", classes = options.of("size", 2),
  words_activation = options.of "string" }
local kinds = { words = true, classes = true, tokens = true }

local function complete(given)
  local o = read.options("Encoder", given, own, "sum")
  read.word("Encoder", o, "pooler", heads.poolers)
  read.word("Encoder", o, "head", kinds)
  read.word("Encoder", o, "words_activation", MLP.activations)
  if o.head == "classes" then o.pooler = o.pooler or "tanh" end
  return o
end

--- Options with the defaults filled in.
---@param given mrt.nn.EncoderOptions
---@return mrt.nn.EncoderOptions
Encoder.complete = complete

function Encoder:init(given)
  local o = complete(given)
  local normal = initial.normal(0.02)
  rawset(self, "options", o)
  self.vocab, self.context = o.vocab, o.context
  self.tokens = Embedding(o.vocab, o.dim, { init = normal })
  local rows = o.context + (o.padding and o.padding + 1 or 0)
  self.positions = Embedding(rows, o.dim, { init = normal })
  if o.types > 0 then self.types = Embedding(o.types, o.dim, { init = normal }) end
  self.norm = LayerNorm(o.dim, { eps = o.eps })
  self.blocks = {}
  for i = 1, o.layers do self.blocks[i] = Block(o, { inner = normal, last = normal }, i) end
  if o.pooler and o.head ~= "classes" then self.pooler = heads.Pooler(o, normal) end
  if o.head == "words" then
    self.words = heads.Words(o, normal)
  elseif o.head == "classes" then
    self.classifier = heads.Classes(o, normal)
  elseif o.head then
    self.classifier = Linear(o.dim, o.classes, { init = normal })
  end
end

---@class mrt.nn.EncoderAt
---@field mask? mrt.Tensor   `[B,T]`: true, or not 0, where there is a token; the others are
---  padding, which nothing sees
---@field types? mrt.Tensor  `[B,T]` integers: the kind of each token; default 0

local function check(self, tokens, at)
  if tokens:dim() ~= 2 or tokens:size(2) > self.context then
    core.fail("shape", "Encoder", ("%s tokens, [batch, time <= %d] wanted")
      :format(tokens:type(), self.context))
  end
  for _, name in ipairs { "mask", "types" } do
    local x = at[name]
    if x and (x:dim() ~= 2 or x:size(1) ~= tokens:size(1) or x:size(2) ~= tokens:size(2)) then
      core.fail("shape", "Encoder", ("%s %s, as the tokens, %s, wanted"):format(name, x:type(),
        tokens:type()))
    end
  end
  if at.types and not self.types then
    core.fail("value", "Encoder", "types: the model has no kinds of tokens")
  end
end

local function positions_of(self, tokens)
  local padding = self.options.padding
  if not padding then return self.positions.weight:slice(1, 1, tokens:size(2)) end
  local counts = tokens:ne(padding):to "i32"
  return self.positions(counts:cumsum(2) * counts + padding)
end

local function embed(self, tokens, at)
  local x = self.tokens(tokens) + positions_of(self, tokens)
  if at.types then
    x = x + self.types(at.types)
  elseif self.types then
    x = x + self.types.weight:slice(1, 1, 1)
  end
  return self.norm(x)
end

--- What the heads read.
---
---     model:features(tokens)
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.EncoderAt
---@return mrt.Tensor        `[B,T,dim]`
function Encoder:features(tokens, at)
  at = at or {}
  check(self, tokens, at)
  local x, told = embed(self, tokens, at), {}
  if at.mask then told.mask = at.mask:ne(0):unsqueeze(2):unsqueeze(2) end
  for _, block in ipairs(self.blocks) do x = scope.layer(block, x, told) end
  return x
end

--- What the first position says of the whole.
---
---     model:pooled(model:features(tokens))
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[B,T,dim]`
---@return mrt.Tensor          `[B,dim]`
function Encoder:pooled(features)
  local pooler = self.pooler or self.options.head == "classes" and self.classifier.pooler
  if not pooler then core.fail("value", "Encoder", "pooled: the model has no pooler") end
  return pooler(features)
end

--- What the head says of features; the same where there is none.
---
---     model:logits(model:features(tokens))
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[B,T,dim]`
---@return mrt.Tensor
function Encoder:logits(features)
  if self.words then return self.words(features, self.tokens) end
  return self.classifier and self.classifier(features) or features
end

---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.EncoderAt
---@return mrt.Tensor
function Encoder:forward(tokens, at) return self:logits(self:features(tokens, at)) end

function Encoder:describe()
  return ("vocab %d, context %d"):format(self.vocab, self.context)
end

return Encoder
