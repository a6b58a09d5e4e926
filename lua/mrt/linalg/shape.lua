--- shape.lua -- what the functions of mrt.linalg ask of shapes
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"

local op = core.op

local shape = {}

--- Return `x` if it is a tensor of matrices, `[..., m, n]`; else raise.
---@param who string
---@param x any
---@param what? string  default "the first"
---@return mrt.Tensor
function shape.matrix(who, x, what)
  argument.tensor(who, what or "the first", x)
  if x:dim() >= 2 then return x end
  core.fail("shape", who, ("%s, matrices wanted: two dimensions or more"):format(x:type()))
end

--- Return `x` if its matrices are square; else raise.
---@param who string
---@param x any
---@return mrt.Tensor
function shape.square(who, x)
  shape.matrix(who, x)
  if x:size(-1) == x:size(-2) then return x end
  core.fail("shape", who, ("%s, square matrices wanted"):format(x:type()))
end

--- Return a dimension as 1 to rank; else raise.
---@param who string
---@param x mrt.Tensor
---@param dim any
---@return integer
function shape.dim(who, x, dim)
  local rank, at = x:dim(), math.tointeger(dim)
  if at and at < 0 then at = at + rank + 1 end
  if at and at >= 1 and at <= rank then return at end
  argument.refuse(who, "dim %s of %s, 1 to %d (or from the end: -1) wanted",
    tostring(dim), x:type(), rank)
end

-- The shape that both batches go to: sizes of 1 are repeated.
local function common(who, a, b, x, y)
  local both = {}
  for i = 1, math.max(#a, #b) do
    local m, n = a[#a - i + 1] or 1, b[#b - i + 1] or 1
    if m ~= n and m ~= 1 and n ~= 1 then
      core.fail("shape", who, ("%s against %s, dimensions before the matrices that are equal, "
        .. "or 1, wanted"):format(x:type(), y:type()))
    end
    table.insert(both, 1, m == 1 and n or m)
  end
  return both
end

local function expanded(x, batch, own)
  local dims = { table.unpack(batch) }
  for i = own, 1, -1 do dims[#dims + 1] = x:size(-i) end
  return op.expand(x, dims)
end

--- Repeat two tensors of matrices until their batches are the same.
---@param who string
---@param x mrt.Tensor
---@param y mrt.Tensor
---@return mrt.Tensor x
---@return mrt.Tensor y
function shape.one_batch(who, x, y)
  local a, b = x:get_shape(), y:get_shape()
  for _ = 1, 2 do a[#a], b[#b] = nil, nil end
  local batch = common(who, a, b, x, y)
  return expanded(x, batch, 2), expanded(y, batch, 2)
end

--- Put dimensions last, in this order; also returns the order that undoes it.
---@param x mrt.Tensor
---@param ... integer  1 to rank
---@return mrt.Tensor
---@return integer[] back
function shape.last(x, ...)
  local moved, order, back = {}, {}, {}
  for _, d in ipairs { ... } do moved[d] = true end
  for d = 1, x:dim() do
    if not moved[d] then order[#order + 1] = d end
  end
  for _, d in ipairs { ... } do order[#order + 1] = d end
  for i, d in ipairs(order) do back[d] = i end
  return op.permute(x, order), back
end

--- Keep the first n positions of a dimension.
---@param x mrt.Tensor
---@param dim integer
---@param n integer  0 to all
---@return mrt.Tensor
function shape.first(x, dim, n)
  if n == x:size(dim) then return x end
  if n > 0 then return op.slice(x, dim, 1, n) end
  return op.slice(x, dim, 2, 1)
end

--- Swap rows and columns.
---@param x mrt.Tensor
---@return mrt.Tensor
function shape.transposed(x) return op.transpose(x, -2, -1) end

--- The identity of n rows, of x's dtype and batch.
---@param x mrt.Tensor
---@param n integer
---@return mrt.Tensor
function shape.identity(x, n)
  local i = op.arange { stop = n, dtype = "i64" }
  local eye = op.cast(op.eq(i:unsqueeze(2), i), x:get_dtype())
  local dims = x:get_shape()
  dims[#dims - 1], dims[#dims] = n, n
  return op.expand(eye, dims)
end

--- Keep the elements [i, j] with j - i <= k (lower) or >= k; others are 0.
---@param x mrt.Tensor
---@param lower boolean
---@param k? integer  default 0
---@return mrt.Tensor
function shape.triangle(x, lower, k)
  local i = op.arange { stop = x:size(-2), dtype = "i64" }:unsqueeze(2)
  local j = op.arange { stop = x:size(-1), dtype = "i64" }:unsqueeze(1)
  local kept = lower and op.le(j, op.add(i, k or 0)) or op.ge(j, op.add(i, k or 0))
  return op.where(kept, x, 0)
end

return shape
