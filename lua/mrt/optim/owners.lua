--- owners.lua -- which optimizer updates a parameter
---
--- SPDX-License-Identifier: MIT

local owners = {}

local owner_of = setmetatable({}, { __mode = "k" }) -- by parameter

--- Note who updates parameters.
---@param optimizer mrt.Optimizer
---@param params mrt.Tensor[]
function owners.set(optimizer, params)
  for _, p in ipairs(params) do owner_of[p] = optimizer end
end

--- The optimizer made last of those that update a parameter.
---@param p mrt.Tensor
---@return mrt.Optimizer?
function owners.of(p) return owner_of[p] end

return owners
