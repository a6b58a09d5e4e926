--- scatter.lua -- methods of tensors that read and write along a dimension by index
---
--- Ids are 0-based, as of gather and embedding; dimensions count from 1.  What has one
--- place is taken in the order of the ids: of what is written there the last stays, and
--- sums have the same bits for any number of threads.  The result is a new tensor.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"
local show = require "mrt.util.options".show

local op = core.op
local read, refuse, place = argument.read, argument.refuse, dims.place
local infos = core.dtypes()
---@class mrt.Tensor
local Tensor = core.methods

-- ---- what is given ---------------------------------------------------------

-- PyTorch has the dimension first; whoever has it last is told.
local function dim_first(who, x, o, rest)
  if core.is_tensor(o.dim) then
    refuse(who, "%s(dim, index%s) wanted: the dimension first", who, rest or "")
  end
  argument.tensor(who, "index", o.index)
  return place(who, x, o.dim)
end

-- Ids `[n]`, each for a whole slice of `shape`: a view that repeats them.
local function along(who, ids, dim, shape)
  local rank = ids:dim()
  if rank > 1 then refuse(who, "index %s, one dimension wanted", ids:type()) end
  if rank == 1 and #shape == 1 then return ids end
  local ones = {}
  for i = 1, #shape do ones[i] = i == dim and -1 or 1 end
  return op.expand(op.reshape(ids, ones), shape)
end

-- x's shape with `n` along dim.
local function resized(x, dim, n)
  local shape = x:get_shape()
  shape[dim] = n
  return shape
end

-- What is written: a tensor of x's dtype, or a number as one.
local function source_like(who, x, src, shape)
  if type(src) == "number" or type(src) == "boolean" then
    return dims.constant(x, src, shape)
  end
  argument.tensor(who, "source", src)
  if src:get_dtype() ~= x:get_dtype() then
    core.fail("dtype", who, ("source %s for %s, one dtype wanted"):format(src:type(), x:type()))
  end
  return src
end

-- Of a source that has more than the index: the part that it has ids for.
local function cut(who, src, index)
  if src:numel() == index:numel() and src:dim() == index:dim() then
    return src -- other shapes of as many elements do not fit, as the row says
  end
  local shape, wanted = src:get_shape(), index:get_shape()
  if #shape ~= #wanted then
    core.fail("shape", who, ("index %s, source %s, one rank wanted"):format(index:type(),
      src:type()))
  end
  for d, n in ipairs(wanted) do
    if n > shape[d] then
      core.fail("shape", who, ("index %s, source %s, no larger size wanted"):format(
        index:type(), src:type()))
    elseif n < shape[d] then
      src = n == 0 and dims.none(src, d) or op.slice(src, d, 1, n)
    end
  end
  return src
end

-- By place, and nothing to adapt: what most calls are.  Other shapes and dtypes are
-- refused by the row.
local function is_plain(dim, index, src)
  return math.type(dim) == "integer" and core.is_tensor(index) and core.is_tensor(src)
    and src:numel() == index:numel() and src:dim() == index:dim()
end

-- ---- sums, products, extremes, means ---------------------------------------

local combine = {}

function combine.sum(x, index, src, dim) return op.scatter_add(x, index, src, { dim = dim }) end
combine.add = combine.sum
for ours, name in pairs { prod = "prod", multiply = "prod", amax = "amax", amin = "amin" } do
  combine[ours] = function(x, index, src, dim)
    return op.scatter_reduce(x, index, src, { dim = dim, reduce = name })
  end
end

-- What x has where nothing of it is to count: it does not change the result.
local neutral = { sum = 0, prod = 1, mean = 0, amax = -math.huge, amin = math.huge }

local function forget(x, index, src, dim, how)
  local floating = infos[x:get_dtype()].floating
  if how:find "^am" and not floating then
    return op.scatter(x, index, src, { dim = dim }) -- one of those that are compared
  end
  return op.scatter(x, index, dims.constant(x, neutral[how], index:get_shape()), { dim = dim })
end

local function mean(x, index, src, dim, own)
  local shape, dtype = x:get_shape(), x:get_dtype()
  local count = dims.constant(x, 1, shape)
  local one = dims.constant(x, 1, index:get_shape())
  if not own then count = op.scatter(count, index, op.mul(one, 0), { dim = dim }) end
  count = op.scatter_add(count, index, one, { dim = dim })
  local sum = op.scatter_add(x, index, src, { dim = dim })
  if infos[dtype].floating then return op.div(sum, count) end
  return Tensor.floor_divide(sum, count)
end

local reductions = { sum = true, prod = true, mean = true, amax = true, amin = true }

local function reduce(who, x, dim, index, src, how, own)
  if not reductions[how] then
    refuse(who, "reduce %s, one of sum, prod, mean, amax, amin wanted", show(how))
  end
  if own ~= nil and type(own) ~= "boolean" then
    refuse(who, "include_self: true or false wanted, got %s", show(own))
  end
  own = own ~= false
  if not own then x = forget(x, index, src, dim, how) end
  if how == "mean" then return mean(x, index, src, dim, own) end
  return combine[how](x, index, src, dim)
end

-- ---- element by element ----------------------------------------------------

--- Read along `dim` at 0-based positions: for dim 1 of two,
--- `y[i][j] = x[index[i][j]][j]`.
---
---     mrt.tensor{{1, 2}, {3, 4}}:gather(2, mrt.tensor{{1}, {0}})  --> [[2] [3]]
---
--- Raises: an index of another rank; at the run, one outside of the dimension.
---@param dim integer
---@param index mrt.Tensor  integers, of the result's shape
---@return mrt.Tensor
function Tensor.gather(x, dim, index, ...)
  if core.is_tensor(index) and math.type(dim) == "integer" and not ... then
    return op.gather(x, index, { dim = place("gather", x, dim) })
  end
  local o = read("gather", { "dim", "index" }, dim, index, ...)
  return op.gather(x, o.index, { dim = dim_first("gather", x, o) })
end

--- Write along `dim` at 0-based positions: for dim 1 of two,
--- `y[index[i][j]][j] = src[i][j]`.
---
---     mrt.zeros(3):scatter(1, mrt.tensor{0, 2}, mrt.tensor{5.0, 7.0})  --> [5.0 0.0 7.0]
---
--- Raises: an index of another rank; at the run, one outside.
---@param dim integer
---@param index mrt.Tensor    integers; no larger than src
---@param src mrt.Operand     of x's dtype, or a number
---@param reduce_by? "add"|"multiply"  combine with what is there instead
---@return mrt.Tensor
function Tensor.scatter(x, dim, index, src, reduce_by, ...)
  if reduce_by == nil and not ... and is_plain(dim, index, src) then
    return op.scatter(x, index, src, { dim = place("scatter", x, dim) })
  end
  local o = read("scatter", { "dim", "index", "src", "reduce", "value" }, dim, index, src,
    reduce_by, ...)
  local at = dim_first("scatter", x, o, ", src")
  src = source_like("scatter", x, o.src == nil and o.value or o.src, o.index:get_shape())
  src = cut("scatter", src, o.index)
  if o.reduce == nil then return op.scatter(x, o.index, src, { dim = at }) end
  if o.reduce ~= "add" and o.reduce ~= "multiply" then
    refuse("scatter", "reduce %s, add or multiply wanted (see scatter_reduce)", show(o.reduce))
  end
  return combine[o.reduce](x, o.index, src, at)
end

--- Add along `dim` at 0-based positions: for dim 1 of two,
--- `y[index[i][j]][j] = x[..][j] + src[i][j] + ...`.
---
---     mrt.zeros(3):scatter_add(1, mrt.tensor{0, 0}, mrt.tensor{5.0, 7.0})  --> [12.0 0.0 0.0]
---
--- Raises: an index of another rank; at the run, one outside.
---@param dim integer
---@param index mrt.Tensor   integers; no larger than src
---@param src mrt.Operand
---@return mrt.Tensor
function Tensor.scatter_add(x, dim, index, src, ...)
  if not ... and is_plain(dim, index, src) then
    return op.scatter_add(x, index, src, { dim = place("scatter_add", x, dim) })
  end
  local o = read("scatter_add", { "dim", "index", "src" }, dim, index, src, ...)
  local at = dim_first("scatter_add", x, o, ", source")
  if not core.is_tensor(o.src) and type(o.src) ~= "number" then
    argument.tensor("scatter_add", "source", o.src)
  end
  src = source_like("scatter_add", x, o.src, o.index:get_shape())
  return op.scatter_add(x, o.index, cut("scatter_add", src, o.index), { dim = at })
end

--- Combine along `dim` at 0-based positions what is there with `src`.
---
---     mrt.ones(3):scatter_reduce(1, mrt.tensor{0, 0}, mrt.tensor{5.0, 7.0}, "amax")
---     --> [7.0 1.0 1.0]
---
--- Shapes: `[...]` of x's shape; index and src of one shape.
--- Raises: a way that there is not; at the run, an index outside.
---@param dim integer
---@param index mrt.Tensor
---@param src mrt.Operand
---@param how "sum"|"prod"|"mean"|"amax"|"amin"
---@param include_self? boolean  default true; false: what is there does not count where
---  something comes
---@return mrt.Tensor
function Tensor.scatter_reduce(x, dim, index, src, how, include_self, ...)
  local o = read("scatter_reduce", { "dim", "index", "src", "reduce", "include_self" }, dim,
    index, src, how, include_self, ...)
  local at = dim_first("scatter_reduce", x, o, ", src, reduce")
  src = cut("scatter_reduce", source_like("scatter_reduce", x, o.src, o.index:get_shape()),
    o.index)
  return reduce("scatter_reduce", x, at, o.index, src, o.reduce, o.include_self)
end

--- Gather with an index of x's rank that broadcasts against x; without `dim`, from x as
--- one row.
---
---     mrt.tensor{{3, 1}}:take_along_dim(mrt.tensor{{1, 0}}, 2)  --> [[1 3]]
---
--- Raises: an index of another rank.
---@param indices mrt.Tensor
---@param dim? integer
---@return mrt.Tensor
function Tensor.take_along_dim(x, indices, dim, ...)
  local o = read("take_along_dim", { "indices", "dim" }, indices, dim, ...)
  indices = argument.tensor("take_along_dim", "indices", o.indices)
  if o.dim == nil then
    return op.gather(op.reshape(x, -1), op.reshape(indices, -1), { dim = 1 })
  end
  local at = place("take_along_dim", x, o.dim)
  if indices:dim() ~= x:dim() then
    refuse("take_along_dim", "indices %s for %s, one rank wanted", indices:type(), x:type())
  end
  local shape = dims.broadcast("take_along_dim",
    { resized(x, at, 1), resized(indices, at, 1) })
  shape[at] = x:size(at)
  x = dims.expand(x, shape)
  shape[at] = indices:size(at)
  return op.gather(x, dims.expand(indices, shape), { dim = at })
end

--- The elements with these 0-based positions in x as one row.
---
---     mrt.tensor{{1, 2}, {3, 4}}:take(mrt.tensor{3, 0})  --> [4 1]
---
--- Raises: at the run, an index outside.
---@param index mrt.Tensor
---@return mrt.Tensor  of the index's shape
function Tensor.take(x, index, ...)
  if not core.is_tensor(index) then index = read("take", { "index" }, index, ...).index end
  argument.tensor("take", "index", index)
  if x:dim() == 1 and index:dim() == 1 then return op.gather(x, index, { dim = 1 }) end
  local y = op.gather(op.reshape(x, -1), op.reshape(index, -1), { dim = 1 })
  return op.reshape(y, index:get_shape())
end

--- Write (or add) `source` at these 0-based positions of x as one row.
---
---     mrt.zeros(3):put(mrt.tensor{2}, mrt.tensor{5.0})  --> [0.0 0.0 5.0]
---
--- Shapes: x `[...]`, index and source of one shape.
--- Raises: shapes that differ; at the run, an index outside.
---@param index mrt.Tensor
---@param source mrt.Operand    as many as the index has
---@param accumulate? boolean   default false
---@return mrt.Tensor
function Tensor.put(x, index, source, accumulate, ...)
  local o = read("put", { "index", "source", "accumulate" }, index, source, accumulate, ...)
  index = op.reshape(argument.tensor("put", "index", o.index), -1)
  source = source_like("put", x, o.source, index:get_shape())
  local into = o.accumulate and op.scatter_add or op.scatter
  local y = into(op.reshape(x, -1), index, op.reshape(source, -1), { dim = 1 })
  return op.reshape(y, x:get_shape())
end

-- ---- whole slices ----------------------------------------------------------

--- Take the rows, or other slices along `dim`, with these 0-based ids.
---
---     mrt.tensor{{1, 2}, {3, 4}}:index_select(1, mrt.tensor{1})  --> [[3 4]]
---
--- Raises: ids that are no row of integers; at the run, one outside.
---@param dim integer
---@param index mrt.Tensor  `[n]`, integers
---@return mrt.Tensor
function Tensor.index_select(x, dim, index, ...)
  if core.is_tensor(index) and math.type(dim) == "integer" and not ... then
    local at = place("index_select", x, dim)
    return op.gather(x, along("index_select", index, at, resized(x, at, index:numel())), at)
  end
  local o = read("index_select", { "dim", "index" }, dim, index, ...)
  local at = dim_first("index_select", x, o)
  local ids = along("index_select", o.index, at, resized(x, at, o.index:numel()))
  return op.gather(x, ids, { dim = at })
end

-- The source, and its ids as an index of its shape.
local function slices(who, x, o)
  local at = dim_first(who, x, o, ", source")
  local shape = resized(x, at, o.index:numel())
  local source = source_like(who, x, o.source, shape)
  if not dims.same(source:get_shape(), shape) then
    core.fail("shape", who, ("source %s for ids %s along dim %d of %s, %s wanted"):format(
      source:type(), o.index:type(), at, x:type(), dims.text(shape)))
  end
  return at, along(who, o.index, at, shape), source
end

--- Add slices of `source` to those of x with these 0-based ids.
---
---     mrt.zeros(3):index_add(1, mrt.tensor{0, 2}, mrt.tensor{1.0, 5.0})  --> [1.0 0.0 5.0]
---
--- Raises: shapes that do not fit; at the run, an id outside.
---@param dim integer
---@param index mrt.Tensor    `[n]`, integers
---@param source mrt.Operand  of x's shape but for n along dim
---@param alpha? number       what source is multiplied by; default 1
---@return mrt.Tensor
function Tensor.index_add(x, dim, index, source, alpha, ...)
  local o = read("index_add", { "dim", "index", "source", "alpha" }, dim, index, source, alpha, ...)
  local at, ids, src = slices("index_add", x, o)
  if o.alpha ~= nil and o.alpha ~= 1 then src = op.mul(src, o.alpha) end
  return op.scatter_add(x, ids, src, { dim = at })
end

--- Write slices of `source` over those of x with these 0-based ids.
---
---     mrt.zeros(3):index_copy(1, mrt.tensor{0, 2}, mrt.tensor{1.0, 5.0})  --> [1.0 0.0 5.0]
---
--- Shapes: x `[..., n, ...]`, ids `[k]`, source `[..., k, ...]`.
--- Raises: shapes that do not fit; at the run, an id outside.
---@param dim integer
---@param index mrt.Tensor
---@param source mrt.Operand
---@return mrt.Tensor
function Tensor.index_copy(x, dim, index, source, ...)
  local o = read("index_copy", { "dim", "index", "source" }, dim, index, source, ...)
  local at, ids, src = slices("index_copy", x, o)
  return op.scatter(x, ids, src, { dim = at })
end

--- Write a number over the slices of x with these 0-based ids.
---
---     mrt.zeros(3):index_fill(1, mrt.tensor{0, 2}, 7)  --> [7.0 0.0 7.0]
---
--- Shapes: x `[..., n, ...]`, ids `[k]`.
--- Raises: at the run, an id outside.
---@param dim integer
---@param index mrt.Tensor
---@param value mrt.Operand  a number, or a tensor of one
---@return mrt.Tensor
function Tensor.index_fill(x, dim, index, value, ...)
  local o = read("index_fill", { "dim", "index", "value" }, dim, index, value, ...)
  if core.is_tensor(o.value) then
    if o.value:dim() > 0 then
      refuse("index_fill", "value %s, a number wanted", o.value:type())
    end
    local shape = resized(x, dim_first("index_fill", x, o), o.index:numel())
    o.source = dims.expand(o.value:to(x:get_dtype()), shape)
  else
    o.source = o.value
  end
  local at, ids, src = slices("index_fill", x, o)
  return op.scatter(x, ids, src, { dim = at })
end

--- Combine slices of `source` with those of x, as scatter_reduce does elements.
---
---     mrt.ones(3):index_reduce(1, mrt.tensor{0, 0}, mrt.tensor{2.0, 5.0}, "prod")
---     --> [10.0 1.0 1.0]
---
--- Shapes: x `[..., n, ...]`, ids `[k]`, source `[..., k, ...]`.
--- Raises: a way that there is not; at the run, an id outside.
---@param dim integer
---@param index mrt.Tensor
---@param source mrt.Operand
---@param how "prod"|"mean"|"amax"|"amin"|"sum"
---@param include_self? boolean  default true
---@return mrt.Tensor
function Tensor.index_reduce(x, dim, index, source, how, include_self, ...)
  local o = read("index_reduce", { "dim", "index", "source", "reduce", "include_self" }, dim,
    index, source, how, include_self, ...)
  local at, ids, src = slices("index_reduce", x, o)
  return reduce("index_reduce", x, at, ids, src, o.reduce, o.include_self)
end

-- ---- masks -----------------------------------------------------------------

-- As one row.
local function flat(x) return x:dim() == 1 and x or op.reshape(x, -1) end

--- Write elements of `source`, in their order, where `mask` is true.  Raises (data): it
--- has fewer than there are.
---
---     mrt.zeros(3):masked_scatter(mrt.tensor{true, false, true}, mrt.tensor{5.0, 7.0})
---     --> [5.0 0.0 7.0]
---@param mask mrt.Tensor    bool, broadcasts
---@param source mrt.Tensor  of x's dtype
---@return mrt.Tensor
function Tensor.masked_scatter(x, mask, source, ...)
  local who <const> = "masked_scatter"
  local o = read(who, { "mask", "source" }, mask, source, ...)
  argument.tensor(who, "mask", o.mask)
  argument.tensor(who, "source", o.source)
  if o.mask:get_dtype() ~= "bool" then
    core.fail("dtype", who, ("mask %s, bool wanted"):format(o.mask:type()))
  end
  source = source_like(who, x, o.source, {})
  mask = o.mask
  local shape, other = x:get_shape(), mask:get_shape()
  if not dims.same(shape, other) then
    shape = dims.broadcast(who, { shape, other })
    x, mask = dims.expand(x, shape), dims.expand(mask, shape)
  end
  mask = flat(mask)
  -- Element k of the source is the k-th true one's; the first stands for those that are
  -- false, and a number where there is none.
  local rank = op.where(mask, op.sub(op.cumsum(mask, { dim = 1 }), 1), 0)
  if source:numel() == 0 then
    source = dims.constant(x, 0, { 1 })
    rank = op.cumsum(mask, { dim = 1 })
  end
  local y = op.where(mask, op.gather(flat(source), rank, { dim = 1 }), flat(x))
  return #shape == 1 and y or op.reshape(y, shape)
end

return Tensor
