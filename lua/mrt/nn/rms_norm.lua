--- rms_norm.lua -- Zhang & Sennrich 2019 (arXiv:1910.07467)
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

--- Make a root-mean-square norm over the last dimension, `dim` wide: y = x /
--- sqrt(mean(x * x) + eps) * weight.
---
---     nn.RMSNorm(64)(mrt.randn(2, 16, 64)):type()  --> f32[2,16,64]
---@class mrt.nn.RMSNorm: mrt.nn.Module
---@field weight mrt.Tensor  `[dim]`
---@overload fun(dim: integer, options?: {eps: number?}): mrt.nn.RMSNorm
local RMSNorm = Module("RMSNorm", "tensor")

function RMSNorm:init(dim, given)
  self.eps = options.read("RMSNorm", given, { eps = 1e-6 }).eps
  options.size("RMSNorm", "dim", dim)
  self.weight = mrt.parameter(mrt.ones(dim))
end

---@param x mrt.Tensor  `[..., dim]`
---@return mrt.Tensor   `[..., dim]`
function RMSNorm:forward(x)
  return (x:rms_norm(self.weight, { eps = self.eps }))
end

function RMSNorm:describe() return ("%d"):format(self.weight:size(1)) end

return RMSNorm
