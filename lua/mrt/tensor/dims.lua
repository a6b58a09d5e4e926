--- dims.lua -- dimensions, positions and shapes, as methods of tensors read them
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local show = require "mrt.util.options".show

local op, refuse = core.op, argument.refuse

local dims = {}

--- A dimension as 1..rank; `extra` dimensions may be added at the end.
---@param who string
---@param x mrt.Tensor
---@param dim any
---@param extra? integer
---@return integer
function dims.place(who, x, dim, extra)
  local rank = x:dim() + (extra or 0)
  local at = type(dim) == "number" and math.tointeger(dim) or nil
  if at and at < 0 then at = at + rank + 1 end
  if at and at >= 1 and at <= rank then return at end
  if dim == 0 then
    refuse(who, "dim 0 of %s: dimensions count from 1 here (or from the end: -1)", x:type())
  elseif rank == 0 then
    refuse(who, "dim %s of %s, which has no dimensions", show(dim), x:type())
  end
  refuse(who, "dim %s of %s, 1 to %d (or from the end: -1) wanted", show(dim), x:type(), rank)
end

--- A dimension or several, each once, as 1..rank.
---@return integer[]
function dims.places(who, x, given)
  local list, seen = {}, {}
  for i, d in ipairs(type(given) == "table" and given or { given }) do
    list[i] = dims.place(who, x, d)
    if seen[list[i]] then refuse(who, "dim %d is given twice", list[i]) end
    seen[list[i]] = true
  end
  return list
end

--- An integer, perhaps of at least `least`.
---@return integer
function dims.integer(who, what, value, least)
  local n = type(value) == "number" and math.tointeger(value) or nil
  if n and n >= (least or n) then return n end
  local wanted = least == nil and "an integer" or least == 0 and "an integer, 0 or more,"
    or least == 1 and "a positive integer" or ("an integer, %d or more,"):format(least)
  refuse(who, "%s: %s wanted, got %s", what, wanted, show(value))
end

--- Integers given one by one, as a list, or by name: (2, 3), ({2, 3}), {size = {2, 3}}.
---@param who string
---@param name string
---@return integer[]
function dims.list(who, name, ...)
  local first, list = (...), { ... }
  if type(first) == "table" and not core.is_tensor(first) then
    list = first
    if first[1] == nil and next(first) ~= nil then
      list = argument.read(who, { name }, first)[name]
    end
    if type(list) ~= "table" then list = { list } end
  end
  for i = 1, #list do dims.integer(who, ("%s: number %d"):format(name, i), list[i]) end
  return list
end

--- A list of tensors, or as many arguments; after a list nothing is taken.
---@param who string
---@return mrt.Tensor[]
function dims.tensors(who, ...)
  local first, list = (...), { ... }
  if not core.is_tensor(first) then
    argument.read(who, {}, select(2, ...))
    list = argument.tensors(who, first)
  end
  for i, x in ipairs(list) do argument.tensor(who, ("tensor %d"):format(i), x) end
  return list
end

--- "[2,3]", for messages.
---@param shape integer[]
---@return string
function dims.text(shape) return "[" .. table.concat(shape, ",") .. "]" end

---@param a integer[]
---@param b integer[]
---@return boolean
function dims.same(a, b)
  if #a ~= #b then return false end
  for i, n in ipairs(a) do
    if n ~= b[i] then return false end
  end
  return true
end

--- The shape that shapes broadcast to, NumPy's rules.
---@param who string
---@param shapes integer[][]
---@return integer[]
function dims.broadcast(who, shapes)
  local rank, out = 0, {}
  for _, shape in ipairs(shapes) do rank = math.max(rank, #shape) end
  for d = 1, rank do out[d] = 1 end
  for _, shape in ipairs(shapes) do
    for i, n in ipairs(shape) do
      local d = rank - #shape + i
      if n ~= 1 and out[d] ~= 1 and n ~= out[d] then
        refuse(who, "%s does not broadcast with size %d of dim %d", dims.text(shape), out[d], d)
      end
      if n ~= 1 then out[d] = n end
    end
  end
  return out
end

--- Product of sizes [from, to].
---@return integer
function dims.count(shape, from, to)
  local n = 1
  for i = from or 1, to or #shape do n = n * shape[i] end
  return n
end

--- x in this shape, repeated where it must be.
---@return mrt.Tensor
function dims.expand(x, shape)
  return dims.same(x:get_shape(), shape) and x or op.expand(x, shape)
end

--- x with dimension `from` at place `to`, the others in their order.
---@return mrt.Tensor
function dims.move(x, from, to)
  if from == to then return x end
  local order = {}
  for d = 1, x:dim() do order[d] = d end
  table.insert(order, to, table.remove(order, from))
  return op.permute(x, order)
end

--- No positions of a dimension.
---@return mrt.Tensor
function dims.none(x, dim)
  return x:size(dim) > 0 and op.slice(x, dim, 2, 1) or x -- between the first two
end

--- A tensor of one number, of x's dtype and this shape, which takes no room.
---@return mrt.Tensor
function dims.constant(x, value, shape)
  local dtype = x:get_dtype()
  if value == true then value = 1 elseif value == false then value = 0 end
  return dims.expand(op.full { shape = {}, value = value, dtype = dtype }, shape)
end

--- Powers 0 to count - 1 of each element, along a new last dimension.
---@param x mrt.Tensor
---@param count integer
---@return mrt.Tensor
function dims.powers(x, count)
  local shape = x:get_shape()
  shape[#shape + 1] = math.min(count, 1)
  local ones = op.full { shape = shape, value = 1, dtype = x:get_dtype() }
  if count < 2 then return ones end
  shape[#shape] = count - 1
  local powers = op.cumprod(op.expand(x:unsqueeze(-1), shape), { dim = -1 })
  return op.cat({ ones, op.cast(powers, x:get_dtype()) }, -1)
end

return dims
