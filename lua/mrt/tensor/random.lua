--- random.lua -- tensors like others, drawn from distributions, and of indices
---
--- Draws are lazy and depend on mrt.seed (torch.manual_seed) and the program alone; in a
--- compiled function every run draws anew.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local dims = require "mrt.tensor.dims"
local make = require "mrt.tensor.create"
local options = require "mrt.util.options"
local show = options.show

local op = core.op
local read, refuse = argument.read, argument.refuse
local infos = core.dtypes()
---@class mrt.Tensor
local Tensor = core.methods

---@class mrt.make
local drawn = {}

-- ---- like others -----------------------------------------------------------

-- An option dtype, or that of x.
local function dtype_of(who, x, o)
  argument.tensor(who, "the first", x)
  return o.dtype or x:get_dtype()
end

--- One number everywhere, of x's shape and dtype.
---
---     mrt.full_like(mrt.zeros(2), 7)  --> [7.0 7.0]
---
--- Raises: what is no tensor.
---@param x mrt.Tensor
---@param fill_value number
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function drawn.full_like(x, fill_value, o)
  o = read("full_like", { "fill_value", "dtype" }, fill_value, o)
  local dtype = dtype_of("full_like", x, o)
  return make.full(x:get_shape(), o.fill_value, { dtype = dtype })
end

for name, f in pairs { rand_like = make.rand, randn_like = make.randn, empty_like = make.zeros } do
  drawn[name] = function(x, o)
    o = read(name, { "dtype" }, o)
    local dtype = dtype_of(name, x, o)
    return f(x:get_shape(), { dtype = dtype })
  end
end

--- Integers in [low, high), or [0, low) without high, of x's shape and dtype.
---
---     mrt.randint_like(mrt.zeros(2), 10):type()  --> f32[2]
---
--- Raises: low that is not below high.
---@param x mrt.Tensor
---@param low integer
---@param high? integer
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function drawn.randint_like(x, low, high, o)
  if type(high) == "table" then high, o = nil, high end
  o = read("randint_like", { "dtype" }, o)
  if high == nil then low, high = 0, low end
  local dtype = dtype_of("randint_like", x, o)
  if not infos[dtype] then refuse("randint_like", "no dtype %s", show(dtype)) end
  local whole = infos[dtype].floating and "i64" or dtype
  return make.randint(low, high, x:get_shape(), { dtype = whole }):to(dtype)
end

--- Zeros: nothing is left unwritten here.
---
---     mrt.empty(2, 3):type()  --> f32[2,3]
---
--- Shapes: the shape given.
--- Raises: a size below 0, an option that there is not.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function drawn.empty(...) return make.zeros(...) end

--- `steps` numbers whose logarithms are evenly spaced, base ^ start to base ^ stop.
---
---     mrt.logspace(0, 2, 3)  --> [ 1.0 10.0 100.0]
---
--- Shapes: -> `[steps]`.
--- Raises: steps below 0.
---@param start number
---@param stop number
---@param steps integer
---@param base? number  default 10
---@param o? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function drawn.logspace(start, stop, steps, base, o)
  local who <const> = "logspace"
  if type(base) == "table" then base, o = base.base, base end
  if type(o) == "table" then options.check_names(who, o, { dtype = true, base = true }) end
  if base ~= nil and type(base) ~= "number" then
    refuse(who, "base %s, a number wanted", show(base))
  end
  local exponents = make.linspace(start, stop, steps, { dtype = "f64" })
  return op.pow(base or 10.0, exponents):to(o and o.dtype or "f32")
end

-- ---- distributions ---------------------------------------------------------

-- The shape and dtype that tensors among these say; numbers say nothing.
local function shape_of(who, list, shape, dtype)
  local shapes = {}
  for _, t in ipairs(list) do
    if core.is_tensor(t) then
      shapes[#shapes + 1] = t:get_shape()
      dtype = dtype or t:get_dtype()
    elseif type(t) ~= "number" then
      refuse(who, "numbers or tensors wanted, got %s", show(t))
    end
  end
  if #shapes > 0 then return dims.broadcast(who, shapes), dtype end
  if type(shape) ~= "table" then refuse(who, "size: a shape wanted, got %s", show(shape)) end
  return shape, dtype or "f32"
end

--- Normal numbers. A tensor of means or deviations says the shape; numbers want `size`.
---
---     mrt.normal(0, 1, {2}):type()  --> f32[2]
---
--- Raises: a std that is a number below 0.
---@param mean mrt.Operand
---@param std? mrt.Operand   default 1
---@param size? integer[]
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function drawn.normal(mean, std, size, o)
  local who <const> = "normal"
  o = read(who, { "std", "size", "dtype" }, std, size, nil, o)
  local deviation = o.std == nil and 1 or o.std
  if type(deviation) == "number" and not (deviation >= 0) then
    refuse(who, "std %s, 0 or more wanted", show(deviation))
  end
  local shape, dtype = shape_of(who, { mean, deviation }, o.size, o.dtype)
  return op.add(op.mul(make.randn(shape, { dtype = dtype }), deviation), mean)
end

-- What is there is looked at; what is still to be computed counts as clamped to [0, 1].
local function want_probabilities(who, x)
  if core.tracing() or not core.is_computed(x) then return end
  local fit = op.all(op.logical_and(op.ge(x, 0), op.le(x, 1)))
  if not fit:item() then
    refuse(who, "%s with elements that are not in [0, 1]", x:type())
  end
end

--- 1 with the probability that each element of x is, else 0; of x's dtype.
---
---     mrt.bernoulli(mrt.tensor{0.0, 1.0})  --> [0.0 1.0]
---
--- Raises: x that is no float.
---@param x mrt.Tensor  floats in [0, 1]
---@param p? number     this one for all, instead
---@return mrt.Tensor
function drawn.bernoulli(x, p)
  local who <const> = "bernoulli"
  p = read(who, { "p" }, p).p
  argument.tensor(who, "the first", x)
  if p ~= nil and (type(p) ~= "number" or not (p >= 0 and p <= 1)) then
    refuse(who, "p %s, 0 to 1 wanted", show(p))
  elseif p == nil and not infos[x:get_dtype()].floating then
    core.fail("dtype", who, x:type() .. ", floats wanted")
  elseif p == nil then
    want_probabilities(who, x)
  end
  local wide = x:get_dtype() == "f64" and "f64" or "f32"
  local u = op.rand { shape = x:get_shape(), dtype = wide }
  return op.cast(op.lt(u, p or op.cast(x, wide)), x:get_dtype())
end

--- The integers below n in an order that is as likely as any other.
---
---     mrt.randperm(4):sum()  --> 6
---
--- Shapes: -> `[n]`, i64.
--- Raises: n below 0.
---@param n integer
---@param o? {dtype: mrt.DType?}  default i64
---@return mrt.Tensor
function drawn.randperm(n, o)
  local dtype = read("randperm", { "dtype" }, o).dtype
  local u = op.rand { shape = { dims.integer("randperm", "n", n, 0) }, dtype = "f64" }
  return op.permutation(u):to(dtype or "i64")
end

-- Ids [R, k] whose weight is above 0, of rows whose weights all can be; another ends the
-- run with an error.
local function with_weight(weights, ids)
  local C = weights:size(2)
  local fit = op.logical_and(op.ge(weights, 0), op.lt(weights, math.huge))
  local rows = op.expand(op.all(fit, { dim = { 2 }, keepdim = true }), ids:get_shape())
  local good = op.logical_and(op.gt(op.gather(weights, ids, { dim = 2 }), 0), rows)
  return op.flat_index({ op.where(good, ids, C) }, { dims = { C } })
end

-- Of `weights` [R, C] f64: rows of k ids, each drawn by itself.
local function independent(weights, k)
  local R, C = weights:size(1), weights:size(2)
  local sums = op.cumsum(weights, { dim = 2 })
  local total = op.slice(sums, 2, C, C)
  local u = op.mul(op.rand { shape = { R, k }, dtype = "f64" }, total)
  local ids = op.searchsorted(sums, u, { right = true })
  return with_weight(weights, op.minimum(ids, C - 1))
end

-- Of `weights` [R, C]: the first k of exponential clocks of these rates to ring.
local function distinct(weights, k)
  local u = op.rand { shape = weights:get_shape(), dtype = "f64" }
  local clock = op.div(op.neg(op.log(op.sub(1.0, u))), weights)
  local _, ids = Tensor.topk(clock, { k = k, dim = 2, largest = false, sorted = true })
  return with_weight(weights, ids)
end

local function check_weights(who, weights, k, replacement)
  argument.tensor(who, "weights", weights)
  local rank = weights:dim()
  if rank < 1 or rank > 2 or not infos[weights:get_dtype()].floating then
    refuse(who, "%s, floats [C] or [R, C] wanted", weights:type())
  end
  local C = weights:size(rank)
  if C == 0 or (not replacement and k > C) then
    refuse(who, "%d samples of %d without replacement", k, C)
  end
end

--- Draw 0-based ids with probabilities in the proportion of `weights`.  Raises (data): a
--- row has not so many above 0.
---
---     mrt.multinomial(mrt.tensor{0.0, 1.0}, 1)  --> [1]
---@param weights mrt.Tensor  `[C]` or `[R, C]`, floats, 0 or more
---@param num_samples integer
---@param replacement? boolean  default false: each id once at most
---@return mrt.Tensor  `[num_samples]` or `[R, num_samples]`, i64
function drawn.multinomial(weights, num_samples, replacement)
  local who <const> = "multinomial"
  local o = read(who, { "num_samples", "replacement" }, num_samples, replacement)
  local k = dims.integer(who, "num_samples", o.num_samples, 1)
  check_weights(who, weights, k, o.replacement)
  local rank = weights:dim()
  local shape = { rank == 2 and weights:size(1) or 1, weights:size(rank) }
  local rows = op.detach(op.cast(op.reshape(weights, shape), "f64"))
  local ids = (o.replacement and independent or distinct)(rows, k)
  return rank == 2 and ids or op.reshape(ids, { k })
end

-- ---- indices ---------------------------------------------------------------

-- How many elements lie on and below diagonal k: row i, from 0, has i + k + 1 of them, 0 to
-- `columns`.  A float where no tensor has as many.
local function below(rows, columns, k)
  local empty = math.max(0, math.min(rows, -k))
  local whole = math.max(empty, math.min(rows, columns - k))
  local cut, first = whole - empty, empty + k + 1.0
  return cut * (first + (cut - 1) / 2) + (rows - whole) * (columns + 0.0)
end

-- Rows and columns, from 0, of a triangle, row by row: [2, n].  Row i begins at `first(i)`
-- and ends before `stop(i)`; each is clamped to a row.
local function triangle(who, total, rows, columns, bounds, dtype)
  if total >= 2^59 then
    core.fail("shape", who, ("%g elements of %d rows of %d, a size in bytes that overflows")
      :format(total, rows, columns))
  end
  total = math.tointeger(total)
  if total == 0 then return make.zeros(2, 0, { dtype = dtype }) end
  local i = op.arange { stop = rows, dtype = "i64" }
  local first, stop = bounds(i)
  first, stop = first:clamp(0, columns), stop:clamp(0, columns)
  local counts = op.sub(stop, first)
  local row = Tensor.repeat_interleave(i, counts, 1, total)
  local shift = op.sub(first, op.sub(op.cumsum(counts, { dim = 1 }), counts))
  local column = op.add(op.arange { stop = total, dtype = "i64" },
    op.gather(shift, row, { dim = 1 }))
  return op.cat({ op.reshape(row, { 1, total }), op.reshape(column, { 1, total }) }, 1):to(dtype)
end

local function read_triangle(who, ...)
  local o = read(who, { "row", "col", "offset", "dtype" }, ...)
  return dims.integer(who, "row", o.row, 0), dims.integer(who, "col", o.col, 0),
    dims.integer(who, "offset", o.offset or 0), o.dtype or "i64"
end

--- Rows and columns (0-based) of the elements on and below a diagonal, row by row.
---
---     mrt.tril_indices(2, 2)  --> [[0 1 1] [0 0 1]]
---
--- Raises: a size below 0.
---@param row integer     how many rows
---@param col integer     and columns
---@param offset? integer default 0
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor  `[2, n]`
function drawn.tril_indices(row, col, offset, o)
  local rows, columns, k, dtype = read_triangle("tril_indices", row, col, offset, o)
  k = math.max(-rows, math.min(columns, k))
  return triangle("tril_indices", below(rows, columns, k), rows, columns,
    function(i) return op.mul(i, 0), op.add(i, k + 1) end, dtype)
end

--- Rows and columns (0-based) of the elements on and above a diagonal, row by row.
---
---     mrt.triu_indices(2, 2)  --> [[0 0 1] [0 1 1]]
---
--- Raises: a size below 0.
---@param row integer
---@param col integer
---@param offset? integer
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor  `[2, n]`
function drawn.triu_indices(row, col, offset, o)
  local rows, columns, k, dtype = read_triangle("triu_indices", row, col, offset, o)
  k = math.max(-rows, math.min(columns, k))
  return triangle("triu_indices", rows * (columns + 0.0) - below(rows, columns, k - 1), rows,
    columns, function(i) return op.add(i, k), op.add(op.mul(i, 0), columns) end, dtype)
end

--- Powers of a vector's elements: row i is x[i] ^ (N - 1), ... x[i] ^ 0.
---
---     mrt.vander(mrt.tensor{2, 3})  --> [[2 1] [3 1]]
---
--- Raises: what is no vector.
---@param x mrt.Tensor   `[n]`
---@param N? integer     default n
---@param increasing? boolean
---@return mrt.Tensor  `[n, N]`
function drawn.vander(x, N, increasing)
  local o = read("vander", { "N", "increasing" }, N, increasing)
  argument.tensor("vander", "x", x)
  if x:dim() ~= 1 then refuse("vander", "%s, a vector wanted", x:type()) end
  local count = dims.integer("vander", "N", o.N or x:numel(), 0)
  local y = dims.powers(x, count)
  return o.increasing == true and y or y:flip(2)
end

-- a - b cos(2 pi i / n), of a window that repeats or one that ends as it begins.
local function window(who, a, b, ...)
  local o = read(who, { "window_length", "periodic", "dtype" }, ...)
  local count, dtype = dims.integer(who, "window_length", o.window_length, 0), o.dtype or "f32"
  if count < 2 then return make.ones(count, { dtype = dtype }) end
  local turns = op.div(op.arange { stop = count, dtype = "f64" },
    o.periodic == false and count - 1 or count)
  return op.sub(a, op.mul(op.cos(op.mul(turns, 2 * math.pi)), b)):to(dtype)
end

--- Hann's window.
---
---     mrt.hann_window(4)  --> [0.0 0.5 1.0 0.5]
---
--- Shapes: -> `[n]`.
--- Raises: a length below 0.
---@param window_length integer
---@param periodic? boolean  default true
---@param o? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function drawn.hann_window(window_length, periodic, o)
  return window("hann_window", 0.5, 0.5, window_length, periodic, o)
end

--- Hamming's window.
---
---     mrt.hamming_window(4)  --> [0.08 0.54 1.00 0.54]
---
--- Shapes: -> `[n]`.
--- Raises: a length below 0.
---@param window_length integer
---@param periodic? boolean  default true
---@param o? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function drawn.hamming_window(window_length, periodic, o)
  return window("hamming_window", 0.54, 0.46, window_length, periodic, o)
end

for name, f in pairs(drawn) do make[name] = f end

return make
