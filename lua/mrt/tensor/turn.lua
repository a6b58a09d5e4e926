--- turn.lua -- methods of tensors that turn and shift them, and diagonals
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"

local op = core.op
local read, refuse, place = argument.read, argument.refuse, dims.place
---@class mrt.Tensor
local Tensor = core.methods

-- ---- turned and shifted ----------------------------------------------------

--- Positions of these dimensions in the other order.
---
---     mrt.tensor{1, 2, 3}:flip(1)  --> [3 2 1]
---
--- Raises: a dimension that x does not have.
---@param ... integer|integer[]
---@return mrt.Tensor
function Tensor.flip(x, ...)
  local list = dims.list("flip", "dims", ...)
  return #list > 0 and op.flip(x, { dims = list }) or x
end

-- x with dimension d, which it has.
local function flipped(name, d)
  Tensor[name] = function(x)
    if x:dim() < d then
      refuse(name, "%s, at least %d dimension%s wanted", x:type(), d, d > 1 and "s" or "")
    end
    return op.flip(x, { dims = { d } })
  end
end

flipped("flipud", 1)
flipped("fliplr", 2)

-- The last `shift` positions of dimension d first.
local function rolled(x, shift, d)
  local n = x:size(d)
  if n == 0 then return x end
  shift = shift % n
  if shift == 0 then return x end
  return op.cat({ op.slice(x, d, n - shift + 1, n), op.slice(x, d, 1, n - shift) }, d)
end

--- Elements moved on by `shifts` positions, those at the end to the front.
---
---     mrt.tensor{1, 2, 3}:roll(1)  --> [3 1 2]
---
--- Raises: a dimension that x does not have.
---@param shifts integer|integer[]
---@param given? integer|integer[]  a dimension for each shift; default: x as one row
---@return mrt.Tensor
function Tensor.roll(x, shifts, given, ...)
  local o = read("roll", { "shifts", "dims" }, shifts, given, ...)
  local by = type(o.shifts) == "table" and o.shifts or { o.shifts }
  for i, n in ipairs(by) do dims.integer("roll", ("shift %d"):format(i), n) end
  if o.dims == nil then
    if #by ~= 1 then refuse("roll", "%d shifts and no dims, one shift wanted", #by) end
    return op.reshape(rolled(op.reshape(x, { x:numel() }), by[1], 1), x:get_shape())
  end
  local along = type(o.dims) == "table" and o.dims or { o.dims }
  if #along ~= #by or #by == 0 then
    refuse("roll", "%d shifts for %d dims, as many wanted", #by, #along)
  end
  for i, d in ipairs(along) do x = rolled(x, by[i], place("roll", x, d)) end
  return x
end

--- Turned by 90 degrees `k` times, in the plane from the first of `plane` to the second.
---
---     mrt.tensor{{1, 2}, {3, 4}}:rot90()  --> [[2 4] [1 3]]
---
--- Shapes: `[..., a, b]` -> `[..., b, a]` where k is odd.
--- Raises: a plane of one dimension.
---@param k? integer        default 1
---@param plane? integer[]  default {1, 2}
---@return mrt.Tensor
function Tensor.rot90(x, k, plane, ...)
  local o = read("rot90", { "k", "dims" }, k, plane, ...)
  local list = dims.places("rot90", x, o.dims or { 1, 2 })
  if #list ~= 2 then refuse("rot90", "dims: two of them wanted, got %d", #list) end
  local turns = dims.integer("rot90", "k", o.k or 1) % 4
  local a, b = list[1], list[2]
  if turns == 2 then return op.flip(x, { dims = { a, b } }) end
  if turns == 0 then return x end
  return op.flip(op.transpose(x, a, b), { dims = { turns == 1 and a or b } })
end

-- ---- diagonals -------------------------------------------------------------

--- Elements at one position of two dimensions as a new last one: a view.
---
---     mrt.tensor{{1, 2}, {3, 4}}:diagonal()  --> [1 4]
---
--- Raises: dimensions that are the same.
---@param offset? integer  default 0; above 0: the diagonals above
---@param dim1? integer    default 1
---@param dim2? integer    default 2
---@return mrt.Tensor
function Tensor.diagonal(x, offset, dim1, dim2, ...)
  local o = read("diagonal", { "offset", "dim1", "dim2" }, offset, dim1, dim2, ...)
  return op.diagonal(x, { offset = dims.integer("diagonal", "offset", o.offset or 0),
    dim1 = place("diagonal", x, o.dim1 or 1), dim2 = place("diagonal", x, o.dim2 or 2) })
end

--- Of a vector a matrix with it on a diagonal, of a matrix that diagonal.
---
---     mrt.tensor{1, 2}:diag()  --> [[1 0] [0 2]]
---
--- Shapes: `[n]` -> `[n, n]`, `[m, n]` -> `[min(m, n)]`.
--- Raises: more than two dimensions.
---@param diagonal? integer  default 0
---@return mrt.Tensor
function Tensor.diag(x, diagonal, ...)
  local o = read("diag", { "diagonal" }, diagonal, ...)
  local k = dims.integer("diag", "diagonal", o.diagonal or 0)
  if x:dim() == 1 then return op.diag_embed(x, { offset = k }) end
  if x:dim() == 2 then return op.diagonal(x, { offset = k }) end
  refuse("diag", "%s, one or two dimensions wanted (see diagonal, diag_embed)", x:type())
end

--- A matrix with all elements on a diagonal.
---
---     mrt.tensor{1, 2}:diagflat()  --> [[1 0] [0 2]]
---
--- Shapes: n elements -> `[n, n]`.
--- Raises: an offset that is no integer.
---@param offset? integer  default 0
---@return mrt.Tensor
function Tensor.diagflat(x, offset, ...)
  local o = read("diagflat", { "offset" }, offset, ...)
  return op.diag_embed(op.reshape(x, { x:numel() }),
    { offset = dims.integer("diagflat", "offset", o.offset or 0) })
end

return Tensor
