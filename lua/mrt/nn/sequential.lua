--- sequential.lua -- one layer after the other
---
--- SPDX-License-Identifier: MIT

local Module = require "mrt.nn.module"
local scope = require "mrt.scope"

--- Chain layers (or plain functions of a tensor), the first one first.
---
---     local net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
---                               nn.Linear(1024, 10))
---@class mrt.nn.Sequential: mrt.nn.Module
---@overload fun(...: mrt.nn.Module|function): mrt.nn.Sequential
local Sequential = Module "Sequential"

function Sequential:init(...) self.layers = { ... } end

---@param x mrt.Tensor
---@return mrt.Tensor
function Sequential:forward(x)
  for _, layer in ipairs(self.layers) do x = scope.layer(layer, x) end
  return x
end

return Sequential
