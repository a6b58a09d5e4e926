--- gpt.lua -- GPT-2 (Radford et al. 2019), as nanoGPT trains it
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local Embedding = require "mrt.nn.embedding"
local LayerNorm = require "mrt.nn.layer_norm"
local Dropout = require "mrt.nn.dropout"
local Block = require "mrt.nn.block"
local Cache = require "mrt.nn.decoder.cache"
local initial = require "mrt.nn.initial"
local loss = require "mrt.nn.loss"
local options = require "mrt.util.options"
local scope = require "mrt.nn.scope"

---@class mrt.nn.GPTOptions
---@field vocab integer
---@field dim integer       a multiple of heads, unless head_dim is given
---@field layers integer
---@field heads integer
---@field context integer   longest sequence, in tokens
---@field head_dim? integer width of a head; default dim / heads
---@field dropout? number   default 0
---@field bias? boolean     in linear layers and norms; default true
---@field tie? boolean      one table for tokens and head; default true

--- Make a GPT: token ids `[B,T]` -> logits `[B,T,vocab]`.
---
---     local model = nn.GPT{vocab = 65, dim = 128, layers = 4, heads = 4,
---                          context = 64}
---     local loss = nn.cross_entropy(model(tokens), targets)
---
--- Learned positions, blocks normalised before each half, a last norm, and a
--- head whose weights are the token table (`tie = false` for its own).  Weights
--- begin normal with standard deviation 0.02, those that end on the residual
--- stream with 0.02 / sqrt(2 layers), so that its variance does not grow with
--- depth.
---@class mrt.nn.GPT: mrt.nn.Module
---@field vocab integer
---@field context integer  longest sequence, in tokens
---@overload fun(options: mrt.nn.GPTOptions): mrt.nn.GPT
local GPT = Module("GPT", "tensor")

local size = options.want "size"
local defaults = { vocab = size, dim = size, layers = size, heads = size,
  context = size, head_dim = options.of "size", dropout = 0, bias = true, tie = true }

function GPT:init(given)
  local o = options.read("GPT", given, defaults)
  local normal = initial.normal(0.02)
  local block = { bias = o.bias, dropout = o.dropout, head_dim = o.head_dim, init = normal,
    init_residual = initial.normal(0.02 / math.sqrt(2 * o.layers)) }
  self.vocab, self.context = o.vocab, o.context
  self.tokens = Embedding(o.vocab, o.dim, { init = normal })
  self.positions = Embedding(o.context, o.dim, { init = normal })
  self.dropout = Dropout(o.dropout)
  self.blocks = {}
  for i = 1, o.layers do
    self.blocks[i] = Block(o.dim, o.heads, block)
    self.blocks[i].attention.layer = i
  end
  self.norm = LayerNorm(o.dim, { bias = o.bias })
  if not o.tie then
    self.head = Linear(o.dim, o.vocab, { bias = false, init = normal })
  end
end

-- Vectors of the positions, `[T,dim]` or `[B,T,dim]`; padding may stand behind the last.
local function positions_of(self, T, at)
  local all = self.positions.weight
  if not at then return T < self.context and all:slice(1, 1, T) or all end
  local places = at.start:unsqueeze(2) + mrt.arange(0, T, { dtype = "i32" })
  return all:embedding(places:clamp(0, self.context - 1))
end

--- What the head reads.
---
---     local model = nn.GPT { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:features(mrt.zeros({1, 4}, {dtype = "i64"})):type()  --> f32[1,4,32]
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.CacheAt    goes on from what a cache has
---@return mrt.Tensor        `[B,T,dim]`
function GPT:features(tokens, at)
  local T = tokens:size(2)
  if T > self.context then
    core.fail("shape", "GPT", ("%s tokens, wanted at most context = %d")
      :format(tokens:type(), self.context))
  end
  local x = self.dropout(self.tokens(tokens) + positions_of(self, T, at))
  for _, block in ipairs(self.blocks) do x = scope.layer(block, x, at) end
  return self.norm(x)
end

--- The logits of features.
---
---     local model = nn.GPT { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:logits(mrt.zeros(1, 4, 32)):type()  --> f32[1,4,65]
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[..., dim]`
---@return mrt.Tensor          `[..., vocab]`
function GPT:logits(features)
  return self.head and self.head(features) or self.tokens:logits(features)
end

---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.CacheAt
---@return mrt.Tensor logits `[B,T,vocab]`
function GPT:forward(tokens, at) return self:logits(self:features(tokens, at)) end

--- Keys and values for so many samples and tokens, empty: for `at.cache`.
---
---     local model = nn.GPT { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     local cache = model:cache { batch = 1 }
---
--- Raises: an option that there is not.
---@param given? mrt.nn.decoder.CacheOptions
---@return mrt.nn.decoder.Cache
function GPT:cache(given)
  local layers = {}
  for i, block in ipairs(self.blocks) do
    layers[i] = { heads = block.attention.heads, width = block.attention.head_dim }
  end
  return Cache.beside(self, layers, given)
end

--- The loss without all logits at once: see nn.linear_cross_entropy.
---
---     local model = nn.GPT { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:loss(mrt.zeros({1, 4}, {dtype = "i64"}), mrt.zeros({1, 4}, {dtype = "i64"})):type()
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor   `[B,T]`
---@param targets mrt.Tensor  `[B,T]`
---@param given? mrt.LinearCrossEntropyOptions
---@return mrt.Tensor
function GPT:loss(tokens, targets, given)
  return loss.linear_cross_entropy(self:features(tokens),
    self.head or rawget(self.tokens, "weight") or self.tokens.rows, targets, given)
end

function GPT:describe()
  return ("vocab %d, context %d"):format(self.vocab, self.context)
end

return GPT
