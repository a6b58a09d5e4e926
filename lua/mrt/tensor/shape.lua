--- shape.lua -- methods of tensors that give them another shape, or a part
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local place, refuse = dims.place, argument.refuse

Tensor.view = op.reshape

--- Swap the two dimensions of a matrix.
---@return mrt.Tensor
function Tensor.t(x)
  if x:dim() > 2 then
    refuse("t", "%s, at most 2 dimensions wanted (see transpose)", x:type())
  end
  return x:dim() == 2 and op.transpose(x, 1, 2) or x
end

--- Add a dimension of size 1 before `dim`; -1 adds it at the end.
---@param dim integer
---@return mrt.Tensor
function Tensor.unsqueeze(x, dim)
  local shape = x:get_shape()
  table.insert(shape, place("unsqueeze", x, dim, 1), 1)
  return op.reshape(x, shape)
end

--- Drop a dimension of size 1, or all of them.
---@param dim? integer
---@return mrt.Tensor
function Tensor.squeeze(x, dim)
  local shape, kept = x:get_shape(), {}
  local at = dim and place("squeeze", x, dim)
  for i, n in ipairs(shape) do
    if n ~= 1 or (at and i ~= at) then kept[#kept + 1] = n end
  end
  return #kept < #shape and op.reshape(x, kept) or x
end

--- Make one dimension of those from `first` to `last`.
---@param first? integer  default 1
---@param last? integer   default -1
---@return mrt.Tensor
function Tensor.flatten(x, first, last)
  if x:dim() == 0 then return op.reshape(x, 1) end
  first = place("flatten", x, first or 1)
  last = place("flatten", x, last or -1)
  local out, n = {}, 1
  for i, size in ipairs(x:get_shape()) do
    if i < first or i > last then
      out[#out + 1] = size
    else
      n = n * size
      if i == last then out[#out + 1] = n end
    end
  end
  return op.reshape(x, out)
end

--- Take position `i` of a dimension, and drop the dimension.
---@param dim integer
---@param i integer  1-based, negative from the end
---@return mrt.Tensor
function Tensor.select(x, dim, i)
  local shape = x:get_shape()
  table.remove(shape, place("select", x, dim))
  return op.reshape(op.slice(x, dim, i, i), shape)
end

--- Split into `count` parts of one size, the last perhaps smaller.
---@param count integer
---@param dim? integer  default 1
---@return mrt.Tensor ...
function Tensor.chunk(x, count, dim)
  dim = place("chunk", x, dim or 1)
  if math.type(count) ~= "integer" or count < 1 then
    refuse("chunk", "%s parts, a positive integer wanted", tostring(count))
  end
  return op.split(x, math.max(1, -(-x:size(dim) // count)), dim)
end

return Tensor
