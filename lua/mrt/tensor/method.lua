--- method.lua -- methods of tensors that are composed of operators
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local trace = require "mrt.compile.trace"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local read, refuse = argument.read, argument.refuse

-- A dimension as 1..rank; `extra` dimensions may be added at the end.
local function place(who, x, dim, extra)
  local rank = x:dim() + (extra or 0)
  local at = math.tointeger(dim)
  if at and at < 0 then at = at + rank + 1 end
  if not at or at < 1 or at > rank then
    refuse(who, "dim %s of %s, 1 to %d (or from the end: -1) wanted",
      tostring(dim), x:type(), rank)
  end
  return at
end

-- ---- dtypes ----------------------------------------------------------------

--- Convert; the tensor itself when it has that dtype already.  Or copy to another
--- device, which computes what is pending and cannot be done inside a compiled
--- function.
---@param dtype mrt.DType|string  a dtype, or a device: "cpu", "cuda:0"
---@return mrt.Tensor
function Tensor.to(x, dtype)
  if type(dtype) == "string" and (dtype == "cpu" or dtype:find "^cuda") then
    return core.transfer(x, dtype)
  end
  if x:get_dtype() == dtype then return x end
  return op.cast(x, dtype)
end

---@return mrt.Tensor
function Tensor.float(x) return x:to "f32" end

---@return mrt.Tensor
function Tensor.double(x) return x:to "f64" end

---@return mrt.Tensor
function Tensor.long(x) return x:to "i64" end

---@return mrt.Tensor
function Tensor.int(x) return x:to "i32" end

---@return mrt.Tensor
function Tensor.byte(x) return x:to "u8" end

---@return mrt.Tensor
function Tensor.bool(x) return x:to "bool" end

local dtypes = core.dtypes()

local function as_real(x) return dtypes[x:get_dtype()].floating and x or x:to "f32" end

-- ---- shapes ----------------------------------------------------------------

Tensor.view = op.reshape

--- Swap the two dimensions of a matrix.
---@return mrt.Tensor
function Tensor.t(x)
  if x:dim() > 2 then
    refuse("t", "%s, at most 2 dimensions wanted (see transpose)", x:type())
  end
  return x:dim() == 2 and op.transpose(x, 1, 2) or x
end

--- Add a dimension of size 1 before `dim`; -1 adds it at the end.
---@param dim integer
---@return mrt.Tensor
function Tensor.unsqueeze(x, dim)
  local shape = x:get_shape()
  table.insert(shape, place("unsqueeze", x, dim, 1), 1)
  return op.reshape(x, shape)
end

--- Drop a dimension of size 1, or all of them.
---@param dim? integer
---@return mrt.Tensor
function Tensor.squeeze(x, dim)
  local shape, kept = x:get_shape(), {}
  local at = dim and place("squeeze", x, dim)
  for i, n in ipairs(shape) do
    if n ~= 1 or (at and i ~= at) then kept[#kept + 1] = n end
  end
  return #kept < #shape and op.reshape(x, kept) or x
end

--- Make one dimension of those from `first` to `last`.
---@param first? integer  default 1
---@param last? integer   default -1
---@return mrt.Tensor
function Tensor.flatten(x, first, last)
  if x:dim() == 0 then return op.reshape(x, 1) end
  first = place("flatten", x, first or 1)
  last = place("flatten", x, last or -1)
  local out, n = {}, 1
  for i, size in ipairs(x:get_shape()) do
    if i < first or i > last then
      out[#out + 1] = size
    else
      n = n * size
      if i == last then out[#out + 1] = n end
    end
  end
  return op.reshape(x, out)
end

--- Take position `i` of a dimension, and drop the dimension.
---@param dim integer
---@param i integer  1-based, negative from the end
---@return mrt.Tensor
function Tensor.select(x, dim, i)
  local shape = x:get_shape()
  table.remove(shape, place("select", x, dim))
  return op.reshape(op.slice(x, dim, i, i), shape)
end

--- Split into `count` parts of one size, the last perhaps smaller.
---@param count integer
---@param dim? integer  default 1
---@return mrt.Tensor ...
function Tensor.chunk(x, count, dim)
  dim = place("chunk", x, dim or 1)
  if math.type(count) ~= "integer" or count < 1 then
    refuse("chunk", "%s parts, a positive integer wanted", tostring(count))
  end
  return op.split(x, math.max(1, -(-x:size(dim) // count)), dim)
end

--- Take the rows, or other slices along `dim`, with these 0-based ids.
---@param dim integer
---@param ids mrt.Tensor  `[n]`, integers
---@return mrt.Tensor
function Tensor.index_select(x, dim, ids)
  dim = place("index_select", x, dim)
  argument.tensor("index_select", "ids", ids)
  local shape, ones = x:get_shape(), {}
  for i in ipairs(shape) do ones[i] = i == dim and -1 or 1 end
  shape[dim] = ids:numel()
  return op.gather(x, op.expand(op.reshape(ids, ones), shape), dim)
end

-- ---- reductions ------------------------------------------------------------

local reduction = { "dim", "keepdim" }

-- How many elements became one.
local function share(x, y)
  return y:numel() > 0 and x:numel() // y:numel() or 0
end

--- Average over dimensions, or all; integers give f32.
---
---     x:mean()  x:mean(2)  x:mean({1, 2}, true)  x:mean{dim = 2, keepdim = true}
---@param dim? integer|integer[]|{dim: integer|integer[]?, keepdim: boolean?}
---@param keepdim? boolean  keep the dimensions as size 1
---@return mrt.Tensor
function Tensor.mean(x, dim, keepdim)
  x = as_real(x)
  local y = op.sum(x, read("mean", reduction, dim, keepdim))
  return op.div(y, share(x, y))
end

--- Variance over dimensions, or all, dividing by n - correction.
---@param dim? integer|integer[]|{dim: integer|integer[]?, keepdim: boolean?, correction: number?}
---@param keepdim? boolean
---@param correction? number  default 1
---@return mrt.Tensor
function Tensor.var(x, dim, keepdim, correction)
  local o = read("var", { "dim", "keepdim", "correction" }, dim, keepdim,
    correction)
  x = as_real(x)
  local d = op.sub(x, x:mean { dim = o.dim, keepdim = true })
  local y = op.sum(op.mul(d, d), { dim = o.dim, keepdim = o.keepdim })
  return op.div(y, math.max(0, share(x, y) - (o.correction or 1)))
end

--- Standard deviation: the square root of `var`.
---@param ... any  as for var
---@return mrt.Tensor
function Tensor.std(x, ...) return op.sqrt(x:var(...)) end

-- The one tensor beside x, or the reduction over x.
local function pair_or_reduce(name, pair, reduce)
  Tensor[name] = function(x, y, ...)
    if core.is_tensor(y) then return pair(x, y) end
    return reduce(x, y, ...)
  end
end

---@class mrt.Tensor
---@field max fun(self: mrt.Tensor, y?: any, keepdim?: boolean): mrt.Tensor  amax, or maximum
---@field min fun(self: mrt.Tensor, y?: any, keepdim?: boolean): mrt.Tensor  amin, or minimum
pair_or_reduce("max", op.maximum, op.amax)
pair_or_reduce("min", op.minimum, op.amin)

--- log(sum(exp(x))) without overflow.
---@param dim? integer|integer[]|table
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor.logsumexp(x, dim, keepdim)
  local o = read("logsumexp", reduction, dim, keepdim)
  local most = op.detach(op.amax(x, { dim = o.dim, keepdim = true }))
  local finite = op.lt(op.abs(most), math.huge)
  most = op.where(finite, most, 0)
  local sum = op.sum(op.exp(op.sub(x, most)), { dim = o.dim, keepdim = true })
  local y = op.add(op.log(sum), most)
  if o.keepdim then return y end
  local shape = op.sum(x, { dim = o.dim }):get_shape()
  return op.reshape(y, shape)
end

--- (sum |x|^p)^(1/p); p = math.huge gives the largest |x|.
---@param p? number  default 2
---@param dim? integer|integer[]|table
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor.norm(x, p, dim, keepdim)
  local o = read("norm", { "p", "dim", "keepdim" }, p, dim, keepdim)
  local over = { dim = o.dim, keepdim = o.keepdim }
  p, x = o.p or 2, as_real(x)
  if p == 2 then return op.sqrt(op.sum(op.mul(x, x), over)) end
  if p == 1 then return op.sum(op.abs(x), over) end
  if p == math.huge then return op.amax(op.abs(x), over) end
  return op.pow(op.sum(op.pow(op.abs(x), p), over), 1 / p)
end

-- ---- pointwise -------------------------------------------------------------

---@return mrt.Tensor
function Tensor.square(x) return op.mul(x, x) end

--- Bound every element; either bound may be absent.
---@param min? number|mrt.Tensor|{min: number?, max: number?}
---@param max? number|mrt.Tensor
---@return mrt.Tensor
function Tensor.clamp(x, min, max)
  local o = read("clamp", { "min", "max" }, min, max)
  if not (o.min or o.max) then refuse("clamp", "min or max wanted, got neither") end
  if o.min then x = op.maximum(x, o.min) end
  if o.max then x = op.minimum(x, o.max) end
  return x
end

--- Put `value` where `mask` is true.
---@param mask mrt.Tensor  bool, broadcasts
---@param value mrt.Operand
---@return mrt.Tensor
function Tensor.masked_fill(x, mask, value) return op.where(mask, value, x) end

--- Choose `x` where this condition is true, else `y`.
---@param x mrt.Operand
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.where(condition, x, y) return op.where(condition, x, y) end

--- 1 at each 0-based id, 0 elsewhere: `[...]` -> `[..., count]`, i64.
---@param count integer
---@return mrt.Tensor
function Tensor.one_hot(ids, count)
  local all = op.arange { stop = count, dtype = "i64" }
  return op.cast(op.eq(ids:unsqueeze(-1), all), "i64")
end

-- Keep what `compare(column, row + diagonal)` says, of the last two dimensions.
local function triangle(name, compare)
  Tensor[name] = function(x, diagonal)
    if x:dim() < 2 then
      refuse(name, "%s, at least 2 dimensions wanted", x:type())
    end
    local row = op.arange { stop = x:size(-2), dtype = "i64" }:unsqueeze(2)
    local column = op.arange { stop = x:size(-1), dtype = "i64" }
    return op.where(compare(column, op.add(row, diagonal or 0)), x, 0)
  end
end

---@class mrt.Tensor
---@field tril fun(self: mrt.Tensor, diagonal?: integer): mrt.Tensor  zeros above the diagonal
---@field triu fun(self: mrt.Tensor, diagonal?: integer): mrt.Tensor  zeros below it
triangle("tril", op.le)
triangle("triu", op.ge)

-- ---- variables -------------------------------------------------------------

--- Set a variable: to a tensor of its shape, or to a number everywhere.  Inside
--- a compiled function it becomes an update of the plan, after every read of
--- the old value.
---@param value mrt.Operand
---@param options? {when: mrt.Tensor|boolean?}  a bool scalar: false leaves it
---@return mrt.Tensor self
function Tensor.assign(x, value, options)
  if type(options) == "table" and next(options) == nil then options = nil end
  local when = read("assign", { "when" }, options).when
  if when == false then return x end
  when = when ~= true and when or nil
  trace.assign(x, value, trace.gate(when))
  return x
end

return Tensor
