--- pool.lua -- pools of images, and what follows them
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"

local pool = {}

-- A layer that calls x:method(first, options).
local function layer(name, method)
  local class = Module(name)
  function class:init(first, given)
    rawset(self, "first", first)
    rawset(self, "options", given)
  end
  function class:forward(x) return x[method](x, self.first, self.options) end
  pool[name] = class
end

-- MaxPool2d(3, { stride = 2, padding = 1 }): options of Tensor.max_pool2d
layer("MaxPool2d", "max_pool2d")
layer("AvgPool2d", "avg_pool2d")
layer("AdaptiveAvgPool2d", "adaptive_avg_pool2d") -- AdaptiveAvgPool2d(7)
layer("GlobalAvgPool", "global_avg_pool2d")       -- [N,C,H,W] -> [N,C]
layer("Upsample", "upsample_nearest2d")           -- Upsample(2): pixels repeated

--- Make one dimension of all but the first, or of those from `first` to `last`.
---@class mrt.nn.Flatten: mrt.nn.Module
---@overload fun(first?: integer, last?: integer): mrt.nn.Flatten
local Flatten = Module "Flatten"

function Flatten:init(first, last)
  rawset(self, "first", first or 2)
  rawset(self, "last", last or -1)
end

---@param x mrt.Tensor
---@return mrt.Tensor
function Flatten:forward(x) return x:flatten(self.first, self.last) end

pool.Flatten = Flatten

return pool
