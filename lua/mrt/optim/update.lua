--- update.lua -- hand one parameter's update to a fused operator
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

--- Apply the updating operator `op` to `inputs`, then the scale of the gradient
--- and the predicate, where there are any.
---@param op "adamw"|"adamw8"|"sgd"|"rmsprop"|"lion"
---@param inputs mrt.Tensor[]  what it overwrites first
---@param at mrt.Update
---@param options table
return function(op, inputs, at, options)
  if at.scale or at.when then
    inputs[#inputs + 1] = at.scale or 1
  end
  inputs[#inputs + 1] = at.when
  options.stochastic = at.stochastic
  core.update(op, inputs, options)
end
