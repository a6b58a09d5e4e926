--- loss.lua -- what training makes small, and what people read
---
--- Losses of numbers take an option `reduction`: "mean" over all elements (the
--- default), "sum", or "none" for one number each.  Targets have the shape of
--- what they are compared with and any dtype.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local loss = {}

---@class mrt.nn.LossOptions
---@field reduction? "mean"|"sum"|"none"

local reductions = {
  mean = function(x) return x:mean() end,
  sum = function(x) return x:sum() end,
  none = function(x) return x end,
}

-- Read the options and return them with the targets in x's dtype.
local function read(who, x, y, given, defaults)
  defaults = defaults or {}
  defaults.reduction = "mean"
  local o = options.read(who, given, defaults)
  argument.tensor(who, "the first", x)
  argument.tensor(who, "the second", y)
  local same = x:dim() == y:dim()
  for d = 1, same and x:dim() or 0 do same = same and x:size(d) == y:size(d) end
  if not same then
    core.fail("shape", who, ("%s against %s, equal shapes wanted"):format(x:type(), y:type()))
  elseif not reductions[o.reduction] then
    core.fail("value", who, ("reduction '%s', one of mean, sum, none wanted")
      :format(o.reduction))
  end
  return o, y:to(x:get_dtype())
end

local function reduce(o, x) return reductions[o.reduction](x) end

--- Return -log softmax(logits)[target], averaged over the targets.  Neither the
--- probabilities nor their gradient through softmax are ever stored.
---@param logits mrt.Tensor   `[..., V]`
---@param targets mrt.Tensor  `[...]` integers in [0, V)
---@param given? mrt.CrossEntropyOptions
---@return mrt.Tensor         scalar, or `[...]` with reduction "none"
function loss.cross_entropy(logits, targets, given)
  return core.methods.cross_entropy(logits, targets, given)
end

--- cross_entropy(head(x), targets) without ever holding all logits: head and loss
--- are taken of `chunks` parts, cut along the last dimension of the targets, and as no
--- part's gradient waits for another part, the planner has the logits of one alive at
--- a time.  The gradient of the head is a sum over the parts, so its last bits depend
--- on their number.
---
---     nn.linear_cross_entropy(x, table, targets, {chunks = 8})
---@class mrt.LinearCrossEntropyOptions: mrt.CrossEntropyOptions
---@field chunks? integer    default 8
---@param x mrt.Tensor       `[..., D]`
---@param head mrt.Tensor|fun(x: mrt.Tensor): mrt.Tensor  weights `[V, D]`, or a layer
---  `[..., D]` -> `[..., V]`
---@param targets mrt.Tensor `[...]` integers in [0, V)
---@param given? mrt.LinearCrossEntropyOptions
---@return mrt.Tensor        scalar, or `[...]` with reduction "none"
function loss.linear_cross_entropy(x, head, targets, given)
  local o = options.read("linear_cross_entropy", given, { chunks = 8,
    reduction = "mean", ignore_index = options.of "integer",
    label_smoothing = options.of "number" })
  options.size("linear_cross_entropy", "chunks", o.chunks)
  argument.tensor("linear_cross_entropy", "the first", x)
  argument.tensor("linear_cross_entropy", "the targets", targets)
  if core.is_tensor(head) then
    local weight = head
    head = function(rows) return rows:linear(weight) end
  elseif not options.is_callable(head) then
    core.fail("value", "linear_cross_entropy", ("a tensor or a layer wanted for the head, got %s")
      :format(options.show(head)))
  end
  if not reductions[o.reduction] then
    core.fail("value", "linear_cross_entropy",
      ("reduction '%s', one of mean, sum, none wanted"):format(options.show(o.reduction)))
  end
  local dim = targets:dim()
  if dim == 0 or x:dim() ~= dim + 1 then
    core.fail("shape", "linear_cross_entropy", ("%s with targets %s, [..., D] with [...] wanted")
      :format(x:type(), targets:type()))
  end
  local parts, size = {}, targets:size(dim)
  local step = math.max(1, -(-size // o.chunks))
  local each = { reduction = "none", ignore_index = o.ignore_index,
    label_smoothing = o.label_smoothing }
  for first = 1, math.max(size, 1), step do
    local last = math.min(first + step - 1, size)
    parts[#parts + 1] = core.methods.cross_entropy(head(x:slice(dim, first, last)),
      targets:slice(dim, first, last), each)
  end
  local losses = core.op.cat(parts, dim)
  if o.reduction ~= "mean" or not o.ignore_index then return reduce(o, losses) end
  return losses:sum() / targets:ne(o.ignore_index):to(losses:get_dtype()):sum()
end

--- Binary cross entropy of probabilities: -(y log p + (1 - y) log(1 - p)).
--- Neither logarithm is taken of less than the smallest f32, so the loss is
--- finite.
---@param p mrt.Tensor  probabilities
---@param y mrt.Tensor  targets in [0, 1]
---@param given? mrt.nn.LossOptions
---@return mrt.Tensor
function loss.bce(p, y, given)
  local o, t = read("bce", p, y, given)
  local function log(x) return x:maximum(0x1p-126):log() end
  return reduce(o, -(t * log(p) + (1 - t) * log(1 - p)))
end

--- Binary cross entropy of logits, with p = 1 / (1 + e^-x):
--- -(weight y log p + (1 - y) log(1 - p)), exact for logits of any size.
---@param x mrt.Tensor  logits
---@param y mrt.Tensor  targets in [0, 1]
---@param given? {reduction: "mean"|"sum"|"none"?, pos_weight: (number|mrt.Tensor)?}
---  pos_weight: of the first term, a number or what broadcasts to x
---@return mrt.Tensor
function loss.bce_with_logits(x, y, given)
  local o, t = read("bce_with_logits", x, y, given, { pos_weight = options.none })
  local positive = t * (-x):softplus()
  if o.pos_weight then positive = positive * o.pos_weight end
  return reduce(o, positive + (1 - t) * x:softplus())
end

--- Squared error, (x - y)^2.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param given? mrt.nn.LossOptions
---@return mrt.Tensor
function loss.mse(x, y, given)
  local o, t = read("mse", x, y, given)
  local d = x - t
  return reduce(o, d * d)
end

--- Absolute error, |x - y|.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param given? mrt.nn.LossOptions
---@return mrt.Tensor
function loss.l1(x, y, given)
  local o, t = read("l1", x, y, given)
  return reduce(o, (x - t):abs())
end

-- With d = |x - y|: d^2 / 2 up to delta, then a line with the same slope.
local function huber(x, y, delta)
  local d = (x - y):abs()
  local a = d:minimum(delta)
  return a * (d - a * 0.5)
end

--- Huber's loss (Ann. Math. Statist. 35, 1964): (x - y)^2 / 2 where |x - y| is
--- at most `delta`, delta (|x - y| - delta / 2) beyond.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param given? {reduction: "mean"|"sum"|"none"?, delta: number?}  default 1
---@return mrt.Tensor
function loss.huber(x, y, given)
  local o, t = read("huber", x, y, given, { delta = 1 })
  if not (o.delta > 0) then
    core.fail("value", "huber", ("delta = %g, more than 0 wanted"):format(o.delta))
  end
  return reduce(o, huber(x, t, o.delta))
end

--- Huber's loss divided by its width `beta`: the absolute error when that is 0.
---@param x mrt.Tensor
---@param y mrt.Tensor
---@param given? {reduction: "mean"|"sum"|"none"?, beta: number?}  default 1
---@return mrt.Tensor
function loss.smooth_l1(x, y, given)
  local o, t = read("smooth_l1", x, y, given, { beta = 1 })
  if not (o.beta >= 0) then
    core.fail("value", "smooth_l1", ("beta = %g, 0 or more wanted"):format(o.beta))
  end
  if o.beta == 0 then return reduce(o, (x - t):abs()) end
  return reduce(o, huber(x, t, o.beta) * (1 / o.beta))
end

--- Return the share of rows whose largest logit is at the target.
---@param logits mrt.Tensor   `[..., V]`
---@param targets mrt.Tensor  `[...]` integers
---@return mrt.Tensor         scalar f32 in [0, 1]
function loss.accuracy(logits, targets)
  argument.tensor("accuracy", "the logits", logits)
  argument.tensor("accuracy", "the targets", targets)
  return logits:argmax(-1):eq(targets:to "i64"):to "f32":mean()
end

return loss
