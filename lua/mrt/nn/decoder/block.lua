--- block.lua -- one layer of a decoder: two halves, and norms where they belong
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local Attention = require "mrt.nn.decoder.attention"
local Experts = require "mrt.nn.decoder.experts"
local MLP = require "mrt.nn.decoder.mlp"
local norm = require "mrt.nn.decoder.norm"

---     pre    x + f(norm x)                  parallel  x + f(norm x) + g(norm x)
---     post   x + norm(f x)                  sum       norm(x + f x)
---     both   x + norm'(f(norm x))
---@class mrt.nn.decoder.Block: mrt.nn.Module
local Block = Module("DecoderBlock", "tensor")

---@param o mrt.nn.DecoderOptions
---@param init {inner: mrt.nn.Recipe, last: mrt.nn.Recipe}
---@param layer integer  from 1
function Block:init(o, init, layer)
  self.place, self.parallel = o.norm_place, o.parallel
  self.norm1 = norm(o.dim, o)
  self.attention = Attention(o, init, layer)
  if o.norm_place == "both" then self.after1 = norm(o.dim, o) end
  if o.parallel ~= "one" then self.norm2 = norm(o.dim, o) end
  local expert = o.experts and o.experts.layers[layer]
  self.mlp = (expert and Experts or MLP)(o, init)
  if o.norm_place == "both" then self.after2 = norm(o.dim, o) end
end

local places = {
  pre = function(x, f, before, _, at) return x + f(before(x), at) end,
  post = function(x, f, after, _, at) return x + after(f(x, at)) end,
  sum = function(x, f, after, _, at) return after(x + f(x, at)) end,
  both = function(x, f, before, after, at) return x + after(f(before(x), at)) end,
}

---@param x mrt.Tensor  `[B,T,dim]`
---@param at table
---@return mrt.Tensor   `[B,T,dim]`
function Block:forward(x, at)
  if self.parallel then
    local first = self.norm1(x)
    local second = self.norm2 and self.norm2(x) or first
    return x + self.attention(first, at) + self.mlp(second)
  end
  local half = places[self.place]
  x = half(x, self.attention, self.norm1, self.after1, at)
  return half(x, self.mlp, self.norm2, self.after2)
end

return Block
