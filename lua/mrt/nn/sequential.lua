--- sequential.lua -- one layer after the other
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"
local scope = require "mrt.nn.scope"

--- Chain layers (or plain functions of a tensor), the first one first; a list of them
--- will do as well.
---
---     local net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
---                               nn.Linear(1024, 10))
---@class mrt.nn.Sequential: mrt.nn.Module
---@overload fun(...: mrt.nn.Module|function): mrt.nn.Sequential
local Sequential = Module "Sequential"

function Sequential:init(...)
  local first, n = ..., select("#", ...)
  if n == 1 and type(first) == "table" and not getmetatable(first) then
    return self:init(table.unpack(first))
  end
  self.layers = { ... }
  for i = 1, n do
    local layer = self.layers[i]
    if not options.is_callable(layer) then
      core.fail("value", "Sequential", ("layer %d: a function or module wanted, got %s")
        :format(i, options.show(layer)))
    elseif Module.is_class(layer) then
      core.fail("value", "Sequential", ("layer %d: %s is a class, %s() makes a module")
        :format(i, layer.type, layer.type))
    end
  end
end

---@param x mrt.Tensor
---@return mrt.Tensor
function Sequential:forward(x)
  for _, layer in ipairs(self.layers) do x = scope.layer(layer, x) end
  return x
end

return Sequential
