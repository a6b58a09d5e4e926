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
---@param shape integer|integer[]
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.reshape): mrt.Tensor
function Tensor:reshape(shape, ...) end

---@class mrt.op.permute
---@field dims integer|integer[]

--- the dimensions of x in the order of dims
---@param dims integer|integer[]
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.permute): mrt.Tensor
function Tensor:permute(dims, ...) end

---@class mrt.op.transpose
---@field dim0 integer
---@field dim1 integer

--- x with dim0 and dim1 swapped
---@param dim0 integer
---@param dim1 integer
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.transpose): mrt.Tensor
function Tensor:transpose(dim0, dim1) end

---@class mrt.op.expand
---@field shape integer|integer[]

--- x with dimensions of size 1, and new leading ones, repeated
---@param shape integer|integer[]
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.expand): mrt.Tensor
function Tensor:expand(shape, ...) end

---@class mrt.op.slice
---@field dim integer
---@field first? integer  default 1
---@field last? integer  default -1
---@field step? integer  default 1

--- every step-th of the positions first to last of dim, both included
---@param dim integer
---@param first? integer  default 1
---@param last? integer  default -1
---@param step? integer  default 1
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.slice): mrt.Tensor
function Tensor:slice(dim, first, last, step) end

---@class mrt.op.split
---@field size integer
---@field dim? integer  default 1

--- x cut along dim into pieces of `size`; the last may be shorter
---@param size integer
---@param dim? integer  default 1
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.split): mrt.Tensor
function Tensor:split(size, dim) end

--- y = x, where gradients stop
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:detach() end

--- y = -x
---@return mrt.Tensor
function Tensor:neg() end

--- y = |x|
---@return mrt.Tensor
function Tensor:abs() end

--- y = -1, 0 or 1 as x < 0, x = 0, x > 0
---@return mrt.Tensor
function Tensor:sign() end

--- y = e^x
---@return mrt.Tensor
function Tensor:exp() end

--- y = ln x
---@return mrt.Tensor
function Tensor:log() end

--- y = x^(1/2)
---@return mrt.Tensor
function Tensor:sqrt() end

--- y = x^(-1/2)
---@return mrt.Tensor
function Tensor:rsqrt() end

--- y = 1 / x
---@return mrt.Tensor
function Tensor:reciprocal() end

--- y = sin x
---@return mrt.Tensor
function Tensor:sin() end

--- y = cos x
---@return mrt.Tensor
function Tensor:cos() end

--- y = tanh x
---@return mrt.Tensor
function Tensor:tanh() end

--- y = 1 / (1 + e^-x)
---@return mrt.Tensor
function Tensor:sigmoid() end

--- y = max(x, 0)
---@return mrt.Tensor
function Tensor:relu() end

--- y = 2 / sqrt pi * integral of e^-t^2 from 0 to x
---@return mrt.Tensor
function Tensor:erf() end

--- y = largest integer <= x
---@return mrt.Tensor
function Tensor:floor() end

--- y = smallest integer >= x
---@return mrt.Tensor
function Tensor:ceil() end

--- y = x is not a number
---@return mrt.Tensor
function Tensor:isnan() end

---@class mrt.op.cast
---@field dtype mrt.DType

--- y = x in another dtype
---@param dtype mrt.DType
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.cast): mrt.Tensor
function Tensor:cast(dtype) end

--- y = x without what follows the point
---@return mrt.Tensor
function Tensor:trunc() end

--- y = x is a number and not infinite
---@return mrt.Tensor
function Tensor:isfinite() end

--- y = x is infinite
---@return mrt.Tensor
function Tensor:isinf() end

--- y = x is below 0, or -0
---@return mrt.Tensor
function Tensor:signbit() end

--- z = x * y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:mul(second) end

--- z = the larger of x and y, NaN if one is
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:maximum(second) end

--- z = the smaller of x and y, NaN if one is
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:minimum(second) end

--- z = x equals y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:eq(second) end

--- z = x differs from y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:ne(second) end

--- z = x < y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:lt(second) end

--- z = x <= y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:le(second) end

--- z = x > y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:gt(second) end

--- z = x >= y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:ge(second) end

--- z = the angle of the point whose height is x and breadth y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:atan2(second) end

--- z = (x^2 + y^2)^(1/2)
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:hypot(second) end

--- z = |x| with the sign of y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:copysign(second) end

--- z = the number of this dtype that follows x towards y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:nextafter(second) end

--- y = the bits of x, each inverted
---@return mrt.Tensor
function Tensor:bitwise_not() end

--- z = the bits that x and y both have
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_and(second) end

--- z = the bits that x or y has
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_or(second) end

--- z = the bits that one of x and y has
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_xor(second) end

--- z = the bits of x, y places up
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_left_shift(second) end

--- z = the bits of x, y places down
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:bitwise_right_shift(second) end

--- z = the greatest common divisor of x and y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:gcd(second) end

--- z = the least common multiple of x and y
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:lcm(second) end

--- y = ln(1 + x), exact where x is small
---@return mrt.Tensor
function Tensor:log1p() end

--- y = e^x - 1, exact where x is small
---@return mrt.Tensor
function Tensor:expm1() end

--- y = 2^x
---@return mrt.Tensor
function Tensor:exp2() end

--- y = the logarithm of x to base 2
---@return mrt.Tensor
function Tensor:log2() end

--- y = the logarithm of x to base 10
---@return mrt.Tensor
function Tensor:log10() end

--- y = tan x
---@return mrt.Tensor
function Tensor:tan() end

--- y = the angle from -pi/2 to pi/2 whose sine is x
---@return mrt.Tensor
function Tensor:asin() end

--- y = the angle from 0 to pi whose cosine is x
---@return mrt.Tensor
function Tensor:acos() end

--- y = the angle from -pi/2 to pi/2 whose tangent is x
---@return mrt.Tensor
function Tensor:atan() end

--- y = (e^x - e^-x) / 2
---@return mrt.Tensor
function Tensor:sinh() end

--- y = (e^x + e^-x) / 2
---@return mrt.Tensor
function Tensor:cosh() end

--- y = the number whose sinh is x
---@return mrt.Tensor
function Tensor:asinh() end

--- y = the number from 0 whose cosh is x
---@return mrt.Tensor
function Tensor:acosh() end

--- y = the number whose tanh is x
---@return mrt.Tensor
function Tensor:atanh() end

--- y = 1 - erf x, exact where erf x is near 1
---@return mrt.Tensor
function Tensor:erfc() end

--- y = the number whose erf is x
---@return mrt.Tensor
function Tensor:erfinv() end

--- y = ln |gamma(x)|
---@return mrt.Tensor
function Tensor:lgamma() end

--- y = the derivative of ln gamma(x)
---@return mrt.Tensor
function Tensor:digamma() end

---@class mrt.op.polygamma
---@field n integer

--- y = the n-th derivative of digamma(x)
---@param n integer
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.polygamma): mrt.Tensor
function Tensor:polygamma(n) end

--- y = the modified Bessel function of x, of order 0
---@return mrt.Tensor
function Tensor:i0() end

--- y = the modified Bessel function of x, of order 1
---@return mrt.Tensor
function Tensor:i1() end

--- y = sin(pi x) / (pi x), 1 at 0
---@return mrt.Tensor
function Tensor:sinc() end

--- z = x ln y, 0 where x = 0
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:xlogy(second) end

--- z = ln(e^x + e^y)
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:logaddexp(second) end

--- z = the logarithm of 2^x + 2^y to base 2
---@param second mrt.Operand
---@return mrt.Tensor
function Tensor:logaddexp2(second) end

---@class mrt.op.hardtanh
---@field min_val? number  default -1
---@field max_val? number  default 1

--- y = x, at least min_val, at most max_val
---@param min_val? number  default -1
---@param max_val? number  default 1
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.hardtanh): mrt.Tensor
function Tensor:hardtanh(min_val, max_val) end

---@class mrt.op.leaky_relu
---@field negative_slope? number  default 0.01

--- y = x where x > 0, else negative_slope x
---@param negative_slope? number  default 0.01
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.leaky_relu): mrt.Tensor
function Tensor:leaky_relu(negative_slope) end

---@class mrt.op.softshrink
---@field lambd? number  default 0.5

--- y = x nearer to 0 by lambd, or 0
---@param lambd? number  default 0.5
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.softshrink): mrt.Tensor
function Tensor:softshrink(lambd) end

---@class mrt.op.hardshrink
---@field lambd? number  default 0.5

--- y = x where |x| > lambd, else 0
---@param lambd? number  default 0.5
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.hardshrink): mrt.Tensor
function Tensor:hardshrink(lambd) end

---@class mrt.op.threshold
---@field threshold number
---@field value number

--- y = x where x > threshold, else value
---@param threshold number
---@param value number
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.threshold): mrt.Tensor
function Tensor:threshold(threshold, value) end

--- y = x hardsigmoid(x)
---@return mrt.Tensor
function Tensor:hardswish() end

--- y = (x + 3) / 6, from 0 to 1
---@return mrt.Tensor
function Tensor:hardsigmoid() end

--- y = x tanh(log(1 + e^x))
---@return mrt.Tensor
function Tensor:mish() end

--- y = -log(1 + e^-x)
---@return mrt.Tensor
function Tensor:logsigmoid() end

--- y = x / (1 + |x|)
---@return mrt.Tensor
function Tensor:softsign() end

---@class mrt.op.gelu
---@field approximate? "none"|"tanh"  default none

--- y = x P(x), P the normal distribution function
---@param approximate? "none"|"tanh"  default none
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.gelu): mrt.Tensor
function Tensor:gelu(approximate) end

--- y = x / (1 + e^-x)
---@return mrt.Tensor
function Tensor:silu() end

---@class mrt.op.dropout
---@field p? number  default 0.5

--- y = x / (1 - p) with probability 1 - p, else 0
---@param p? number  default 0.5
---@return mrt.Tensor
---@overload fun(self: mrt.Tensor, options: mrt.op.dropout): mrt.Tensor
function Tensor:dropout(p) end

--- y = a whole number with mean and variance x, at random
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:poisson() end

--- y = how many of x trials of probability p succeed
---@param second mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:binomial(second) end

--- y = x in storage of its own, contiguous
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:copy() end

---@class mrt.op.cat
---@field dim? integer  default 1

--- x1, x2 ... one after the other along dim
---@param ... any  more tensors, then the options
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:cat(...) end

---@class mrt.op.cumsum
---@field dim integer
---@field reverse? boolean  default false

--- y[k] = x[1] + ... + x[k] along dim; from the end if reverse
---@param dim integer
---@param reverse? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.cumsum): mrt.Tensor
function Tensor:cumsum(dim, reverse) end

---@class mrt.op.cumprod
---@field dim integer

--- y[k] = x[1] * ... * x[k] along dim
---@param dim integer
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.cumprod): mrt.Tensor
function Tensor:cumprod(dim) end

---@class mrt.op.cummax
---@field dim integer

--- the largest of x[1] ... x[k] along dim, and its position
---@param dim integer
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.cummax): mrt.Tensor
function Tensor:cummax(dim) end

---@class mrt.op.cummin
---@field dim integer

--- the smallest of x[1] ... x[k] along dim, and its position
---@param dim integer
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.cummin): mrt.Tensor
function Tensor:cummin(dim) end

---@class mrt.op.topk
---@field k integer
---@field dim? integer  default -1
---@field largest? boolean  default true
---@field sorted? boolean  default true

--- the k largest (or smallest) x along dim, and their positions
---@param k integer
---@param dim? integer  default -1
---@param largest? boolean  default true
---@param sorted? boolean  default true
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.topk): mrt.Tensor
function Tensor:topk(k, dim, largest, sorted) end

---@class mrt.op.kthvalue
---@field k integer
---@field dim? integer  default -1
---@field keepdim? boolean  default false

--- the k-th smallest x along dim, k from 1, and its position
---@param k integer
---@param dim? integer  default -1
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.kthvalue): mrt.Tensor
function Tensor:kthvalue(k, dim, keepdim) end

---@class mrt.op.mode
---@field dim? integer  default -1
---@field keepdim? boolean  default false

--- the x that stands along dim most often, and its last position
---@param dim? integer  default -1
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.mode): mrt.Tensor
function Tensor:mode(dim, keepdim) end

---@class mrt.op.nonzero_static
---@field size integer
---@field fill_value? integer  default -1

--- the positions of the first `size` x that are not 0
---@param size integer
---@param fill_value? integer  default -1
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.nonzero_static): mrt.Tensor
function Tensor:nonzero_static(size, fill_value) end

---@class mrt.op.sum
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- y = x1 + x2 + ... along dim
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.sum): mrt.Tensor
function Tensor:sum(dim, keepdim, ...) end

---@class mrt.op.amax
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- the largest x along dim; NaN if there is one
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.amax): mrt.Tensor
function Tensor:amax(dim, keepdim, ...) end

---@class mrt.op.amin
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- the smallest x along dim; NaN if there is one
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.amin): mrt.Tensor
function Tensor:amin(dim, keepdim, ...) end

---@class mrt.op.prod
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- y = x1 * x2 * ... along dim
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.prod): mrt.Tensor
function Tensor:prod(dim, keepdim, ...) end

---@class mrt.op.argmax
---@field dim? integer
---@field keepdim? boolean  default false

--- the 0-based position of the first largest x along dim
---@param dim? integer
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.argmax): mrt.Tensor
function Tensor:argmax(dim, keepdim) end

---@class mrt.op.argmin
---@field dim? integer
---@field keepdim? boolean  default false

--- the 0-based position of the first smallest x along dim
---@param dim? integer
---@param keepdim? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.argmin): mrt.Tensor
function Tensor:argmin(dim, keepdim) end

---@class mrt.op.aminmax
---@field dim? integer|integer[]
---@field keepdim? boolean  default false

--- the smallest and the largest x along dim; NaN if there is one
---@param dim? integer|integer[]
---@param keepdim? boolean  default false
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.aminmax): mrt.Tensor
function Tensor:aminmax(dim, keepdim, ...) end

--- y = sqrt(sum of squares of all elements of all inputs)
---@param ... any  more tensors, then the options
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:global_norm(...) end

---@class mrt.op.linear
---@field compute? mrt.DType
---@field accumulate? mrt.DType

--- y = x @ w^T + bias for w [N,K] and bias [N]; bias may be left out
---@param second mrt.Tensor
---@param third? mrt.Tensor
---@param compute? mrt.DType
---@param accumulate? mrt.DType
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, second: mrt.Tensor, third?: mrt.Tensor, options: mrt.op.linear): mrt.Tensor
function Tensor:linear(second, third, compute, accumulate) end

---@class mrt.op.tril
---@field diagonal? integer  default 0

--- x with zeros above the diagonal, of the last two dimensions
---@param diagonal? integer  default 0
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.tril): mrt.Tensor
function Tensor:tril(diagonal) end

---@class mrt.op.triu
---@field diagonal? integer  default 0

--- x with zeros below the diagonal, of the last two dimensions
---@param diagonal? integer  default 0
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.triu): mrt.Tensor
function Tensor:triu(diagonal) end

---@class mrt.op.diag_embed
---@field offset? integer  default 0
---@field dim1? integer  default -2
---@field dim2? integer  default -1

--- matrices with the last dimension of x on a diagonal, zeros elsewhere
---@param offset? integer  default 0
---@param dim1? integer  default -2
---@param dim2? integer  default -1
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.diag_embed): mrt.Tensor
function Tensor:diag_embed(offset, dim1, dim2) end

--- y[r] = x[r] @ w[g] for the rows of group g, of which there are counts[g], one group
--- after the other
---@param second mrt.Tensor
---@param third mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:grouped_matmul(second, third) end

---@class mrt.op.quantize
---@field kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@field block? integer  default 0

--- codes nearest to w / scale; scales = max |w| of each block
---@param kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@param block? integer  default 0
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.quantize): mrt.Tensor
function Tensor:quantize(kind, block) end

---@class mrt.op.dequantize
---@field kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@field block? integer  default 0
---@field columns? integer  default 0

--- w = value[code] * scale of the block
---@param second mrt.Tensor
---@param kind? "int8"|"nf4"|"fp4"|"q4_0"|"q8_0"  default int8
---@param block? integer  default 0
---@param columns? integer  default 0
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, second: mrt.Tensor, options: mrt.op.dequantize): mrt.Tensor
function Tensor:dequantize(second, kind, block, columns) end

---@class mrt.op.resample
---@field dim integer
---@field size integer|integer[]
---@field mode? "nearest"|"nearest_exact"|"linear"|"cubic"  default nearest
---@field align_corners? boolean  default false
---@field scale_h? number  default 0
---@field scale_w? number  default 0

--- x at another size along dim and the one after it
---@param dim integer
---@param size integer|integer[]
---@param mode? "nearest"|"nearest_exact"|"linear"|"cubic"  default nearest
---@param align_corners? boolean  default false
---@param scale_h? number  default 0
---@param scale_w? number  default 0
---@param ... any  a list may be given as numbers one by one
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.resample): mrt.Tensor
function Tensor:resample(dim, size, mode, align_corners, scale_h, scale_w, ...) end

---@class mrt.op.softmax
---@field dim? integer  default -1

--- y = exp(x - max x) / sum exp(x - max x) along dim
---@param dim? integer  default -1
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.softmax): mrt.Tensor
function Tensor:softmax(dim) end

---@class mrt.op.log_softmax
---@field dim? integer  default -1

--- y = x - max x - log sum exp(x - max x) along dim
---@param dim? integer  default -1
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.log_softmax): mrt.Tensor
function Tensor:log_softmax(dim) end

--- gates, c', h' of an LSTM, for products a and b [..., 4 H] and c
---@param second mrt.Tensor
---@param third mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:lstm_cell(second, third) end

--- gates, h' of a GRU, for products a and b [..., 3 H] and h
---@param second mrt.Tensor
---@param third mrt.Tensor
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:gru_cell(second, third) end

---@class mrt.op.paged_attention
---@field causal? boolean  default false
---@field scale? number  default 0
---@field left? integer  default -1
---@field right? integer  default -1
---@field softcap? number  default 0
---@field offset? integer  default -9223372036854775808
---@field has? integer  default 0

--- attention for q, and k and v in pages, of which the table says whose
---@param second mrt.Tensor
---@param third mrt.Tensor
---@param fourth mrt.Tensor
---@param fifth? mrt.Tensor
---@param sixth? mrt.Tensor
---@param nil? mrt.Tensor
---@param nil? mrt.Tensor
---@param causal? boolean  default false
---@param scale? number  default 0
---@param left? integer  default -1
---@param right? integer  default -1
---@param softcap? number  default 0
---@param offset? integer  default -9223372036854775808
---@param has? integer  default 0
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, second: mrt.Tensor, third: mrt.Tensor, fourth: mrt.Tensor, fifth?: mrt.Tensor, sixth?: mrt.Tensor, nil?: mrt.Tensor, nil?: mrt.Tensor, options: mrt.op.paged_attention): mrt.Tensor
function Tensor:paged_attention(second, third, fourth, fifth, sixth, causal, scale, left, right, softcap, offset, has) end

--- y with x y = 1, of square matrices
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:inverse() end

--- the determinants of square matrices
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:det() end

--- the sign of det(x), and ln |det(x)|
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:slogdet() end

---@class mrt.op.cholesky
---@field upper? boolean  default false

--- lower L with x = L L^T, or upper U with x = U^T U
---@param upper? boolean  default false
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
---@overload fun(self: mrt.Tensor, options: mrt.op.cholesky): mrt.Tensor
function Tensor:cholesky(upper) end

--- 1 + x + x x / 2 + ..., of square matrices
---@return mrt.Tensor
---@return mrt.Tensor ...  where the formula has further results
function Tensor:matrix_exp() end
