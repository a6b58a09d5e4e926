--- create.lua -- tensors from numbers
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local check_names = require "mrt.util.options".check_names
local show = require "mrt.util.options".show

local op, refuse = core.op, argument.refuse
local dtypes = core.dtypes()

---@class mrt.make
local make = {}

-- A shape and options: (4, 8), ({4, 8}), (4, 8, {dtype = "f64"}) or
-- {4, 8, dtype = "f64"} -> {4, 8}, options.
local function read_shape(who, ...)
  local given, n, shape, options = { ... }, select("#", ...), {}, {}
  for i = 1, n do
    local value = given[i]
    if type(value) == "table" and not core.is_tensor(value) then
      argument.whole(who, "shape", value)
      for key, field in pairs(value) do
        if math.type(key) == "integer" then shape[key] = field
        else options[key] = field end
      end
    elseif type(value) == "number" then
      shape[#shape + 1] = value
    else
      refuse(who, "a shape wanted, got %s", show(value))
    end
  end
  if type(options.size) == "table" then shape, options.size = options.size, nil end
  return shape, options
end

local function only_dtype(who, given)
  check_names(who, given, { dtype = true })
  return given.dtype
end

-- make(dtype), where what makes numbers makes no narrow ones: rounded from `wide`.
local function rounded(dtype, wide, make_in)
  if not (dtypes[dtype] and dtypes[dtype].narrow) then return make_in(dtype) end
  return make_in(wide):to(dtype)
end

-- ---- tensors from numbers --------------------------------------------------

--- Make a tensor of a number or of nested tables of numbers: integers give i64,
--- others f32, booleans bool, unless `dtype` says otherwise.  A tensor is
--- detached and converted.
---
---     mrt.tensor{{1, 2}, {3, 4}}:type()  --> i64[2,2]
---
--- Shapes: of the nested lists.
--- Raises: lists of other lengths, what is no number.
---@param value any
---@param dtype? mrt.DType|{dtype: mrt.DType?}
---@return mrt.Tensor
function make.tensor(value, dtype)
  if type(dtype) == "table" then dtype = only_dtype("tensor", dtype) end
  if core.is_tensor(value) then
    value = op.detach(value)
    return dtype and value:to(dtype) or value
  end
  return core.tensor(value, dtype)
end

--- Make a tensor of bytes, row-major and little-endian.
---
---     mrt.from_bytes("\1\2\3", "u8", {3})  --> [1 2 3]
---
--- Shapes: the shape given.
--- Raises: bytes that are not just those of the shape.
---@param bytes string
---@param dtype mrt.DType
---@param shape integer[]
---@return mrt.Tensor
function make.from_bytes(bytes, dtype, shape)
  return core.from_bytes(bytes, dtype, shape)
end

--- Make a tensor of one number everywhere.
---
---     mrt.full({2}, 7)  --> [7.0 7.0]
---
--- Raises: a size below 0, an option that there is not.
---@param shape integer[]
---@param value number
---@param options? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function make.full(shape, value, options)
  if type(shape) == "number" then shape = { shape } end
  return op.full { shape = shape, value = value,
    dtype = only_dtype("full", options or {}) }
end

--- Make zeros: `mrt.zeros(4, 8)`, `mrt.zeros({4, 8}, {dtype = "i64"})`.
---
---     mrt.zeros(2, 3):type()  --> f32[2,3]
---
--- Shapes: the shape given.
--- Raises: a size below 0, an option that there is not.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function make.zeros(...)
  local shape, options = read_shape("zeros", ...)
  return make.full(shape, 0, options)
end

--- Make ones, as `zeros`.
---
---     mrt.ones(2, 3):type()  --> f32[2,3]
---
--- Shapes: the shape given.
--- Raises: a size below 0, an option that there is not.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function make.ones(...)
  local shape, options = read_shape("ones", ...)
  return make.full(shape, 1, options)
end

local function like(name, value)
  return function(x)
    if not core.is_tensor(x) then refuse(name, "a tensor wanted, got %s", show(x)) end
    return make.full(x.shape, value, { dtype = x.dtype })
  end
end

---@type fun(x: mrt.Tensor): mrt.Tensor
make.zeros_like = like("zeros_like", 0)
---@type fun(x: mrt.Tensor): mrt.Tensor
make.ones_like = like("ones_like", 1)

--- Uniform in [0, 1); rounded to a narrow dtype, it may be 1.
---
---     mrt.rand(2, 3):type()  --> f32[2,3]
---
--- Shapes: the shape given.
--- Raises: a size below 0, an option that there is not.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function make.rand(...)
  local shape, options = read_shape("rand", ...)
  return rounded(only_dtype("rand", options), "f32", function(dtype)
    return op.rand { shape = shape, dtype = dtype }
  end)
end

--- Normal with mean 0 and variance 1.
---
---     mrt.randn(2, 3):type()  --> f32[2,3]
---
--- Shapes: the shape given.
--- Raises: a size below 0, an option that there is not.
---@param ... integer|integer[]|{dtype: mrt.DType?}
---@return mrt.Tensor
function make.randn(...)
  local shape, options = read_shape("randn", ...)
  return rounded(only_dtype("randn", options), "f32", function(dtype)
    return op.randn { shape = shape, dtype = dtype }
  end)
end

--- Uniform integers, low <= x < high.
---
---     mrt.randint(0, 10, 2, 3):type()  --> i64[2,3]
---
--- Raises: low that is not below high.
---@param low integer
---@param high integer
---@param ... integer|integer[]|{dtype: mrt.DType?}  the shape; dtype i64
---@return mrt.Tensor
function make.randint(low, high, ...)
  local shape, options = read_shape("randint", ...)
  return op.randint { low = low, high = high, shape = shape,
    dtype = only_dtype("randint", options) }
end

--- start, start + step, ... short of stop; `mrt.arange(stop)` begins at 0.
--- Integers give i64, others f32.
---
---     mrt.arange(0, 6, 2)  --> [0 2 4]
---
--- Shapes: -> `[n]`.
--- Raises: a step of 0.
---@param start number
---@param stop? number
---@param step? number  default 1
---@param options? {dtype: mrt.DType?}
---@return mrt.Tensor
function make.arange(start, stop, step, options)
  if type(stop) == "table" then stop, options = nil, stop end
  if type(step) == "table" then step, options = nil, step end
  if not stop then start, stop = 0, start end
  step = step or 1
  local whole = math.type(start) == "integer" and math.type(stop) == "integer"
    and math.type(step) == "integer"
  local wanted = only_dtype("arange", options or {}) or (whole and "i64" or "f32")
  return rounded(wanted, "f64", function(dtype)
    return op.arange { start = start, stop = stop, step = step, dtype = dtype }
  end)
end

--- `count` numbers from first to last, both included, evenly spaced.
---
---     mrt.linspace(0, 1, 3)  --> [0.0 0.5 1.0]
---
--- Shapes: -> `[count]`.
--- Raises: a count below 0.
---@param first number
---@param last number
---@param count integer
---@param options? {dtype: mrt.DType?}  default f32
---@return mrt.Tensor
function make.linspace(first, last, count, options)
  local dtype = only_dtype("linspace", options or {}) or "f32"
  if type(first) ~= "number" or type(last) ~= "number" then
    refuse("linspace", "two numbers wanted, got %s and %s", show(first), show(last))
  end
  if math.type(count) ~= "integer" or count < 1 then
    refuse("linspace", "%s numbers, a positive integer wanted", show(count))
  end
  local i = op.arange { stop = count, dtype = "f64" }
  local step = count > 1 and (last - first) / (count - 1) or 0.0
  return (i * step + first):to(dtype)
end

--- The identity matrix `[n, m]`.
---
---     mrt.eye(2)  --> [[1.0 0.0] [0.0 1.0]]
---
--- Raises: a size below 0, an option that there is not.
---@param n integer
---@param m? integer|{dtype: mrt.DType?}  default n
---@param options? {dtype: mrt.DType?}    default f32
---@return mrt.Tensor
function make.eye(n, m, options)
  local o = argument.read("eye", { "n", "m", "dtype" }, n, m, options)
  local row = op.arange { stop = o.n, dtype = "i64" }:unsqueeze(2)
  return op.eq(row, op.arange { stop = o.m or o.n, dtype = "i64" }):to(o.dtype or "f32")
end

return make
