--- distance.lua -- how far rows are from each other
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local options = require "mrt.util.options"

local op = core.op
local distance = {}

local function read(who, names, defaults, x1, x2, ...)
  argument.tensor(who, "x1", x1)
  argument.tensor(who, "x2", x2)
  return options.read(who, argument.read(who, names, ...), defaults)
end

local norm_names, norm_defaults = { "p", "eps", "keepdim" },
  { p = 2, eps = 1e-6, keepdim = false }

--- The p-norm of x1 - x2 + eps over the last dimension; they broadcast.
---
---     nn.pairwise_distance(mrt.tensor{0.0, 0.0}, mrt.tensor{3.0, 4.0})  --> 4.999999
---
--- Raises: shapes that do not broadcast.
---@param x1 mrt.Tensor  `[..., D]`
---@param x2 mrt.Tensor  `[..., D]`
---@param p? number|{p: number?, eps: number?, keepdim: boolean?}  default 2
---@param eps? number    default 1e-6
---@param keepdim? boolean
---@return mrt.Tensor    `[...]`
function distance.pairwise_distance(x1, x2, p, eps, keepdim)
  local o = read("pairwise_distance", norm_names, norm_defaults, x1, x2, p, eps, keepdim)
  return (x1 - x2 + o.eps):norm { p = o.p, dim = -1, keepdim = o.keepdim }
end

local cosine_names, cosine_defaults = { "dim", "eps" }, { dim = 2, eps = 1e-8 }

--- The cosine of the angle between x1 and x2 along a dimension: x1 x2 / (|x1| |x2|), where
--- no length counts as less than eps.
---
---     nn.cosine_similarity(mrt.tensor{1.0, 0.0}, mrt.tensor{1.0, 1.0}, 1)  --> 0.7071068
---
--- Raises: shapes that do not broadcast.
---@param x1 mrt.Tensor
---@param x2 mrt.Tensor  broadcasts with x1
---@param dim? integer|{dim: integer?, eps: number?}  default 2
---@param eps? number    default 1e-8
---@return mrt.Tensor    without that dimension
function distance.cosine_similarity(x1, x2, dim, eps)
  local o = read("cosine_similarity", cosine_names, cosine_defaults, x1, x2, dim, eps)
  local function unit(x)
    return x / x:norm { p = 2, dim = o.dim, keepdim = true }:maximum(o.eps)
  end
  local rank = math.max(x1:dim(), x2:dim())
  if x1:dim() ~= rank or x2:dim() ~= rank then -- a dimension is counted in the result
    local both = op.add(x1, x2):size()
    x1, x2 = op.expand(x1, both), op.expand(x2, both)
  end
  return (unit(x1) * unit(x2)):sum(o.dim)
end

--- Names of options in their order, and defaults: for the layers.
distance.options = { pairwise_distance = { norm_names, norm_defaults },
  cosine_similarity = { cosine_names, cosine_defaults } }

return distance
