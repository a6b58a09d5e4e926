--- margins.lua -- losses that are 0 beyond a margin: of pairs, triplets, classes
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"
local read = require "mrt.nn.loss.read"
local distance = require "mrt.nn.distance"

local op = core.op
local loss = {}

local function want_shape(who, what, x, shape)
  local wanted = table.concat(shape, ",")
  if table.concat(x:size(), ",") == wanted then return end
  core.fail("shape", who, ("%s %s, [%s] wanted"):format(what, x:type(), wanted))
end

-- ---- pairs -----------------------------------------------------------------

local ranking = read.options("margin_ranking_loss", { "margin", "reduction" }, { margin = 0 })

--- max(0, margin - y (x1 - x2)): with a target of 1 the first should be larger, with -1
--- the second.
---
---     nn.margin_ranking_loss(mrt.zeros(2), mrt.ones(2), mrt.tensor{1, -1})  --> 0.5
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x1 mrt.Tensor
---@param x2 mrt.Tensor      of x1's shape
---@param target mrt.Tensor  of x1's shape, 1 or -1
---@param margin? number|{margin: number?, reduction: mrt.nn.Reduction?}  default 0
---@param reduction? mrt.nn.Reduction
---@return mrt.Tensor
function loss.margin_ranking_loss(x1, x2, target, margin, reduction)
  local who <const> = "margin_ranking_loss"
  local o = ranking(margin, reduction)
  local y = read.like(who, x1, target)
  x2 = read.like(who, x1, x2)
  return read.reduce(who, o, (o.margin - y * (x1 - x2)):relu())
end

local embedding = read.options("cosine_embedding_loss", { "margin", "reduction" }, { margin = 0 })

--- With a target of 1, 1 - cos(x1, x2); with -1, max(0, cos(x1, x2) - margin).
---
---     nn.cosine_embedding_loss(mrt.ones(2, 3), mrt.ones(2, 3), mrt.tensor{1, -1})  --> 0.5
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x1 mrt.Tensor      `[N, D]` or `[D]`
---@param x2 mrt.Tensor      of x1's shape
---@param target mrt.Tensor  `[N]` or `[]`, 1 or -1
---@param margin? number|{margin: number?, reduction: mrt.nn.Reduction?}  default 0
---@param reduction? mrt.nn.Reduction
---@return mrt.Tensor
function loss.cosine_embedding_loss(x1, x2, target, margin, reduction)
  local who <const> = "cosine_embedding_loss"
  local o = embedding(margin, reduction)
  x2 = read.like(who, x1, x2)
  argument.tensor(who, "the target", target)
  if x1:dim() ~= 1 and x1:dim() ~= 2 then
    core.fail("shape", who, ("%s, [N, D] or [D] wanted"):format(x1:type()))
  end
  want_shape(who, "target", target, { table.unpack(x1:size(), 1, x1:dim() - 1) })
  local square = ((x1 * x1):sum(-1) + 1e-12) * ((x2 * x2):sum(-1) + 1e-12)
  local cosine = (x1 * x2):sum(-1) / square:sqrt()
  return read.reduce(who, o, op.where(target:eq(1), 1 - cosine, 0)
    + op.where(target:eq(-1), (cosine - o.margin):relu(), 0))
end

-- ---- triplets --------------------------------------------------------------

local function triplet(who, o, far, anchor, positive, negative)
  local near, other = far(anchor, positive), far(anchor, negative)
  if o.swap then other = other:minimum(far(positive, negative)) end
  return read.reduce(who, o, (near - other + o.margin):relu())
end

local by_norm = read.options("triplet_margin_loss", { "margin", "p", "eps", "swap", "reduction" },
  { margin = 1, p = 2, eps = 1e-6, swap = false })

---@class mrt.nn.TripletOptions: mrt.nn.LossOptions
---@field margin? number   default 1
---@field p? number        of the norm, default 2
---@field eps? number      added to differences, default 1e-6
---@field swap? boolean    the negative's distance is the smaller of those from the anchor and
---  from the positive, default false

--- max(0, margin + |anchor - positive| - |anchor - negative|), of the last dimension.
---
---     nn.triplet_margin_loss(mrt.zeros(2, 3), mrt.zeros(2, 3), mrt.ones(2, 3))  --> 0
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param anchor mrt.Tensor    `[..., D]`
---@param positive mrt.Tensor  of its shape
---@param negative mrt.Tensor  of its shape
---@param margin? number|mrt.nn.TripletOptions
---@param ... any              p, eps, swap, reduction
---@return mrt.Tensor          scalar, or `[...]`
function loss.triplet_margin_loss(anchor, positive, negative, margin, ...)
  local who <const> = "triplet_margin_loss"
  local o = by_norm(margin, ...)
  positive = read.like(who, anchor, positive)
  negative = read.like(who, anchor, negative)
  return triplet(who, o, function(x, y) return distance.pairwise_distance(x, y, o.p, o.eps) end,
    anchor, positive, negative)
end

local by_function = read.options("triplet_margin_with_distance_loss",
  { "distance_function", "margin", "swap", "reduction" },
  { distance_function = options.of "function", margin = 1, swap = false })

--- The same with a distance of one's own, f(x, y); default |x - y|.
---
---     nn.triplet_margin_with_distance_loss(mrt.zeros(2, 3), mrt.zeros(2, 3), mrt.ones(2, 3))
---     --> 0
---
--- Shapes: `[N,D]` three times -> scalar.
--- Raises: shapes that do not fit, a reduction that there is not.
---@param anchor mrt.Tensor
---@param positive mrt.Tensor
---@param negative mrt.Tensor
---@param distance_function? function|{distance_function: function?, margin: number?,
---  swap: boolean?, reduction: mrt.nn.Reduction?}
---@param ... any  margin (1), swap (false), reduction
---@return mrt.Tensor
function loss.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function,
    ...)
  local who <const> = "triplet_margin_with_distance_loss"
  local o = by_function(distance_function, ...)
  read.tensors(who, { "anchor", "positive", "negative" }, anchor, positive, negative)
  return triplet(who, o, o.distance_function or distance.pairwise_distance, anchor, positive,
    negative)
end

-- ---- classes ---------------------------------------------------------------

-- Scores as `[N, C]`, and targets as `[N]` or `[N, C]`; a single row has no N.
local function rows_of(who, x, target, per_class)
  read.tensors(who, { "input", "target" }, x, target)
  if x:dim() ~= 1 and x:dim() ~= 2 then
    core.fail("shape", who, ("%s, [N, C] or [C] wanted"):format(x:type()))
  end
  local wanted = x:size()
  if not per_class then table.remove(wanted) end
  local single = not per_class and x:dim() == 1 and target:numel() == 1
  if not single then want_shape(who, "target", target, wanted) end
  local C = x:size(-1)
  return x:reshape(-1, C), per_class and target:reshape(-1, C) or target:reshape(-1),
    x:dim() == 1
end

-- 1 where a class is the id of its row, bool `[..., C]`.
local function hot(ids, C)
  return ids:unsqueeze(-1):eq(op.arange { stop = C, dtype = ids:get_dtype() })
end

local multi = read.options("multi_margin_loss", { "p", "margin", "weight", "reduction" },
  { p = 1, margin = 1, weight = options.of "tensor" })

---@class mrt.nn.MultiMarginOptions: mrt.nn.LossOptions
---@field p? 1|2              default 1
---@field margin? number      default 1
---@field weight? mrt.Tensor  `[C]`, of the target's class

--- The sum over the other classes i of max(0, margin - x[target] + x[i])^p / C.
---
---     nn.multi_margin_loss(mrt.zeros(2, 3), mrt.tensor{0, 2})  --> 0.6666667
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x mrt.Tensor       `[N, C]` or `[C]`
---@param target mrt.Tensor  `[N]` or `[]`, integers in [0, C)
---@param p? 1|2|mrt.nn.MultiMarginOptions
---@param ... any            margin, weight, reduction
---@return mrt.Tensor
function loss.multi_margin_loss(x, target, p, ...)
  local who <const> = "multi_margin_loss"
  local o = multi(p, ...)
  if o.p ~= 1 and o.p ~= 2 then
    core.fail("value", who, ("p = %g, 1 or 2 wanted"):format(o.p))
  end
  local scores, ids, alone = rows_of(who, x, target)
  local C = scores:size(2)
  ids = ids:to "i64"
  local short = (o.margin - scores:gather(2, ids:unsqueeze(2)) + scores):relu()
  if o.p == 2 then short = short * short end
  if o.weight then
    want_shape(who, "weight", o.weight, { C })
    short = short * op.embedding(o.weight:to(x:get_dtype()):unsqueeze(2), ids)
  end
  local value = op.where(hot(ids, C), 0, short):sum(2) / C
  return read.reduce(who, o, alone and value:reshape {} or value)
end

local multilabel = read.options("multilabel_margin_loss", { "reduction" }, {})

--- The sum over targets t and the other classes i of max(0, 1 - (x[t] - x[i])) / C.
--- Compares all classes with all: `[N, C, C]` numbers.
---
---     nn.multilabel_margin_loss(mrt.zeros(1, 3), mrt.tensor{{2, -1, -1}})  --> 0.6666667
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x mrt.Tensor       `[N, C]` or `[C]`
---@param target mrt.Tensor  of its shape: integers in [0, C), the first -1 ends a row
---@param reduction? mrt.nn.Reduction|mrt.nn.LossOptions
---@return mrt.Tensor
function loss.multilabel_margin_loss(x, target, reduction)
  local who <const> = "multilabel_margin_loss"
  local o = multilabel(reduction)
  local scores, ids, alone = rows_of(who, x, target, true)
  local C = scores:size(2)
  ids = ids:to "i64"
  local counts = ids:eq(-1):to "i64":cumsum(2):eq(0)
  ids = op.where(counts, ids, 0)
  local own = hot(ids, C):logical_and(counts:unsqueeze(3))         -- [N, t, C]
  local others = own:any(2):logical_not():unsqueeze(2)             -- [N, 1, C]
  local short = (1 - (scores:gather(2, ids):unsqueeze(3) - scores:unsqueeze(2))):relu()
  local value = op.where(counts:unsqueeze(3):logical_and(others), short, 0):sum { dim = { 2, 3 } }
  value = value / C
  return read.reduce(who, o, alone and value:reshape {} or value)
end

local soft = read.options("multilabel_soft_margin_loss", { "weight", "reduction" },
  { weight = options.of "tensor" })

--- -(y log p + (1 - y) log(1 - p)) with p = 1 / (1 + e^-x), averaged over the classes.
---
---     nn.multilabel_soft_margin_loss(mrt.zeros(1, 3), mrt.tensor{{1.0, 0.0, 1.0}})  --> 0.6931472
---
--- Raises: shapes that do not fit, a reduction that there is not.
---@param x mrt.Tensor       `[..., C]`
---@param target mrt.Tensor  of its shape, in [0, 1]
---@param weight? mrt.Tensor|{weight: mrt.Tensor?, reduction: mrt.nn.Reduction?}  `[C]`
---@param reduction? mrt.nn.Reduction
---@return mrt.Tensor        scalar, or `[...]`
function loss.multilabel_soft_margin_loss(x, target, weight, reduction)
  local who <const> = "multilabel_soft_margin_loss"
  local o = soft(weight, reduction)
  local y = read.like(who, x, target)
  if x:dim() == 0 then core.fail("shape", who, x:type() .. ", [..., C] wanted") end
  local value = y * (-x):softplus() + (1 - y) * x:softplus()
  if o.weight then value = value * o.weight:to(x:get_dtype()) end
  return read.reduce(who, o, value:mean(-1))
end

return loss
