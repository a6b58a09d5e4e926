--- attention.lua -- the attention of a decoder's layer
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local norm = require "mrt.nn.decoder.norm"
local rotary = require "mrt.nn.decoder.rotary"

--- Attention, `[B,T,dim]` -> `[B,T,dim]`, with what a decoder's options say of
--- its layer.
---@class mrt.nn.decoder.Attention: mrt.nn.Module
local Attention = Module("DecoderAttention", "tensor")

---@param o mrt.nn.DecoderOptions
---@param init {inner: mrt.nn.Recipe, last: mrt.nn.Recipe}
---@param layer integer  from 1
function Attention:init(o, init, layer)
  local width, inner = o.head_dim, { bias = o.bias.qkv, init = init.inner }
  self.layer, self.heads, self.kv_heads, self.head_dim = layer, o.heads, o.kv_heads, width
  self.window, self.softcap, self.clip = o.windows[layer], o.softcap, o.clip
  self.scale, self.causal = o.scale, o.causal ~= false
  if o.layer_scale then self.scale = (o.scale or width ^ -0.5) / layer end
  self.q = Linear(o.dim, width * o.heads, inner)
  self.k = Linear(o.dim, width * o.kv_heads, inner)
  self.v = Linear(o.dim, width * o.kv_heads, inner)
  self.proj = Linear(width * o.heads, o.dim, { bias = o.bias.out, init = init.last })
  self.each_head = o.qk_norm == "head"
  if o.qk_norm then
    self.q_norm = norm(self.each_head and width or width * o.heads, o)
    self.k_norm = norm(self.each_head and width or width * o.kv_heads, o)
  end
end

-- One of queries, keys and values as [B,T,count,W].
local function heads(self, x, linear, count, its_norm)
  local y = linear(x)
  if its_norm and not self.each_head then y = its_norm(y) end
  if self.clip then y = y:clamp(-self.clip, self.clip) end
  y = y:reshape(x:size(1), x:size(2), count, self.head_dim)
  return its_norm and self.each_head and its_norm(y) or y
end

-- How to attend where there is no cache.
local function without_cache(self, at)
  return { causal = self.causal, mask = at.mask, lengths = at.lengths, key_lengths = at.lengths }
end

---@param x mrt.Tensor  `[B,T,dim]`
---@param at table      what the model says of these positions; `turns` among it
---@return mrt.Tensor   `[B,T,dim]`
function Attention:forward(x, at)
  local q = heads(self, x, self.q, self.heads, self.q_norm)
  local k = heads(self, x, self.k, self.kv_heads, self.k_norm)
  local v = heads(self, x, self.v, self.kv_heads)
  local turn = self.window and at.local_turn or at.turn
  if turn then q, k = rotary.apply(q, turn), rotary.apply(k, turn) end
  local how
  if at.cache then
    k, v, how = at.cache:put(self.layer, k, v, at)
  else
    how = without_cache(self, at)
  end
  how.scale, how.softcap = self.scale, self.softcap
  if self.window then how.window = { self.window, 0 } end
  local y = q:attention(k, v, how)
  return self.proj(y:reshape(x:size(1), x:size(2), self.heads * self.head_dim))
end

function Attention:describe()
  return ("%d heads of %d, %d of keys%s"):format(self.heads, self.head_dim, self.kv_heads,
    self.window and ", window " .. self.window or "")
end

return Attention
