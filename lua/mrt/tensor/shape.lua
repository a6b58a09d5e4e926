--- shape.lua -- methods of tensors that give them another shape, or a part
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local place, read, refuse = dims.place, argument.read, argument.refuse

Tensor.view = op.reshape

--- Swap the two dimensions of a matrix.
---
---     mrt.tensor{{1, 2}, {3, 4}}:t()  --> [[1 3] [2 4]]
---
--- Raises: more than two dimensions.
---@return mrt.Tensor
function Tensor.t(x)
  if x:dim() > 2 then
    refuse("t", "%s, at most 2 dimensions wanted (see transpose)", x:type())
  end
  return x:dim() == 2 and op.transpose(x, 1, 2) or x
end

--- Add a dimension of size 1 before `dim`; -1 adds it at the end.
---
---     mrt.zeros(3):unsqueeze(1):type()  --> f32[1,3]
---
--- Raises: a dimension that x does not have.
---@param dim integer
---@return mrt.Tensor
function Tensor.unsqueeze(x, dim, ...)
  if type(dim) == "table" or ... then dim = read("unsqueeze", { "dim" }, dim, ...).dim end
  local shape = x:get_shape()
  table.insert(shape, place("unsqueeze", x, dim, 1), 1)
  return op.reshape(x, shape)
end

-- The dimensions that are asked for: by place, by name, one or a list.
local function chosen_dims(x, dim, ...)
  if type(dim) == "table" and dim[1] == nil or ... then
    dim = read("squeeze", { "dim" }, dim, ...).dim
  end
  if dim == nil then return nil end
  local chosen = {}
  for _, d in ipairs(dims.places("squeeze", x, dim)) do chosen[d] = true end
  return chosen
end

--- Drop dimensions of size 1: all of them, or those among the ones given.
---
---     mrt.zeros(1, 3):squeeze():type()  --> f32[3]
---
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]
---@return mrt.Tensor
function Tensor.squeeze(x, dim, ...)
  local kept, chosen, shape = {}, chosen_dims(x, dim, ...), x:get_shape()
  for i, n in ipairs(shape) do
    if n ~= 1 or (chosen and not chosen[i]) then kept[#kept + 1] = n end
  end
  return #kept < #shape and op.reshape(x, kept) or x
end

--- Make one dimension of those from the first to the last given.
---
---     mrt.zeros(2, 3, 4):flatten(2):type()  --> f32[2,12]
---
--- Raises: a dimension that x does not have.
---@param start_dim? integer  default 1
---@param end_dim? integer    default -1
---@return mrt.Tensor
function Tensor.flatten(x, start_dim, end_dim, ...)
  local o = read("flatten", { "start_dim", "end_dim" }, start_dim, end_dim, ...)
  if x:dim() == 0 then return op.reshape(x, 1) end
  local first = place("flatten", x, o.start_dim or 1)
  local last = place("flatten", x, o.end_dim or -1)
  if first > last then
    refuse("flatten", "from dim %d to dim %d, the first before the last wanted", first, last)
  end
  local shape = x:get_shape()
  local out = table.move(shape, 1, first - 1, 1, {})
  out[first] = dims.count(shape, first, last)
  return op.reshape(x, table.move(shape, last + 1, #shape, first + 1, out))
end

--- Take one position of a dimension, and drop the dimension.
---
---     mrt.tensor{{1, 2}, {3, 4}}:select(1, 2)  --> [3 4]
---
--- Raises: a position outside.
---@param dim integer
---@param index integer  1-based, negative from the end
---@return mrt.Tensor
function Tensor.select(x, dim, index, ...)
  if type(dim) == "table" or type(index) == "table" or ... then
    local o = read("select", { "dim", "index" }, dim, index, ...)
    dim, index = o.dim, o.index
  end
  local shape = x:get_shape()
  table.remove(shape, place("select", x, dim))
  return op.reshape(op.slice(x, dim, index, index), shape)
end

--- Split into `chunks` parts of one size, the last perhaps smaller.
---
---     mrt.arange(5):chunk(2)  --> [0 1 2], [3 4]
---
--- Shapes: `[n, ...]` -> parts `[n / chunks, ...]`.
--- Raises: chunks below 1; a dimension that x does not have.
---@param chunks integer
---@param dim? integer  default 1
---@return mrt.Tensor ...
function Tensor.chunk(x, chunks, dim, ...)
  local o = read("chunk", { "chunks", "dim" }, chunks, dim, ...)
  local at, count = place("chunk", x, o.dim or 1), o.chunks
  if math.type(count) ~= "integer" or count < 1 then
    refuse("chunk", "%s parts, a positive integer wanted", tostring(count))
  end
  return op.split(x, math.max(1, -(-x:size(at) // count)), at)
end

return Tensor
