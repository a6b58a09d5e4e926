--- clip.lua -- no gradient longer, no element larger than this
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local argument = require "mrt.util.argument"
local trace = require "mrt.compile.trace"

local clip = {}

local function check(who, grads, max)
  argument.tensors(who, grads)
  if type(max) ~= "number" or not (max >= 0) then
    argument.refuse(who, "max = %s, a number from 0 wanted", tostring(max))
  end
end

-- How long they are together.
local function length(grads)
  local squares = trace.squares(grads)
  if not squares then return mrt.global_norm(grads) end
  return squares:sqrt():to(grads[1]:get_dtype())
end

--- Return what to multiply gradients by so that all together are no longer
--- than `max`, and how long they are: min(1, max / (norm + 1e-6)), as PyTorch
--- has it.  Pascanu et al. 2013 (arXiv:1211.5063).
---@param raw mrt.Tensor[]
---@param max number
---@param inverse? mrt.Tensor  scalar: the gradients are `raw` times this
---@return mrt.Tensor scale  scalar: what to multiply the gradients by
---@return mrt.Tensor norm   scalar
function clip.scale(raw, max, inverse)
  local norm = length(raw)
  if inverse then norm = norm * inverse:to(norm:get_dtype()) end
  return (max / (norm + 1e-6)):minimum(1), norm
end

--- Return the gradients shortened to a common length of `max` at most.
---
--- `opt:step(grads, {clip = max})` does the same without storing them anew.
---
---     local grads = optim.clip_grad_norm({ mrt.ones(4) }, 1)
---
--- Raises: a bound that is no number, or below 0.
---@param grads mrt.Tensor[]
---@param max number
---@return mrt.Tensor[] clipped
---@return mrt.Tensor norm   scalar, before clipping
function clip.clip_grad_norm(grads, max)
  check("clip_grad_norm", grads, max)
  local raw, inverse = trace.unscaled(grads)
  local scale, norm = clip.scale(raw, max, inverse)
  return trace.map(grads, function(g) return g * scale end), norm
end

--- Return the gradients with every element bounded to [-max, max].
---
---     local grads = optim.clip_grad_value({ mrt.ones(4) * 3 }, 1)
---
--- Raises: a bound that is no number, or below 0.
---@param grads mrt.Tensor[]
---@param max number
---@return mrt.Tensor[]
function clip.clip_grad_value(grads, max)
  check("clip_grad_value", grads, max)
  return trace.map(grads, function(g) return g:clamp(-max, max) end)
end

return clip
