--- pointwise.lua -- methods that work element by element, composed of operators
---
--- Chains of pointwise operators run as one pass over memory, so what is composed here
--- takes the time of an operator of its own, or of two.
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
local inf <const> = math.huge

local function is_float(x) return dtypes[x:get_dtype()].floating end

-- An option that is a number, or its default.
local function number(who, name, value, default)
  if value == nil then return default end
  if type(value) == "number" then return value end
  refuse(who, "%s: a number wanted, got %s", name, options.show(value))
end

local function alias(name, ...)
  for _, other in ipairs { ... } do Tensor[other] = Tensor[name] end
end

-- ---- sums and products -----------------------------------------------------

-- `name` of y times `alpha`.
local function scaled(name)
  local plain = op[name]
  Tensor[name] = function(x, y, alpha)
    if alpha == nil then return plain(x, y) end
    alpha = number(name, "alpha", read(name, { "alpha" }, alpha).alpha, 1)
    return plain(x, alpha == 1 and y or op.mul(y, alpha))
  end
end

scaled "add"
scaled "sub"

--- y - alpha x.
---
---     mrt.tensor{1, 2}:rsub(10)  --> [9 8]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@param alpha? number|{alpha: number?}  default 1
---@return mrt.Tensor
function Tensor.rsub(x, y, alpha)
  alpha = number("rsub", "alpha", read("rsub", { "alpha" }, alpha).alpha, 1)
  return op.sub(y, alpha == 1 and x or op.mul(x, alpha))
end

-- x + value times what `join` makes of a and b.
local function added(name, join)
  Tensor[name] = function(x, a, b, value)
    value = number(name, "value", read(name, { "value" }, value).value, 1)
    local y = join(a, b)
    return op.add(x, value == 1 and y or op.mul(y, value))
  end
end

added("addcmul", op.mul)
added("addcdiv", op.div)

--- x + weight (y - x).
---
---     mrt.tensor{0.0, 10.0}:lerp(mrt.tensor{10.0, 20.0}, 0.5)  --> [5.0 15.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Tensor
---@param weight mrt.Operand|{weight: mrt.Operand}
---@return mrt.Tensor
function Tensor.lerp(x, y, weight)
  if type(weight) == "number" then return op.lerp(x, y, weight) end
  if not core.is_tensor(weight) then weight = read("lerp", { "weight" }, weight).weight end
  if not core.is_tensor(weight) then
    return op.lerp(x, y, { weight = number("lerp", "weight", weight) })
  end
  return op.add(x, op.mul(weight, op.sub(y, x)))
end

local roundings = { trunc = true, floor = true }

--- Divide; integers give f32, unless the quotient is rounded.
---
---     mrt.tensor{1, 2}:div(2)  --> [0.5 1.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@param rounding_mode? "trunc"|"floor"|{rounding_mode: string?}  towards 0, or down
---@return mrt.Tensor
function Tensor.div(x, y, rounding_mode)
  if rounding_mode == nil then return op.div(x, y) end
  local mode = read("div", { "rounding_mode" }, rounding_mode).rounding_mode
  if mode == nil then return op.div(x, y) end
  if not roundings[mode] then
    refuse("div", "rounding_mode: 'trunc' or 'floor' wanted, got %s", options.show(mode))
  end
  if mode == "floor" then return Tensor.floor_divide(x, y) end
  local whole = not is_float(x) and (core.is_tensor(y) and not is_float(y)
    or math.type(y) == "integer")
  if whole then return Tensor.floor_divide(op.sub(x, Tensor.fmod(x, y)), y) end
  return op.trunc(op.div(x, y))
end

--- The rest of a division rounded towards 0: the sign is x's, as of math.fmod.
--- Raises (value, data): integers by an integer 0.
---
---     mrt.tensor{-7, 7}:fmod(3)  --> [-1 1]
---
--- Shapes: `[...]` of what x and y broadcast to.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.fmod(x, y)
  if not is_float(x) then
    if y == 0 and math.type(y) == "integer" then
      refuse("fmod", "by 0; integers have no rest of that")
    end
    if core.is_tensor(y) and not is_float(y) then y = op.divisor(y) end
  end
  return op.fmod(x, y)
end

-- ---- powers ----------------------------------------------------------------

-- What is no more than a few products or roots.
local powers = {
  [2] = function(x) return op.mul(x, x) end,
  [0.5] = op.sqrt,
  [-1] = op.reciprocal,
  [-0.5] = op.rsqrt,
}

--- Raise to a power; integers give f32.
---
---     mrt.tensor{2.0, 3.0}:pow(2)  --> [4.0 9.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.pow(x, y)
  local short = powers[y]
  if short and core.is_tensor(x) then return short(is_float(x) and x or op.cast(x, "f32")) end
  return op.pow(x, y)
end

--- The same in f64.
---
---     mrt.tensor{2, 3}:float_power(2):type()  --> f64[2]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param exponent mrt.Operand
---@return mrt.Tensor
function Tensor.float_power(x, exponent)
  local function wide(v) return core.is_tensor(v) and op.cast(v, "f64") or v end
  return Tensor.pow(wide(x), wide(exponent))
end

--- x 2^y.
---
---     mrt.tensor{1.0, 3.0}:ldexp(2)  --> [4.0 12.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.ldexp(x, y)
  if not core.is_tensor(y) then y = number("ldexp", "the second", y) or 0 end
  return op.mul(x, core.is_tensor(y) and op.exp2(y) or 2.0 ^ y)
end

--- x times itself.
---
---     mrt.tensor{2, 3}:square()  --> [4 9]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.square(x) return op.mul(x, x) end

-- ---- rounding --------------------------------------------------------------

--- Round to the nearest whole number, half to even; or to so many decimals.
---
---     mrt.tensor{0.5, 1.5, 2.345}:round()  --> [0.0 2.0 2.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: decimals that are no integer.
---@param decimals? integer|{decimals: integer?}  default 0; below 0 tens, hundreds, ...
---@return mrt.Tensor
function Tensor.round(x, decimals)
  if decimals == nil then return op.round(x) end
  local n = read("round", { "decimals" }, decimals).decimals or 0
  if math.type(n) ~= "integer" then
    refuse("round", "decimals: an integer wanted, got %s", options.show(n))
  elseif n == 0 then
    return op.round(x)
  elseif not is_float(x) then
    refuse("round", "decimals = %d of %s, floats wanted (cast first)", n, x:type())
  end
  local dtype, unit = x:get_dtype(), 10.0 ^ math.abs(n)
  if dtypes[dtype].narrow then x = op.cast(x, "f32") end -- rounded once
  if n > 0 then
    x = op.div(op.round(op.mul(x, unit)), unit)
  else
    x = op.mul(op.round(op.div(x, unit)), unit)
  end
  return dtypes[dtype].narrow and op.cast(x, dtype) or x
end

--- What follows the point, with the sign of x.
---
---     mrt.tensor{1.5, -2.25}:frac()  --> [0.50 -0.25]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.frac(x) return op.sub(x, op.trunc(x)) end

-- ---- bounds ----------------------------------------------------------------

-- One bound: an option of the operator, or what is compared with.
local function is_option(bound, x)
  return type(bound) == "number" and bound == bound
    and (is_float(x) or math.type(bound) == "integer" and math.abs(bound) < 1 << 53)
end

--- Bound every element; either bound may be absent.  Where min exceeds max it is max.
---
---     mrt.tensor{-1, 5}:clamp(0, 3)  --> [0 3]
---
--- Shapes: `[...]` of x's shape, broadcast with bounds that are tensors.
--- Raises: neither bound.
---@param min? mrt.Operand|{min: mrt.Operand?, max: mrt.Operand?}
---@param max? mrt.Operand
---@return mrt.Tensor
function Tensor.clamp(x, min, max)
  if is_option(min, x) and is_option(max, x) then return op.clamp(x, min, max) end
  local o = read("clamp", { "min", "max" }, min, max)
  min, max = o.min, o.max
  if min == nil and max == nil then refuse("clamp", "min or max wanted, got neither") end
  if (min == nil or is_option(min, x)) and (max == nil or is_option(max, x)) then
    return op.clamp(x, o)
  end
  if min ~= nil then x = op.maximum(x, min) end
  return max ~= nil and op.minimum(x, max) or x
end

--- Bound every element from below.
---
---     mrt.tensor{-1, 5}:clamp_min(0)  --> [0 5]
---
--- Shapes: `[...]` of x's shape.
--- Raises: no bound.
---@param min mrt.Operand
---@return mrt.Tensor
function Tensor.clamp_min(x, min) return Tensor.clamp(x, min) end

--- Bound every element from above.
---
---     mrt.tensor{-1, 5}:clamp_max(3)  --> [-1 3]
---
--- Shapes: `[...]` of x's shape.
--- Raises: no bound.
---@param max mrt.Operand
---@return mrt.Tensor
function Tensor.clamp_max(x, max) return Tensor.clamp(x, nil, max) end

-- True where y, a tensor or a number, is NaN, else the condition.
local function unless_nan(condition, y)
  if core.is_tensor(y) then return op.logical_or(condition, op.ne(y, y)) end
  return y ~= y and op.eq(condition, condition) or condition
end

--- The larger; where one is NaN, the other.
---
---     mrt.tensor{1.0, 5.0}:fmax(3)  --> [3.0 5.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.fmax(x, y) return op.where(unless_nan(op.ge(x, y), y), x, y) end

--- The smaller; where one is NaN, the other.
---
---     mrt.tensor{1.0, 5.0}:fmin(3)  --> [1.0 3.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor.fmin(x, y) return op.where(unless_nan(op.le(x, y), y), x, y) end

-- ---- what a number is ------------------------------------------------------

--- Is it infinite, and above 0?
---
---     mrt.tensor{1 / 0, 1.0}:isposinf()  --> [true false]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.isposinf(x) return op.eq(x, inf) end

--- Is it infinite, and below 0?
---
---     mrt.tensor{-1 / 0, 1.0}:isneginf()  --> [true false]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.isneginf(x) return op.eq(x, -inf) end

--- Replace NaN by a number, and what is infinite by the largest and the least of the
--- dtype, or by other numbers.
---
---     mrt.tensor{0 / 0, 1.0}:nan_to_num(7)  --> [7.0 1.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: what is no number.
---@param nan? number|{nan: number?, posinf: number?, neginf: number?}  default 0
---@param posinf? number
---@param neginf? number
---@return mrt.Tensor
function Tensor.nan_to_num(x, nan, posinf, neginf)
  local facts = dtypes[x:get_dtype()]
  if nan == nil and posinf == nil and neginf == nil and not facts.narrow then
    return op.nan_to_num(x)
  end
  local o = read("nan_to_num", { "nan", "posinf", "neginf" }, nan, posinf, neginf)
  if not facts.floating then return op.nan_to_num(x) end
  local most = facts.largest
  return op.nan_to_num(x, { nan = o.nan or 0, posinf = o.posinf or most,
    neginf = o.neginf or -most })
end

--- 0 below 0 and of NaN, 1 above, and `values` at 0.
---
---     mrt.tensor{-1.0, 0.0, 2.0}:heaviside(0.5)  --> [0.0 0.5 1.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param values mrt.Operand
---@return mrt.Tensor
function Tensor.heaviside(x, values)
  return op.where(op.eq(x, 0), values, op.cast(op.gt(x, 0), x:get_dtype()))
end

-- ---- equality --------------------------------------------------------------

local closeness = { "rtol", "atol", "equal_nan" }

local function close(who, x, y, ...)
  argument.tensor(who, "the second", y)
  local o = read(who, closeness, ...)
  local rtol, atol = number(who, "rtol", o.rtol, 1e-5), number(who, "atol", o.atol, 1e-8)
  if rtol < 0 or atol < 0 then
    refuse(who, "rtol = %g, atol = %g, 0 or more wanted", rtol, atol)
  end
  if not is_float(x) then x = op.cast(x, "f64") end
  if not is_float(y) then y = op.cast(y, "f64") end
  local same, apart = op.eq(x, y), op.abs(op.sub(x, y))
  local most = op.add(op.mul(op.abs(y), rtol), atol)
  same = op.logical_or(same, op.logical_and(op.isfinite(apart), op.le(apart, most)))
  if not o.equal_nan then return same end
  return op.logical_or(same, op.logical_and(op.isnan(x), op.isnan(y)))
end

--- Is |x - y| at most atol + rtol |y|?  Infinities are close to themselves.
---
---     mrt.tensor{1.0, 2.0}:isclose(mrt.tensor{1.0, 2.1})  --> [true false]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Tensor
---@param rtol? number|{rtol: number?, atol: number?, equal_nan: boolean?}  default 1e-5
---@param atol? number  default 1e-8
---@param equal_nan? boolean  default false: NaN is close to nothing
---@return mrt.Tensor  bool
function Tensor.isclose(x, y, rtol, atol, equal_nan)
  return close("isclose", x, y, rtol, atol, equal_nan)
end

local LOOK <const> = 4096 -- elements that `equal` looks at before the rest

-- A bool scalar as a boolean of Lua: computed now.
local function now(who, condition)
  if core.tracing() then
    refuse(who, "it gives a boolean of Lua, which a compiled function has not computed yet; "
      .. "%s gives a tensor", who == "equal" and "eq(..):all()" or "isclose(..):all()")
  end
  return condition:item()
end

--- Are all elements close?  Computed at once; not within a compiled function.
---
---     mrt.tensor{1.0}:allclose(mrt.tensor{1.00001}, 1e-4)  --> true
---
--- Shapes: x and y broadcast.
--- Raises: shapes that do not broadcast; within a compiled function.
---@param y mrt.Tensor
---@param rtol? number|{rtol: number?, atol: number?, equal_nan: boolean?}
---@param atol? number
---@param equal_nan? boolean
---@return boolean
function Tensor.allclose(x, y, rtol, atol, equal_nan)
  return now("allclose", op.all(close("allclose", x, y, rtol, atol, equal_nan)))
end

--- Have both the same shape and the same elements?  Computed at once; not within a
--- compiled function.
---
---     mrt.tensor{1, 2}:equal(mrt.tensor{1, 2})  --> true
---
--- Raises: within a compiled function.
---@param y mrt.Tensor
---@return boolean
function Tensor.equal(x, y)
  argument.tensor("equal", "the second", y)
  local one, other = x:get_shape(), y:get_shape()
  if #one ~= #other then return false end
  for d, n in ipairs(one) do
    if other[d] ~= n then return false end
  end
  if #one == 0 or core.tracing() then return now("equal", op.all(op.eq(x, y))) end
  local n = x:numel()
  if n > 2 * LOOK then -- mostly the first say that they differ
    local a, b = op.reshape(x, -1), op.reshape(y, -1)
    if not op.all(op.eq(a:narrow(1, 1, LOOK), b:narrow(1, 1, LOOK))):item() then return false end
  end
  return op.all(op.eq(x, y)):item()
end

-- ---- logic -----------------------------------------------------------------

local function truth(who, x)
  if type(x) == "number" then return x ~= 0 and 1 or 0 end
  if type(x) == "boolean" then return x and 1 or 0 end
  if not core.is_tensor(x) then
    refuse(who, "a tensor, a number or a boolean wanted, got %s", options.show(x))
  end
  return x:get_dtype() == "bool" and x or op.ne(x, 0)
end

-- Numbers are true unless they are 0.
local function logical(name, join)
  Tensor[name] = function(x, y) return join(truth(name, x), truth(name, y)) end
end

logical("logical_and", op.logical_and)
logical("logical_or", op.logical_or)
logical("logical_xor", op.ne)

--- True where x is false or 0.
---
---     mrt.tensor{0, 2}:logical_not()  --> [true false]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.logical_not(x)
  return x:get_dtype() == "bool" and op.logical_not(x) or op.eq(x, 0)
end

-- ---- functions -------------------------------------------------------------

--- ln(x / (1 - x)); with eps, of x no nearer to 0 and 1 than that.
---
---     mrt.tensor{0.5, 0.9}:logit()  --> [0.0000 2.1972]
---
--- Shapes: `[...]` of x's shape.
--- Raises: an eps that is no number.
---@param eps? number|{eps: number?}
---@return mrt.Tensor
function Tensor.logit(x, eps)
  eps = number("logit", "eps", read("logit", { "eps" }, eps).eps)
  if not is_float(x) then x = op.cast(x, "f32") end
  if eps then x = op.clamp(x, { min = eps, max = 1 - eps }) end
  return op.logit(x)
end

--- ln of the multivariate gamma function of dimension p.
---
---     mrt.tensor{3.0}:mvlgamma(2)  --> [1.5502]
---
--- Raises: p below 1.
---@param p integer  1 or more
---@return mrt.Tensor
function Tensor.mvlgamma(x, p)
  p = read("mvlgamma", { "p" }, p).p
  if math.type(p) ~= "integer" or p < 1 then
    refuse("mvlgamma", "p: a positive integer wanted, got %s", options.show(p))
  end
  local half = op.arange { stop = p / 2, step = 0.5,
    dtype = is_float(x) and x:get_dtype() or "f32" }
  local terms = op.lgamma(op.sub(x:unsqueeze(-1), half))
  return op.add(op.sum(terms, { dim = { -1 } }), p * (p - 1.0) / 4 * math.log(math.pi))
end

--- Degrees as radians: x pi / 180.
---
---     mrt.tensor{180.0}:deg2rad()  --> [3.1416]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.deg2rad(x) return op.mul(x, math.pi / 180) end

--- Radians as degrees: 180 x / pi.
---
---     mrt.tensor{math.pi}:rad2deg()  --> [180.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.rad2deg(x) return op.mul(x, 180 / math.pi) end

--- x itself.
---
---     mrt.tensor{1, 2}:positive()  --> [1 2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.positive(x)
  if x:get_dtype() == "bool" then refuse("positive", "%s, numbers wanted", x:type()) end
  return x
end

-- ---- other names -----------------------------------------------------------

---@class mrt.Tensor
---@field absolute fun(self: mrt.Tensor): mrt.Tensor  abs; and so on: PyTorch's other names
---@field negative fun(self: mrt.Tensor): mrt.Tensor
---@field sgn fun(self: mrt.Tensor): mrt.Tensor
---@field multiply fun(self: mrt.Tensor, y: mrt.Operand): mrt.Tensor
---@field divide fun(self: mrt.Tensor, y: mrt.Operand, rounding_mode?: string): mrt.Tensor
---@field true_divide fun(self: mrt.Tensor, y: mrt.Operand): mrt.Tensor
---@field fix fun(self: mrt.Tensor): mrt.Tensor
---@field clip fun(self: mrt.Tensor, min?: any, max?: mrt.Operand): mrt.Tensor
alias("abs", "absolute")
alias("neg", "negative")
alias("sign", "sgn")
alias("sub", "subtract")
alias("mul", "multiply")
alias("div", "divide", "true_divide")
alias("trunc", "fix")
alias("clamp", "clip")
alias("ne", "not_equal")
alias("lt", "less")
alias("le", "less_equal")
alias("gt", "greater")
alias("ge", "greater_equal")
alias("acos", "arccos")
alias("asin", "arcsin")
alias("atan", "arctan")
alias("acosh", "arccosh")
alias("asinh", "arcsinh")
alias("atanh", "arctanh")
alias("atan2", "arctan2")
alias("sigmoid", "expit")

-- ---- operators of Lua ------------------------------------------------------

local meta = core.Tensor
meta.__pow, meta.__div = Tensor.pow, op.div
meta.__band, meta.__bor, meta.__bxor = op.bitwise_and, op.bitwise_or, op.bitwise_xor
meta.__bnot = function(x) return op.bitwise_not(x) end
meta.__shl, meta.__shr = op.bitwise_left_shift, op.bitwise_right_shift

return Tensor
