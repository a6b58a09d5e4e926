--- statistics.lua -- methods of tensors: sums that skip NaN, pairs, differences, areas
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local read, refuse = argument.read, argument.refuse
local dtypes = core.dtypes()
local reduction = { "dim", "keepdim" }

local function is_float(x) return dtypes[x:get_dtype()].floating end

-- ---- what skips NaN ------------------------------------------------------------

--- Sum of what is no NaN.
---
---     mrt.tensor{0 / 0, 1.0, 3.0}:nansum()  --> 4
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|{dim: integer|integer[]?, keepdim: boolean?}
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor.nansum(x, dim, keepdim)
  local o = read("nansum", reduction, dim, keepdim)
  argument.tensor("nansum", "x", x)
  return (is_float(x) and op.nansum or op.sum)(x, o)
end

--- Mean of what is no NaN; NaN where all are.
---
---     mrt.tensor{0 / 0, 1.0, 3.0}:nanmean()  --> 2
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|{dim: integer|integer[]?, keepdim: boolean?}
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor.nanmean(x, dim, keepdim)
  local o = read("nanmean", reduction, dim, keepdim)
  if not is_float(argument.tensor("nanmean", "x", x)) then
    core.fail("dtype", "nanmean", ("%s, floats wanted"):format(x:type()))
  end
  local count = op.sum(op.logical_not(op.isnan(x)), o)
  return op.div(op.nansum(x, o), op.cast(count, x:get_dtype()))
end

-- ---- two results ---------------------------------------------------------------

-- ---- along a dimension -----------------------------------------------------------

-- The n positions of x from `first` on; none lie between the first two.
local function part(x, dim, first, n)
  if n == 0 then first = 2 end
  return op.slice(x, { dim = dim, first = first, last = first + n - 1 })
end

-- x before its last and after its first position; none where there is one alone.
local function neighbours(x, dim)
  local n = x:size(dim)
  if n == 0 then return x, x end
  return part(x, dim, 1, n - 1), part(x, dim, 2, n - 1)
end

-- The dimension from the front.
local function want_dim(who, x, dim)
  local rank = x:dim()
  if math.type(dim) ~= "integer" or dim == 0 or dim > rank or dim < -rank then
    refuse(who, rank > 0 and "dim %s of %s, 1 to %d (or -%d to -1) wanted"
      or "dim %s of %s, which has no dimensions", options.show(dim), x:type(), rank, rank)
  end
  return dim < 0 and dim + rank + 1 or dim
end

local function integer(who, name, value, least)
  if math.type(value) == "integer" and value >= least then return value end
  refuse(who, "%s: an integer of %d or more wanted, got %s", name, least, options.show(value))
end

--- Differences of neighbours, n times: x[k + 1] - x[k]; of bool whether they differ.
---
---     mrt.tensor{1, 4, 9}:diff()  --> [3 5]
---
--- Raises: a dimension that x does not have.
---@param n? integer|table  default 1
---@param dim? integer  default -1
---@param prepend? mrt.Tensor  put before x along dim
---@param append? mrt.Tensor   put after it
---@return mrt.Tensor
function Tensor.diff(x, n, dim, prepend, append)
  local o = read("diff", { "n", "dim", "prepend", "append" }, n, dim, prepend, append)
  argument.tensor("diff", "x", x)
  dim = want_dim("diff", x, o.dim or -1)
  local list = { x }
  if o.prepend ~= nil then
    table.insert(list, 1, argument.tensor("diff", "prepend", o.prepend))
  end
  if o.append ~= nil then list[#list + 1] = argument.tensor("diff", "append", o.append) end
  if #list > 1 then x = op.cat(list, { dim = dim }) end
  local difference = x:get_dtype() == "bool" and op.ne or op.sub
  for _ = 1, math.min(integer("diff", "n", o.n or 1, 0), x:size(dim)) do
    local before, after = neighbours(x, dim)
    x = difference(after, before)
  end
  return x
end

local trapezoid_names = { "x", "dx", "dim" }

-- What trapezoid functions are given: widths (a number, or a tensor that broadcasts
-- with the n - 1 pairs) and the dimension.
local function read_trapezoid(who, y, ...)
  local o = read(who, trapezoid_names, ...)
  local dim = want_dim(who, argument.tensor(who, "y", y), o.dim or -1)
  if o.x == nil then
    local dx = o.dx or 1
    if type(dx) ~= "number" then
      refuse(who, "dx: a number wanted, got %s", options.show(dx))
    end
    return dx, dim
  end
  if o.dx ~= nil then refuse(who, "x and dx, which are two things") end
  local x = argument.tensor(who, "x", o.x)
  if x:dim() == 1 then
    local shape = {}
    for d = 1, y:dim() do shape[d] = d == dim and x:numel() or 1 end
    if x:numel() ~= y:size(dim) then
      core.fail("shape", who, ("x %s for %s along dim %d, as many wanted"):format(x:type(),
        y:type(), dim))
    end
    x = op.reshape(x, shape)
  end
  local before, after = neighbours(x, dim - y:dim() + x:dim())
  return op.sub(after, before), dim
end

local function as_real(y) return is_float(y) and y or op.cast(y, "f32") end

--- The area below points y that are joined by lines.
---
---     y:trapezoid()
---     y:trapezoid{dx = 0.1, dim = 1}
---     y:trapezoid(x)
---
--- Shapes: `[..., n]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param x? mrt.Tensor|{x: mrt.Tensor?, dx: number?, dim: integer?}  where they stand
---@param ... any  dx: how far apart they are (default 1), dim (default -1)
---@return mrt.Tensor
function Tensor.trapezoid(y, x, ...)
  local width, dim = read_trapezoid("trapezoid", y, x, ...)
  y = as_real(y)
  local n = y:size(dim)
  if type(width) == "number" and n > 1 then
    local ends = op.add(part(y, dim, 1, 1), part(y, dim, n, 1))
    local inner = op.sub(op.sum(y, { dim = dim, keepdim = true }), op.mul(ends, 0.5))
    return Tensor.squeeze(op.mul(inner, width), dim)
  end
  local before, after = neighbours(y, dim)
  return op.mul(op.sum(op.mul(op.add(before, after), width), { dim = dim }), 0.5)
end

--- The areas up to each point after the first: `trapezoid`, running.
---
---     mrt.tensor{1.0, 2.0, 3.0}:cumulative_trapezoid()  --> [1.5 4.0]
---
--- Shapes: `[..., n]` -> `[..., n - 1]`.
--- Raises: a dimension that x does not have.
---@param x? mrt.Tensor|{x: mrt.Tensor?, dx: number?, dim: integer?}
---@param ... any
---@return mrt.Tensor
function Tensor.cumulative_trapezoid(y, x, ...)
  local width, dim = read_trapezoid("cumulative_trapezoid", y, x, ...)
  local before, after = neighbours(as_real(y), dim)
  local areas = op.mul(op.mul(op.add(before, after), width), 0.5)
  return op.cumsum(areas, { dim = dim })
end

--- log(exp(x[1]) + ... + exp(x[k])) along a dimension, without overflow.
---
--- The sums are s[k] = s[k - 1] exp(m[k - 1] - m[k]) + exp(x[k] - m[k]), with m the
--- running maximum: no term is above 1.
---
---     mrt.tensor{0.0, 0.0}:logcumsumexp(1)  --> [0.0000 0.6931]
---
--- Raises: a dimension that x does not have.
---@param dim integer|{dim: integer}
---@return mrt.Tensor
function Tensor.logcumsumexp(x, dim)
  local o = read("logcumsumexp", { "dim" }, dim)
  if not is_float(argument.tensor("logcumsumexp", "x", x)) then
    core.fail("dtype", "logcumsumexp", ("%s, floats wanted"):format(x:type()))
  end
  local most = op.detach((op.cummax(x, { dim = o.dim })))
  if x:numel() == 0 then return op.mul(x, 1) end
  if x:dim() == 0 then return op.mul(x, 1) end
  most = op.where(op.lt(op.abs(most), math.huge), most, 0)
  local d = o.dim < 0 and o.dim + x:dim() + 1 or o.dim
  local before, after = neighbours(most, d)
  local fall = op.exp(op.minimum(op.sub(before, after), 0))
  local factor = op.pad(fall, { dim = d, before = 1 })
  local sums = core.op.recurrence(factor, op.exp(op.sub(x, most)), { dim = d })
  return op.add(op.log(sums), most)
end

-- ---- of variables with each other ------------------------------------------------

local function as_rows(who, x)
  argument.tensor(who, "x", x)
  if x:dim() > 2 then
    core.fail("shape", who, ("%s, a row for each variable wanted, at most 2 dimensions")
      :format(x:type()))
  end
  if x:dim() < 2 then x = op.reshape(x, { 1, x:numel() }) end
  return is_float(x) and x or op.cast(x, "f32")
end

--- Covariance of variables that are the rows of x `[V, n]`: `[V, V]`; of one variable, a
--- number.
---
---     mrt.tensor{{1.0, 2.0, 3.0}, {3.0, 2.0, 1.0}}:cov()  --> [[1.0 -1.0] [-1.0 1.0]]
---
--- Raises: more than two dimensions.
---@param correction? integer|{correction: integer?}  divides by n - correction; default 1
---@return mrt.Tensor
function Tensor.cov(x, correction)
  local o = read("cov", { "correction" }, correction)
  if o.correction ~= nil and type(o.correction) ~= "number" then
    refuse("cov", "correction: a number wanted, got %s", options.show(o.correction))
  end
  local rows = as_rows("cov", x)
  local n = rows:size(2)
  local d = op.sub(rows, rows:mean(2, true))
  local y = op.div(op.matmul(d, op.transpose(d, 1, 2)), math.max(0, n - (o.correction or 1)))
  return rows:size(1) == 1 and op.reshape(y, {}) or y
end

--- Pearson's correlation of variables that are the rows of x `[V, n]`: `[V, V]`.
---
---     mrt.tensor{{1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}}:corrcoef()  --> [[1.0 1.0] [1.0 1.0]]
---@return mrt.Tensor
function Tensor.corrcoef(x)
  local rows = as_rows("corrcoef", x)
  local d = op.sub(rows, rows:mean(2, true))
  local products = op.matmul(d, op.transpose(d, 1, 2))
  local size = op.sqrt(op.sum(op.mul(d, d), { dim = 2, keepdim = true }))
  local y = op.div(op.div(products, size), op.transpose(size, 1, 2)):clamp(-1, 1)
  return rows:size(1) == 1 and op.reshape(y, {}) or y
end

return Tensor
