--- decoder -- one decoder of tokens, of which published models are kinds
---
---   options.lua    what it is made of, as data
---   block.lua      a layer: attention.lua and mlp.lua or experts.lua, with norms (norm.lua) around
---   rotary.lua     frequencies of rotary positions
---   cache.lua      keys and values of the tokens before
---
--- GPT-2, Llama, Mistral, Qwen, Gemma, Phi, OLMo, GPT-NeoX and OPT differ in where a norm
--- stands, which biases there are, how positions come in, and numbers: each such choice
--- is an option (options.lua), and they combine.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local Embedding = require "mrt.nn.embedding"
local Block = require "mrt.nn.decoder.block"
local Cache = require "mrt.nn.decoder.cache"
local initial = require "mrt.nn.initial"
local loss = require "mrt.nn.loss"
local norm = require "mrt.nn.decoder.norm"
local parameter = require "mrt.nn.parameter"
local read = require "mrt.nn.decoder.options"
local rotary = require "mrt.nn.decoder.rotary"
local scope = require "mrt.nn.scope"

--- Make a decoder: token ids `[B,T]` -> logits `[B,T,vocab]`.
---
---     local model = nn.Decoder { vocab = 512, dim = 128, layers = 4, heads = 8, kv_heads = 2,
---       context = 128, hidden = 384, qk_norm = "head", rope = { base = 1e6 } }
---
--- Weights begin normal with standard deviation 0.02, those that end on the residual
--- stream with 0.02 / sqrt(2 layers).
---@class mrt.nn.Decoder: mrt.nn.Module
---@field options mrt.nn.DecoderOptions  complete
---@field vocab integer
---@field context integer  longest sequence, in tokens
---@overload fun(options: mrt.nn.DecoderOptions): mrt.nn.Decoder
local Decoder = Module("Decoder", "tensor")

local function make_embeddings(self, o, init)
  local width = o.embed_dim or o.dim
  self.tokens = Embedding(o.vocab, width, { init = init.inner })
  if o.positions == "learned" then
    self.positions = Embedding(o.context + o.position_offset, o.dim, { init = init.inner })
  end
  if width ~= o.dim then
    self.embed_in = Linear(width, o.dim, { bias = false, init = init.inner })
  end
end

local function make_head(self, o, init)
  local width = o.embed_dim or o.dim
  if o.norm_place ~= "sum" then self.norm = norm(o.dim, o) end
  if width ~= o.dim then
    self.embed_out = Linear(o.dim, width, { bias = false, init = init.inner })
  end
  if not o.tie then
    self.head = Linear(width, o.vocab, { bias = o.bias.head, init = init.inner })
  elseif o.bias.head then
    self.head_bias = parameter("Decoder", initial.zeros(), o.vocab)
  end
end

function Decoder:init(given)
  local o = read(given)
  local init = { inner = initial.normal(0.02),
    last = initial.normal(0.02 / math.sqrt(2 * o.layers)) }
  rawset(self, "options", o)
  self.vocab, self.context = o.vocab, o.context
  make_embeddings(self, o, init)
  self.blocks = {}
  for i = 1, o.layers do self.blocks[i] = Block(o, init, i) end
  make_head(self, o, init)
end

-- ---- positions ---------------------------------------------------------------

---@class mrt.nn.DecoderAt
---@field cache? mrt.nn.decoder.Cache  keys and values of the tokens before
---@field start? mrt.Tensor      `[B]` integers: the position of each row's first token;
---  default 0
---@field whole? mrt.Tensor     `[B]` integers, with a cache: how long each row will be when all
---  of its prompt is read; default start + lengths
---@field positions? mrt.Tensor  `[B,T]` integers, in place of start + 0, 1, ...
---@field lengths? mrt.Tensor    `[B]` integers: how many tokens of each row count; the
---  results of the others are of no use
---@field segments? mrt.Tensor   `[B,T]` integers: a token sees those of its own segment
---@field mask? mrt.Tensor       what attention takes as a mask, beside causality

-- Positions [B,T]; nil: 0, 1, ... in every row.
local function positions_of(tokens, at)
  if at.positions or not at.start then return at.positions end
  return at.start:to "i32":unsqueeze(2) + mrt.arange(0, tokens:size(2), { dtype = "i32" })
end

-- Rows of a segment see those of their own; two dimensions are added for heads.
local function mask_of(at)
  local s = at.segments
  if not s then return at.mask end
  local same = s:unsqueeze(2):eq(s:unsqueeze(3)):unsqueeze(2)
  if not at.mask then return same end
  return mrt.where(same, at.mask:to "f32", -math.huge)
end

-- The length that frequencies are for: dynamic and longrope scaling look at it.
local function length_of(self, tokens, at)
  if at.cache then return at.cache.length or self.context end
  return at.start and self.context or tokens:size(2)
end

-- How long each row is with these tokens; nil: there is no cache.
local function whole_of(tokens, at)
  if not at.cache then return nil end
  return at.whole or at.start + (at.lengths or tokens:size(2))
end

-- What every layer is told.
local function place(self, tokens, given)
  local o, at = self.options, setmetatable({}, { __index = given })
  if at.cache and not at.start then
    at.start = mrt.zeros({ tokens:size(1) }, { dtype = "i32" })
  end
  if tokens:dim() ~= 2 then
    core.fail("shape", "Decoder", ("tokens %s, [batch, time] wanted"):format(tokens:type()))
  elseif tokens:size(2) > self.context then
    core.fail("shape", "Decoder", ("%s tokens, wanted at most context = %d")
      :format(tokens:type(), self.context))
  end
  local positions = positions_of(tokens, at)
  at.mask = mask_of(at)
  local length = length_of(self, tokens, at)
  local whole = whole_of(tokens, at)
  if o.rope then at.turn = rotary.turn(o.rope, positions, length, o.context, whole) end
  if o.rope_local then
    at.local_turn = rotary.turn(o.rope_local, positions, length, o.context, whole)
  end
  return at, positions
end

-- ---- the whole ---------------------------------------------------------------

-- The factor as a number of x's dtype: models were trained with one so rounded.
local function scaled(x, factor)
  local dtype = x:get_dtype()
  if dtype == "f64" then return x * factor end
  return x * mrt.full({}, factor):to(dtype)
end

local function embed(self, tokens, positions)
  local o, x = self.options, self.tokens(tokens)
  if o.embed_scale then x = scaled(x, o.embed_scale) end
  if self.embed_in then x = self.embed_in(x) end
  if not self.positions then return x end
  local first, T = o.position_offset, tokens:size(2)
  if not positions then return x + self.positions.weight:slice(1, first + 1, first + T) end
  return x + self.positions(first == 0 and positions or positions + first)
end

--- What the head reads.
---
---     local model = nn.Decoder { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:features(mrt.zeros({1, 4}, {dtype = "i64"})):type()  --> f32[1,4,32]
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.DecoderAt
---@return mrt.Tensor        `[B,T,dim]`
function Decoder:features(tokens, at)
  local told, positions = place(self, tokens, at or {})
  local x = embed(self, tokens, positions)
  for _, block in ipairs(self.blocks) do x = scope.layer(block, x, told) end
  if self.norm then x = self.norm(x) end
  return self.embed_out and self.embed_out(x) or x
end

--- The logits of features.
---
---     local model = nn.Decoder { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:logits(mrt.zeros(1, 4, 32)):type()  --> f32[1,4,65]
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[..., dim]`
---@return mrt.Tensor          `[..., vocab]`
function Decoder:logits(features)
  local y = self.head and self.head(features) or self.tokens:logits(features)
  if self.head_bias then y = y + self.head_bias end
  local cap = self.options.final_softcap
  return cap and (y / cap):tanh() * cap or y
end

---@param tokens mrt.Tensor  `[B,T]` integers in [0, vocab), T <= context
---@param at? mrt.nn.DecoderAt
---@return mrt.Tensor logits `[B,T,vocab]`
function Decoder:forward(tokens, at)
  return self:logits(self:features(tokens, at))
end

--- Keys and values for so many samples and tokens, empty: for the option `cache` of
--- `features`.
---
---     local model = nn.Decoder { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     local cache = model:cache { batch = 1 }
---
--- Raises: an option that there is not.
---@param given? mrt.nn.decoder.CacheOptions  length: default `context`; dtype: default that
---  of the weights
---@return mrt.nn.decoder.Cache
function Decoder:cache(given)
  local o, layers = self.options, {}
  for i = 1, o.layers do
    layers[i] = { heads = o.kv_heads, width = o.head_dim, window = o.windows[i] }
  end
  local cache = Cache.beside(self, layers, given)
  cache.switch = rotary.switch({ o.rope, o.rope_local }, cache.length)
  return cache
end

---@class mrt.nn.DecoderLossOptions: mrt.LinearCrossEntropyOptions
---@field at? mrt.nn.DecoderAt

--- The loss without all logits at once: see nn.linear_cross_entropy.
---
---     local model = nn.Decoder { vocab = 65, dim = 32, layers = 1, heads = 4, context = 16 }
---     model:loss(mrt.zeros({1, 4}, {dtype = "i64"}), mrt.zeros({1, 4}, {dtype = "i64"})):type()
---
--- Raises: tokens that are no integers `[B,T]`, more of them than the context.
---@param tokens mrt.Tensor   `[B,T]`
---@param targets mrt.Tensor  `[B,T]`; negative ones, or those that are `ignore_index`, are
---  left out of the mean
---@param given? mrt.nn.DecoderLossOptions
---@return mrt.Tensor
function Decoder:loss(tokens, targets, given)
  local o = {}
  for name, value in pairs(given or {}) do o[name] = value end
  local at = o.at
  o.at = nil
  if o.ignore_index == nil then
    o.ignore_index = -1
    if targets:get_dtype() ~= "u8" then targets = targets:maximum(-1) end
  end
  return loss.linear_cross_entropy(self:features(tokens, at),
    function(rows) return self:logits(rows) end, targets, o)
end

function Decoder:describe()
  return ("vocab %d, context %d"):format(self.vocab, self.context)
end

return Decoder
