--- cut.lua -- layers made smaller where they are: some channels of their parameters
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local masks = require "mrt.prune.masks"

local cut = {}

--- Some positions of a dimension, in their order, each standing for `span` neighbours.
---@param x mrt.Tensor
---@param dim integer
---@param kept integer[]  rising
---@param span integer
---@return mrt.Tensor
local function pick(x, dim, kept, span)
  local parts, i = {}, 1
  while kept[i] do
    local last = i
    while kept[last + 1] == kept[last] + 1 do last = last + 1 end
    parts[#parts + 1] = x:slice(dim, (kept[i] - 1) * span + 1, kept[last] * span)
    i = last + 1
  end
  return #parts == 1 and parts[1] or mrt.cat(parts, dim)
end

-- A variable in the place of another, or of nothing.
local function replace(holder, field, value)
  local old = rawget(holder, field)
  local new = mrt.variable(mrt.eval(value:copy()))
  if old:get_name() then new:set_name(old:get_name()) end
  rawset(holder, field, new)
  return new
end

--- Keep some positions of a parameter or buffer, and of its mask, if it is there.
---@param holder mrt.nn.Module
---@param field string
---@param dim integer
---@param kept integer[]
---@param span? integer  neighbours that each stands for; default 1
function cut.variable(holder, field, dim, kept, span)
  local old = rawget(holder, field)
  if not core.is_variable(old) then return end
  local mask = masks.get(old)
  local new = replace(holder, field, pick(old:detach(), dim, kept, span or 1))
  if not mask then return end
  masks.set(old, nil)
  if rawget(holder, "weight_mask") then
    mask = replace(holder, "weight_mask", pick(mask, dim, kept, span or 1))
  else
    mask = mrt.variable(mrt.eval(pick(mask, dim, kept, span or 1):copy()))
  end
  masks.set(new, mask)
end

--- Results of a linear layer, a convolution or a batch norm.
---@param layer mrt.nn.Module
---@param kept integer[]
---@param span? integer
function cut.outputs(layer, kept, span)
  for _, field in ipairs { "weight", "bias", "running_mean", "running_var" } do
    cut.variable(layer, field, 1, kept, span)
  end
  if rawget(layer, "channels") then rawset(layer, "channels", #kept) end
end

--- Inputs of a linear layer or a convolution.
---@param layer mrt.nn.Module
---@param kept integer[]
---@param span? integer
function cut.inputs(layer, kept, span) cut.variable(layer, "weight", 2, kept, span) end

return cut
