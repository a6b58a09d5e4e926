--- activation.lua -- methods of tensors: activations, and what is made of softmax
---
--- Those that are operators of their own with PyTorch's options (leaky_relu, hardtanh,
--- softshrink, hardshrink, threshold, hardswish, hardsigmoid, mish, logsigmoid,
--- softsign, ...) need nothing here.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local op = core.op
---@class mrt.Tensor
local Tensor = core.methods

local read, refuse = argument.read, argument.refuse

-- Arguments by name, where none is given the default; all are numbers or booleans as
-- these are.
local function numbers(who, names, defaults, ...)
  local o = read(who, names, ...)
  for i, name in ipairs(names) do
    if o[name] == nil then o[name] = defaults[i] end
    if type(o[name]) ~= type(defaults[i]) then
      refuse(who, "%s: a %s wanted, got %s", name, type(defaults[i]), options.show(o[name]))
    end
  end
  return o
end

-- ---- pieces ----------------------------------------------------------------

--- x from 0 to 6, flat outside.
---
---     mrt.tensor{-1.0, 8.0}:relu6()  --> [0.0 6.0]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.relu6(x) return op.hardtanh(x, 0, 6) end

--- x, and below 0 alpha (e^x - 1).
---
---     mrt.tensor{-1.0, 2.0}:elu()  --> [-0.6321 2.0000]
---
--- Shapes: `[...]` of x's shape.
--- Raises: an alpha that is no number.
---@param alpha? number|{alpha: number?}  default 1
---@return mrt.Tensor
function Tensor.elu(x, alpha)
  if alpha == nil or type(alpha) == "number" then return op.elu(x, alpha or 1) end
  return op.elu(x, { alpha = numbers("elu", { "alpha" }, { 1 }, alpha).alpha })
end

local selu = { alpha = 1.6732632423543772848170429916717,
  scale = 1.0507009873554804934193349852946 }

--- elu with the scale and alpha that keep mean 0 and variance 1 from layer to layer
--- (Klambauer et al., arXiv:1706.02515).
---
---     mrt.tensor{-1.0, 2.0}:selu()  --> [-1.1113 2.1014]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.selu(x) return op.elu(x, selu) end

--- x, and below 0 alpha (e^(x / alpha) - 1) (Barron, arXiv:1704.07483).
---
---     mrt.tensor{-1.0, 2.0}:celu()  --> [-0.6321 2.0000]
---
--- Shapes: `[...]` of x's shape.
--- Raises: alpha 0.
---@param alpha? number|{alpha: number?}  default 1, not 0
---@return mrt.Tensor
function Tensor.celu(x, alpha)
  alpha = numbers("celu", { "alpha" }, { 1 }, alpha).alpha
  if alpha == 0 then refuse("celu", "alpha = 0, another number wanted") end
  return op.elu(x, { alpha = alpha, input_scale = 1 / alpha })
end

--- x, and below 0 x times the weight of its channel, dimension 2.
---
---     mrt.tensor{{-1.0, -1.0}}:prelu(mrt.tensor{0.1, 0.5})  --> [[-0.1 -0.5]]
---
--- Raises: a weight that is neither one number nor one for each channel.
---@param weight mrt.Tensor  one number, or one for each channel: `[C]`
---@return mrt.Tensor
function Tensor.prelu(x, weight)
  argument.tensor("prelu", "weight", weight)
  local channels = x:dim() >= 2 and x:size(2) or 1
  if weight:dim() > 1 or weight:numel() ~= 1 and weight:numel() ~= channels then
    refuse("prelu", "weight %s for %s, 1 or %d numbers wanted", weight:type(), x:type(), channels)
  end
  if weight:numel() == 1 then return op.prelu(x, op.reshape(weight, {})) end
  local shape = { channels }
  for d = 3, x:dim() do shape[d - 1] = 1 end
  return op.prelu(x, op.reshape(weight, shape))
end

--- Random slopes below 0, drawn from [lower, upper) for each element; their mean where
--- training is false.
---
---     mrt.tensor{-1.0, 2.0}:rrelu()  --> [-0.2292 2.0000]
---
--- Shapes: `[...]` of x's shape.
--- Raises: lower above upper.
---@param lower? number|{lower: number?, upper: number?, training: boolean?}  default 1/8
---@param upper? number      default 1/3
---@param training? boolean  default false
---@return mrt.Tensor
function Tensor.rrelu(x, lower, upper, training)
  local o = numbers("rrelu", { "lower", "upper", "training" }, { 1 / 8, 1 / 3, false },
    lower, upper, training)
  if o.lower > o.upper then
    refuse("rrelu", "lower = %g, upper = %g, the first must not exceed the second", o.lower,
      o.upper)
  end
  if not o.training then return op.leaky_relu(x, (o.lower + o.upper) / 2) end
  local draw = op.rand { shape = x:get_shape(), dtype = x:get_dtype() == "f64" and "f64" or "f32" }
  local slope = op.add(op.mul(draw, o.upper - o.lower), o.lower)
  return op.where(op.gt(x, 0), x, op.mul(x, op.cast(slope, x:get_dtype())))
end

-- ---- smooth ----------------------------------------------------------------

--- ln(1 + e^(beta x)) / beta; x itself where beta x exceeds the threshold.
---
---     mrt.tensor{-1.0, 2.0}:softplus()  --> [0.3133 2.1269]
---
--- Shapes: `[...]` of x's shape.
--- Raises: a beta of 0.
---@param beta? number|{beta: number?, threshold: number?}  default 1
---@param threshold? number  default 20, beyond which the two differ by less than 3e-9
---@return mrt.Tensor
function Tensor.softplus(x, beta, threshold)
  if beta == nil and threshold == nil then return op.softplus(x) end
  local o = numbers("softplus", { "beta", "threshold" }, { 1, 20 }, beta, threshold)
  if o.beta == 1 and o.threshold == 20 then return op.softplus(x) end
  if o.beta == 0 then refuse("softplus", "beta = 0, another number wanted") end
  local steep = op.mul(x, o.beta)
  return op.where(op.gt(steep, o.threshold), x, op.div(op.softplus(steep), o.beta))
end

--- x - tanh x.
---
---     mrt.tensor{-1.0, 2.0}:tanhshrink()  --> [-0.2384 1.0360]
---
--- Shapes: `[...]` of x's shape.
---@return mrt.Tensor
function Tensor.tanhshrink(x) return op.sub(x, op.tanh(x)) end

--- The first half of a dimension times the sigmoid of the second (Dauphin et al.,
--- arXiv:1612.08083).
---
---     mrt.tensor{1.0, 2.0, 0.0, 0.0}:glu()  --> [0.5 1.0]
---
--- Raises: an odd size.
---@param dim? integer|{dim: integer?}  default -1; of even size
---@return mrt.Tensor
function Tensor.glu(x, dim)
  if math.type(dim) ~= "integer" then dim = read("glu", { "dim" }, dim).dim or -1 end
  if x:dim() == 0 then refuse("glu", "%s, at least 1 dimension wanted", x:type()) end
  local size = x:size(dim)
  if size % 2 == 1 then
    refuse("glu", "dimension %d of %s has size %d, an even one wanted", dim, x:type(), size)
  end
  local half = size // 2
  local function part(first)
    return op.slice(x, { dim = dim, first = first, last = first + half - 1 })
  end
  return op.mul(part(1), op.sigmoid(part(half + 1)))
end

-- ---- of rows ---------------------------------------------------------------

--- softmax of -x.
---
---     mrt.tensor{1.0, 2.0}:softmin()  --> [0.7311 0.2689]
---
--- Shapes: `[...]` of x's shape.
--- Raises: a dimension that x does not have.
---@param dim? integer|{dim: integer?}
---@return mrt.Tensor
function Tensor.softmin(x, dim) return op.softmax(op.neg(x), dim) end

--- Draw from the Gumbel-softmax distribution (Jang et al., arXiv:1611.01144).
---
---     mrt.zeros(2, 3):gumbel_softmax(1, true):sum(2)  --> [1.0 1.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: tau that is not above 0.
---@param tau? number|{tau: number?, hard: boolean?, eps: number?, dim: integer?}  the
---  temperature, default 1
---@param hard? boolean  1 at the largest and 0 elsewhere, with the gradient of the soft one
---@param eps? number    not used, as there
---@param dim? integer   default -1
---@return mrt.Tensor
function Tensor.gumbel_softmax(x, tau, hard, eps, dim)
  local o = numbers("gumbel_softmax", { "tau", "hard", "eps", "dim" }, { 1, false, 1e-10, -1 },
    tau, hard, eps, dim)
  if not (o.tau > 0) then refuse("gumbel_softmax", "tau = %g, more than 0 wanted", o.tau) end
  local wide = x:get_dtype() == "f64" and "f64" or "f32"
  -- uniform numbers are multiples of 2^-24: none is 0 or 1 then
  local draw = op.maximum(op.rand { shape = x:get_shape(), dtype = wide }, 2.0 ^ -25)
  local gumbel = op.neg(op.log(op.neg(op.log(draw))))
  local y = op.softmax(op.div(op.add(x, op.cast(gumbel, x:get_dtype())), o.tau), o.dim)
  if not o.hard then return y end
  local at = op.argmax(y, { dim = o.dim, keepdim = true })
  local places = op.arange { stop = y:size(o.dim), dtype = "i64" }
  local last = o.dim < 0 and -o.dim - 1 or y:dim() - o.dim
  local shape = { y:size(o.dim) }
  for i = 1, last do shape[i + 1] = 1 end
  local chosen = op.cast(op.eq(op.reshape(places, shape), at), y:get_dtype())
  return op.add(op.sub(chosen, op.detach(y)), y)
end

--- Divide by the p-norm along a dimension, or by eps where that is more.
---
---     mrt.tensor{3.0, 4.0}:normalize(2, 1)  --> [0.6 0.8]
---
--- Raises: a dimension that x does not have.
---@param p? number|{p: number?, dim: integer|integer[]?, eps: number?}  default 2
---@param dim? integer|integer[]  default 2
---@param eps? number             default 1e-12
---@return mrt.Tensor
function Tensor.normalize(x, p, dim, eps)
  local o = read("normalize", { "p", "dim", "eps" }, p, dim, eps)
  if o.eps ~= nil and type(o.eps) ~= "number" then
    refuse("normalize", "eps: a number wanted, got %s", options.show(o.eps))
  end
  local length = Tensor.norm(x, { p = o.p or 2, dim = o.dim or 2, keepdim = true })
  return op.div(x, Tensor.clamp(length, o.eps or 1e-12))
end

return Tensor
