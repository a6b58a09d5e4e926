--- masks.lua -- which weights are pruned: they are 0 and stay so
---
--- A mask is a bool variable of the parameter's shape, false where it is pruned.
--- Optimizers take their gradients for 0 and set them to 0 after each update,
--- whatever moments of before say; averages and loaded states are set to 0 there as
--- well.  So what reads the parameter needs no mask.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local op = core.op

local masks = {}

local of = setmetatable({}, { __mode = "k" }) -- parameter -> mask

--- Note a parameter's mask; nil: it has none any more.
---@param p mrt.Tensor
---@param mask mrt.Tensor?
function masks.set(p, mask) of[p] = mask end

---@param p mrt.Tensor
---@return mrt.Tensor? mask
function masks.get(p) return of[p] end

-- x where the mask is true, 0 elsewhere.
local function keep(mask, x)
  return op.where(mask, x, op.full { shape = {}, value = 0, dtype = x:get_dtype() })
end

--- Return the gradients with 0 where their parameters are pruned.
---@param params mrt.Tensor[]
---@param grads mrt.Tensor[]
---@return mrt.Tensor[]
function masks.gradients(params, grads)
  if next(of) == nil then return grads end
  local out = {}
  for i, p in ipairs(params) do out[i] = of[p] and keep(of[p], grads[i]) or grads[i] end
  return out
end

--- Set what is pruned of a parameter to 0 again.
---@param p mrt.Tensor
---@param when? mrt.Tensor  bool scalar: false leaves it
---@param average? mrt.Tensor  of p: do so to this variable instead
function masks.restore(p, when, average)
  local variable = average or p
  if of[p] then core.assign(variable, keep(of[p], variable), when) end
end

return masks
