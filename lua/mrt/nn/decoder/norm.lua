--- norm.lua -- the norms of decoders, by their kind
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local LayerNorm = require "mrt.nn.layer_norm"
local Module = require "mrt.nn.module"
local RMSNorm = require "mrt.nn.rms_norm"

-- Gemma's: y = x / rms(x) * (1 + weight), with weight in f32 whatever its dtype.
local OneMore = Module("RMSNorm1", "tensor")

function OneMore:init(dim, o)
  self.eps = o.eps
  self.weight = mrt.parameter(mrt.zeros(dim))
end

function OneMore:forward(x)
  local weight = self.weight
  if weight:get_dtype() ~= "f64" then weight = weight:to "f32" end
  return (x:rms_norm(weight + 1, { eps = self.eps })):to(x:get_dtype())
end

function OneMore:describe() return ("%d"):format(self.weight:size(1)) end

-- OLMo's: a layer norm without weights.
local Plain = Module("PlainLayerNorm", "tensor")

function Plain:init(dim, o) self.dim, self.eps = dim, o.eps end

function Plain:forward(x)
  local ones = mrt.ones(self.dim, { dtype = x:get_dtype() })
  return (x:layer_norm(ones, { eps = self.eps }))
end

function Plain:describe() return ("%d"):format(self.dim) end

local kinds = {
  rms = function(dim, o) return RMSNorm(dim, { eps = o.eps }) end,
  rms1 = OneMore,
  layer = function(dim, o) return LayerNorm(dim, { eps = o.eps, bias = o.norm_bias }) end,
  plain = Plain,
}

--- Make the norm that a decoder's options name, `dim` wide.
---@param dim integer
---@param o mrt.nn.DecoderOptions
---@return mrt.nn.Module
return function(dim, o) return kinds[o.norm](dim, o) end
