--- rearrange.lua -- methods of tensors that name, repeat and regroup dimensions
---
--- Views cost nothing until something needs them contiguous.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"

local op = core.op
local read, refuse, place = argument.read, argument.refuse, dims.place
---@class mrt.Tensor
local Tensor = core.methods

local list_of = dims.list

-- ---- dimensions ------------------------------------------------------------

--- The dimensions `source`, one or a list, at the places `destination`.
---
---     mrt.zeros(2, 3, 4):movedim(1, 3):type()  --> f32[3,4,2]
---
--- Raises: lists of other lengths.
---@param source integer|integer[]
---@param destination integer|integer[]
---@return mrt.Tensor
function Tensor.movedim(x, source, destination, ...)
  local o = read("movedim", { "source", "destination" }, source, destination, ...)
  local from = dims.places("movedim", x, o.source)
  local to = dims.places("movedim", x, o.destination)
  if #from ~= #to then
    refuse("movedim", "%d dimensions to %d places, as many wanted", #from, #to)
  end
  local order, moved, next_dim = {}, {}, 1
  for i, d in ipairs(from) do order[to[i]], moved[d] = d, true end
  for i = 1, x:dim() do
    if not order[i] then
      while moved[next_dim] do next_dim = next_dim + 1 end
      order[i], next_dim = next_dim, next_dim + 1
    end
  end
  return #order > 0 and op.permute(x, order) or x
end
Tensor.moveaxis = Tensor.movedim

---@class mrt.Tensor
---@field moveaxis fun(self: mrt.Tensor, source: integer|integer[],
---  destination: integer|integer[]): mrt.Tensor  movedim
for name, words in pairs { swapaxes = { "axis0", "axis1" }, swapdims = { "dim0", "dim1" } } do
  Tensor[name] = function(x, ...)
    local o = read(name, words, ...)
    return op.transpose(x, place(name, x, o[words[1]]), place(name, x, o[words[2]]))
  end
end

--- Make several dimensions of one: their sizes, of which one may be -1.
---
---     mrt.zeros(6):unflatten(1, {2, -1}):type()  --> f32[2,3]
---
--- Raises: sizes whose product is not the dimension's.
---@param dim integer
---@param sizes integer[]
---@return mrt.Tensor
function Tensor.unflatten(x, dim, sizes, ...)
  local o = read("unflatten", { "dim", "sizes" }, dim, sizes, ...)
  local at, list = place("unflatten", x, o.dim), list_of("unflatten", "sizes", o.sizes)
  local n, known, open = x:size(at), 1, false
  for _, size in ipairs(list) do
    if size == -1 then open = true else known = known * size end
  end
  if #list == 0 or (open and (known == 0 or n % known ~= 0)) or (not open and known ~= n) then
    refuse("unflatten", "dim %d of %s as %s, sizes whose product is %d wanted", at, x:type(),
      dims.text(list), n)
  end
  local shape = x:get_shape()
  table.remove(shape, at)
  for i = #list, 1, -1 do table.insert(shape, at, list[i] == -1 and n // known or list[i]) end
  return op.reshape(x, shape)
end

--- All elements as one row.
---
---     mrt.zeros(2, 3):ravel():type()  --> f32[6]
---
--- Shapes: `[...]` -> `[n]`.
---@return mrt.Tensor
function Tensor.ravel(x) return op.reshape(x, { x:numel() }) end

--- Positions [start, start + length) of a dimension.
---
---     mrt.arange(5):narrow(1, 2, 3)  --> [1 2 3]
---
--- Raises: positions outside.
---@param dim integer
---@param start integer   1-based, negative from the end
---@param length integer
---@return mrt.Tensor
function Tensor.narrow(x, dim, start, length, ...)
  local o = read("narrow", { "dim", "start", "length" }, dim, start, length, ...)
  local at = place("narrow", x, o.dim)
  local n, count = x:size(at), dims.integer("narrow", "length", o.length, 0)
  local first = dims.integer("narrow", "start", o.start)
  if first == 0 then refuse("narrow", "start 0: positions count from 1 here") end
  if first < 0 then first = first + n + 1 end
  if first < 1 or first + count - 1 > n then
    refuse("narrow", "%d positions from %d of dim %d of %s", count, o.start, at, x:type())
  end
  return count == 0 and dims.none(x, at) or op.slice(x, at, first, first + count - 1)
end

--- The positions of a dimension, each without it.
---
---     mrt.tensor{{1, 2}, {3, 4}}:unbind(1)  --> [1 2], [3 4]
---
--- Raises: a dimension that x does not have.
---@param dim? integer  default 1
---@return mrt.Tensor ...
function Tensor.unbind(x, dim, ...)
  local o = read("unbind", { "dim" }, dim, ...)
  local at = place("unbind", x, o.dim or 1)
  local shape, parts = x:get_shape(), {}
  local n = table.remove(shape, at)
  if n > 200 then refuse("unbind", "%d results, at most 200 wanted", n) end
  for i = 1, n do parts[i] = op.reshape(op.slice(x, at, i, i), shape) end
  return table.unpack(parts)
end

--- Runs of `size` positions of a dimension, `step` apart, as a new last dimension: a view.
---
---     mrt.arange(4):unfold(1, 2, 1)  --> [[0 1] [1 2] [2 3]]
---
--- Raises: a size larger than the dimension, a step below 1.
---@param dimension integer
---@param size integer
---@param step integer
---@return mrt.Tensor
function Tensor.unfold(x, dimension, size, step, ...)
  local o = read("unfold", { "dimension", "size", "step" }, dimension, size, step, ...)
  return op.windows(x, place("unfold", x, o.dimension),
    dims.integer("unfold", "size", o.size, 0), dims.integer("unfold", "step", o.step, 1))
end

-- ---- sizes of another tensor, repeats --------------------------------------

for name, f in pairs { expand_as = op.expand, view_as = op.reshape, reshape_as = op.reshape } do
  Tensor[name] = function(x, other)
    return f(x, argument.tensor(name, "other", other):get_shape())
  end
end

--- x repeated to this shape: a view.
---
---     mrt.tensor{{1}, {2}}:broadcast_to(2, 3)  --> [[1 1 1] [2 2 2]]
---
--- Raises: sizes that differ where x's is not 1.
---@param ... integer|integer[]
---@return mrt.Tensor
function Tensor.broadcast_to(x, ...)
  return op.expand(x, list_of("broadcast_to", "size", ...))
end

-- A dimension at a time: where views would have too many.
local function tiled_in_turn(x, repeats, shape)
  local behind = x:numel() -- elements of this dimension and those behind it, in one of `ahead`
  local ahead = 1
  for d, n in ipairs(repeats) do
    if n ~= 1 then
      x = op.copy(op.expand(op.reshape(x, { ahead, 1, behind }), { ahead, n, behind }))
    end
    local size = n > 0 and shape[d] // n or 1
    behind, ahead = size > 0 and behind // size or 0, ahead * shape[d]
    if x:numel() == 0 then return dims.constant(x, 0, shape) end
  end
  return op.reshape(x, shape)
end

-- x so often along each of its dimensions, as many as there are repeats.
local function tiled(x, repeats)
  local sizes, narrow, wide, shape = x:get_shape(), {}, {}, {}
  for _ = #sizes + 1, #repeats do table.insert(sizes, 1, 1) end
  for d, n in ipairs(repeats) do
    local size = sizes[d]
    shape[d] = n * size
    if n ~= 1 and size ~= 1 then -- a dimension of its own for the repeats
      narrow[#narrow + 1], wide[#wide + 1] = 1, n
    end
    narrow[#narrow + 1], wide[#wide + 1] = size, size == 1 and n or size
  end
  if #wide > 8 then return tiled_in_turn(x, repeats, shape) end
  return op.reshape(op.copy(op.expand(op.reshape(x, narrow), wide)), shape)
end

--- x so often along each dimension; more repeats than dimensions add leading ones.
---
---     mrt.tensor{1, 2}:repeat_(2)  --> [1 2 1 2]
---
--- Raises: a repeat below 0.
---@param ... integer|integer[]
---@return mrt.Tensor
function Tensor.repeat_(x, ...)
  local repeats = list_of("repeat", "repeats", ...)
  for i, n in ipairs(repeats) do dims.integer("repeat", ("repeat %d"):format(i), n, 0) end
  if #repeats < x:dim() then
    refuse("repeat", "%d repeats for %s, one for each dimension wanted", #repeats, x:type())
  end
  return tiled(x, repeats)
end
Tensor["repeat"] = Tensor.repeat_ -- a word of Lua: x["repeat"](x, ...)

--- x so often along its last dimensions.
---
---     mrt.tensor{1, 2}:tile(2)  --> [1 2 1 2]
---
--- Raises: a repeat below 0.
---@param ... integer|integer[]
---@return mrt.Tensor
function Tensor.tile(x, ...)
  local repeats = { table.unpack(list_of("tile", "dims", ...)) }
  for i, n in ipairs(repeats) do dims.integer("tile", ("repeat %d"):format(i), n, 0) end
  while #repeats < x:dim() do table.insert(repeats, 1, 1) end
  return tiled(x, repeats)
end

-- x's shape with `n` along dim.
local function resized(x, dim, n)
  local shape = x:get_shape()
  shape[dim] = n
  return shape
end

-- Which slice each slice of the result is, of `counts` [n] i64 with this total.
local function repeated_ids(counts, total)
  local ends = op.cumsum(counts, { dim = 1 })
  local marks = op.full { shape = { total + 1 }, value = 0, dtype = "i64" }
  local one = dims.constant(marks, 1, ends:get_shape())
  marks = op.scatter_add(marks, ends, one, { dim = 1 })
  return op.slice(op.cumsum(marks, { dim = 1 }), 1, 1, total)
end

-- x with slice k along `at` counts[k] times; without a total it is looked at.
local function repeat_each(who, x, at, o)
  local counts = o.repeats:to "i64"
  if counts:dim() ~= 1 or counts:numel() ~= x:size(at) then
    refuse(who, "repeats %s for dim %d of %s, one for each of %d wanted", o.repeats:type(),
      at, x:type(), x:size(at))
  end
  if x:size(at) == 0 then return x end
  local total = o.output_size
  if not total then
    if core.tracing() then
      refuse(who, "in a compiled function output_size is wanted beside a tensor of repeats: "
        .. "shapes cannot depend on data there")
    elseif op.amin(counts):item() < 0 then
      refuse(who, "repeats has a negative number, 0 or more wanted")
    end
    total = op.sum(counts):item()
  end
  return x:index_select(at, repeated_ids(counts, dims.integer(who, "output_size", total, 0)))
end

--- Repeat each element, or slice along `dim`, so many times in a row.
---
---     mrt.tensor{1, 2}:repeat_interleave(2)  --> [1 1 2 2]
---
--- Raises: a repeat below 0.
---@param repeats integer|mrt.Tensor  for all, or `[n]` integers: how often each one, which
---  is looked at now unless `output_size` says how many there will be
---@param dim? integer       default: x as one row
---@param output_size? integer
---@return mrt.Tensor
function Tensor.repeat_interleave(x, repeats, dim, output_size, ...)
  local who <const> = "repeat_interleave"
  local o = read(who, { "repeats", "dim", "output_size" }, repeats, dim, output_size, ...)
  if o.dim == nil then x, o.dim = op.reshape(x, -1), 1 end
  local at = place(who, x, o.dim)
  if core.is_tensor(o.repeats) and o.repeats:numel() ~= 1 then
    return repeat_each(who, x, at, o)
  end
  local n = dims.integer(who, "repeats",
    core.is_tensor(o.repeats) and o.repeats:item() or o.repeats, 0)
  local shape = x:get_shape()
  table.insert(shape, at + 1, n)
  return op.reshape(op.copy(op.expand(x:unsqueeze(at + 1), shape)),
    resized(x, at, x:size(at) * n))
end

--- A copy that is a tensor of its own, through which gradients flow.
---
---     mrt.tensor{1, 2}:clone()  --> [1 2]
---@return mrt.Tensor
function Tensor.clone(x) return op.copy(x) end

--- x itself: kernels read any strides, and what needs its elements side by side has them
--- copied by the plan.
---
---     mrt.tensor{1, 2}:contiguous()  --> [1 2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.contiguous(x) return x:dim() and x end

return Tensor
