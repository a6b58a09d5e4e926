--- gradient_noise.lua -- how noisy the gradient of a batch is, from parts of it
---
---     mrt.compile(fn, { accumulate = 4, gradient_noise = true })
---     print(step:gradient_noise().scale)
---
--- The gradient g of a batch of b rows is an unbiased estimate of the gradient G of
--- the loss over all data:  E g = G,  E |g|^2 = |G|^2 + S / b,  where S is the trace of
--- the covariance of the gradients of single rows.  Micro-batches and ranks have such
--- gradients of parts of the batch, whose mean is that of all of it: from the mean
--- square q of the parts and the square Q of the whole, of b and B rows,
---
---     S = (q - Q) / (1/b - 1/B)          |G|^2 = Q - S / B
---
--- are unbiased too.  Their ratio S / |G|^2, the *gradient noise scale*, says how large
--- a batch pays: one of that many rows makes half of the progress that a step can make.
--- Each is averaged over steps before, exponentially, because the ratio of two
--- estimates is biased and noisy.  With parts of unequal rows 1/b is the mean of theirs.
---
---   from  McCandlish, Kaplan, Amodei et al. 2018 (arXiv:1812.06162), appendix A.1
---   cost  a pass over the gradients of each part, and one number more to reduce
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local core = require "mrt.core"
local options = require "mrt.util.options"
local trace = require "mrt.compile.trace"

local op = core.op

local gradient_noise = {}

local function refuse(text, ...)
  core.fail("value", "gradient_noise", text:format(...))
end

---@class mrt.GradientNoiseOptions
---@field decay? number  of the averages over steps, from 0 (this step alone) to below 1;
---  default 0.99

--- Read the option `gradient_noise` of mrt.compile.
---@param given true|false|mrt.GradientNoiseOptions?
---@return table? settings
function gradient_noise.read(given)
  if not given then return nil end
  if given ~= true and type(given) ~= "table" then
    refuse("true or a table of options wanted, got %s", options.show(given))
  end
  local o = options.read("gradient_noise", given ~= true and given or nil, { decay = 0.99 })
  if not (o.decay >= 0 and o.decay < 1) then
    refuse("decay = %g, wanted 0 <= decay < 1", o.decay)
  end
  return o
end

--- Raise if a function has the option and its batches will have no parts.
---@param given mrt.CompileOptions
function gradient_noise.want_parts(given)
  local count, mesh = given.accumulate, given.mesh or {}
  local alone = not given.shard and (mesh.data or mesh.shard or 1) == 1
  if given.gradient_noise and (count == nil or count == 1) and alone then
    refuse "a batch has no parts: accumulate = 2 or more, or several ranks (option 'shard') wanted"
  end
end

-- ---- the transform -----------------------------------------------------------

--- A transform.  It lies just outside sharding, where gradients are those of all
--- ranks; sharding shows it those of this rank, of each micro-batch.
---@class mrt.GradientNoise: mrt.Transform
---@field settings table
---@field averages mrt.Tensor  f64[3]: of S, of |G|^2, and of 1
---@field mean mrt.Tensor      scalar f64: mean square of the micro-batches' gradients
---@field plan table           of the trace that was made last: parts, small, big (rows)
---@field big mrt.Tensor?      in a trace: Q
---@field small mrt.Tensor?    ditto, without micro-batches: q of this rank
---@field seen boolean?        ditto: a gradient has been asked for
local Noise = { name = "gradient noise scale" }
Noise.__index = Noise

local function zeros(shape) return op.full { shape = shape, value = 0, dtype = "f64" } end

--- Make the averages of a function.
---@param settings table?  of gradient_noise.read
---@return mrt.GradientNoise?
function gradient_noise.new(settings)
  if not settings then return nil end
  return setmetatable({ settings = settings, plan = {},
    averages = core.variable(zeros { 3 }, "gradient_noise"),
    mean = core.variable(zeros {}, "gradient_noise.parts") }, Noise)
end

function Noise:state(out) out.gradient_noise = self.averages end

function Noise:load_state(state)
  if state.gradient_noise then self.averages:assign(state.gradient_noise) end
end

-- Gradients are scaled as their loss is.
local function unscaled(squares, o)
  if not o.scale then return squares end
  local scale = op.cast(o.scale, "f64")
  return squares / (scale * scale)
end

-- The sum of the squares of what lies here, f64.
local function own_squares(grads)
  local sum
  for _, g in ipairs(grads) do
    if g:get_dtype() ~= "f64" then g = op.cast(g, "f32") end
    local length = op.cast(op.global_norm { g }, "f64")
    local square = length * length
    sum = sum and sum + square or square
  end
  return sum
end

-- Of gradients of these; of pieces of weights, the ranks' sums together.
local function squares_of(grads, xs)
  local pieces, others, comm = {}, {}, nil
  for i, g in ipairs(grads) do
    local whole = Bucket.wholes[xs[i]]
    if whole then pieces[#pieces + 1], comm = g, Bucket.cuts[whole].comm
    else others[#others + 1] = g end
  end
  if not comm then return own_squares(others) end
  local sum = op.allreduce(own_squares(pieces), { comm = comm.number, op = "sum", lazy = true })
  return #others > 0 and sum + own_squares(others) or sum
end

-- The same of a micro-batch that stages compute: each part of the layers has a summand.
local function squares_by_part(grads, xs, cut)
  local lists, order, sum = {}, {}, nil
  for i, g in ipairs(grads) do
    local parts = cut.parts_of[core.id(core.current(Bucket.wholes[xs[i]] or xs[i]))] or { 1 }
    if #parts > 1 then
      refuse("parameter '%s' is read by several parts of the layers that 'pipeline' cuts, so no "
        .. "rank has its gradient of a micro-batch", xs[i]:get_name() or xs[i]:type())
    end
    local list = lists[parts[1]]
    if not list then
      list = { grads = {}, xs = {} }
      lists[parts[1]], order[#order + 1] = list, parts[1]
    end
    table.insert(list.grads, g)
    table.insert(list.xs, xs[i])
  end
  table.sort(order)
  for _, part in ipairs(order) do
    local squares = squares_of(lists[part].grads, lists[part].xs)
    sum = sum and sum + squares or squares
  end
  return sum
end

function Noise:begin(now)
  now.noise, self.big, self.small, self.seen = self, nil, nil, nil
end

--- The first gradient of this rank: of a micro-batch, or of all its rows.
---@param grads mrt.Tensor[]
---@param o mrt.GradOptions
---@param xs mrt.Tensor[]  what they are of
---@nodoc
function Noise:part(grads, o, xs)
  if self.seen then return end
  self.seen = true
  local parts = self.trace.parts
  if not parts then
    self.small = unscaled(squares_of(grads, xs), o)
  elseif parts.now == parts.whole then
    parts.degree = parts.whole.marks[#parts.whole.marks].degree
  else
    local cut = parts.now.cut
    parts.now.squares = unscaled(cut and squares_by_part(grads, xs, cut) or squares_of(grads, xs),
      o)
  end
end

--- Of the whole batch, over all ranks.
---@nodoc
function Noise:grad(next, ys, xs, o)
  local dx = next(ys, xs, o)
  self.big = self.big or unscaled(trace.squares(dx) or own_squares(dx), o)
  return dx
end

-- One over the rows of a part, on the average, and of the batch.
local function inverse_rows(now)
  local parts, ranks = now.parts, now.ranks and now.ranks.size or 1
  if now.replicas then ranks = ranks * now.replicas.size end
  local rows = parts and parts.rows or now.rows
  if not parts then return 1 / rows, 1 / (rows * ranks) end
  local last = parts.sizes[2] or parts.sizes[1]
  return ((parts.count - 1) / parts.sizes[1] + 1 / last) / parts.count, 1 / (rows * ranks)
end

--- Both averages move on, if the step counts and has parts.  Gradients of a part may be
--- beyond f16 where that of the batch, a mean of them, is not: they tell nothing.
---@nodoc
function Noise:finish()
  local now, keep = self.trace, self.settings.decay
  if not self.big or not (now.parts or now.ranks) then return end
  local own, all = inverse_rows(now)
  local small = now.parts and self.mean or self.small
  if now.ranks then
    small = op.allreduce(small, { comm = now.ranks.number, op = "mean" })
  end
  if now.replicas then
    small = op.allreduce(small, { comm = now.replicas.number, op = "mean" })
  end
  local noise = (small - self.big) / (own - all)
  local signal = self.big - noise * all
  local new = op.cat({ op.reshape(noise, { 1 }), op.reshape(signal, { 1 }),
    op.full { shape = { 1 }, value = 1, dtype = "f64" } }, { dim = 1 })
  local finite = op.lt(op.abs(noise), op.full { shape = {}, value = math.huge, dtype = "f64" })
  self.averages:assign(op.where(finite, self.averages * keep + new * (1 - keep), self.averages))
  self.plan.parts, self.plan.small, self.plan.big = now.parts, 1 / own, 1 / all
end

--- What a plan of `sections` micro-batches adds up: their mean square.  Parts of a
--- loss that is a sum are as much larger as the batch is.
---@param sections integer
---@return table[] jobs  of accumulate.trace
---@nodoc
function Noise:totals(sections)
  local parts = self.plan.parts
  if not parts then return {} end
  local job = { into = self.mean, values = {}, scales = {} }
  for s = 1, sections do
    local section = parts.sections[s]
    local factor = (parts.rows / section.rows) ^ ((parts.degree or -1) + 1)
    job.values[s], job.scales[s] = section.squares, factor ^ 2 / parts.count
  end
  self.plan.parts = nil
  return { job }
end

-- ---- to look at --------------------------------------------------------------

---@class mrt.GradientNoiseScale
---@field scale number?  S / |G|^2 in rows; nil where |G|^2 is estimated as 0 or less
---@field noise number   S, the trace of the covariance of the gradients of single rows
---@field signal number  |G|^2
---@field small number   rows of a part, in the step that was planned last
---@field big number     rows of the batch, over all ranks

--- What the steps so far tell; nil: nothing yet.
---@return mrt.GradientNoiseScale?
---@nodoc
function Noise:look()
  local noise, signal, weight = table.unpack(self.averages:totable())
  if weight == 0 then return nil end
  noise, signal = noise / weight, signal / weight
  return { scale = signal > 0 and noise / signal or nil, noise = noise, signal = signal,
    small = self.plan.small, big = self.plan.big }
end

return gradient_noise
