--- activation.lua -- pointwise functions as layers, for Sequential
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"

local activation = {}

-- A layer that calls x:method(options).
local function layer(name, method)
  local class = Module(name, "tensor")
  function class:init(given) rawset(self, "options", given) end
  function class:forward(x) return x[method](x, self.options) end
  activation[name] = class
end

layer("ReLU", "relu")
layer("GELU", "gelu")  -- GELU{approximate = "tanh"} for GPT-2's
layer("SiLU", "silu")
layer("Tanh", "tanh")
layer("Sigmoid", "sigmoid")

return activation
