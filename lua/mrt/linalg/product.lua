--- product.lua -- products and powers of matrices
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local core = require "mrt.core"
local dims = require "mrt.tensor.dims"
local shape = require "mrt.linalg.shape"

local op = core.op
local read, refuse = argument.read, argument.refuse

---@class mrt.linalg
local product = {}

--- Multiply matrices: `x:matmul(y)`.
---
---     mrt.linalg.matmul(mrt.ones(2, 3), mrt.ones(3, 4)):type()  --> f32[2,4]
---
--- Shapes: `[..., m, k]`, `[..., k, n]` -> `[..., m, n]`.
--- Raises: sizes that do not fit.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@return mrt.Tensor
function product.matmul(x, y)
  argument.tensor("matmul", "the first", x)
  return x:matmul(y)
end

--- Raise square matrices to a whole power; one below 0 is a power of the inverse.
---
--- Raises (data): n < 0 and a is singular.
---
---     mrt.linalg.matrix_power(mrt.tensor{{1.0, 1.0}, {0.0, 1.0}}, 3)  --> [[1.0 3.0] [0.0 1.0]]
---@param a mrt.Tensor  `[..., n, n]`
---@param ... any       n; or {n = }
---@return mrt.Tensor
function product.matrix_power(a, ...)
  return shape.square("matrix_power", a):matrix_power(...)
end

--- The exponential of square matrices: 1 + a + a a / 2 + ...
---
---     mrt.linalg.matrix_exp(mrt.zeros(2, 2))  --> [[1.0 0.0] [0.0 1.0]]
---
--- Raises: matrices that are not square.
---@param a mrt.Tensor  `[..., n, n]`
---@return mrt.Tensor
function product.matrix_exp(a) return op.matrix_exp(shape.square("matrix_exp", a)) end

-- The split of each part of a chain of matrices, whose sizes are `n`, that costs least
-- (Cormen et al., Introduction to Algorithms, 15.2).
local function splits(n, count)
  local cost, split = {}, {}
  for i = 1, count do cost[i], split[i] = { [i] = 0 }, {} end
  for length = 2, count do
    for i = 1, count - length + 1 do
      local j = i + length - 1
      for k = i, j - 1 do
        local c = cost[i][k] + cost[k + 1][j] + 1.0 * n[i] * n[k + 1] * n[j + 1]
        if not cost[i][j] or c < cost[i][j] then cost[i][j], split[i][j] = c, k end
      end
    end
  end
  return split
end

local function chain(list, split, i, j)
  if i == j then return list[i] end
  local k = split[i][j]
  return op.matmul(chain(list, split, i, k), chain(list, split, k + 1, j))
end

-- The sizes that matrices in a chain have, one more than there are.
local function sizes(list)
  local n = {}
  for i, x in ipairs(list) do
    if x:dim() ~= 2 or (i > 1 and x:size(1) ~= n[i]) then
      core.fail("shape", "multi_dot", ("element %d is %s, %s wanted"):format(i, x:type(),
        i > 1 and ("a matrix of %d rows"):format(n[i]) or "a matrix"))
    end
    n[i], n[i + 1] = x:size(1), x:size(2)
  end
  return n
end

--- Multiply several matrices in the order that costs least.
---
---     mrt.linalg.multi_dot { mrt.ones(2, 3), mrt.ones(3, 4), mrt.ones(4) }  --> [12.0 12.0]
---
--- Shapes: `[a,b]`, `[b,c]`, ... -> `[a,z]`; the first and the last may be vectors.
--- Raises: sizes that do not fit.
---@param list mrt.Tensor[]  two or more; the first and the last may be vectors
---@param ... any            no option
---@return mrt.Tensor
function product.multi_dot(list, ...)
  read("multi_dot", {}, ...)
  argument.tensors("multi_dot", list)
  if #list < 2 then refuse("multi_dot", "%d tensors, two or more wanted", #list) end
  local all = { table.unpack(list) }
  local row, column = all[1]:dim() == 1, all[#all]:dim() == 1
  if row then all[1] = all[1]:unsqueeze(1) end
  if column then all[#all] = all[#all]:unsqueeze(2) end
  local y = chain(all, splits(sizes(all), #all), 1, #all)
  if column then y = y:squeeze(-1) end
  return row and y:squeeze(column and -1 or 1) or y
end

--- The cross product of vectors of three.
---
---     mrt.linalg.cross(mrt.tensor{1.0, 0.0, 0.0}, mrt.tensor{0.0, 1.0, 0.0})  --> [0.0 0.0 1.0]
---
--- Shapes: `[..., 3, ...]` twice -> the same.
--- Raises: a dimension that is not 3.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param ... any      dim, of size 3 (default -1); or {dim = }
---@return mrt.Tensor
function product.cross(x, y, ...)
  local o = read("cross", { "dim" }, ...)
  argument.tensor("cross", "the first", x)
  argument.tensor("cross", "the second", y)
  if x:dim() ~= y:dim() then
    core.fail("shape", "cross", ("%s against %s, equal ranks wanted"):format(x:type(), y:type()))
  end
  local dim = shape.dim("cross", x, o.dim or -1)
  if x:size(dim) ~= 3 or y:size(dim) ~= 3 then
    core.fail("shape", "cross", ("%s against %s, 3 along dim %d wanted"):format(x:type(),
      y:type(), dim))
  end
  return x:cross(y, dim)
end

--- The sum of products along a dimension.
---
---     mrt.linalg.vecdot(mrt.tensor{1.0, 2.0}, mrt.tensor{3.0, 4.0})  --> 11
---
--- Raises: shapes that do not fit.
---@param x mrt.Tensor
---@param y mrt.Tensor  as x, or broadcast
---@param ... any       dim (default -1); or {dim = }
---@return mrt.Tensor
function product.vecdot(x, y, ...)
  local o = read("vecdot", { "dim" }, ...)
  argument.tensor("vecdot", "the first", x)
  local z = op.mul(x, y)
  return op.sum(z, { dim = { shape.dim("vecdot", z, o.dim or -1) } })
end

--- Take the diagonal of matrices, as the last dimension.
---
---     mrt.linalg.diagonal(mrt.eye(2))  --> [1.0 1.0]
---
--- Raises: dimensions that are the same.
---@param x mrt.Tensor
---@param ... any       offset (default 0; above 0: above the diagonal), dim1, dim2 (default
---  -2, -1); or by name
---@return mrt.Tensor
function product.diagonal(x, ...)
  local o = read("diagonal", { "offset", "dim1", "dim2" }, ...)
  shape.matrix("diagonal", x)
  local one, two = shape.dim("diagonal", x, o.dim1 or -2), shape.dim("diagonal", x, o.dim2 or -1)
  if one == two then refuse("diagonal", "dim1 and dim2 are both %d", one) end
  local offset = dims.integer("diagonal", "offset", o.offset or 0)
  x = (shape.last(x, one, two))
  local m, n = x:size(-2), x:size(-1)
  local first, count = math.max(offset, 0), math.min(m, m + offset, n, n - offset)
  count = math.max(count, 0)
  local below = math.max(-offset, 0)
  if count == 0 then return shape.first(op.sum(x, -1), -1, 0) end
  x = op.slice(op.slice(x, -2, below + 1, below + count), -1, first + 1, first + count)
  local i = op.arange { stop = count, dtype = "i64" }
  local on = op.eq(i:unsqueeze(2), i)
  return op.sum(op.where(on, x, 0), { dim = { -1 } })
end

--- Powers of numbers as rows: `y[..., i, j] = x[..., i]^(j - 1)`.
---
---     mrt.linalg.vander(mrt.tensor{2.0, 3.0})  --> [[1.0 2.0] [1.0 3.0]]
---
--- Raises: n below 1.
---@param x mrt.Tensor  `[..., n]`
---@param ... any       N: how many powers (default n); or {N = }
---@return mrt.Tensor   `[..., n, N]`
function product.vander(x, ...)
  local o = read("vander", { "N" }, ...)
  argument.tensor("vander", "the first", x)
  if x:dim() == 0 then core.fail("shape", "vander", "a scalar, vectors wanted") end
  local count = math.tointeger(o.N or x:size(-1))
  if not count or count < 1 then refuse("vander", "N %s, 1 or more wanted", tostring(o.N)) end
  return dims.powers(x, count)
end

return product
