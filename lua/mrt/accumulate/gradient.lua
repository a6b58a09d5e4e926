--- gradient.lua -- mrt.grad while a function is traced for accumulation
---
--- A loss is computed from values that are sums over the batch, its terms T; for
--- most it is one itself.  By the chain rule
---
---     d loss / d p  =  sum over T of  d loss / d T  *  d T / d p
---
--- where the second factor, too, is a sum over the batch: it is accumulated.  The
--- first is computed once, from the totals.  So means, sums, token-weighted means,
--- weight decay and functions of them all give the gradient of the whole batch.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local trace = require "mrt.compile.trace"
local with = require "mrt.util.options".with

local op = core.op

local gradient = {}

local function refuse(text, ...)
  core.fail("gradient", "accumulate", text:format(...))
end

-- ---- values ----------------------------------------------------------------

local dtypes = core.dtypes()

local function wide(x)
  return dtypes[x:get_dtype()].narrow and op.cast(x, "f32") or x
end

local function narrow(x, like)
  return x:get_dtype() == like:get_dtype() and x or op.cast(x, like:get_dtype())
end

local function wide_all(values)
  local out = {}
  for s, x in ipairs(values) do out[s] = wide(x) end
  return out
end

-- A value of its own, which no other is mistaken for.
local function own(x) return op.reshape(x, x:get_shape()) end

gradient.own = own

-- ---- accumulators ----------------------------------------------------------

-- Functions take turns, so all traces of one share them by type.
local function variable(state, like, name)
  local type = like:type()
  local n = (state.taken[type] or 0) + 1
  state.taken[type] = n
  local key = ("%s %d"):format(type, n)
  state.pool[key] = state.pool[key]
    or core.variable(op.full { shape = like:get_shape(), value = 0,
      dtype = like:get_dtype() })
  state.pool[key]:set_name(name)
  return state.pool[key]
end

-- Add `values`, one of each section, up: what a part of n rows has counts
-- (n / N)^-degree.
local function add_up(state, values, degree, name)
  local job = { values = values, scales = {}, into = variable(state, values[1], name) }
  for s, section in ipairs(state.sections) do
    job.scales[s] = (section.rows / state.rows) ^ -degree
  end
  table.insert(state.jobs, job)
  return job.into
end

--- What has been made of gradients alone, linearly, in each section, added up; nil: the
--- loss is a function of several sums over the batch, so gradients that are handed back
--- are more than sums of these.  To be asked for while the whole batch is traced.
---@param state table           of accumulate.trace
---@param values mrt.Tensor[]   one of each section, which nothing else is
---@param name string
---@return mrt.Tensor?
function gradient.made(state, values, name)
  local degree = state.whole.marks[#state.whole.marks].degree
  if not degree then return nil end
  local total = own(narrow(add_up(state, wide_all(values), degree, name), values[1]))
  for s, value in ipairs(values) do
    state.batches[s]:mark(total, value, "partial", degree, 0)
  end
  return total
end

--- Item `i` of the cuts of each section: they stand for the same value.
---@param cuts table[][]
---@param i integer
---@return table[]
function gradient.column(cuts, i)
  local column = {}
  for s, list in ipairs(cuts) do
    column[s] = list[i]
    if not list[i] or list[i].kind ~= cuts[1][i].kind
      or list[i].degree ~= cuts[1][i].degree then
      refuse "the last micro-batch, which is smaller, is computed in another way"
    end
  end
  return column
end

local function of_each(column, field)
  local values = {}
  for s, cut in ipairs(column) do values[s] = cut[field] end
  return values
end

--- Read a total over the batch from an accumulator from now on.
---@param state table
---@param column table[]  of gradient.column
function gradient.total(state, column)
  local whole = column[1].whole
  core.trace_replace(whole, add_up(state, of_each(column, "micro"),
    column[1].degree, whole:get_name() or "total"))
end

-- ---- terms -----------------------------------------------------------------

local function name_of(x) return (x:get_name() or "x") .. ".gradient" end

local function unsplittable(cut)
  local file, line = cut.reader:origin()
  refuse("the loss is no function of sums over the batch: %s:%d reads %s, %s; "
    .. "mrt.grad(loss, params, {denominator = t}) weights each micro-batch by t%s",
    file, line, cut.whole:type(), cut.kind == "shard"
      and "of which each row has its own, with others or with totals"
      or "not one number", cut.kind == "shard"
      and ", allow_batch_statistics = true takes totals of each" or "")
end

-- The loss itself as its only term, if it is one.
local function single(state, mark, parts)
  local column = {}
  for s, part in ipairs(parts) do
    column[s] = state.batches[s]:placement(mark.loss, part.loss)
    column[s].whole, column[s].micro = mark.loss, part.loss
  end
  return column[1].kind == "partial" and gradient.column({ { column[1] },
    column[2] and { column[2] } }, 1) or nil
end

local function terms(state, mark, parts)
  local cuts, list = {}, {}
  for s, part in ipairs(parts) do
    cuts[s] = state.batches[s]:cut({ mark.loss }, { part.loss }, false)
  end
  for i, cut in ipairs(cuts[1]) do
    if cut.kind ~= "partial" or cut.whole:numel() ~= 1 then unsplittable(cut) end
    list[i] = gradient.column(cuts, i)
  end
  return list
end

-- ---- handing back ----------------------------------------------------------

local function plus(a, b) return a and b and op.add(a, b) or a or b end

-- Values `make(s)` of each section, wide enough to add up.
local function each_part(parts, make)
  local values = {}
  for s, part in ipairs(parts) do values[s] = wide(make(part, s)) end
  return values
end

-- The gradient of a loss that is a total.
local function of_single(state, mark, parts, degree)
  local dx = {}
  for i, x in ipairs(mark.xs) do
    if mark.placements[i].kind == "replicate" then
      local values = each_part(parts, function(part) return part.dx[i] end)
      dx[i] = narrow(add_up(state, values, degree, name_of(x)), x)
    end
  end
  return dx
end

-- Gradients of a term of each section.  A pipeline takes those where it is cut, too.
local function derive(state, parts, column)
  local lists = {}
  for s, part in ipairs(parts) do
    local section = state.sections[s]
    lists[s] = (section.derive or trace.derive)(column[s].micro, part.xs, false,
      part.asked)
  end
  return lists
end

-- Add to dx what the gradient has by way of one term.
local function add_term(state, mark, parts, column, slope, dx)
  local lists = derive(state, parts, column)
  if not column[1].marked then gradient.total(state, column) end
  slope = op.reshape(slope, {})
  for i, x in ipairs(mark.xs) do
    if lists[1][i] and mark.placements[i].kind == "replicate" then
      local values = each_part(parts, function(_, s) return lists[s][i] end)
      local sum = narrow(add_up(state, values, column[1].degree, name_of(x)), x)
      dx[i] = plus(dx[i], op.mul(sum, op.cast(slope, x:get_dtype())))
    end
  end
end

-- The gradient of a loss that is a function of totals.
local function of_terms(state, mark, parts, list)
  local xs, asked, dx = {}, {}, {}
  for j, column in ipairs(list) do xs[j], asked[j] = column[1].whole, column[1].whole end
  table.move(mark.xs, 1, #mark.xs, #list + 1, xs)
  table.move(mark.asked, 1, #mark.asked, #list + 1, asked)
  local outer = trace.derive(mark.loss, xs, true, asked)
  if mark.scale then
    for i, dy in pairs(outer) do
      if dy then outer[i] = op.mul(dy, mark.scale:to(dy:get_dtype())) end
    end
  end
  for i = 1, #mark.xs do dx[i] = outer[#list + i] end
  for j, column in ipairs(list) do
    if outer[j] then add_term(state, mark, parts, column, outer[j], dx) end
  end
  return dx
end

-- Micro-batches weighted by the user's denominators.
local function of_weights(state, mark, parts)
  local total = add_up(state, each_part(parts, function(part)
    return op.cast(part.denominator, "f32")
  end), 0, "denominator")
  local function average(make, like, name)
    local values = each_part(parts, function(part)
      local x = wide(make(part))
      local t = op.cast(part.denominator, x:get_dtype())
      return op.where(op.ne(t, 0), op.mul(x, t), 0) -- 0 / 0 counts nothing
    end)
    local sum = add_up(state, values, 0, name)
    return narrow(op.div(sum, op.cast(total, sum:get_dtype())), like)
  end
  local dx = {}
  for i, x in ipairs(mark.xs) do
    if mark.placements[i].kind == "replicate" then
      dx[i] = average(function(part) return part.dx[i] end, x, name_of(x))
    end
  end
  state.weighted[mark.given] = average(function(part) return part.loss end,
    mark.loss, "loss")
  return dx
end

local function zeros(x)
  return op.full { shape = x:get_shape(), value = 0, dtype = x:get_dtype() }
end

-- How what is handed back for input `i` placements.
local function mark_kind(mark, i, total)
  local x = mark.placements[i]
  if mark.kind == "replicate" then return x.kind, x.degree, x.outer end
  if not total then return "unknown", 0, 0 end
  if x.kind == "replicate" then return "partial", total, 0 end
  if x.kind == "shard" then return "shard", total, x.outer end
  return "unknown", 0, 0
end

local function mark_all(state, mark, parts, dx, total)
  for s, part in ipairs(parts) do
    for i in ipairs(mark.xs) do
      state.batches[s]:mark(dx[i], part.handed[i], mark_kind(mark, i, total))
    end
  end
end

-- What mrt.grad returns while the whole batch is traced.
local function hand_back(state, mark, parts)
  for i, x in ipairs(mark.xs) do
    mark.placements[i] = state.batches[1]:placement(x, parts[1].xs[i])
  end
  local dx, column
  if mark.denominator then
    dx = of_weights(state, mark, parts)
  else
    column = single(state, mark, parts)
    if column then
      mark.degree = column[1].degree
      dx = of_single(state, mark, parts, mark.degree)
    else
      local list = terms(state, mark, parts)
      if #list == 0 then mark.kind = "replicate" end
      dx = #list > 0 and of_terms(state, mark, parts, list) or mark.dx
    end
  end
  for i, x in ipairs(mark.xs) do
    local replicated = mark.placements[i].kind == "replicate"
    dx[i] = own(not replicated and mark.dx[i] or dx[i] or zeros(x))
  end
  mark_all(state, mark, parts, dx, column and column[1].degree)
  return dx
end

local function parts_of(state, n)
  local parts = {}
  for s, section in ipairs(state.sections) do
    parts[s] = section.marks[n]
    if not parts[s] then
      refuse("with %d rows the function takes more gradients than with %d",
        state.rows, section.rows)
    end
  end
  return parts
end

-- One scalar whose gradient is asked for.
local function one_loss(ys, dys)
  if #ys == 1 and not dys then return ys[1] end
  local loss
  for i, y in ipairs(ys) do
    local term = dys and op.sum(op.mul(y, op.detach(dys[i]))) or op.reshape(y, {})
    loss = plus(loss, term)
  end
  return loss
end

--- Inside accumulation: gradients of the whole batch for what comes after, of a
--- micro-batch for what it is computed from.
---@param state table  of accumulate.trace
---@param next function  the core's gradients
---@param ys mrt.Tensor[]
---@param xs mrt.Tensor[]
---@param o mrt.GradOptions  with `scale`: of the gradient
---@return mrt.Tensor[]
function gradient.grad(state, next, ys, xs, o)
  local last = state.now == state.whole -- what is handed back may be a variable
  local dx = next(ys, xs, with(o, "allow_unused", o.allow_unused or last))
  local mark = { loss = core.current(one_loss(ys, o.grad_outputs)), given = ys[1],
    xs = {}, asked = {}, dx = dx, denominator = o.denominator, placements = {}, scale = o.scale }
  for i, x in ipairs(xs) do mark.xs[i], mark.asked[i] = core.current(x), x end
  table.insert(state.now.marks, mark)
  if last then
    return hand_back(state, mark, parts_of(state, #state.now.marks))
  end
  mark.handed = {}
  for i, g in ipairs(dx) do mark.handed[i] = own(g) end
  return table.move(mark.handed, 1, #dx, 1, {}) -- the caller's
end

return gradient
