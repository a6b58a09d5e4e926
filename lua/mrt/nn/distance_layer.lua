--- distance_layer.lua -- distances of rows as layers
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local distance = require "mrt.nn.distance"
local options = require "mrt.util.options"

local layers = {}

-- A layer that calls a function of two tensors with the options it was made with.
local function layer(name, key)
  local names, defaults = table.unpack(distance.options[key])
  local class = Module(name, "tensor")
  function class:init(...)
    rawset(self, "options", options.read(name, argument.read(name, names, ...), defaults))
  end
  function class:forward(x1, x2) return distance[key](x1, x2, self.options) end
  layers[name] = class
end

--- nn.pairwise_distance as a layer.
---
---     nn.PairwiseDistance()(mrt.zeros(2, 3), mrt.ones(2, 3)):type()  --> f32[2]
---@class mrt.nn.PairwiseDistance: mrt.nn.Module
layer("PairwiseDistance", "pairwise_distance")
--- nn.cosine_similarity as a layer.
---
---     nn.CosineSimilarity(2)(mrt.ones(2, 3), mrt.ones(2, 3))  --> [1.0 1.0]
---@class mrt.nn.CosineSimilarity: mrt.nn.Module
layer("CosineSimilarity", "cosine_similarity")

return layers
