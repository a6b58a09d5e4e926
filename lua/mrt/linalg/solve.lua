--- solve.lua -- systems of equations, inverses, least squares
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local factor = require "mrt.linalg.factor"
local options = require "mrt.util.options"
local shape = require "mrt.linalg.shape"

local op = core.op
local read = argument.read
local transposed = shape.transposed

---@class mrt.linalg
local solve = {}

-- b is vectors, one for each matrix of a, and not matrices.
local function is_vectors(a, b)
  if b:dim() == 1 then return true end
  if b:dim() ~= a:dim() - 1 then return false end
  for i = 1, b:dim() do
    if b:size(i) ~= a:size(i) then return false end
  end
  return true
end

--- Solve `a x = b`, or `x a = b`.
---
--- Raises (data): a is singular, to the last bit; where it nearly is, the result is
--- as far off as `cond(a)` says.
---
---     mrt.linalg.solve(mrt.tensor{{1.0, 2.0}, {3.0, 4.0}}, mrt.tensor{5.0, 11.0})  --> [1.0 2.0]
---@param a mrt.Tensor  `[..., n, n]`, f32 or f64; narrow floats are computed in f32
---@param b mrt.Tensor  `[..., n, k]`, or `[..., n]`: vectors; batches are broadcast
---@param ... any       left (default true: a x = b), or {left = }
---@return mrt.Tensor   shape of b
function solve.solve(a, b, ...)
  local o = read("solve", { "left" }, ...)
  shape.square("solve", a)
  argument.tensor("solve", "the second", b)
  local vectors = is_vectors(a, b)
  if vectors then b = b:unsqueeze(-1) end
  shape.matrix("solve", b)
  if o.left == false then a, b = transposed(a), vectors and b or transposed(b) end
  a, b = shape.one_batch("solve", a, b)
  local x = (op.solve(a, b))
  if o.left == false and not vectors then x = transposed(x) end
  return vectors and x:squeeze(-1) or x
end

--- Solve `a x = b`, or `x a = b`, reading one triangle of a.
---
--- Raises (data): a 0 on the diagonal.
---
---     local a = mrt.tensor{{2.0, 0.0}, {0.0, 4.0}}
---     mrt.linalg.solve_triangular(a, mrt.ones(2, 1), { upper = false })
---     --> [[0.50] [0.25]]
---@param a mrt.Tensor  `[..., n, n]`
---@param b mrt.Tensor  `[..., n, k]`, or `[..., k, n]` with left = false
---@param ... any       {upper = boolean, left = true, unitriangular = false}: upper
---  has no default; unitriangular takes the diagonal as ones, unread
---@return mrt.Tensor   shape of b
function solve.solve_triangular(a, b, ...)
  local o = read("solve_triangular", { "upper", "left", "unitriangular" }, ...)
  if type(o.upper) ~= "boolean" then
    argument.refuse("solve_triangular", "{upper = true} or {upper = false} wanted")
  end
  shape.square("solve_triangular", a)
  shape.matrix("solve_triangular", b, "the second")
  a, b = shape.one_batch("solve_triangular", a, b)
  return op.solve_triangular(a, b, { upper = o.upper, left = o.left ~= false,
    unitriangular = o.unitriangular or false })
end

--- Invert square matrices; to solve equations `solve` is better.
---
--- Raises (data): a is singular.
---
---     mrt.linalg.inv(mrt.tensor{{2.0, 0.0}, {0.0, 4.0}})  --> [[0.50 0.00] [-0.00 0.25]]
---@param a mrt.Tensor  `[..., n, n]`
---@return mrt.Tensor
function solve.inv(a) return op.inverse(shape.square("inv", a)) end

--- Solve `a x = b` by the Cholesky factor of a.
---
---     mrt.linalg.cholesky_solve(mrt.ones(2, 1), mrt.eye(2))  --> [[1.0] [1.0]]
---
--- Raises: shapes that do not fit.
---@param b mrt.Tensor  `[..., n, k]`
---@param l mrt.Tensor  `[..., n, n]`, of `cholesky`
---@param ... any       upper (default false), or {upper = }
---@return mrt.Tensor
function solve.cholesky_solve(b, l, ...)
  local o = read("cholesky_solve", { "upper" }, ...)
  shape.square("cholesky_solve", l)
  shape.matrix("cholesky_solve", b)
  l, b = shape.one_batch("cholesky_solve", l, b)
  local upper = o.upper or false
  local function step(x, adjoint)
    return op.solve_triangular(l, x, { upper = upper, transposed = adjoint })
  end
  return step(step(b, upper), not upper)
end

--- Invert a by its Cholesky factor.
---
---     mrt.linalg.cholesky_inverse(mrt.eye(2))  --> [[1.0 0.0] [0.0 1.0]]
---
--- Raises: matrices that are not square.
---@param l mrt.Tensor  `[..., n, n]`, of `cholesky`
---@param ... any       upper (default false), or {upper = }
---@return mrt.Tensor   symmetric
function solve.cholesky_inverse(l, ...)
  shape.square("cholesky_inverse", l)
  return solve.cholesky_solve(shape.identity(l, l:size(-1)), l, ...)
end

--- Solve `a x = b` by what `lu_factor` returned.
---
--- Raises (data): a is singular.
---
---     local lu, order = mrt.linalg.lu_factor(mrt.tensor{{1.0, 2.0}, {3.0, 4.0}})
---     mrt.linalg.lu_solve(lu, order, mrt.tensor{{5.0}, {11.0}})  --> [[1.0] [2.0]]
---@param lu mrt.Tensor     `[..., n, n]`
---@param order mrt.Tensor  `[..., n]`
---@param b mrt.Tensor      `[..., n, k]`
---@param ... any           left, adjoint (default true, false), or {left =, adjoint =}
---@return mrt.Tensor
function solve.lu_solve(lu, order, b, ...)
  local o = read("lu_solve", { "left", "adjoint" }, ...)
  shape.square("lu_solve", lu)
  argument.tensor("lu_solve", "the rows' order", order)
  shape.matrix("lu_solve", b, "the third")
  if o.left == false then
    return transposed(solve.lu_solve(lu, order, transposed(b), { adjoint = not o.adjoint }))
  end
  lu, b = shape.one_batch("lu_solve", lu, b)
  local rows = op.expand(order:unsqueeze(-1), b:get_shape())
  local function step(x, upper, adjoint)
    return op.solve_triangular(lu, x, { upper = upper, unitriangular = not upper,
      transposed = adjoint })
  end
  if not o.adjoint then return step(step(op.gather(b, rows, { dim = -2 }), false), true) end
  b = step(step(b, true, true), false, true)
  local zero = op.full { shape = b:get_shape(), value = 0, dtype = b:get_dtype() }
  return op.scatter_add(zero, rows, b, { dim = -2 })
end

-- b's sum of squares left over, along the rows; none where there are no more
-- equations than unknowns.
local function residuals(a, x, b)
  if a:size(-2) <= a:size(-1) then return shape.first(op.sum(b, -2), -1, 0) end
  local left = op.sub(op.matmul(a, x), b)
  return op.sum(op.mul(left, left), -2)
end

--- Find the x with the least |a x - b|, and of those the shortest.
---
---     mrt.linalg.lstsq(mrt.ones(3, 1), mrt.tensor{{1.0}, {2.0}, {3.0}})
---     --> [[2.0]], [2.0], 1, [1.7321]
---
--- Raises: shapes that do not fit.
---@param a mrt.Tensor  `[..., m, n]`
---@param b mrt.Tensor  `[..., m, k]`, or `[..., m]`: vectors
---@param ... any       rcond: singular values below rcond times the largest count as 0
---  (default: epsilon of the dtype times the longer side); or {rcond = }
---@return mrt.Tensor x          `[..., n, k]`
---@return mrt.Tensor residuals  `[..., k]`: sums of squares, where m > n; else empty
---@return mrt.Tensor rank       i64 `[...]`
---@return mrt.Tensor values     `[..., min(m, n)]`: singular values
function solve.lstsq(a, b, ...)
  local o = read("lstsq", { "rcond", "driver" }, ...)
  shape.matrix("lstsq", a)
  argument.tensor("lstsq", "the second", b)
  local vectors = b:dim() == a:dim() - 1
  if vectors then b = b:unsqueeze(-1) end
  if shape.matrix("lstsq", b):size(-2) ~= a:size(-2) then
    core.fail("shape", "lstsq", ("%s against %s, as many rows wanted"):format(a:type(), b:type()))
  end
  a, b = shape.one_batch("lstsq", a, b)
  local x = op.matmul(factor.pinv(a, { rtol = o.rcond }), b)
  local left, rank = residuals(a, x, b), factor.matrix_rank(a, { rtol = o.rcond })
  return vectors and x:squeeze(-1) or x, left, rank, op.svdvals(a)
end

local function product(list, first, last)
  local n = 1
  for i = first, last do n = n * list[i] end
  return n
end

--- Solve `tensordot(a, x, x:dim()) = b` for x.
---
---     mrt.linalg.tensorsolve(mrt.eye(4):reshape(2, 2, 2, 2), mrt.ones(2, 2)):type()  --> f32[2,2]
---
--- Raises: shapes that do not fit.
---@param a mrt.Tensor  dimensions of b, then those of x; as matrices square
---@param b mrt.Tensor
---@param ... any       dims of a that are moved to the end first, or {dims = }
---@return mrt.Tensor
function solve.tensorsolve(a, b, ...)
  local o = read("tensorsolve", { "dims" }, ...)
  argument.tensor("tensorsolve", "the first", a)
  argument.tensor("tensorsolve", "the second", b)
  if o.dims then
    if type(o.dims) ~= "table" then
      argument.refuse("tensorsolve", "dims: a list of dimensions wanted, got %s",
        options.show(o.dims))
    end
    local places = {}
    for i, d in ipairs(o.dims) do places[i] = shape.dim("tensorsolve", a, d) end
    a = shape.last(a, table.unpack(places))
  end
  local dims, n = a:get_shape(), b:numel()
  local own = { table.unpack(dims, b:dim() + 1) }
  if product(own, 1, #own) ~= n or a:numel() ~= n * n then
    core.fail("shape", "tensorsolve", ("%s against %s, %d unknowns for as many equations wanted")
      :format(a:type(), b:type(), n))
  end
  return op.reshape(solve.solve(op.reshape(a, { n, n }), op.reshape(b, { n })), own)
end

--- Invert a as a matrix of its first `ind` dimensions by all others.
---
---     mrt.linalg.tensorinv(mrt.eye(4):reshape(2, 2, 2, 2)):type()  --> f32[2,2,2,2]
---
--- Raises: shapes that do not fit.
---@param a mrt.Tensor
---@param ... any      ind (default 2), or {ind = }
---@return mrt.Tensor  the others first
function solve.tensorinv(a, ...)
  local o = read("tensorinv", { "ind" }, ...)
  argument.tensor("tensorinv", "the first", a)
  local dims, ind = a:get_shape(), math.tointeger(o.ind or 2)
  if not ind or ind < 1 or ind > #dims then
    argument.refuse("tensorinv", "ind %s of %s, 1 to %d wanted", options.show(o.ind or 2), a:type(),
      #dims)
  end
  local m, n = product(dims, 1, math.min(ind, #dims)), product(dims, ind + 1, #dims)
  if m ~= n then
    core.fail("shape", "tensorinv", ("%s with ind %d: %d by %d, a square matrix wanted")
      :format(a:type(), ind, m, n))
  end
  local turned = { table.unpack(dims, ind + 1) }
  table.move(dims, 1, math.min(ind, #dims), #turned + 1, turned)
  return op.reshape(op.inverse(op.reshape(a, { m, n })), turned)
end

return solve
