--- block.lua -- one layer of a transformer, normalised before each half
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local LayerNorm = require "mrt.nn.layer_norm"
local Attention = require "mrt.nn.attention"
local MLP = require "mrt.nn.mlp"
local options = require "mrt.util.options"

--- Make a pre-norm transformer block, `[B,T,dim]` -> `[B,T,dim]`: x + attention(norm(x)),
--- and to this its mlp(norm(x)).
---
---     nn.Block(64, 4)(mrt.randn(2, 16, 64)):type()  --> f32[2,16,64]
---@class mrt.nn.Block: mrt.nn.Module
---@overload fun(dim: integer, heads: integer, options?: mrt.nn.BlockOptions): mrt.nn.Block
local Block = Module("Block", "tensor")

function Block:init(dim, heads, given)
  local o = options.read("Block", given, { bias = true, dropout = 0,
    rope = options.none, init = options.none, init_residual = options.none,
    head_dim = options.none, window = options.none, softcap = options.none })
  self.norm1 = LayerNorm(dim, { bias = o.bias })
  self.attention = Attention(dim, heads, o)
  self.norm2 = LayerNorm(dim, { bias = o.bias })
  self.mlp = MLP(dim, { bias = o.bias, dropout = o.dropout, init = o.init,
    init_residual = o.init_residual })
end

---@param x mrt.Tensor  `[B,T,dim]`
---@param at? mrt.nn.CacheAt
---@return mrt.Tensor   `[B,T,dim]`
function Block:forward(x, at)
  x = x + self.attention(self.norm1(x), at)
  return x + self.mlp(self.norm2(x))
end

return Block
