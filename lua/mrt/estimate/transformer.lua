--- transformer.lua -- parameters, activations and work of a GPT, by formula
---
--- Activations: Korthikanti et al. 2022, "Reducing activation recomputation in
--- large transformer models" (arXiv:2205.05198), sections 4 and 5 and appendix A.
--- With s tokens, batch b, width h, a heads and t ways of tensor parallelism, at
--- 16 bit with dropout masks of a byte, a layer keeps
---
---     all                       s b h (34 + 5 a s / h)
---     tensor parallel           s b h (10 + 24 / t + 5 a s / (h t))
---     + sequence parallel       s b h (34 / t + 5 a s / (h t))
---     selective                 the same without the term in a: scores recomputed
---     full                      2 s b h: its input, the boundary
---
--- Here elements are e bytes (masks stay at one), and the MLP is any width f:
--- s b ((4 h + 4 w + 2 f) e + 2 h) + a s^2 b (2 e + 1) with w the width of all
--- heads together, which is the first line above for e = 2, f = 4 h, w = h.
---
--- SPDX-License-Identifier: MIT

local read = require "mrt.estimate.read"

local transformer = {}

local recomputes = { none = true, selective = true, full = true }
local attentions = { explicit = true, fused = true }

---@class mrt.estimate.TransformerOptions
---@field sequence integer   tokens
---@field dim integer        h
---@field heads integer
---@field head_dim? integer  width of a head; default dim / heads
---@field layers? integer    default 1
---@field batch? integer     sequences in a micro-batch; default 1
---@field ff? integer        width inside the MLP; default 4 dim
---@field vocab? integer     for the logits; left out without it
---@field dtype? string      of activations; default f16
---@field dropout? boolean   default true: masks, and scores before and after
---@field attention? string  "explicit" (default) keeps scores, "fused" 4 bytes a row
---@field recompute? string  "none" (default), "selective" or "full"
---@field tensor? integer    ways of tensor parallelism; default 1
---@field sequence_parallel? boolean
---@field pipeline? integer  stages; default 1
---@field interleave? integer  model parts a stage; default 1

local function activation_options(who, given)
  local o = read.options(who, given, { sequence = read.needed, dim = read.needed,
    heads = read.needed, head_dim = read.optional, layers = 1, batch = 1, ff = read.optional,
    vocab = read.optional, dtype = "f16", dropout = true, attention = "explicit",
    recompute = "none", tensor = 1, sequence_parallel = false, pipeline = 1,
    interleave = 1 })
  read.choice(who, "recompute", o.recompute, recomputes)
  read.choice(who, "attention", o.attention, attentions)
  if o.heads % o.tensor ~= 0 then
    read.refuse(who, "tensor = %.0f does not divide %.0f heads", o.tensor, o.heads)
  end
  if o.layers % o.pipeline ~= 0 then
    read.refuse(who, "pipeline = %.0f does not divide %.0f layers", o.pipeline, o.layers)
  end
  o.inner = o.head_dim and o.heads * o.head_dim or o.dim
  o.ff, o.bytes = o.ff or 4 * o.dim, read.bytes(who, o.dtype)
  return o
end

-- Explicit attention keeps the softmax, and what dropout makes of it; fused
-- attention the logarithm of each row's sum.
local function scores(o)
  if o.recompute == "selective" then return 0 end
  local rows = o.heads * o.sequence * o.batch
  if o.attention == "fused" then return 4 * rows end
  return rows * o.sequence * (o.dropout and 2 * o.bytes + 1 or o.bytes)
end

local function layer(o)
  local tokens, e = o.sequence * o.batch, o.bytes
  if o.recompute == "full" then return e * tokens * o.dim end
  -- Two norms' inputs, the inputs of attention and MLP, two masks: each rank
  -- has them whole unless the sequence is cut too.
  local shared = tokens * o.dim * (4 * e + (o.dropout and 2 or 0))
  -- Queries, keys, values, the projection's input, the MLP's inside twice.
  local cut = tokens * e * (4 * o.inner + 2 * o.ff) + scores(o)
  return shared / (o.sequence_parallel and o.tensor or 1) + cut / o.tensor
end

--- Return what one layer keeps for its gradient, on one rank.
---
---     mrt.estimate.layer { sequence = 2048, dim = 12288, heads = 96 }  --> 2868903936
---
--- Raises: an option that is missing or that there is not.
---@param o mrt.estimate.TransformerOptions
---@return integer bytes
function transformer.layer(o)
  return read.whole(layer(activation_options("estimate.layer", o)))
end

---@class mrt.estimate.Activations
---@field layer integer      bytes a layer, as all below on one rank
---@field layers integer     bytes of all layers the first stage holds
---@field embedding integer  bytes of the mask after the embedding
---@field norm integer       bytes of the last norm's input
---@field head integer       bytes of the head's input
---@field logits integer     bytes, in f32; 0 without `vocab`
---@field total integer      bytes

--- Return what the first pipeline stage keeps: p micro-batches of L/p layers, so L
--- layers' worth whatever p, and interleaving's share (1 + (p-1)/(p m)).  With one
--- stage the last norm, the head and the logits are in it too.
---
---     mrt.estimate.activations { sequence = 2048, dim = 12288, heads = 96, layers = 96 }
---
--- Raises: an option that is missing or that there is not.
---@param given mrt.estimate.TransformerOptions
---@return mrt.estimate.Activations
function transformer.activations(given)
  local o = activation_options("estimate.activations", given)
  local p, m = o.pipeline, o.interleave
  local values = o.batch * o.sequence * o.dim / (o.sequence_parallel and o.tensor or 1)
  local last = p == 1 and 1 or 0
  local out = {
    layer = layer(o),
    layers = layer(o) * o.layers * (m > 1 and 1 + (p - 1) / (p * m) or 1),
    embedding = o.dropout and values * p or 0,
    norm = last * o.bytes * values,
    head = last * o.bytes * values,
    logits = last * 4 * o.batch * o.sequence * (o.vocab or 0) / o.tensor,
  }
  out.total = out.layers + out.embedding + out.norm + out.head + out.logits
  for name, bytes in pairs(out) do out[name] = read.whole(bytes) end
  return out
end

--- Return what is kept of `tokens` tokens at the boundaries of layers, and no
--- more: what checkpointing each layer leaves.
---
---     mrt.estimate.boundary { tokens = 1e6, dim = 2560, layers = 32 }  --> 163840000000
---
--- Raises: an option that is missing or that there is not.
---@param given {tokens: integer, dim: integer, layers: integer, dtype: string?}  f16
---@return integer bytes
function transformer.boundary(given)
  local o = read.options("estimate.boundary", given, { tokens = read.needed,
    dim = read.needed, layers = read.needed, dtype = "f16" })
  return read.whole(o.tokens * o.dim * o.layers * read.bytes("estimate.boundary", o.dtype))
end

---@class mrt.estimate.ParameterOptions
---@field vocab integer
---@field context integer  learned positions
---@field dim integer
---@field layers integer
---@field heads? integer   with head_dim
---@field head_dim? integer  width of a head; default dim / heads
---@field ff? integer      default 4 dim
---@field bias? boolean    in linear layers and norms; default true
---@field tie? boolean     one table for tokens and head; default true

--- Count the parameters of a GPT as nn.GPT has them: 12 L h^2 (1 + 13 / (12 h) +
--- (V + s) / (12 L h)), and 2 h of the last norm.
---
---     mrt.estimate.parameters { vocab = 50257, context = 1024, dim = 768, layers = 12 }
---     --> 124439808
---
--- Raises: an option that is missing or that there is not.
---@param given mrt.estimate.ParameterOptions
---@return integer count
function transformer.parameters(given)
  local o = read.options("estimate.parameters", given, { vocab = read.needed,
    context = read.needed, dim = read.needed, layers = read.needed,
    heads = read.optional, head_dim = read.optional, ff = read.optional, bias = true,
    tie = true })
  local h, f = o.dim, o.ff or 4 * o.dim
  if o.head_dim and not o.heads then
    read.refuse("estimate.parameters", "head_dim = %.0f of how many heads?", o.head_dim)
  end
  local w = o.head_dim and o.heads * o.head_dim or h
  local norm = o.bias and 2 * h or h
  local block = 4 * h * w + 2 * h * f + 2 * norm + (o.bias and 3 * w + 2 * h + f or 0)
  return read.whole((o.tie and 1 or 2) * o.vocab * h + o.context * h + o.layers * block + norm)
end

--- Return the work of one step, forward and backward, for `batch` sequences: the
--- model's, and the hardware's with what `recompute` adds.
---
---     mrt.estimate.flops { vocab = 50257, sequence = 1024, dim = 768, layers = 12, batch = 1 }
---
--- Raises: an option that is missing or that there is not.
---@param given mrt.estimate.TransformerOptions  of it batch, layers, sequence, dim,
---  vocab and recompute
---@return {model: number, hardware: number}  floating-point operations
function transformer.flops(given)
  local o = read.options("estimate.flops", given, { batch = 1, layers = read.needed,
    sequence = read.needed, dim = read.needed, vocab = read.needed, recompute = "none" })
  read.choice("estimate.flops", "recompute", o.recompute, recomputes)
  local L, s, h = o.layers, o.sequence, o.dim
  local base, head = 72 * o.batch * L * s * h * h, o.vocab / (12 * h * L)
  local model = base * (1 + s / (6 * h) + head)
  local again = { none = 0, selective = s / (6 * h), full = (1 + s / (6 * h)) / 3 }
  return { model = model, hardware = model + base * again[o.recompute] }
end

return transformer
