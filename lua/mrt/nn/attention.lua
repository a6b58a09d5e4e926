--- attention.lua -- causal self-attention with several heads
---
--- Vaswani et al. 2017 (arXiv:1706.03762).  Queries, keys and values come from
--- one matmul and stay where it put them: the heads are views, and the fused
--- operator reads them in place and never stores the matrix of scores.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local Dropout = require "mrt.nn.dropout"
local options = require "mrt.util.options"
local rotary = require "mrt.nn.decoder.rotary"

---@class mrt.nn.BlockOptions
---@field bias? boolean         default true
---@field dropout? number       default 0
---@field head_dim? integer     width of a head; default dim / heads
---@field rope? boolean|number  turn queries and keys by their position (Su et
---  al. 2021): true for base 10000, or the base
---@field window? integer       each position reads only so many before its own
---@field softcap? number       scores become cap tanh(score / cap)
---@field init? mrt.nn.Recipe   of weights
---@field init_residual? mrt.nn.Recipe  of weights that end on the residual

--- Make an attention layer: `[B,T,dim]` -> `[B,T,dim]`, each position reading
--- itself and those before it.
---
--- Dropout is on the result only: probabilities are never stored.
---
---     nn.CausalSelfAttention(16, 4)(mrt.randn(2, 5, 16)):type()  --> f32[2,5,16]
---@class mrt.nn.CausalSelfAttention: mrt.nn.Module
---@field heads integer
---@field head_dim integer
---@field layer integer?  of a cache, which the model sets
---@overload fun(dim: integer, heads: integer, options?: mrt.nn.BlockOptions): mrt.nn.Module
local Attention = Module("CausalSelfAttention", "tensor")

function Attention:init(dim, heads, given)
  local o = options.read("CausalSelfAttention", given, { bias = true,
    dropout = 0, rope = options.none, init = options.none,
    init_residual = options.none, head_dim = options.of "size",
    window = options.of "integer", softcap = options.of "number" })
  options.size("CausalSelfAttention", "dim", dim)
  options.size("CausalSelfAttention", "heads", heads)
  if not o.head_dim and dim % heads ~= 0 then
    core.fail("value", "CausalSelfAttention",
      ("dim %d is no multiple of %d heads: give their width, head_dim"):format(dim, heads))
  end
  self.heads, self.head_dim = heads, o.head_dim or dim // heads
  self.rope = o.rope == true and 10000 or o.rope
  self.window, self.softcap = o.window, o.softcap
  local inner = heads * self.head_dim
  self.qkv = Linear(dim, 3 * inner, { bias = o.bias, init = o.init })
  self.proj = Linear(inner, dim, { bias = o.bias, init = o.init_residual })
  self.dropout = Dropout(o.dropout)
end

---@param x mrt.Tensor  `[B,T,dim]`
---@param at? mrt.nn.CacheAt  keys and values of the tokens before; `layer` says whose
---@return mrt.Tensor   `[B,T,dim]`
function Attention:forward(x, at)
  local B, T, H, W = x:size(1), x:size(2), self.heads, self.head_dim
  local q, k, v = self.qkv(x):reshape(B, T, 3 * H, W):split(H, 3)
  if self.rope then
    q, k = rotary.by(q, self.rope, at), rotary.by(k, self.rope, at)
  end
  local how = { causal = true }
  if at then k, v, how = at.cache:put(self.layer, k, v, at) end
  how.window, how.softcap = self.window, self.softcap
  local y = q:attention(k, v, how)
  return self.dropout(self.proj(y:reshape(B, T, H * W)))
end

function Attention:describe()
  return ("%d heads of %d%s"):format(self.heads, self.head_dim, self.rope and ", rope" or "")
end

return Attention
