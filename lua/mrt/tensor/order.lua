--- order.lua -- methods of tensors that put elements in order, or choose by their rank
---
--- The operators sort, topk, kthvalue, median and mode return values and 0-based
--- positions; here is what is composed of them.  Equal elements stay in their order,
--- whatever `stable` says; NaN is larger than all numbers.
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

-- ---- sort, argsort -----------------------------------------------------------

local ordering = { "dim", "descending", "stable" }

local function sorted(who, x, dim, descending, stable)
  local o = read(who, ordering, dim, descending, stable)
  return op.sort(argument.tensor(who, "x", x), { dim = o.dim, descending = o.descending })
end

--- Put the elements along a dimension in order.
---
---     mrt.tensor{3, 1, 2}:sort()  --> [1 2 3], [1 2 0]
---
--- Raises: a dimension that x does not have.
---@param dim? integer|{dim: integer?, descending: boolean?, stable: boolean?}  default -1
---@param descending? boolean
---@param stable? boolean  equal elements always stay in their order
---@return mrt.Tensor values
---@return mrt.Tensor positions  i64, 0-based
function Tensor.sort(x, dim, descending, stable)
  return sorted("sort", x, dim, descending, stable)
end

--- The 0-based positions that put the elements along a dimension in order, i64.
---
---     mrt.tensor{3, 1, 2}:argsort()  --> [1 2 0]
---
--- Raises: a dimension that x does not have.
---@param dim? integer|{dim: integer?, descending: boolean?, stable: boolean?}  default -1
---@param descending? boolean
---@param stable? boolean  equal elements always stay in their order
---@return mrt.Tensor
function Tensor.argsort(x, dim, descending, stable)
  local _, positions = sorted("argsort", x, dim, descending, stable)
  return positions
end

--- Put the rows of the first dimension in order, each column for itself.
---
---     mrt.tensor{{3, 1}, {2, 4}}:msort()  --> [[2 1] [3 4]]
---
--- A scalar stays; that is no error.
---@return mrt.Tensor values
function Tensor.msort(x) return (op.sort(x, { dim = 1 })) end

-- ---- medians -----------------------------------------------------------------

-- NaN, of a float dtype.
local function nan_like(who, x)
  if not dtypes[x:get_dtype()].floating then
    core.fail("value", who, "over no elements of " .. x:type())
  end
  return op.full { shape = {}, value = 0 / 0, dtype = "f64" }:to(x:get_dtype())
end

local function median(who, x, skip_nan, dim, keepdim)
  local o = read(who, { "dim", "keepdim" }, dim, keepdim)
  if o.dim == nil then
    if o.keepdim ~= nil then refuse(who, "keepdim without a dim") end
    if x:numel() == 0 then return nan_like(who, x) end
    return (op.median(op.reshape(x, { -1 }), { skip_nan = skip_nan }))
  end
  return op.median(x, { dim = o.dim, keepdim = o.keepdim, skip_nan = skip_nan })
end

--- The element in the middle, of an even number the lower of the two; NaN if there is
--- one.  Without `dim` of all elements, and no positions.
---
---     mrt.tensor{3.0, 1.0, 2.0}:median()  --> 2
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? integer|{dim: integer?, keepdim: boolean?}
---@param keepdim? boolean
---@return mrt.Tensor values
---@return mrt.Tensor? positions  i64, 0-based: of equal elements the first
function Tensor.median(x, dim, keepdim) return median("median", x, false, dim, keepdim) end

--- `median` of what is no NaN; NaN where all are.
---
---     mrt.tensor{0 / 0, 1.0, 3.0}:nanmedian()  --> 1
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? integer|{dim: integer?, keepdim: boolean?}
---@param keepdim? boolean
---@return mrt.Tensor values
---@return mrt.Tensor? positions
function Tensor.nanmedian(x, dim, keepdim) return median("nanmedian", x, true, dim, keepdim) end

-- ---- quantiles ---------------------------------------------------------------

-- Between places low and low + 1, how far from the first; half way `nearest` takes the
-- even one.
local between = {
  linear = function(t) return t end,
  lower = function() return 0 end,
  higher = function() return 1 end,
  midpoint = function() return 0.5 end,
  nearest = function(t, low)
    return (t > 0.5 or t == 0.5 and low % 2 == 1) and 1 or 0
  end,
}

local quantile_names = { "q", "dim", "keepdim", "interpolation" }

-- The quantiles as a list of numbers, and whether there is one alone.
local function quantiles_of(who, q)
  if not core.is_tensor(q) then return type(q) == "table" and q or { q }, type(q) ~= "table" end
  if q:dim() > 1 then refuse(who, "q: a number or a list of them wanted, got %s", q:type()) end
  local values = q:totable()
  return type(values) == "table" and values or { values }, q:dim() == 0
end

local function read_quantile(who, x, ...)
  local o = read(who, quantile_names, ...)
  local dtype = argument.tensor(who, "x", x):get_dtype()
  if not dtypes[dtype].floating then refuse(who, "%s, floats wanted", x:type()) end
  if o.q == nil then refuse(who, "option 'q' is missing") end
  local list, number = quantiles_of(who, o.q)
  for _, v in ipairs(list) do
    if type(v) ~= "number" or not (v >= 0 and v <= 1) then
      refuse(who, "q: numbers from 0 to 1 wanted, got %s", options.show(v))
    end
  end
  local way = o.interpolation or "linear"
  if not between[way] then
    refuse(who, "interpolation: linear, lower, higher, midpoint or nearest wanted, got %s",
      options.show(way))
  end
  return o, list, number, way
end

-- x with its elements along one dimension, and the shape of one quantile.
local function rows_of(who, x, o)
  local shape = x:get_shape()
  local dim = o.dim
  if dim == nil then
    local kept = {}
    for d = 1, #shape do kept[d] = o.keepdim and 1 or nil end
    x = op.reshape(x, { -1 })
    if x:numel() == 0 then refuse(who, "over no elements of %s", x:type()) end
    return x, 1, kept
  end
  local y = op.median(x, { dim = dim, keepdim = o.keepdim }) -- checks dim
  return x, dim, y:get_shape()
end

-- The results for all q, as PyTorch has them: a list gives a first dimension.
local function joined(list, number, kept)
  for i, y in ipairs(list) do list[i] = op.reshape(y, kept) end
  if number then return list[1] end
  for i, y in ipairs(list) do list[i] = y:unsqueeze(1) end
  return op.cat(list, { dim = 1 })
end

local function blend(low, high, t) return op.add(low, op.mul(op.sub(high, low), t)) end

-- What stands at place i, from 0, of each row: few are chosen, many sorted.
local function ranks(rows, along, count)
  if rows:dim() == 0 then return function() return rows end end
  if count <= 2 then
    return function(i)
      return (op.kthvalue(rows, { k = i + 1, dim = along, keepdim = true }))
    end
  end
  local values = op.sort(rows, { dim = along })
  return function(i) return op.slice(values, { dim = along, first = i + 1, last = i + 1 }) end
end

--- Where a share q of the elements lies below: of n in order what stands at q (n - 1)
--- from 0, between two elements by `interpolation`.  NaN if there is one.
---
---     x:quantile(0.5)
---     x:quantile({0.25, 0.75}, 2)
---     x:quantile{q = 0.9, dim = 1}
---
--- Raises: q outside of 0 to 1.
---@param q number|number[]|mrt.Tensor|table  0 to 1; a list: the results' first dimension
---@param dim? integer  default: of all elements
---@param keepdim? boolean
---@param interpolation? "linear"|"lower"|"higher"|"midpoint"|"nearest"
---@return mrt.Tensor  of x's dtype
function Tensor.quantile(x, q, dim, keepdim, interpolation)
  local o, list, number, way = read_quantile("quantile", x, q, dim, keepdim, interpolation)
  local rows, along, kept = rows_of("quantile", x, o)
  local n, out, rank = rows:dim() == 0 and 1 or rows:size(along), {}, ranks(rows, along, #list)
  local bad = op.any(op.isnan(rows), { dim = rows:dim() > 0 and along or nil, keepdim = true })
  for i, v in ipairs(list) do
    local place = v * (n - 1)
    local low, high = math.floor(place), math.ceil(place)
    local t = low == high and 0 or between[way](place - low, low)
    local y = t == 0 and rank(low) or t == 1 and rank(high) or blend(rank(low), rank(high), t)
    out[i] = op.where(bad, 0 / 0, y)
  end
  return joined(out, number, kept)
end

--- `quantile` of what is no NaN; NaN where all are.
---
---     mrt.tensor{0 / 0, 1.0, 3.0}:nanquantile(0.5)  --> 2
---
--- Shapes: as quantile: q's shape, then `[...]` without dim.
--- Raises: q outside of 0 to 1.
---@param q number|number[]|mrt.Tensor|table
---@param dim? integer
---@param keepdim? boolean
---@param interpolation? "linear"|"lower"|"higher"|"midpoint"|"nearest"
---@return mrt.Tensor
function Tensor.nanquantile(x, q, dim, keepdim, interpolation)
  local o, list, number, way = read_quantile("nanquantile", x, q, dim, keepdim, interpolation)
  local rows, along, kept = rows_of("nanquantile", x, o)
  if rows:dim() == 0 then rows, along = op.reshape(rows, { 1 }), 1 end
  local values, out = op.sort(rows, { dim = along }), {}
  local count = op.sum(op.logical_not(op.isnan(rows)), { dim = along, keepdim = true })
  local last = op.maximum(op.sub(op.cast(count, "f64"), 1), 0)
  local function rank(place)
    return op.gather(values, op.cast(place, "i64"), { dim = along })
  end
  for i, v in ipairs(list) do
    local place = op.mul(last, v)
    local low, high = op.floor(place), op.ceil(place)
    if way == "lower" then out[i] = rank(low)
    elseif way == "higher" then out[i] = rank(high)
    elseif way == "nearest" then out[i] = rank(op.round(place))
    else
      local t = way == "midpoint" and op.mul(op.sub(high, low), 0.5) or op.sub(place, low)
      local a, b = rank(low), rank(high)
      local whole = op.eq(t, 0)
      local step = op.mul(op.where(whole, 0, op.sub(b, a)), op.cast(t, x:get_dtype()))
      out[i] = op.add(a, step)
    end
  end
  return joined(out, number, kept)
end

return Tensor
