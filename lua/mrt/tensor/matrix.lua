--- matrix.lua -- methods of tensors that are matrices: those PyTorch has, too
---
--- The rest is in mrt.linalg, which is loaded when one of these is first called.
--- Determinants, inverses and Cholesky factors are operators, and so methods, of
--- their own.
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"

---@class mrt.Tensor
local Tensor = core.methods

--- The logarithm of the determinant: NaN where that is negative.
---
---     mrt.tensor{{2.0, 0.0}, {0.0, 4.0}}:logdet()  --> 2.079442
---
--- Raises: matrices that are not square.
---@return mrt.Tensor  `[...]`
function Tensor.logdet(x) return require "mrt.linalg.factor".logdet(x) end

--- The pseudo-inverse: mrt.linalg.pinv.
---
---     mrt.tensor{{2.0, 0.0}, {0.0, 4.0}}:pinverse()  --> [[0.50 0.00] [0.00 0.25]]
---
--- Shapes: `[..., m, n]` -> `[..., n, m]`.
--- Raises: what is no matrix.
---@param ... any  rcond (default 1e-15): singular values below this times the largest
---  count as 0; or {rcond = }
---@return mrt.Tensor
function Tensor.pinverse(x, ...)
  local o = argument.read("pinverse", { "rcond" }, ...)
  return require "mrt.linalg.factor".pinv(x, { rtol = o.rcond or 1e-15 })
end

--- Solve `a x = b`, this tensor being b, by the Cholesky factor of a.
---
---     mrt.tensor{{4.0}, {8.0}}:cholesky_solve(mrt.tensor{{2.0, 0.0}, {0.0, 2.0}})
---     --> [[1.0] [2.0]]
---
--- Shapes: b `[..., n, k]`, l `[..., n, n]` -> `[..., n, k]`.
--- Raises: sizes that do not fit.
---@param l mrt.Tensor  of `cholesky`
---@param ... any       upper (default false), or {upper = }
---@return mrt.Tensor
function Tensor.cholesky_solve(x, l, ...)
  return require "mrt.linalg.solve".cholesky_solve(x, l, ...)
end

--- The inverse of a, this tensor being its Cholesky factor.
---
---     mrt.tensor{{2.0, 0.0}, {0.0, 4.0}}:cholesky_inverse()  --> [[0.2500 0.0000] [0.0000 0.0625]]
---
--- Shapes: `[..., n, n]`.
--- Raises: what is not square.
---@param ... any  upper (default false), or {upper = }
---@return mrt.Tensor
function Tensor.cholesky_inverse(x, ...)
  return require "mrt.linalg.solve".cholesky_inverse(x, ...)
end
