--- parameter.lua -- a layer's parameter, as its recipe begins it
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local options = require "mrt.util.options"

--- Make a parameter that begins as a recipe says.
---
--- Raises: a recipe that gives anything but a tensor of these dimensions.
---@param who string  whose it is, for the message
---@param recipe mrt.nn.Recipe
---@param ... integer  dimensions
---@return mrt.Tensor
return function(who, recipe, ...)
  local x, dims = recipe(...), table.concat({ ... }, ",")
  if not core.is_tensor(x) or table.concat(x:size(), ",") ~= dims then
    core.fail("value", who, ("option 'init': a recipe of [%s] gave %s"):format(dims,
      options.show(x)))
  end
  return mrt.parameter(x)
end
