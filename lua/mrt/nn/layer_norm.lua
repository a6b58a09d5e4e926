--- layer_norm.lua -- Ba, Kiros & Hinton 2016 (arXiv:1607.06450)
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

--- Make a layer norm over the last dimension, `dim` wide: y = (x - mean) /
--- sqrt(var + eps) * weight + bias.
---
---     nn.LayerNorm(64)(mrt.randn(2, 16, 64)):type()  --> f32[2,16,64]
---@class mrt.nn.LayerNorm: mrt.nn.Module
---@field weight mrt.Tensor  `[dim]`
---@field bias mrt.Tensor?   `[dim]`
---@overload fun(dim: integer, options?: {eps: number?, bias: boolean?}): mrt.nn.LayerNorm
local LayerNorm = Module("LayerNorm", "tensor")

function LayerNorm:init(dim, given)
  options.size("LayerNorm", "dim", dim)
  local o = options.read("LayerNorm", given, { eps = 1e-5, bias = true })
  self.eps = o.eps
  self.weight = mrt.parameter(mrt.ones(dim))
  if o.bias then self.bias = mrt.parameter(mrt.zeros(dim)) end
end

---@param x mrt.Tensor  `[..., dim]`
---@return mrt.Tensor   `[..., dim]`
function LayerNorm:forward(x)
  local o = { eps = self.eps }
  if self.bias then
    return (x:layer_norm(self.weight, self.bias, o))
  end
  return (x:layer_norm(self.weight, o))
end

function LayerNorm:describe() return ("%d"):format(self.weight:size(1)) end

return LayerNorm
