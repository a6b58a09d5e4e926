--- llama.lua -- Llama (Touvron et al. 2023, arXiv:2302.13971)
---
--- What differs from GPT-2: root-mean-square norms, turned queries and keys in
--- place of learned positions (Su et al. 2021), a gated feed-forward half
--- (Shazeer 2020), heads of keys and values that several heads of queries share
--- (Ainslie et al. 2023), and no biases.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local Cache = require "mrt.nn.decoder.cache"
local Embedding = require "mrt.nn.embedding"
local RMSNorm = require "mrt.nn.rms_norm"
local initial = require "mrt.nn.initial"
local loss = require "mrt.nn.loss"
local options = require "mrt.util.options"
local rotary = require "mrt.nn.decoder.rotary"
local scope = require "mrt.nn.scope"

-- ---- one layer -------------------------------------------------------------

local Attention = Module("GroupedAttention", "tensor")

function Attention:init(o, linear, layer)
  local width = o.head_dim
  self.layer = layer
  self.heads, self.kv_heads, self.base = o.heads, o.kv_heads, o.rope_base
  self.window, self.softcap = o.window, o.softcap
  self.head_dim = width
  self.q = Linear(o.dim, width * o.heads, linear)
  self.k = Linear(o.dim, width * o.kv_heads, linear)
  self.v = Linear(o.dim, width * o.kv_heads, linear)
  self.proj = Linear(width * o.heads, o.dim, linear)
end

function Attention:forward(x, at)
  local B, T, W = x:size(1), x:size(2), self.head_dim
  local function heads(y, count) return y:reshape(B, T, count, W) end
  local q = rotary.by(heads(self.q(x), self.heads), self.base, at)
  local k = rotary.by(heads(self.k(x), self.kv_heads), self.base, at)
  local v, how = heads(self.v(x), self.kv_heads), { causal = true }
  if at then k, v, how = at.cache:put(self.layer, k, v, at) end
  how.window, how.softcap = self.window, self.softcap
  return self.proj(q:attention(k, v, how):reshape(B, T, self.heads * W))
end

function Attention:describe()
  return ("%d heads of %d, %d of keys"):format(self.heads, self.head_dim, self.kv_heads)
end

local GatedMLP = Module("GatedMLP", "tensor")

function GatedMLP:init(o, linear)
  self.gate = Linear(o.dim, o.hidden, linear)
  self.up = Linear(o.dim, o.hidden, linear)
  self.down = Linear(o.hidden, o.dim, linear)
end

function GatedMLP:forward(x)
  return self.down(self.gate(x):silu() * self.up(x))
end

local Block = Module("LlamaBlock", "tensor")

function Block:init(o, linear, layer)
  self.norm1 = RMSNorm(o.dim, { eps = o.eps })
  self.attention = Attention(o, linear, layer)
  self.norm2 = RMSNorm(o.dim, { eps = o.eps })
  self.mlp = GatedMLP(o, linear)
end

function Block:forward(x, at)
  x = x + self.attention(self.norm1(x), at)
  return x + self.mlp(self.norm2(x))
end

-- ---- the model -------------------------------------------------------------

---@class mrt.nn.LlamaOptions
---@field vocab integer
---@field dim integer         a multiple of heads, unless head_dim is given
---@field layers integer
---@field heads integer       of queries; a multiple of kv_heads
---@field context integer     longest sequence, in tokens
---@field kv_heads? integer   default heads
---@field head_dim? integer   width of a head, even; default dim / heads
---@field hidden? integer     of the feed-forward half; default 8/3 dim, rounded
---  up to a multiple of 64
---@field rope_base? number   default 10000
---@field eps? number         of the norms; default 1e-5
---@field tie? boolean        one table for tokens and head; default false
---@field window? integer     each position reads only so many before its own
---@field softcap? number     scores become cap tanh(score / cap)

--- Make a Llama: token ids `[B,T]` -> logits `[B,T,vocab]`.
---
---     local model = nn.Llama{vocab = 512, dim = 128, layers = 4, heads = 8,
---                            kv_heads = 2, context = 128}
---
--- Weights begin normal with standard deviation 0.02.
---@class mrt.nn.Llama: mrt.nn.Module
---@field vocab integer
---@field context integer
---@overload fun(options: mrt.nn.LlamaOptions): mrt.nn.Llama
local Llama = Module("Llama", "tensor")

local size = options.want "size"
local defaults = { vocab = size, dim = size, layers = size, heads = size,
  context = size, kv_heads = options.of "size", head_dim = options.of "size",
  hidden = options.of "size", rope_base = 10000, eps = 1e-5, tie = false,
  window = options.of "integer", softcap = options.of "number" }

local function read(given)
  local o = options.read("Llama", given, defaults)
  o.kv_heads = o.kv_heads or o.heads
  o.hidden = o.hidden or (o.dim * 8 // 3 + 63) // 64 * 64
  local whole = o.head_dim or o.dim % o.heads == 0
  local width = o.head_dim or o.dim // o.heads
  if not whole or width % 2 ~= 0 or o.heads % o.kv_heads ~= 0 then
    core.fail("value", "Llama", ("dim %d, heads %d, kv_heads %d%s: heads of an "
      .. "even width, and a multiple of kv_heads, wanted"):format(o.dim,
      o.heads, o.kv_heads, o.head_dim and ", head_dim " .. o.head_dim or ""))
  end
  o.head_dim = width
  return o
end

function Llama:init(given)
  local o = read(given)
  local linear = { bias = false, init = initial.normal(0.02) }
  self.vocab, self.context = o.vocab, o.context
  self.tokens = Embedding(o.vocab, o.dim, { init = linear.init })
  self.blocks = {}
  for i = 1, o.layers do self.blocks[i] = Block(o, linear, i) end
  self.norm = RMSNorm(o.dim, { eps = o.eps })
  if not o.tie then self.head = Linear(o.dim, o.vocab, linear) end
end

--- What the head reads.
---
---     local model = nn.Llama { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:features(mrt.zeros({1, 4}, {dtype = "i64"})):type()  --> f32[1,4,32]
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.CacheAt    goes on from what a cache has
---@return mrt.Tensor        `[B,T,dim]`
function Llama:features(tokens, at)
  if tokens:size(2) > self.context then
    core.fail("shape", "Llama", ("%s tokens, wanted at most context = %d")
      :format(tokens:type(), self.context))
  end
  local x = self.tokens(tokens)
  for _, block in ipairs(self.blocks) do x = scope.layer(block, x, at) end
  return self.norm(x)
end

--- The logits of features.
---
---     local model = nn.Llama { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:logits(mrt.zeros(1, 4, 32)):type()  --> f32[1,4,65]
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[..., dim]`
---@return mrt.Tensor          `[..., vocab]`
function Llama:logits(features)
  return self.head and self.head(features) or self.tokens:logits(features)
end

---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.CacheAt
---@return mrt.Tensor logits `[B,T,vocab]`
function Llama:forward(tokens, at) return self:logits(self:features(tokens, at)) end

--- Keys and values for so many samples and tokens, empty: for `at.cache`.
---
---     local model = nn.Llama { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     local cache = model:cache { batch = 1 }
---
--- Raises: an option that there is not.
---@param given? mrt.nn.decoder.CacheOptions
---@return mrt.nn.decoder.Cache
function Llama:cache(given)
  local layers = {}
  for i, block in ipairs(self.blocks) do
    layers[i] = { heads = block.attention.kv_heads, width = block.attention.head_dim }
  end
  return Cache.beside(self, layers, given)
end

--- The loss without all logits at once: see nn.linear_cross_entropy.
---
---     local model = nn.Llama { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:loss(mrt.zeros({1, 4}, {dtype = "i64"}), mrt.zeros({1, 4}, {dtype = "i64"})):type()
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor   `[B,T]`
---@param targets mrt.Tensor  `[B,T]`
---@param given? mrt.LinearCrossEntropyOptions
---@return mrt.Tensor
function Llama:loss(tokens, targets, given)
  return loss.linear_cross_entropy(self:features(tokens),
    self.head or rawget(self.tokens, "weight") or self.tokens.rows, targets, given)
end

function Llama:describe()
  return ("vocab %d, context %d"):format(self.vocab, self.context)
end

return Llama
