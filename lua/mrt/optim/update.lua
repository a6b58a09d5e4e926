--- update.lua -- hand one parameter's update to a fused operator
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

--- Apply the updating operator `op` to `inputs`, then the scale of the gradient
--- and the predicate, where there are any; or with moments in 8 bits, which have
--- scales, the operator for these.
---@param op "descend"|"adamw"|"sgd"|"rmsprop"|"lion"
---@param inputs mrt.Tensor[]  what it overwrites first
---@param at mrt.Update
---@param options table
---@param ... mrt.Tensor?  a scale for each moment, which the inputs have after p
return function(op, inputs, at, options, ...)
  local scales = { ... }
  if #scales > 0 then
    op, options.lazy = op .. "8", nil
    for i, scale in ipairs(scales) do table.insert(inputs, 1 + #scales + i, scale) end
  end
  if at.scale or at.when then
    inputs[#inputs + 1] = at.scale or 1
  end
  inputs[#inputs + 1] = at.when
  options.stochastic, options.draw, options.place = at.stochastic, at.draw, at.place
  core.update(op, inputs, options)
end
