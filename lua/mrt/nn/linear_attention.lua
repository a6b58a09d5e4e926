--- linear_attention.lua -- attention without softmax, with heads that forget
---
--- Katharopoulos et al., arXiv:2006.16236; with a decay of their own for each head, Sun et
--- al., arXiv:2307.08621.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local options = require "mrt.util.options"

---@class mrt.nn.LinearAttentionOptions
---@field bias? boolean   default true
---@field decay? boolean  heads forget, by 1 - 2^-5, 1 - 2^-6 ... a step; default true

--- Make a layer of linear attention: `[B,T,dim]` -> `[B,T,dim]`, each position reading
--- itself and those before it, in time and memory that are linear in T.
---
---     local y = nn.LinearAttention(64, 4)(mrt.randn(2, 100, 64))
---@class mrt.nn.LinearAttention: mrt.nn.Module
---@field heads integer
---@overload fun(dim: integer, heads: integer, o?: table): mrt.nn.LinearAttention
local LinearAttention = Module("LinearAttention", "tensor")

function LinearAttention:init(dim, heads, given)
  local o = options.read("LinearAttention", given, { bias = true, decay = true })
  options.size("LinearAttention", "dim", dim)
  options.size("LinearAttention", "heads", heads)
  if dim % heads ~= 0 then
    core.fail("value", "LinearAttention", ("dim %d is no multiple of %d heads"):format(dim, heads))
  end
  self.heads, self.decays = heads, o.decay
  self.qkv = Linear(dim, 3 * dim, { bias = o.bias })
  self.proj = Linear(dim, dim, { bias = o.bias })
end

---@param x mrt.Tensor  `[B,T,dim]`
---@return mrt.Tensor   `[B,T,dim]`
function LinearAttention:forward(x)
  if x:dim() ~= 3 then
    core.fail("shape", "LinearAttention", ("%s, [B,T,dim] wanted"):format(x:type()))
  end
  local B, T, H = x:size(1), x:size(2), self.heads
  local W = x:size(3) // H
  local q, k, v = self.qkv(x):reshape(B, T, 3 * H, W):split(H, 3)
  local decay
  if self.decays then
    local list = {}
    for i = 1, H do list[i] = 1 - 2.0 ^ (-4 - i) end
    decay = mrt.tensor(list)
  end
  local y = q:linear_attention(k, v, { decay = decay, scale = W ^ -0.5 })
  return self.proj(y:reshape(B, T, H * W))
end

function LinearAttention:describe()
  return ("%d heads%s"):format(self.heads, self.decays and "" or ", no decay")
end

return LinearAttention
