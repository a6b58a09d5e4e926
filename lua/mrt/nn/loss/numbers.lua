--- numbers.lua -- losses of numbers beside what they should be
---
--- Each takes an option `reduction`: "mean" over all elements (the default), "sum", or
--- "none" for one number each.  Targets have the shape of what they are compared with
--- and any dtype.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"
local read = require "mrt.nn.loss.read"

local op = core.op

---@class mrt.nn.LossOptions
---@field reduction? mrt.nn.Reduction
---@field weight? mrt.Tensor  bce, bce_with_logits: factors, which broadcast
---@field pos_weight? number|mrt.Tensor  bce_with_logits: of the first term; broadcasts
---@field delta? number       huber: where the line begins, default 1
---@field beta? number        smooth_l1: the same, default 1
---@field margin? number      hinge_embedding_loss: default 1
---@field log_input? boolean  poisson_nll_loss: x is a logarithm, default true
---@field full? boolean       poisson_nll_loss: with Stirling's term, default false
---@field eps? number         poisson_nll_loss: added in logarithms, default 1e-8

---@alias mrt.nn.PairLoss fun(x: mrt.Tensor, y: mrt.Tensor, o?: mrt.nn.LossOptions): mrt.Tensor

-- Options may be given by place too, in the order of PyTorch.
---@class mrt.nn.losses
---@field bce mrt.nn.PairLoss         of probabilities
---@field bce_with_logits mrt.nn.PairLoss
---@field mse mrt.nn.PairLoss
---@field l1 mrt.nn.PairLoss
---@field huber mrt.nn.PairLoss
---@field smooth_l1 mrt.nn.PairLoss
---@field soft_margin_loss mrt.nn.PairLoss
---@field hinge_embedding_loss mrt.nn.PairLoss
---@field poisson_nll_loss mrt.nn.PairLoss

local loss = {}

local function refuse(who, text, ...) core.fail("value", who, text:format(...)) end

-- Define loss `name` of two tensors: each(x, y, o) for each element.
local function pair(name, names, defaults, each, check)
  local given = read.options(name, names, defaults)
  loss[name] = function(x, y, ...)
    local o = given(...)
    local t = read.like(name, x, y)
    if check then check(o, x) end
    local value = each(x, t, o)
    if o.weight then value = value * o.weight:to(x:get_dtype()) end
    return read.reduce(name, o, value)
  end
end

-- Logarithms of numbers that may be 0: of no less than the smallest f32.
local function log(x) return x:maximum(0x1p-126):log() end

-- Binary cross entropy of probabilities: -(y log p + (1 - y) log(1 - p)).
-- Neither logarithm is taken of less than the smallest f32, so the loss is
-- finite.
pair("bce", { "weight", "reduction" }, { weight = options.of "tensor" }, function(p, y)
  return -(y * log(p) + (1 - y) * log(1 - p))
end)

-- Binary cross entropy of logits, with p = 1 / (1 + e^-x):
-- -(pos_weight y log p + (1 - y) log(1 - p)), exact for logits of any size.
pair("bce_with_logits", { "weight", "reduction", "pos_weight" },
  { weight = options.of "tensor", pos_weight = options.none }, function(x, y, o)
    local positive = y * (-x):softplus()
    if o.pos_weight then positive = positive * o.pos_weight end
    return positive + (1 - y) * x:softplus()
  end)

-- Squared error, (x - y)^2.
pair("mse", { "reduction" }, {}, function(x, y)
  local d = x - y
  return d * d
end)

-- Absolute error, |x - y|.
pair("l1", { "reduction" }, {}, function(x, y) return (x - y):abs() end)

-- With d = |x - y|: d^2 / 2 up to delta, then a line with the same slope.
local function huber(x, y, delta)
  local d = (x - y):abs()
  local a = d:minimum(delta)
  return a * (d - a * 0.5)
end

-- Huber's loss (Ann. Math. Statist. 35, 1964): (x - y)^2 / 2 where |x - y| is
-- at most `delta` (1), delta (|x - y| - delta / 2) beyond.
pair("huber", { "reduction", "delta" }, { delta = 1 }, function(x, y, o)
  return huber(x, y, o.delta)
end, function(o)
  if not (o.delta > 0) then refuse("huber", "delta = %g, more than 0 wanted", o.delta) end
end)

-- Huber's loss divided by its width `beta` (1): the absolute error when that is 0.
pair("smooth_l1", { "reduction", "beta" }, { beta = 1 }, function(x, y, o)
  if o.beta == 0 then return (x - y):abs() end
  return huber(x, y, o.beta) * (1 / o.beta)
end, function(o)
  if not (o.beta >= 0) then refuse("smooth_l1", "beta = %g, 0 or more wanted", o.beta) end
end)

-- log(1 + e^(-y x)), of targets -1 and 1.
pair("soft_margin_loss", { "reduction" }, {}, function(x, y) return (-(y * x)):softplus() end)

-- x where the target is 1, max(0, margin - x) where it is -1: of distances.
pair("hinge_embedding_loss", { "margin", "reduction" }, { margin = 1 }, function(x, y, o)
  return op.where(y:ne(1), (o.margin - x):relu(), 0) + op.where(y:ne(-1), x, 0)
end)

local STIRLING <const> = 0.5 * math.log(2 * math.pi)

-- Of counts y that have a Poisson distribution of mean e^x (x itself with `log_input`
-- false): e^x - y x, with `full` plus Stirling's approximation of log y! where y > 1.
--
--     nn.poisson_nll_loss(x, y, {log_input = false, full = true})
pair("poisson_nll_loss", { "log_input", "full", "eps", "reduction" },
  { log_input = true, full = false, eps = 1e-8 }, function(x, y, o)
    local value = o.log_input and x:exp() - y * x or x - y * (x + o.eps):log()
    if not o.full then return value end
    local many = y:gt(1)
    local n = op.where(many, y, 1)
    return value + op.where(many, n * n:log() - n + n:log() * 0.5 + STIRLING, 0)
  end)

local kl_options = read.options("kl_div", { "reduction", "log_target" }, { log_target = false })

--- Kullback & Leibler's divergence of x, logarithms of probabilities, from y,
--- probabilities (logarithms with `log_target`): y (log y - x) for each element, 0 where
--- y is.
---
--- "mean" is over all elements, as in PyTorch; "batchmean", the sum divided by the first
--- dimension, is the divergence.
---
---     nn.kl_div(mrt.zeros(2, 2):log_softmax(), mrt.full({2, 2}, 0.5), "batchmean")  --> 0
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param reduction? mrt.nn.Reduction|"batchmean"|{reduction: string?, log_target: boolean?}
---@param log_target? boolean  default false
---@return mrt.Tensor
function loss.kl_div(x, y, reduction, log_target)
  local who <const> = "kl_div"
  local o = kl_options(reduction, log_target)
  local t = read.like(who, x, y)
  local value
  if o.log_target then
    value = t:exp() * (t - x)
  else
    local log_t = op.where(t:eq(0), 0, op.where(t:eq(0), 1, t):log())
    value = t * (log_t - x)
  end
  read.reduction(who, o, "batchmean")
  if o.reduction ~= "batchmean" then return read.reduce(who, o, value) end
  if value:dim() == 0 then refuse(who, "batchmean of a scalar, a batch wanted") end
  return value:sum() / value:size(1)
end

-- The variance in x's shape: of each element, of each row, or of all.
local function variances(who, x, var)
  if type(var) == "number" then
    return op.full { shape = {}, value = var, dtype = x:get_dtype() }
  end
  argument.tensor(who, "var", var)
  var = var:to(x:get_dtype())
  local rank, fits = x:dim(), var:dim() == x:dim()
  if var:dim() == rank - 1 then var, fits = var:unsqueeze(-1), true end
  for d = 1, fits and rank or 0 do
    fits = fits and (var:size(d) == x:size(d) or d == rank and var:size(d) == 1)
  end
  if fits then return var end
  core.fail("shape", who, ("var %s for %s: its shape, or that with 1 or nothing last wanted")
    :format(var:type(), x:type()))
end

local gaussian_options = read.options("gaussian_nll_loss", { "full", "eps", "reduction" },
  { full = false, eps = 1e-6 })

--- Of targets y that have a normal distribution of mean x and variance var:
--- (log var + (x - y)^2 / var) / 2, with `full` plus log(2 pi) / 2.  A variance below
--- `eps` counts as that, and its gradient as if it did not; one below 0 gives NaN.
---
---     nn.gaussian_nll_loss(mrt.zeros(3), mrt.ones(3), mrt.ones(3))  --> 0.5
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param var mrt.Tensor|number  of x's shape; or with 1 or nothing in place of its last
---  dimension; or for all
---@param full? boolean|{full: boolean?, eps: number?, reduction: mrt.nn.Reduction?}
---@param ... any  eps (1e-6), reduction
---@return mrt.Tensor
function loss.gaussian_nll_loss(x, y, var, full, ...)
  local who <const> = "gaussian_nll_loss"
  local o = gaussian_options(full, ...)
  local t = read.like(who, x, y)
  if not (o.eps > 0) then refuse(who, "eps = %g, more than 0 wanted", o.eps) end
  var = variances(who, x, var)
  local least = op.where(var:ge(0), var:maximum(o.eps), 0 / 0)
  var = var + (least - var):detach()
  local d = x - t
  local value = (var:log() + d * d / var) * 0.5
  return read.reduce(who, o, o.full and value + STIRLING or value)
end

return loss
