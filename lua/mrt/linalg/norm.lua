--- norm.lua -- norms of vectors and matrices, condition numbers
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local shape = require "mrt.linalg.shape"

local op = core.op
local read, refuse = argument.read, argument.refuse
local INF <const> = math.huge

---@class mrt.linalg
local norm = {}

---@alias mrt.MatrixOrder "fro"|"nuc"|number  number: inf, -inf, 1, -1, 2, -2

-- ---- vectors ---------------------------------------------------------------

-- The root of what is 0 has gradient 0, as PyTorch has it.
local function root(sum, p)
  local zero = op.eq(sum, 0)
  local safe = op.where(zero, 1, sum)
  local y = p == 2 and op.sqrt(safe) or op.pow(safe, 1 / p)
  return op.where(zero, p > 0 and 0 or INF, y)
end

-- Sum of |x|^p; of a 0 the power has gradient 0.
local function powers(x, p)
  if p == 2 then return op.mul(x, x) end
  local size = op.abs(x)
  if p == 1 then return size end
  local zero = op.eq(size, 0)
  return op.where(zero, p > 0 and 0 or INF, op.pow(op.where(zero, 1, size), p))
end

local function extreme(who, x, o, largest)
  local name = largest and "amax" or "amin"
  if x:numel() == 0 then
    local dims = {}
    for i, d in ipairs(o.dim) do dims[i] = x:size(d) end
    for _, n in ipairs(dims) do
      if n == 0 then
        refuse(who, "ord %sinf of %s: an empty vector has none", largest and "" or "-", x:type())
      end
    end
  end
  return op[name](op.abs(x), o)
end

local function vector_norm(who, x, ord, o)
  if ord == INF then return extreme(who, x, o, true) end
  if ord == -INF then return extreme(who, x, o, false) end
  if ord == 0 then
    return op.sum(op.cast(op.ne(x, 0), x:get_dtype()), o)
  end
  local sum = op.sum(powers(x, ord), o)
  return ord == 1 and sum or root(sum, ord)
end

-- A dim or a list of them as a list; nil: all.
local function as_dims(who, x, dim)
  local list = {}
  if dim == nil then
    for d = 1, x:dim() do list[d] = d end
  elseif type(dim) == "table" then
    for i, d in ipairs(dim) do list[i] = shape.dim(who, x, d) end
  else
    list[1] = shape.dim(who, x, dim)
  end
  return list
end

local function number(who, ord)
  if type(ord) == "number" and ord == ord then return ord end
  refuse(who, "ord %s, a number wanted", tostring(ord))
end

local function as_float(x, dtype)
  local to = dtype or (x:get_dtype():find "^[fb][%df]" and x:get_dtype()) or "f32"
  return x:get_dtype() == to and x or op.cast(x, to)
end

--- The norm of vectors: (sum |x|^ord)^(1 / ord); inf, -inf: the largest, the smallest
--- magnitude; 0: how many are not 0.
---
---     mrt.linalg.vector_norm(mrt.tensor{3.0, 4.0})  --> 5
---
--- Shapes: `[...]` -> `[...]` without the dimensions; scalar without any.
--- Raises: a dimension that x does not have.
---@param x mrt.Tensor
---@param ... any      ord (default 2), dim: one or a list (default all), keepdim, dtype:
---  x is made that first; or by name
---@return mrt.Tensor
function norm.vector_norm(x, ...)
  local who = "vector_norm"
  local o = read(who, { "ord", "dim", "keepdim", "dtype" }, ...)
  argument.tensor(who, "the first", x)
  local dims = as_dims(who, x, o.dim)
  x = as_float(x, o.dtype)
  if #dims == 0 then return op.abs(x) end
  return vector_norm(who, x, number(who, o.ord or 2), { dim = dims, keepdim = o.keepdim or false })
end

-- ---- matrices --------------------------------------------------------------

-- Norms of the last two dimensions, which are lost.
local of_matrix = {
  fro = function(x) return root(op.sum(op.mul(x, x), { dim = { -2, -1 } }), 2) end,
  nuc = function(x) return op.sum(op.svdvals(x), -1) end,
  [INF] = function(x) return op.amax(op.sum(op.abs(x), -1), -1) end,
  [-INF] = function(x) return op.amin(op.sum(op.abs(x), -1), -1) end,
  [1] = function(x) return op.amax(op.sum(op.abs(x), -2), -1) end,
  [-1] = function(x) return op.amin(op.sum(op.abs(x), -2), -1) end,
  [2] = function(x) return op.amax(op.svdvals(x), -1) end,
  [-2] = function(x) return op.amin(op.svdvals(x), -1) end,
}

local function matrix_norm(who, x, o)
  local ord = o.ord == nil and "fro" or o.ord
  local by = of_matrix[ord]
  if not by then
    refuse(who, "ord %s, 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2 wanted", tostring(ord))
  end
  local dims = as_dims(who, x, o.dim or { -2, -1 })
  if #dims ~= 2 or dims[1] == dims[2] then
    refuse(who, "%d dims, two different ones wanted", #dims)
  end
  x = as_float(x, o.dtype)
  local y = by((shape.last(x, dims[1], dims[2])))
  if not o.keepdim then return y end
  local kept = x:get_shape()
  kept[dims[1]], kept[dims[2]] = 1, 1
  return op.reshape(y, kept)
end

--- The norm of matrices: "fro", the root of the sum of squares; "nuc", the sum of
--- singular values; 2, -2, the largest and smallest of these; inf, -inf, 1, -1, the
--- largest and smallest sum of magnitudes of a row, of a column.
---
---     mrt.linalg.matrix_norm(mrt.tensor{{3.0, 0.0}, {0.0, 4.0}})  --> 5
---
--- Raises: an order that there is not.
---@param x mrt.Tensor  `[..., m, n]`
---@param ... any       ord (default "fro"), dim: two (default {-2, -1}), keepdim, dtype;
---  or by name
---@return mrt.Tensor
function norm.matrix_norm(x, ...)
  local o = read("matrix_norm", { "ord", "dim", "keepdim", "dtype" }, ...)
  return matrix_norm("matrix_norm", shape.matrix("matrix_norm", x), o)
end

--- The norm of vectors, or with an ord and two dims of matrices.
---
---     mrt.linalg.norm(mrt.tensor{3.0, 4.0})  --> 5
---
--- Shapes: `[...]` -> `[...]` without the dimensions; scalar without any.
--- Raises: a dimension that x does not have.
---@param x mrt.Tensor
---@param ... any       ord (default: 2, of all elements if there is no dim), dim, keepdim,
---  dtype; or by name
---@return mrt.Tensor
function norm.norm(x, ...)
  local o = read("norm", { "ord", "dim", "keepdim", "dtype" }, ...)
  argument.tensor("norm", "the first", x)
  local two = type(o.dim) == "table" and #o.dim == 2
  if type(o.ord) == "string" or (o.ord ~= nil and (two or (o.dim == nil and x:dim() == 2))) then
    return matrix_norm("norm", shape.matrix("norm", x), o)
  end
  if o.ord ~= nil and o.dim == nil and x:dim() > 2 then
    refuse("norm", "ord %s of %s: a dim, or two, wanted", tostring(o.ord), x:type())
  end
  return norm.vector_norm(x, o)
end

--- The condition number: the norm of a times that of its inverse; inf of a singular
--- matrix where the norm is by singular values, else an error.
---
---     mrt.linalg.cond(mrt.eye(2))  --> 1
---@param a mrt.Tensor  `[..., m, n]`; square but for p = 2, -2
---@param ... any       p: an ord of matrix_norm (default 2); or {p = }
---@return mrt.Tensor   `[...]`
function norm.cond(a, ...)
  local o = read("cond", { "p" }, ...)
  local p = o.p == nil and 2 or o.p
  shape.matrix("cond", a)
  if p == 2 or p == -2 then
    local s = op.svdvals(a)
    local most, least = op.amax(s, -1), op.amin(s, -1)
    return p == 2 and op.div(most, least) or op.div(least, most)
  end
  shape.square("cond", a)
  local inverse = op.inverse(a)
  return op.mul(matrix_norm("cond", a, { ord = p }), matrix_norm("cond", inverse, { ord = p }))
end

return norm
