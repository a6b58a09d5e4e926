---@meta

--- operators.lua -- the operators that are methods of tensors, for editors
---
--- Written by scripts/operator_types.lua from the operators' rows; never loaded.
---
--- SPDX-License-Identifier: MIT

---@class mrt.Tensor
local Tensor = {}

---@class mrt.op.reshape
---@field shape integer|integer[]

--- the elements of x in row-major order under another shape
---
---     mrt.arange(6):reshape(2, -1)  --> [[0 1 2] [3 4 5]]
---
--- Shapes: -1, at most once, stands for what is left.
--- Raises: other counts of elements.
---@param shape integer|integer[]
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.reshape): mrt.Tensor
function Tensor:reshape(shape, ...) end

---@class mrt.op.permute
---@field dims integer|integer[]

--- the dimensions of x in the order of dims
---
---     mrt.zeros(2, 3, 4):permute(3, 1, 2):type()  --> f32[4,2,3]
---
--- Shapes: `[a,b,c]` -> `[c,a,b]`.
--- Raises: dims that are not all dimensions once.
---@param dims integer|integer[]
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.permute): mrt.Tensor
function Tensor:permute(dims, ...) end

---@class mrt.op.transpose
---@field dim0 integer
---@field dim1 integer

--- x with dim0 and dim1 swapped
---
---     mrt.tensor{{1, 2}, {3, 4}}:transpose(1, 2)  --> [[1 3] [2 4]]
---
--- Shapes: `[..., a, b]` -> `[..., b, a]`.
--- Raises: dimensions that x does not have.
---@param dim0 integer
---@param dim1 integer
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.transpose): mrt.Tensor
function Tensor:transpose(dim0, dim1) end

---@class mrt.op.expand
---@field shape integer|integer[]

--- x with dimensions of size 1, and new leading ones, repeated
---
---     mrt.tensor{{1}, {2}}:expand(2, 3)  --> [[1 1 1] [2 2 2]]
---
--- Shapes: `[a,1]` -> `[a,b]`; -1 keeps a size.
--- Raises: sizes that differ where x's is not 1.
---@param shape integer|integer[]
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.expand): mrt.Tensor
function Tensor:expand(shape, ...) end

---@class mrt.op.slice
---@field dim integer
---@field first? integer  default 1
---@field last? integer  default -1
---@field step? integer  default 1

--- every step-th of the positions first to last of dim, both included
---
---     mrt.arange(6):slice(1, 2, 5, 2)  --> [1 3]
---
--- Shapes: positions from 1, negative ones from the end.
--- Raises: a dimension that x does not have; positions outside of the dimension, a step
--- below 1.
---@param dim integer
---@param first? integer  default 1
---@param last? integer  default -1
---@param step? integer  default 1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.slice): mrt.Tensor
function Tensor:slice(dim, first, last, step) end

---@class mrt.op.split
---@field size integer
---@field dim? integer  default 1

--- x cut along dim into pieces of `size`; the last may be shorter
---
---     mrt.arange(5):split(2)  --> [0 1], [2 3], [4]
---
--- Shapes: dim defaults to 1.
--- Raises: a dimension that x does not have; a size below 1.
---@param size integer
---@param dim? integer  default 1
---@return mrt.Tensor
---@return mrt.Tensor ...  and so on
---@overload fun(self: mrt.Tensor, options: mrt.op.split): mrt.Tensor
function Tensor:split(size, dim) end

--- y = x, where gradients stop
---
---     mrt.tensor{1, 2}:detach()  --> [1 2]
---
--- Shapes: `[...]` -> `[...]`.
---@return mrt.Tensor
function Tensor:detach() end

--- y = -x
---
---     mrt.tensor{-1, 2}:neg()  --> [1 -2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:neg() end

--- y = |x|
---
---     mrt.tensor{-1, 2}:abs()  --> [1 2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:abs() end

--- y = -1, 0 or 1 as x < 0, x = 0, x > 0
---
---     mrt.tensor{-3, 0, 2}:sign()  --> [-1 0 1]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:sign() end

--- y = e^x
---
---     mrt.tensor{0, 1}:exp()  --> [1.0000 2.7183]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:exp() end

--- y = ln x
---
---     mrt.tensor{1, 2}:log()  --> [0.0000 0.6931]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:log() end

--- y = x^(1/2)
---
---     mrt.tensor{4, 9}:sqrt()  --> [2.0 3.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:sqrt() end

--- y = x^(-1/2)
---
---     mrt.tensor{4, 16}:rsqrt()  --> [0.50 0.25]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:rsqrt() end

--- y = 1 / x
---
---     mrt.tensor{2, 4}:reciprocal()  --> [0.50 0.25]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:reciprocal() end

--- y = sin x
---
---     mrt.tensor{0, 1}:sin()  --> [0.0000 0.8415]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:sin() end

--- y = cos x
---
---     mrt.tensor{0, 1}:cos()  --> [1.0000 0.5403]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:cos() end

--- y = tanh x
---
---     mrt.tensor{0, 1}:tanh()  --> [0.0000 0.7616]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:tanh() end

--- y = 1 / (1 + e^-x)
---
---     mrt.tensor{0, 2}:sigmoid()  --> [0.5000 0.8808]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:sigmoid() end

--- y = max(x, 0)
---
---     mrt.tensor{-1, 2}:relu()  --> [0 2]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:relu() end

--- y = 2 / sqrt pi * integral of e^-t^2 from 0 to x
---
---     mrt.tensor{0, 1}:erf()  --> [0.0000 0.8427]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:erf() end

--- y = largest integer <= x
---
---     mrt.tensor{-1.5, 1.5}:floor()  --> [-2.0 1.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:floor() end

--- y = smallest integer >= x
---
---     mrt.tensor{-1.5, 1.5}:ceil()  --> [-1.0 2.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:ceil() end

--- y = x is not a number
---
---     mrt.tensor{0 / 0, 1}:isnan()  --> [true false]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:isnan() end

---@class mrt.op.cast
---@field dtype mrt.DType

--- y = x in another dtype
---
---     mrt.tensor{1, 2}:cast "f16":type()  --> f16[2]
---
--- Shapes: `[...]` of x's shape.
--- Raises: a dtype that there is not.
---@param dtype mrt.DType
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cast): mrt.Tensor
function Tensor:cast(dtype) end

--- y = x without what follows the point
---
---     mrt.tensor{-1.5, 1.5}:trunc()  --> [-1.0 1.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:trunc() end

--- y = x is a number and not infinite
---
---     mrt.tensor{1, 1 / 0}:isfinite()  --> [true false]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:isfinite() end

--- y = x is infinite
---
---     mrt.tensor{1, 1 / 0}:isinf()  --> [false true]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:isinf() end

--- y = x is below 0, or -0
---
---     mrt.tensor{-1, 2}:signbit()  --> [true false]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:signbit() end

--- z = x * y
---
---     mrt.tensor{1, 2}:mul(3)  --> [3 6]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:mul(y) end

--- z = the larger of x and y, NaN if one is
---
---     mrt.tensor{1, 5}:maximum(3)  --> [3 5]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:maximum(y) end

--- z = the smaller of x and y, NaN if one is
---
---     mrt.tensor{1, 5}:minimum(3)  --> [1 3]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:minimum(y) end

--- z = x equals y
---
---     mrt.tensor{1, 2}:eq(2)  --> [false true]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:eq(y) end

--- z = x differs from y
---
---     mrt.tensor{1, 2}:ne(2)  --> [true false]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:ne(y) end

--- z = x < y
---
---     mrt.tensor{1, 2}:lt(2)  --> [true false]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:lt(y) end

--- z = x <= y
---
---     mrt.tensor{1, 2}:le(1)  --> [true false]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:le(y) end

--- z = x > y
---
---     mrt.tensor{1, 2}:gt(1)  --> [false true]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:gt(y) end

--- z = x >= y
---
---     mrt.tensor{1, 2}:ge(2)  --> [false true]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:ge(y) end

--- z = the angle of the point whose height is x and breadth y
---
---     mrt.tensor{1, -1}:atan2(mrt.tensor{1, 1})  --> [0.7854 -0.7854]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:atan2(y) end

--- z = (x^2 + y^2)^(1/2)
---
---     mrt.tensor{3, 5}:hypot(mrt.tensor{4, 12})  --> [5.0 13.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:hypot(y) end

--- z = |x| with the sign of y
---
---     mrt.tensor{1, 2}:copysign(mrt.tensor{-1, 1})  --> [-1.0 2.0]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:copysign(y) end

--- z = the number of this dtype that follows x towards y
---
---     mrt.tensor({1}, {dtype = "f64"}):nextafter(2):sub(1)  --> [2.2204e-16]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:nextafter(y) end

--- y = the bits of x, each inverted
---
---     mrt.tensor{0, 5}:bitwise_not()  --> [-1 -6]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:bitwise_not() end

--- z = the bits that x and y both have
---
---     mrt.tensor{12, 10}:bitwise_and(6)  --> [4 2]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_and(y) end

--- z = the bits that x or y has
---
---     mrt.tensor{12, 10}:bitwise_or(6)  --> [14 14]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_or(y) end

--- z = the bits that one of x and y has
---
---     mrt.tensor{12, 10}:bitwise_xor(6)  --> [10 12]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_xor(y) end

--- z = the bits of x, y places up
---
---     mrt.tensor{1, 3}:bitwise_left_shift(2)  --> [4 12]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_left_shift(y) end

--- z = the bits of x, y places down
---
---     mrt.tensor{4, 12}:bitwise_right_shift(2)  --> [1 3]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_right_shift(y) end

--- z = the greatest common divisor of x and y
---
---     mrt.tensor{12, 18}:gcd(8)  --> [4 2]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:gcd(y) end

--- z = the least common multiple of x and y
---
---     mrt.tensor{4, 6}:lcm(10)  --> [20 30]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:lcm(y) end

--- y = ln(1 + x), exact where x is small
---
---     mrt.tensor{0, 1e-8}:log1p()  --> [0.0000e+00 1.0000e-08]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:log1p() end

--- y = e^x - 1, exact where x is small
---
---     mrt.tensor{0, 1e-8}:expm1()  --> [0.0000e+00 1.0000e-08]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:expm1() end

--- y = 2^x
---
---     mrt.tensor{1, 3}:exp2()  --> [2.0 8.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:exp2() end

--- y = the logarithm of x to base 2
---
---     mrt.tensor{2, 8}:log2()  --> [1.0 3.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:log2() end

--- y = the logarithm of x to base 10
---
---     mrt.tensor{10, 1000}:log10()  --> [1.0 3.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:log10() end

--- y = tan x
---
---     mrt.tensor{0, 1}:tan()  --> [0.0000 1.5574]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:tan() end

--- y = the angle from -pi/2 to pi/2 whose sine is x
---
---     mrt.tensor{0, 1}:asin()  --> [0.0000 1.5708]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:asin() end

--- y = the angle from 0 to pi whose cosine is x
---
---     mrt.tensor{0, 1}:acos()  --> [1.5708 0.0000]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:acos() end

--- y = the angle from -pi/2 to pi/2 whose tangent is x
---
---     mrt.tensor{0, 1}:atan()  --> [0.0000 0.7854]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:atan() end

--- y = (e^x - e^-x) / 2
---
---     mrt.tensor{0, 1}:sinh()  --> [0.0000 1.1752]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:sinh() end

--- y = (e^x + e^-x) / 2
---
---     mrt.tensor{0, 1}:cosh()  --> [1.0000 1.5431]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:cosh() end

--- y = the number whose sinh is x
---
---     mrt.tensor{0, 1}:asinh()  --> [0.0000 0.8814]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:asinh() end

--- y = the number from 0 whose cosh is x
---
---     mrt.tensor{1, 2}:acosh()  --> [0.0000 1.3170]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:acosh() end

--- y = the number whose tanh is x
---
---     mrt.tensor{0, 0.5}:atanh()  --> [0.0000 0.5493]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:atanh() end

--- y = 1 - erf x, exact where erf x is near 1
---
---     mrt.tensor{0, 1}:erfc()  --> [1.0000 0.1573]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:erfc() end

--- y = the number whose erf is x
---
---     mrt.tensor{0, 0.5}:erfinv()  --> [0.0000 0.4769]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:erfinv() end

--- y = ln |gamma(x)|
---
---     mrt.tensor{1, 5}:lgamma()  --> [-5.3291e-15 3.1781e+00]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:lgamma() end

--- y = the derivative of ln gamma(x)
---
---     mrt.tensor{1, 2}:digamma()  --> [-0.5772 0.4228]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:digamma() end

---@class mrt.op.polygamma
---@field n integer

--- y = the n-th derivative of digamma(x)
---
---     mrt.tensor{1, 2}:polygamma(1)  --> [1.6449 0.6449]
---
--- Shapes: `[...]` of x's shape.
--- Raises: n below 0.
---@param n integer
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.polygamma): mrt.Tensor
function Tensor:polygamma(n) end

--- y = the modified Bessel function of x, of order 0
---
---     mrt.tensor{0, 1}:i0()  --> [1.0000 1.2661]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:i0() end

--- y = the modified Bessel function of x, of order 1
---
---     mrt.tensor{0, 1}:i1()  --> [0.0000 0.5652]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:i1() end

--- y = sin(pi x) / (pi x), 1 at 0
---
---     mrt.tensor{0, 0.5}:sinc()  --> [1.0000 0.6366]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:sinc() end

--- z = x ln y, 0 where x = 0
---
---     mrt.tensor{0, 2}:xlogy(mrt.tensor{0, 3})  --> [0.0000 2.1972]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:xlogy(y) end

--- z = ln(e^x + e^y)
---
---     mrt.tensor{0, 1}:logaddexp(1)  --> [1.3133 1.6931]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:logaddexp(y) end

--- z = the logarithm of 2^x + 2^y to base 2
---
---     mrt.tensor{0, 1}:logaddexp2(1)  --> [1.5850 2.0000]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:logaddexp2(y) end

---@class mrt.op.hardtanh
---@field min_val? number  default -1
---@field max_val? number  default 1

--- y = x, at least min_val, at most max_val
---
---     mrt.tensor{-2, 0.5}:hardtanh()  --> [-1.0 0.5]
---
--- Shapes: `[...]` of x's shape.
--- Raises: an option of another type.
---@param min_val? number  default -1
---@param max_val? number  default 1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.hardtanh): mrt.Tensor
function Tensor:hardtanh(min_val, max_val) end

---@class mrt.op.leaky_relu
---@field negative_slope? number  default 0.01

--- y = x where x > 0, else negative_slope x
---
---     mrt.tensor{-1.0, 2.0}:leaky_relu(0.1)  --> [-0.1 2.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: an option of another type.
---@param negative_slope? number  default 0.01
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.leaky_relu): mrt.Tensor
function Tensor:leaky_relu(negative_slope) end

---@class mrt.op.softshrink
---@field lambd? number  default 0.5

--- y = x nearer to 0 by lambd, or 0
---
---     mrt.tensor{-1, 0.2}:softshrink()  --> [-0.5 0.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: lambd below 0.
---@param lambd? number  default 0.5
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.softshrink): mrt.Tensor
function Tensor:softshrink(lambd) end

---@class mrt.op.hardshrink
---@field lambd? number  default 0.5

--- y = x where |x| > lambd, else 0
---
---     mrt.tensor{-1, 0.2}:hardshrink()  --> [-1.0 0.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: an option of another type.
---@param lambd? number  default 0.5
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.hardshrink): mrt.Tensor
function Tensor:hardshrink(lambd) end

---@class mrt.op.threshold
---@field threshold number
---@field value number

--- y = x where x > threshold, else value
---
---     mrt.tensor{-1.0, 2.0}:threshold(0, 9)  --> [9.0 2.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: an option of another type.
---@param threshold number
---@param value number
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.threshold): mrt.Tensor
function Tensor:threshold(threshold, value) end

--- y = x hardsigmoid(x)
---
---     mrt.tensor{-1.0, 2.0}:hardswish()  --> [-0.3333 1.6667]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:hardswish() end

--- y = (x + 3) / 6, from 0 to 1
---
---     mrt.tensor{-1.0, 2.0}:hardsigmoid()  --> [0.3333 0.8333]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:hardsigmoid() end

--- y = x tanh(log(1 + e^x))
---
---     mrt.tensor{-1.0, 2.0}:mish()  --> [-0.3034 1.9440]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:mish() end

--- y = -log(1 + e^-x)
---
---     mrt.tensor{-1.0, 2.0}:logsigmoid()  --> [-1.3133 -0.1269]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:logsigmoid() end

--- y = x / (1 + |x|)
---
---     mrt.tensor{-1.0, 3.0}:softsign()  --> [-0.50 0.75]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:softsign() end

---@class mrt.op.gelu
---@field approximate? "none"|"tanh"  default none

--- y = x P(x), P the normal distribution function
---
---     mrt.tensor{-1.0, 2.0}:gelu()  --> [-0.1587 1.9545]
---
--- Shapes: `[...]` of x's shape.
--- Raises: a word that is neither "none" nor "tanh".
---@param approximate? "none"|"tanh"  default none
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.gelu): mrt.Tensor
function Tensor:gelu(approximate) end

--- y = x / (1 + e^-x)
---
---     mrt.tensor{-1.0, 2.0}:silu()  --> [-0.2689 1.7616]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor:silu() end

---@class mrt.op.dropout
---@field p? number  default 0.5

--- y = x / (1 - p) with probability 1 - p, else 0
---
---     mrt.ones(4):dropout(0.5)
---
--- Shapes: `[...]` of x's shape.
--- Raises: p outside of 0 to 1.
---@param p? number  default 0.5
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.dropout): mrt.Tensor
function Tensor:dropout(p) end

--- y = a whole number with mean and variance x, at random
---
---     mrt.full({3}, 4):poisson()
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: x that is no float; at the run, x below 0.
---@return mrt.Tensor
function Tensor:poisson() end

--- y = how many of x trials of probability p succeed
---
---     mrt.full({3}, 10):binomial(mrt.full({3}, 0.5))
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: inputs of other shapes.
---@param second mrt.Tensor
---@return mrt.Tensor
function Tensor:binomial(second) end

--- y = x in storage of its own, contiguous
---
---     mrt.tensor{1, 2}:copy()  --> [1 2]
---
---@return mrt.Tensor
function Tensor:copy() end

---@class mrt.op.cat
---@field dim? integer  default 1

--- x1, x2 ... one after the other along dim
---
---     mrt.cat({ mrt.tensor{1}, mrt.tensor{2, 3} })  --> [1 2 3]
---
--- Shapes: `[a]`, `[b]` -> `[a + b]`.
--- Raises: a dimension that x does not have; shapes that differ elsewhere.
---@param ... any  more tensors, then the options
---@return mrt.Tensor
function Tensor:cat(...) end

---@class mrt.op.cumsum
---@field dim integer
---@field reverse? boolean  default false

--- y[k] = x[1] + ... + x[k] along dim; from the end if reverse
---
---     mrt.tensor{1, 2, 3}:cumsum(1)  --> [1 3 6]
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param dim integer
---@param reverse? boolean  default false
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cumsum): mrt.Tensor
function Tensor:cumsum(dim, reverse) end

---@class mrt.op.cumprod
---@field dim integer

--- y[k] = x[1] * ... * x[k] along dim
---
---     mrt.tensor{1, 2, 3}:cumprod(1)  --> [1 2 6]
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param dim integer
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cumprod): mrt.Tensor
function Tensor:cumprod(dim) end

---@class mrt.op.cummax
---@field dim integer

--- the largest of x[1] ... x[k] along dim, and its position
---
---     mrt.tensor{1, 3, 2}:cummax(1)  --> [1 3 3], [0 1 1]
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param dim integer
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cummax): mrt.Tensor
function Tensor:cummax(dim) end

---@class mrt.op.cummin
---@field dim integer

--- the smallest of x[1] ... x[k] along dim, and its position
---
---     mrt.tensor{2, 1, 3}:cummin(1)  --> [2 1 1], [0 1 1]
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param dim integer
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cummin): mrt.Tensor
function Tensor:cummin(dim) end

---@class mrt.op.topk
---@field k integer
---@field dim? integer  default -1
---@field largest? boolean  default true
---@field sorted? boolean  default true

--- the k largest (or smallest) x along dim, and their positions
---
---     mrt.tensor{1, 3, 2}:topk(2)  --> [3 2], [1 2]
---
--- Shapes: `[..., n]` -> `[..., k]`, twice.
--- Raises: a dimension that x does not have; k larger than the dimension.
---@param k integer
---@param dim? integer  default -1
---@param largest? boolean  default true
---@param sorted? boolean  default true
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.topk): mrt.Tensor
function Tensor:topk(k, dim, largest, sorted) end

---@class mrt.op.kthvalue
---@field k integer
---@field dim? integer  default -1
---@field keepdim? boolean  default false

--- the k-th smallest x along dim, k from 1, and its position
---
---     mrt.tensor{4, 1, 3}:kthvalue(2)  --> 3, 2
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have; k outside of the dimension.
---@param k integer
---@param dim? integer  default -1
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.kthvalue): mrt.Tensor
function Tensor:kthvalue(k, dim, keepdim) end

---@class mrt.op.mode
---@field dim? integer  default -1
---@field keepdim? boolean  default false

--- the x that stands along dim most often, and its last position
---
---     mrt.tensor{1, 2, 2}:mode()  --> 2, 2
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer  default -1
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.mode): mrt.Tensor
function Tensor:mode(dim, keepdim) end

---@class mrt.op.nonzero_static
---@field size integer
---@field fill_value? integer  default -1

--- the positions of the first `size` x that are not 0
---
---     mrt.tensor{0, 5, 7}:nonzero_static(2)  --> [[1] [2]]
---
--- Shapes: `[size, rank]`, i64.
--- Raises: a size below 0.
---@param size integer
---@param fill_value? integer  default -1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.nonzero_static): mrt.Tensor
function Tensor:nonzero_static(size, fill_value) end

---@class mrt.op.sum
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- y = x1 + x2 + ... along dim
---
---     mrt.tensor{{1, 2}, {3, 4}}:sum(2)  --> [3 7]
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.sum): mrt.Tensor
function Tensor:sum(dim, keepdim, ...) end

---@class mrt.op.amax
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- the largest x along dim; NaN if there is one
---
---     mrt.tensor{{1, 2}, {3, 4}}:amax(2)  --> [2 4]
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.amax): mrt.Tensor
function Tensor:amax(dim, keepdim, ...) end

---@class mrt.op.amin
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- the smallest x along dim; NaN if there is one
---
---     mrt.tensor{{1, 2}, {3, 4}}:amin(2)  --> [1 3]
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.amin): mrt.Tensor
function Tensor:amin(dim, keepdim, ...) end

---@class mrt.op.prod
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- y = x1 * x2 * ... along dim
---
---     mrt.tensor{{1, 2}, {3, 4}}:prod(2)  --> [2 12]
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.prod): mrt.Tensor
function Tensor:prod(dim, keepdim, ...) end

---@class mrt.op.argmax
---@field dim? integer
---@field keepdim? boolean  default false

--- the 0-based position of the first largest x along dim
---
---     mrt.tensor{{1, 2}, {4, 3}}:argmax(2)  --> [1 0]
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.argmax): mrt.Tensor
function Tensor:argmax(dim, keepdim) end

---@class mrt.op.argmin
---@field dim? integer
---@field keepdim? boolean  default false

--- the 0-based position of the first smallest x along dim
---
---     mrt.tensor{{1, 2}, {4, 3}}:argmin(2)  --> [0 1]
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.argmin): mrt.Tensor
function Tensor:argmin(dim, keepdim) end

---@class mrt.op.aminmax
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- the smallest and the largest x along dim; NaN if there is one
---
---     mrt.tensor{3, 1, 2}:aminmax()  --> 1, 3
---
--- Shapes: `[...]` -> `[...]` without dim, with keepdim 1 there; scalar without dim.
--- Raises: a dimension that x does not have.
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.aminmax): mrt.Tensor
function Tensor:aminmax(dim, keepdim, ...) end

--- y = sqrt(sum of squares of all elements of all inputs)
---
---     mrt.tensor{3.0, 4.0}:global_norm()  --> 5
---
--- Shapes: scalar.
--- Raises: inputs of several dtypes.
---@param ... any  more tensors, then the options
---@return mrt.Tensor
function Tensor:global_norm(...) end

---@class mrt.op.linear
---@field compute? mrt.DType
---@field accumulate? mrt.DType

--- y = x @ w^T + bias for w [N,K] and bias [N]; bias may be left out
---
---     mrt.ones(2, 3):linear(mrt.ones(4, 3), mrt.zeros(4))  --> [[3.0 3.0 3.0 3.0] [3.0 3.0 3.0 3.0]]
---
--- Shapes: `[..., K]` -> `[..., N]`.
--- Raises: sizes that do not fit.
---@param w mrt.Tensor
---@param bias? mrt.Tensor
---@param compute? mrt.DType
---@param accumulate? mrt.DType
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, w: mrt.Tensor, bias?: mrt.Tensor, options: mrt.op.linear): mrt.Tensor
function Tensor:linear(w, bias, compute, accumulate) end

---@class mrt.op.tril
---@field diagonal? integer  default 0

--- x with zeros above the diagonal, of the last two dimensions
---
---     mrt.ones(2, 2):tril()  --> [[1.0 0.0] [1.0 1.0]]
---
--- Shapes: `[..., m, n]` -> the same.
--- Raises: fewer than two dimensions.
---@param diagonal? integer  default 0
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.tril): mrt.Tensor
function Tensor:tril(diagonal) end

---@class mrt.op.triu
---@field diagonal? integer  default 0

--- x with zeros below the diagonal, of the last two dimensions
---
---     mrt.ones(2, 2):triu()  --> [[1.0 1.0] [0.0 1.0]]
---
--- Shapes: `[..., m, n]` -> the same.
--- Raises: fewer than two dimensions.
---@param diagonal? integer  default 0
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.triu): mrt.Tensor
function Tensor:triu(diagonal) end

---@class mrt.op.diag_embed
---@field offset? integer  default 0
---@field dim1? integer  default -2
---@field dim2? integer  default -1

--- matrices with the last dimension of x on a diagonal, zeros elsewhere
---
---     mrt.tensor{1, 2}:diag_embed()  --> [[1 0] [0 2]]
---
--- Shapes: `[..., n]` -> `[..., n, n]`.
--- Raises: dimensions that are the same.
---@param offset? integer  default 0
---@param dim1? integer  default -2
---@param dim2? integer  default -1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.diag_embed): mrt.Tensor
function Tensor:diag_embed(offset, dim1, dim2) end

--- y[r] = x[r] @ w[g] for the rows of group g, of which there are counts[g], one group
--- after the other
---
---     mrt.randn(6, 4):grouped_matmul(mrt.randn(2, 4, 3), mrt.tensor{4, 2}):type()  --> f32[6,3]
---
--- Shapes: x `[R,K]`, w `[G,K,N]`, counts `[G]` -> `[R,N]`.
--- Raises: sizes that do not fit.
---@param w mrt.Tensor
---@param counts mrt.Tensor
---@return mrt.Tensor
function Tensor:grouped_matmul(w, counts) end

---@class mrt.op.quantize
---@field kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@field block? integer  default 0

--- codes nearest to w / scale; scales = max |w| of each block
---
---     mrt.randn(2, 64):quantize "int8"
---
--- Shapes: `[rows, columns]` -> codes u8 `[rows, bytes]`, scales `[rows, blocks]`.
--- Raises: x that is no matrix, a block that does not fit the kind.
---@param kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@param block? integer  default 0
---@return mrt.Tensor
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.quantize): mrt.Tensor
function Tensor:quantize(kind, block) end

---@class mrt.op.dequantize
---@field kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@field block? integer  default 0
---@field columns? integer  default 0

--- w = value[code] * scale of the block
---
---     local codes, scales = mrt.randn(2, 64):quantize "int8"
---     codes:dequantize(scales, { kind = "int8" })
---
--- Shapes: codes `[rows, bytes]`, scales `[rows, blocks]` -> `[rows, columns]`.
--- Raises: scales that do not fit the codes.
---@param scales mrt.Tensor
---@param kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@param block? integer  default 0
---@param columns? integer  default 0
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, scales: mrt.Tensor, options: mrt.op.dequantize): mrt.Tensor
function Tensor:dequantize(scales, kind, block, columns) end

---@class mrt.op.resample
---@field dim integer
---@field size integer|integer[]
---@field mode? "nearest"|"nearest_exact"|"linear"|"cubic"  default nearest
---@field align_corners? boolean  default false
---@field scale_h? number  default 0
---@field scale_w? number  default 0

--- x at another size along dim and the one after it
---
---     mrt.arange(4):to "f32":reshape(1, 1, 2, 2):resample(3, {4, 4}):type()  --> f32[1,1,4,4]
---
--- Shapes: sizes of dim and of the one after it.
--- Raises: a dimension that x does not have; sizes below 1.
---@param dim integer
---@param size integer|integer[]
---@param mode? "nearest"|"nearest_exact"|"linear"|"cubic"  default nearest
---@param align_corners? boolean  default false
---@param scale_h? number  default 0
---@param scale_w? number  default 0
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.resample): mrt.Tensor
function Tensor:resample(dim, size, mode, align_corners, scale_h, scale_w, ...) end

---@class mrt.op.softmax
---@field dim? integer  default -1

--- y = exp(x - max x) / sum exp(x - max x) along dim
---
---     mrt.tensor{1.0, 2.0, 3.0}:softmax()  --> [0.0900 0.2447 0.6652]
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param dim? integer  default -1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.softmax): mrt.Tensor
function Tensor:softmax(dim) end

---@class mrt.op.log_softmax
---@field dim? integer  default -1

--- y = x - max x - log sum exp(x - max x) along dim
---
---     mrt.tensor{1.0, 2.0, 3.0}:log_softmax()  --> [-2.4076 -1.4076 -0.4076]
---
--- Shapes: `[...]` -> `[...]`.
--- Raises: a dimension that x does not have.
---@param dim? integer  default -1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.log_softmax): mrt.Tensor
function Tensor:log_softmax(dim) end

--- gates, c', h' of an LSTM, for products a and b [..., 4 H] and c
---
---     mrt.zeros(2, 12):lstm_cell(mrt.zeros(2, 12), mrt.zeros(2, 3))
---
--- Shapes: a and b `[..., 4 H]`, c `[..., H]`.
--- Raises: sizes that do not fit.
---@param b mrt.Tensor
---@param c mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor
function Tensor:lstm_cell(b, c) end

--- gates, h' of a GRU, for products a and b [..., 3 H] and h
---
---     mrt.zeros(2, 9):gru_cell(mrt.zeros(2, 9), mrt.zeros(2, 3))
---
--- Shapes: a and b `[..., 3 H]`, h `[..., H]`.
--- Raises: sizes that do not fit.
---@param b mrt.Tensor
---@param h mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor
function Tensor:gru_cell(b, h) end

---@class mrt.op.paged_attention
---@field causal? boolean  default false
---@field scale? number  default 0
---@field left? integer  default -1
---@field right? integer  default -1
---@field softcap? number  default 0
---@field offset? integer  default -9223372036854775808
---@field has? integer  default 0

--- attention for q, and k and v in pages, of which the table says whose
---
---     local q, k = mrt.randn(1, 1, 2, 4), mrt.randn(3, 8, 2, 4)
---     local pages = mrt.tensor({{1, 0}}, {dtype = "i32"})
---     q:paged_attention(k, k, pages):type()  --> f32[1,1,2,4]
---
--- Shapes: q `[B,Tq,H,D]`, k and v `[pages, page, Hkv, D]` -> `[B,Tq,H,D]`.
--- Raises: shapes that do not fit.
---@param k mrt.Tensor
---@param v mrt.Tensor
---@param table mrt.Tensor
---@param lengths? mrt.Tensor
---@param bias? mrt.Tensor
---@param segments_q? mrt.Tensor
---@param segments_k? mrt.Tensor
---@param causal? boolean  default false
---@param scale? number  default 0
---@param left? integer  default -1
---@param right? integer  default -1
---@param softcap? number  default 0
---@param offset? integer  default -9223372036854775808
---@param has? integer  default 0
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, k: mrt.Tensor, v: mrt.Tensor, table: mrt.Tensor, lengths?: mrt.Tensor, bias?: mrt.Tensor, segments_q?: mrt.Tensor, segments_k?: mrt.Tensor, options: mrt.op.paged_attention): mrt.Tensor
function Tensor:paged_attention(k, v, table, lengths, bias, segments_q, segments_k, causal, scale, left, right, softcap, offset, has) end

--- y with x y = 1, of square matrices
---
---     mrt.tensor{{2.0, 0.0}, {0.0, 4.0}}:inverse()  --> [[0.50 0.00] [-0.00 0.25]]
---
--- Shapes: `[..., n, n]` -> the same.
--- Raises: matrices that are not square; at the run, one that has no inverse.
---@return mrt.Tensor
function Tensor:inverse() end

--- the determinants of square matrices
---
---     mrt.tensor{{1.0, 2.0}, {3.0, 4.0}}:det()  --> -2
---
--- Shapes: `[..., n, n]` -> `[...]`.
--- Raises: matrices that are not square.
---@return mrt.Tensor
function Tensor:det() end

--- the sign of det(x), and ln |det(x)|
---
---     mrt.tensor{{1.0, 2.0}, {3.0, 4.0}}:slogdet()  --> -1, 0.6931472
---
--- Shapes: `[..., n, n]` -> `[...]`, twice.
--- Raises: matrices that are not square.
---@return mrt.Tensor
---@return mrt.Tensor
function Tensor:slogdet() end

---@class mrt.op.cholesky
---@field upper? boolean  default false

--- lower L with x = L L^T, or upper U with x = U^T U
---
---     mrt.tensor{{4.0, 2.0}, {2.0, 5.0}}:cholesky()  --> [[2.0 0.0] [1.0 2.0]]
---
--- Shapes: `[..., n, n]` -> the same.
--- Raises: matrices that are not square; at the run, one that is not positive definite.
---@param upper? boolean  default false
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cholesky): mrt.Tensor
function Tensor:cholesky(upper) end

--- 1 + x + x x / 2 + ..., of square matrices
---
---     mrt.zeros(2, 2):matrix_exp()  --> [[1.0 0.0] [0.0 1.0]]
---
--- Shapes: `[..., n, n]` -> the same.
--- Raises: matrices that are not square.
---@return mrt.Tensor
function Tensor:matrix_exp() end
