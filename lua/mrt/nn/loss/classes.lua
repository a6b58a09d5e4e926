--- classes.lua -- losses of classifiers: cross entropy and what goes with it
---
--- Classes are the last dimension, `[..., V]`, with an id for each row; the option
--- `dim` names another: 2 for PyTorch's `[N, V, ...]`.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"
local read = require "mrt.nn.loss.read"

local loss = {}

local dtypes = core.dtypes()

-- x with dimension `dim` behind the others.
local function last(who, x, dim)
  local rank = x:dim()
  if dim == nil or dim == -1 or dim == rank then return x end
  local from = dim < 0 and dim + rank + 1 or dim
  if from < 1 or from > rank then
    core.fail("value", who, ("dim %d of %s"):format(dim, x:type()))
  end
  local order = {}
  for d = 1, rank do
    if d ~= from then order[#order + 1] = d end
  end
  order[rank] = from
  return x:permute(order)
end

-- A weight for each class, in x's dtype.
local function class_weights(who, weight, x)
  argument.tensor(who, "weight", weight)
  if weight:dim() ~= 1 or weight:size(1) ~= x:size(-1) then
    core.fail("shape", who, ("weight %s for %s, one number for each class wanted")
      :format(weight:type(), x:type()))
  end
  return weight:to(x:get_dtype())
end

-- What a table `[V]` has for each id `[...]`.
local function looked_up(table, ids)
  return core.op.embedding(table:unsqueeze(2), ids):squeeze(-1)
end

-- Ids that count, and where they do (nil: everywhere), with 0 for the others.
local function counting(ids, ignored)
  if not ignored then return ids end
  local counts = ids:ne(ignored)
  return core.op.where(counts, ids, 0), counts
end

-- The losses of rows, weighed, as one number: the mean is by weight.
local function weighed(who, o, losses, counts, weights)
  if counts then losses = core.op.where(counts, losses, 0) end
  if weights then losses = losses * weights end
  if o.reduction ~= "mean" or not weights then return read.reduce(who, o, losses) end
  return losses:sum() / weights:sum()
end

-- How much each row counts: by its class, and 0 where it does not; nil for 1.
local function row_weights(x, ids, counts, weight)
  local each = weight and looked_up(weight, ids)
  if not counts then return each end
  counts = counts:to(x:get_dtype())
  return each and each * counts or counts
end

local function want_rows(who, x, ids)
  local fits = x:dim() == ids:dim() + 1 and not dtypes[ids:get_dtype()].floating
  for d = 1, fits and ids:dim() or 0 do fits = fits and x:size(d) == ids:size(d) end
  if fits then return end
  core.fail("shape", who, ("%s with targets %s, [..., V] with ids [...] wanted%s")
    :format(x:type(), ids:type(), x:dim() > 2 and " (dim = 2: classes in dimension 2)" or ""))
end

local nll_options = read.options("nll_loss", { "weight", "ignore_index", "reduction", "dim" },
  { weight = options.of "tensor", ignore_index = -100, dim = options.of "integer" })

---@class mrt.nn.NLLOptions
---@field weight? mrt.Tensor      `[V]`, of the classes
---@field ignore_index? integer   targets that count nothing, default -100
---@field reduction? mrt.nn.Reduction  "mean": by weight
---@field dim? integer            where the classes are, default -1

--- Return -input[target] for each row, of logarithms of probabilities.
---
---     nn.nll_loss(mrt.zeros(2, 4):log_softmax(), mrt.tensor{0, 3})  --> 1.386294
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param input mrt.Tensor    `[..., V]`
---@param target mrt.Tensor   `[...]` integers in [0, V)
---@param weight? mrt.Tensor|mrt.nn.NLLOptions
---@param ... any             ignore_index, reduction, dim
---@return mrt.Tensor         scalar, or `[...]` with reduction "none"
function loss.nll_loss(input, target, weight, ...)
  local who <const> = "nll_loss"
  local o = nll_options(weight, ...)
  read.tensors(who, { "input", "target" }, input, target)
  input = last(who, input, o.dim)
  want_rows(who, input, target)
  -- Quicker where it may be, of the same bits.  A compiled function may be computed in
  -- parts, and so takes sums of rows; other devices have no kernel for all at once.
  local wide = dtypes[input:get_dtype()].bytes >= 4
  if wide and not o.weight and o.reduction ~= "none" and core.is_computed(target) then
    read.reduction(who, o)
    return core.op.nll_loss(input, target,
      { ignore_index = o.ignore_index, mean = o.reduction == "mean" })
  end
  local ids, counts = counting(target, o.ignore_index)
  local losses = -input:gather(-1, ids:to "i64":unsqueeze(-1)):squeeze(-1)
  return weighed(who, o, losses, counts, row_weights(input, ids, counts,
    o.weight and class_weights(who, o.weight, input)))
end

local cross_entropy_options = read.options("cross_entropy",
  { "weight", "ignore_index", "reduction", "label_smoothing", "dim" },
  { weight = options.of "tensor", ignore_index = options.of "integer",
    label_smoothing = 0, dim = options.of "integer" })

-- Targets that are probabilities of all classes.
local function of_probabilities(who, x, targets, o)
  local p, y = targets:to(x:get_dtype()), x:log_softmax(-1)
  if o.label_smoothing ~= 0 then
    p = p * (1 - o.label_smoothing) + o.label_smoothing / x:size(-1)
  end
  if o.weight then y = y * class_weights(who, o.weight, x) end
  return read.reduce(who, o, -(p * y):sum(-1))
end

-- With a weight for each class; smoothing gives a share to every class, by its weight.
local function by_weight(who, x, targets, o)
  want_rows(who, x, targets)
  local weight = class_weights(who, o.weight, x)
  local ids, counts = counting(targets, o.ignore_index)
  local weights = row_weights(x, ids, counts, weight)
  local own = x:cross_entropy(targets, { reduction = "none", ignore_index = o.ignore_index })
    * weights
  if o.label_smoothing ~= 0 then
    local all = -(x:log_softmax(-1) * weight):sum(-1)
    if counts then all = core.op.where(counts, all, 0) end
    own = own * (1 - o.label_smoothing) + all * (o.label_smoothing / x:size(-1))
  end
  if o.reduction == "mean" then return own:sum() / weights:sum() end
  return read.reduce(who, o, own)
end

---@class mrt.nn.CrossEntropyOptions: mrt.CrossEntropyOptions
---@field weight? mrt.Tensor  `[V]`, of the classes; the mean is by weight
---@field dim? integer        where the classes are, default -1

--- Return -log softmax(logits)[target], averaged over the targets.  Neither the
--- probabilities nor their gradient through softmax are ever stored.
---
--- Targets of floats are probabilities of all classes, and the loss the sum of
--- -target log softmax(logits) over them.
---
---     nn.cross_entropy(mrt.zeros(2, 4), mrt.tensor{0, 3})  --> 1.386294
---
--- Raises: targets of another shape or no integers; a reduction that there is not.
---@param logits mrt.Tensor   `[..., V]`
---@param targets mrt.Tensor  `[...]` integers in [0, V), or `[..., V]` floats
---@param weight? mrt.Tensor|mrt.nn.CrossEntropyOptions
---@param ... any             ignore_index (default: none), reduction, label_smoothing, dim
---@return mrt.Tensor         scalar, or `[...]` with reduction "none"
function loss.cross_entropy(logits, targets, weight, ...)
  local who <const> = "cross_entropy"
  local o = cross_entropy_options(weight, ...)
  read.tensors(who, { "logits", "targets" }, logits, targets)
  if o.dim then logits = last(who, logits, o.dim) end
  if not (o.label_smoothing >= 0 and o.label_smoothing <= 1) then
    core.fail("value", who, ("label_smoothing %g, 0 to 1 wanted"):format(o.label_smoothing))
  end
  if dtypes[targets:get_dtype()].floating then
    if targets:dim() < logits:dim() then
      core.fail("dtype", who, ("targets are %s: ids of classes are integers, targets:to 'i64' "
        .. "(probabilities have the shape of the logits, %s)"):format(targets:type(),
        logits:type()))
    end
    targets = last(who, targets, o.dim)
    read.like(who, logits, targets)
    return of_probabilities(who, logits, targets, o)
  elseif o.weight then
    return by_weight(who, logits, targets, o)
  end
  return core.methods.cross_entropy(logits, targets, { ignore_index = o.ignore_index,
    label_smoothing = o.label_smoothing, reduction = o.reduction })
end

-- Where ranks share the sequence, chunks take as much of each rank's piece of it.
local function by_pieces(x, targets)
  local now = core.current_trace()
  local mesh, dims = now and now.options.mesh, targets:size()
  local n = mesh and mesh.size.context or 1
  local T = dims[2]
  if n == 1 or #dims ~= 2 or T % n ~= 0 then return x, targets end
  return x:reshape(dims[1], n, T // n, x:size(3)), targets:reshape(dims[1], n, T // n)
end

--- cross_entropy(head(x), targets) without ever holding all logits: head and loss
--- are taken of `chunks` parts, cut along the last dimension of the targets, and as no
--- part's gradient waits for another part, the planner has the logits of one alive at
--- a time.  The gradient of the head is a sum over the parts, so its last bits depend
--- on their number.
---
---     nn.linear_cross_entropy(x, table, targets, {chunks = 8})
---
--- Raises: sizes that do not fit.
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
  read.reduction("linear_cross_entropy", o)
  local dim = targets:dim()
  if dim == 0 or x:dim() ~= dim + 1 then
    core.fail("shape", "linear_cross_entropy", ("%s with targets %s, [..., D] with [...] wanted")
      :format(x:type(), targets:type()))
  end
  local shape = targets:size()
  x, targets = by_pieces(x, targets)
  dim = targets:dim()
  local parts, size = {}, targets:size(dim)
  local step = math.max(1, -(-size // o.chunks))
  local each = { reduction = "none", ignore_index = o.ignore_index,
    label_smoothing = o.label_smoothing }
  for first = 1, math.max(size, 1), step do
    local to = math.min(first + step - 1, size)
    parts[#parts + 1] = core.methods.cross_entropy(head(x:slice(dim, first, to)),
      targets:slice(dim, first, to), each)
  end
  local losses = core.op.cat(parts, dim)
  if dim ~= #shape then losses = core.op.reshape(losses, shape) end
  if o.reduction ~= "mean" or not o.ignore_index then
    return read.reduce("linear_cross_entropy", o, losses)
  end
  return losses:sum() / targets:ne(o.ignore_index):to(losses:get_dtype()):sum()
end

--- Return the share of rows whose largest logit is at the target.
---
---     nn.accuracy(mrt.tensor{{1.0, 2.0}, {3.0, 0.0}}, mrt.tensor{1, 1})  --> 0.5
---
--- Raises: shapes that do not fit.
---@param logits mrt.Tensor   `[..., V]`
---@param targets mrt.Tensor  `[...]` integers
---@return mrt.Tensor         scalar f32 in [0, 1]
function loss.accuracy(logits, targets)
  argument.tensor("accuracy", "the logits", logits)
  argument.tensor("accuracy", "the targets", targets)
  return logits:argmax(-1):eq(targets:to "i64"):to "f32":mean()
end

return loss
