--- factor.lua -- factors of matrices, and what is read from them
---
--- Gradients of vectors (svd, eigh) are infinite where two values are equal: only
--- what does not depend on the choice of vectors has one there.
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local shape = require "mrt.linalg.shape"

local op = core.op
local read, refuse = argument.read, argument.refuse
local transposed = shape.transposed
local dtypes = core.dtypes()

---@class mrt.linalg
local factor = {}

--- Factor symmetric positive definite matrices: a = L L^T.  The upper triangle is
--- not read; the gradient is that of a symmetric a.
---
--- Raises (data): a is not positive definite.
---
---     mrt.linalg.cholesky(mrt.tensor{{4.0, 2.0}, {2.0, 5.0}})  --> [[2.0 0.0] [1.0 2.0]]
---@param a mrt.Tensor  `[..., n, n]`
---@param ... any       upper (default false; true: a = U^T U from the upper triangle),
---  or {upper = }
---@return mrt.Tensor   the other triangle is 0
function factor.cholesky(a, ...)
  local o = read("cholesky", { "upper" }, ...)
  return op.cholesky(shape.square("cholesky", a), { upper = o.upper or false })
end

--- Factor a = P L U.
---
---     local p, l, u = mrt.linalg.lu(mrt.tensor{{1.0, 2.0}, {3.0, 4.0}})
---
--- Raises: what is no matrix.
---@param a mrt.Tensor  `[..., m, n]`
---@param ... any       pivot: only true; or {pivot = }
---@return mrt.Tensor p `[..., m, m]`: a permutation
---@return mrt.Tensor l `[..., m, k]`, k = min(m, n): ones on the diagonal
---@return mrt.Tensor u `[..., k, n]`
function factor.lu(a, ...)
  local packed, order = factor.lu_factor(a, ...)
  local m, n = a:size(-2), a:size(-1)
  local k = math.min(m, n)
  local l = shape.triangle(shape.first(packed, -1, k), true, -1)
  local one = op.cast(op.eq(op.arange { stop = m, dtype = "i64" }:unsqueeze(2),
    op.arange { stop = k, dtype = "i64" }), a:get_dtype())
  local u = shape.triangle(shape.first(packed, -2, k), false)
  local rows = op.arange { stop = m, dtype = "i64" }:unsqueeze(2)
  local p = op.cast(op.eq(rows, order:unsqueeze(-2)), a:get_dtype())
  return p, op.add(l, one), u
end

--- Factor a = P L U, packed, for `lu_solve`.
---
---     local lu, order = mrt.linalg.lu_factor(mrt.tensor{{1.0, 2.0}, {3.0, 4.0}})
---
--- Raises: what is no matrix.
---@param a mrt.Tensor      `[..., m, n]`
---@param ... any           pivot: only true; or {pivot = }
---@return mrt.Tensor lu    L below the diagonal, whose ones are not stored, and U
---@return mrt.Tensor order i64 `[..., m]`: row i of L U is row order[i] of a, from 0
function factor.lu_factor(a, ...)
  local o = read("lu_factor", { "pivot" }, ...)
  if o.pivot == false then refuse("lu_factor", "pivot = false: rows are always swapped") end
  return op.lu(shape.matrix("lu_factor", a))
end

local modes = { reduced = true, complete = true, r = true }

--- Factor a = Q R: orthonormal columns and an upper triangle.
---
---     local q, r = mrt.linalg.qr(mrt.tensor{{1.0, 2.0}, {3.0, 4.0}})
---
--- Raises: a mode that there is not.
---@param a mrt.Tensor   `[..., m, n]`
---@param ... any        mode: "reduced" (default), "complete": Q is square, or "r": an
---  empty Q; or {mode = }
---@return mrt.Tensor q  `[..., m, k]`
---@return mrt.Tensor r  `[..., k, n]`
function factor.qr(a, ...)
  local o = read("qr", { "mode" }, ...)
  local mode = o.mode or "reduced"
  if not modes[mode] then
    refuse("qr", "mode '%s', 'reduced', 'complete' or 'r' wanted", tostring(o.mode))
  end
  local q, r = op.qr(shape.matrix("qr", a), { complete = mode == "complete" })
  if mode == "r" then q = op.full { shape = { 0 }, value = 0, dtype = a:get_dtype() } end
  return q, r
end

--- Factor a = U diag(S) Vh.
---
---     local u, s, vh = mrt.linalg.svd(mrt.tensor{{3.0, 0.0}, {0.0, 4.0}})
---
--- Raises: what is no matrix.
---@param a mrt.Tensor   `[..., m, n]`
---@param ... any        full_matrices (default true: U and Vh are square); or
---  {full_matrices = }
---@return mrt.Tensor u  `[..., m, m]` or `[..., m, k]`, k = min(m, n)
---@return mrt.Tensor s  `[..., k]`, the largest first
---@return mrt.Tensor vh `[..., n, n]` or `[..., k, n]`
function factor.svd(a, ...)
  local o = read("svd", { "full_matrices" }, ...)
  return op.svd(shape.matrix("svd", a), { full_matrices = o.full_matrices ~= false })
end

--- The singular values of matrices, the largest first.
---
---     mrt.linalg.svdvals(mrt.tensor{{3.0, 0.0}, {0.0, 4.0}})  --> [4.0 3.0]
---
--- Raises: what is no matrix.
---@param a mrt.Tensor  `[..., m, n]`
---@return mrt.Tensor   `[..., min(m, n)]`
function factor.svdvals(a) return op.svdvals(shape.matrix("svdvals", a)) end

local function is_upper(who, o)
  local uplo = o.UPLO or "L"
  if uplo == "L" or uplo == "U" then return uplo == "U" end
  refuse(who, "UPLO '%s', 'L' or 'U' wanted", tostring(uplo))
end

--- Factor symmetric a = V diag(L) V^T, reading one triangle.
---
---     mrt.linalg.eigh(mrt.tensor{{2.0, 0.0}, {0.0, 3.0}})  --> [2.0 3.0], [[1.0 0.0] [0.0 1.0]]
---
--- Raises: matrices that are not square.
---@param a mrt.Tensor  `[..., n, n]`
---@param ... any       UPLO: "L" (default) or "U", the triangle; or {UPLO = }
---@return mrt.Tensor l `[..., n]`, the smallest first
---@return mrt.Tensor v `[..., n, n]`: eigenvectors in columns
function factor.eigh(a, ...)
  local o = read("eigh", { "UPLO" }, ...)
  return op.eigh(shape.square("eigh", a), { upper = is_upper("eigh", o) })
end

--- The eigenvalues of symmetric matrices, the smallest first.
---
---     mrt.linalg.eigvalsh(mrt.tensor{{2.0, 0.0}, {0.0, 3.0}})  --> [2.0 3.0]
---
--- Raises: matrices that are not square.
---@param a mrt.Tensor  `[..., n, n]`
---@param ... any       UPLO: "L" (default) or "U"; or {UPLO = }
---@return mrt.Tensor   `[..., n]`
function factor.eigvalsh(a, ...)
  local o = read("eigvalsh", { "UPLO" }, ...)
  return op.eigvalsh(shape.square("eigvalsh", a), { upper = is_upper("eigvalsh", o) })
end

--- The determinant; of a singular matrix 0.
---
---     mrt.linalg.det(mrt.tensor{{1.0, 2.0}, {3.0, 4.0}})  --> -2
---
--- Raises: matrices that are not square.
---@param a mrt.Tensor  `[..., n, n]`
---@return mrt.Tensor   `[...]`
function factor.det(a) return op.det(shape.square("det", a)) end

--- The sign of the determinant, and the logarithm of its magnitude: 0 and -inf of a
--- singular matrix, whose gradient is an error.
---
---     mrt.linalg.slogdet(mrt.tensor{{2.0, 0.0}, {0.0, 4.0}})  --> 1, 2.079442
---@param a mrt.Tensor    `[..., n, n]`
---@return mrt.Tensor sign
---@return mrt.Tensor logabsdet
function factor.slogdet(a) return op.slogdet(shape.square("slogdet", a)) end

--- The logarithm of the determinant: NaN where that is negative.
---
---     mrt.linalg.logdet(mrt.tensor{{2.0, 0.0}, {0.0, 4.0}})  --> 2.079442
---
--- Raises: matrices that are not square.
---@param a mrt.Tensor  `[..., n, n]`
---@return mrt.Tensor   `[...]`
function factor.logdet(a)
  local sign, size = op.slogdet(shape.square("logdet", a))
  return op.where(op.lt(sign, 0), 0 / 0, size)
end

-- ---- by singular values ----------------------------------------------------

-- Which of the values, as tall as `a` has them, are more than 0: `[..., k]`.
local function above(who, a, values, o)
  for _, name in ipairs { "atol", "rtol" } do
    local value = o[name]
    if value ~= nil and type(value) ~= "number" and not core.is_tensor(value) then
      refuse(who, "%s: a number or tensor wanted, got %s", name, type(value))
    end
  end
  if values:size(-1) == 0 then return op.gt(values, 0) end
  local rtol = o.rtol
  if rtol == nil and (o.atol == nil or o.atol == 0) then
    local dtype = dtypes[a:get_dtype()]
    rtol = math.max(a:size(-1), a:size(-2)) * 2.0 ^ -dtype.fraction
  end
  local function each(t) return core.is_tensor(t) and t:unsqueeze(-1) or t end
  local bound = op.mul(op.amax(values, { dim = -1, keepdim = true }), each(rtol or 0))
  if o.atol then bound = op.maximum(bound, each(o.atol)) end
  return op.gt(values, bound)
end

--- The rank: how many singular values are above max(atol, rtol times the largest).
---
---     mrt.linalg.matrix_rank(mrt.tensor{{1.0, 2.0}, {2.0, 4.0}})  --> 1
---
--- Raises: what is no matrix.
---@param a mrt.Tensor  `[..., m, n]`
---@param ... any       atol (default 0), rtol (default: epsilon of the dtype times the
---  longer side, or 0 with an atol), hermitian (default false); or {atol =, rtol =,
---  hermitian =}
---@return mrt.Tensor   i64 `[...]`
function factor.matrix_rank(a, ...)
  local o = read("matrix_rank", { "atol", "rtol", "hermitian" }, ...)
  shape.matrix("matrix_rank", a)
  local values = o.hermitian and op.abs(factor.eigvalsh(a)) or op.svdvals(a)
  return op.sum(op.cast(above("matrix_rank", a, values, o), "i64"), -1)
end

-- V diag(1 / s) U^T, s whose values count.
local function invert(who, a, o)
  if o.hermitian then
    local l, v = op.eigh(a)
    local kept = above(who, a, op.abs(l), o)
    local over = op.where(kept, op.div(1, op.where(kept, l, 1)), 0)
    return op.matmul(op.mul(v, over:unsqueeze(-2)), transposed(v))
  end
  local u, s, vh = op.svd(a, { full_matrices = false })
  local kept = above(who, a, s, o)
  local over = op.where(kept, op.div(1, op.where(kept, s, 1)), 0)
  return op.matmul(op.mul(transposed(vh), over:unsqueeze(-2)), transposed(u))
end

-- The derivative where the rank stays (Golub and Pereyra 1973); that of the factors
-- would be infinite where two singular values are equal.
local function pinv(a, o)
  local p = invert("pinv", a, o)
  return core.custom(p, { a }, function(g)
    local q = pinv(a, o)
    local qt, gt = transposed(q), transposed(g)
    local da = op.neg(op.matmul(qt, op.matmul(g, qt)))
    local outside = op.matmul(op.matmul(gt, q), qt)
    da = op.add(da, op.sub(outside, op.matmul(a, op.matmul(q, outside))))
    local inside = op.matmul(qt, op.matmul(q, gt))
    return { op.add(da, op.sub(inside, op.matmul(op.matmul(inside, q), a))) }
  end)
end

--- The pseudo-inverse of Moore and Penrose.  Its gradient is that at constant rank.
---
---     mrt.linalg.pinv(mrt.tensor{{2.0, 0.0}, {0.0, 4.0}})  --> [[0.50 0.00] [0.00 0.25]]
---
--- Raises: what is no matrix.
---@param a mrt.Tensor  `[..., m, n]`
---@param ... any       atol, rtol, hermitian as in matrix_rank
---@return mrt.Tensor   `[..., n, m]`
function factor.pinv(a, ...)
  local o = read("pinv", { "atol", "rtol", "hermitian" }, ...)
  return pinv(shape.matrix("pinv", a), o)
end

return factor
