--- reduce.lua -- methods of tensors that make one element of many
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local read = argument.read

local dtypes = core.dtypes()

local function as_real(x) return dtypes[x:get_dtype()].floating and x or x:to "f32" end

local reduction = { "dim", "keepdim" }

-- How many elements became one.
local function share(x, y)
  return y:numel() > 0 and x:numel() // y:numel() or 0
end

--- Average over dimensions, or all; integers give f32.
---
---     mrt.arange(4):mean()  --> 1.5
---     x:mean(2)
---     x:mean({1, 2}, true)
---     x:mean{dim = 2, keepdim = true}
---
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|{dim: integer|integer[]?, keepdim: boolean?}
---@param keepdim? boolean  keep the dimensions as size 1
---@return mrt.Tensor
function Tensor.mean(x, dim, keepdim)
  x = as_real(x)
  local y = op.sum(x, read("mean", reduction, dim, keepdim))
  return op.div(y, share(x, y))
end

-- Variance, and the mean in the shape that it has with keepdim.
local function moments(who, x, o)
  if o.correction ~= nil and type(o.correction) ~= "number" then
    argument.refuse(who, "correction: a number wanted, got %s", options.show(o.correction))
  end
  x = as_real(x)
  local mean = x:mean { dim = o.dim, keepdim = true }
  local d = op.sub(x, mean)
  local y = op.sum(op.mul(d, d), { dim = o.dim, keepdim = o.keepdim })
  return op.div(y, math.max(0, share(x, y) - (o.correction or 1))), mean
end

local function of_mean(y, mean) return op.reshape(mean, y:get_shape()) end

--- Variance over dimensions, or all, dividing by n - correction.
---
---     mrt.tensor{1.0, 2.0, 3.0}:var()  --> 1
---
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|{dim: integer|integer[]?, keepdim: boolean?, correction: number?}
---@param keepdim? boolean
---@param correction? number  default 1
---@return mrt.Tensor
function Tensor.var(x, dim, keepdim, correction)
  local o = read("var", { "dim", "keepdim", "correction" }, dim, keepdim, correction)
  return (moments("var", x, o))
end

--- Variance and mean.
---
---     mrt.tensor{1.0, 2.0, 3.0}:var_mean()  --> 1, 2
---
--- Shapes: as var, twice: `[...]` without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|table  as for var
---@param ... any  correction, keepdim
---@return mrt.Tensor var
---@return mrt.Tensor mean
function Tensor.var_mean(x, dim, ...)
  local o = read("var_mean", { "dim", "correction", "keepdim" }, dim, ...)
  local y, mean = moments("var_mean", x, o)
  return y, of_mean(y, mean)
end

-- A root of sums of what is not negative.  Its slope at 0 is infinite, and 0 times
-- that is NaN; there the gradient that is least in length is 0, PyTorch's too.
local function root(s, p)
  if p == 2 then return op.root(s) end
  local zero = op.eq(s, 0)
  return op.where(zero, 0, op.pow(op.where(zero, 1, s), 1 / p))
end

--- Standard deviation: the square root of `var`.  Of equal elements it is 0, and so
--- is its gradient.
---
---     mrt.tensor{1.0, 2.0, 3.0}:std()  --> 1
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param ... any  as for var
---@return mrt.Tensor
function Tensor.std(x, ...) return root(x:var(...), 2) end

--- Standard deviation and mean.
---
---     mrt.tensor{1.0, 2.0, 3.0}:std_mean()  --> 1, 2
---
--- Shapes: as std, twice: `[...]` without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|table  as for var
---@param ... any  correction, keepdim
---@return mrt.Tensor std
---@return mrt.Tensor mean
function Tensor.std_mean(x, dim, ...)
  local o = read("std_mean", { "dim", "correction", "keepdim" }, dim, ...)
  local y, mean = moments("std_mean", x, o)
  return op.root(y), of_mean(y, mean)
end

-- The one tensor beside x, or the reduction over x; over one dimension that is named
-- the positions too.
local function pair_or_reduce(name, pair, reduce, position)
  Tensor[name] = function(x, y, ...)
    if core.is_tensor(y) then return pair(x, y) end
    local o = read(name, reduction, y, ...)
    if math.type(o.dim) == "integer" then return reduce(x, o), position(x, o) end
    return reduce(x, o)
  end
end

pair_or_reduce("max", op.maximum, op.amax, op.argmax)
pair_or_reduce("min", op.minimum, op.amin, op.argmin)

-- Of numbers, whether they are other than 0: NaN is.
local function truth(name)
  local over = op[name]
  Tensor[name] = function(x, ...)
    return over(x:get_dtype() == "bool" and x or op.ne(x, 0), ...)
  end
end

truth "any"
truth "all"

--- log(sum(exp(x))) without overflow.
---
---     mrt.tensor{0.0, 0.0}:logsumexp()  --> 0.6931472
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]|table
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor.logsumexp(x, dim, keepdim)
  local o = read("logsumexp", reduction, dim, keepdim)
  if x:numel() == 0 then return op.log(op.sum(x, o)) end -- -inf
  local most = op.detach(op.amax(x, { dim = o.dim, keepdim = true }))
  local finite = op.lt(op.abs(most), math.huge)
  most = op.where(finite, most, 0)
  local sum = op.sum(op.exp(op.sub(x, most)), { dim = o.dim, keepdim = true })
  local y = op.add(op.log(sum), most)
  if o.keepdim then return y end
  local shape = op.sum(x, { dim = o.dim }):get_shape()
  return op.reshape(y, shape)
end

--- (sum |x|^p)^(1/p); p = math.huge gives the largest |x|, -math.huge the least, 0 how
--- many are not 0.  Of zeros it is 0, and so is its gradient.
---
---     mrt.tensor{3.0, 4.0}:norm()  --> 5
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param p? number  default 2
---@param dim? integer|integer[]|table
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor.norm(x, p, dim, keepdim)
  local o = read("norm", { "p", "dim", "keepdim" }, p, dim, keepdim)
  local over = { dim = o.dim, keepdim = o.keepdim }
  p, x = o.p or 2, as_real(x)
  if p == 2 then return root(op.sum(op.mul(x, x), over), 2) end
  if p == 1 then return op.sum(op.abs(x), over) end
  if p == math.huge then return op.amax(op.abs(x), over) end
  if p == -math.huge then return op.amin(op.abs(x), over) end
  if p == 0 then return op.sum(op.cast(op.ne(x, 0), x:get_dtype()), over) end
  return root(op.sum(op.pow(op.abs(x), p), over), p)
end

return Tensor
