--- compose.lua -- what updates that are composed of operators share
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local compose = {}

--- A number as a scalar f64: for what f32 would lose most digits of.
---@param value number
---@return mrt.Tensor
function compose.number(value) return mrt.full({}, value, { dtype = "f64" }) end

--- 1 - beta^t, in `dtype`.
---@param beta number
---@param t mrt.Tensor  scalar
---@param dtype mrt.DType
---@return mrt.Tensor   scalar
function compose.unbias(beta, t, dtype)
  return (1 - compose.number(beta) ^ t:to "f64"):to(dtype)
end

--- The gradient as an update reads it: scaled, with the decay of the parameter added.
---@param p mrt.Tensor
---@param g mrt.Tensor
---@param at mrt.Update
---@param decoupled? boolean  the decay is not added: see compose.decayed
---@return mrt.Tensor
function compose.gradient(p, g, at, decoupled)
  if at.scale then g = g * at.scale end
  if at.weight_decay ~= 0 and not decoupled then g = g + p * at.weight_decay end
  return g
end

--- The parameter, less its decay by the learning rate.
---@param p mrt.Tensor
---@param at mrt.Update
---@return mrt.Tensor
function compose.decayed(p, at)
  if at.weight_decay == 0 then return p end
  return p - p * (at.lr * at.weight_decay)
end

--- The square root of the sum of all squares, in x's dtype.
---@param x mrt.Tensor
---@return mrt.Tensor  scalar
function compose.length(x) return mrt.global_norm({ x }):to(x.dtype) end

return compose
