--- accumulate -- a step over a batch, one micro-batch after the other
---
--- Words, as the field has them: the *batch* (or mini-batch) is what one update
--- is computed from; a *micro-batch* is a part of it whose activations are in
--- memory at once.  Gradients of the micro-batches are added up, in f32, and are
--- those of the whole batch, to rounding.
---
--- The function is traced with a micro-batch's rows and with all rows.  Comparing
--- the two tells which values are sums or means over the batch; nothing is known
--- of losses by name.  What becomes the gradients is the micro plan, run for each
--- micro-batch; it writes accumulators only.  All after it (clipping, updates,
--- results that read totals) is the final plan, run once with the numbers of the
--- whole batch.
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local combine = require "mrt.accumulate.combine"
local gradient = require "mrt.accumulate.gradient"
local show = require "mrt.util.options".show
local with = require "mrt.util.options".with

local op = core.op

local accumulate = {}

--- A count (fewer do where the rows do not divide), a function of the step
--- (counted from 1 for each compiled function), or "auto": as many as a budget
--- makes necessary, without one 1.
---@alias mrt.Accumulate integer|"auto"|fun(step: integer): integer

local function refuse(text, ...)
  core.fail("value", "accumulate", text:format(...))
end

--- Check the option `accumulate` of mrt.compile.
---@param value any
function accumulate.check(value)
  if value == nil or value == "auto" or type(value) == "function" then return end
  if math.type(value) ~= "integer" or value < 1 then
    refuse("%s, a positive integer, a function of the step or \"auto\" wanted",
      show(value))
  end
end

--- Rows of the batch: of the first tensor argument.
---@param tensors mrt.Tensor[]
---@return integer
local function batch_of(tensors)
  local first = tensors[1]
  if not first or first:dim() == 0 then
    refuse("no batch to split: a first tensor argument with rows wanted, got %s",
      first and first:type() or "none")
  end
  return first:size(1)
end

accumulate.rows = batch_of

--- How many micro-batches the next step has.
---@param option mrt.Accumulate?
---@param step integer       from 1
---@param tensors mrt.Tensor[]  the tensors among the arguments
---@return integer k
function accumulate.count(option, step, tensors)
  if option == nil or option == "auto" then return 1 end
  local k = option
  if type(option) == "function" then
    k = ask.call("accumulate", "step " .. step, option, step)
    if math.type(k) ~= "integer" or k < 1 then
      refuse("%s gave %s for step %d, a positive integer wanted",
        ask.name(option), show(k), step)
    end
  end
  if k == 1 then return 1 end
  local rows = batch_of(tensors)
  if k > rows then
    refuse("%d micro-batches of a batch of %d rows, 1 to %d wanted", k, rows, rows)
  end
  return k
end

-- ---- the transform ---------------------------------------------------------

--- A transform.  It lies inside all others that change gradients: what these see is
--- of the whole batch, and what they add to it is computed once.
---@class mrt.Accumulation: mrt.Transform
accumulate.transform = { name = "accumulation" }

function accumulate.transform:grad(next, ys, xs, o)
  local state = self.trace.parts
  if not state then return next(ys, xs, o) end
  return gradient.grad(state, next, ys, xs, o)
end

-- ---- tracing ---------------------------------------------------------------

-- The sizes of the micro-batches: all but the last have the first, the last
-- perhaps the second.
local function split(rows, k)
  local size = (rows + k - 1) // k
  local rest = rows % size
  return rest > 0 and { size, rest } or { size }, (rows + size - 1) // size
end

local function trace_parts(state, once)
  for s, size in ipairs(state.sizes) do
    local section = { rows = size, marks = {}, reduced = {} }
    state.sections[s], state.now = section, section
    section.traced = once(function(like)
      local own = like:dim() > 0 and like:size(1) == state.rows
      return core.trace_input(like, own and size or nil)
    end)
    section.outputs = {}
    for i, x in ipairs(section.traced.outputs) do
      section.outputs[i] = core.current(x)
    end
    core.trace_section()
    state.batches[s] = core.batch(s - 1, state.rows, size, state.statistics)
  end
end

local function check_alike(state, whole)
  for s, section in ipairs(state.sections) do
    local got, wanted = section.traced, whole.traced
    if #section.marks ~= #whole.marks then
      refuse("with %d rows the function takes %d gradients, with %d it takes %d",
        section.rows, #section.marks, state.rows, #whole.marks)
    elseif #got.outputs ~= #wanted.outputs or #got.runtime ~= #wanted.runtime
      or #got.inputs ~= #wanted.inputs then
      refuse("with %d rows the function returns or reads other things than with %d",
        state.sizes[s], state.rows)
    end
  end
  if #whole.marks == 0 then
    refuse "the function takes no gradient (mrt.grad), so there is nothing to accumulate"
  end
end

-- ---- outputs ---------------------------------------------------------------

-- A result with a row for each row of the batch, of each section.
local function rows_output(state, i)
  local placement = state.batches[1]:placement(state.whole.traced.outputs[i],
    state.sections[1].outputs[i])
  if placement.kind ~= "shard" then return nil end
  if placement.outer ~= 1 then
    refuse("result %d, %s, does not have the batch as its first dimension", i,
      state.whole.traced.outputs[i]:type())
  end
  local values = {}
  for s, section in ipairs(state.sections) do
    local x, factor = section.outputs[i], (section.rows / state.rows) ^ -placement.degree
    values[s] = factor == 1 and x or op.mul(x, factor)
  end
  return values
end

-- Bytes of tensors as they are allocated, each `factor` times as long.
local function allocated(tensors, factor)
  local bytes, unit = 0, core.info().alignment
  for _, x in ipairs(tensors) do
    local own = math.tointeger(x:nbytes() * factor)
    bytes = bytes + (own + unit - 1) // unit * unit
  end
  return bytes
end

--- Bytes of the caller's tensors, and of the numbers that each plan reads anew.
---@param state table
---@param plans integer  that do
---@return integer
function accumulate.input_bytes(state, plans)
  local traced = state.whole.traced
  return allocated(traced.inputs, 1) + plans * #traced.runtime * core.info().alignment
end

-- Where each output comes from, and what the plans return.
local function place_outputs(state)
  local where, final, rows = {}, {}, {}
  for s in ipairs(state.sections) do rows[s] = {} end
  for i, x in ipairs(state.whole.traced.outputs) do
    local weighted = state.weighted[x]
    local values = not weighted and rows_output(state, i)
    if values then
      for s, value in ipairs(values) do table.insert(rows[s], value) end
      where[i] = { rows = #rows[1] }
    else
      final[#final + 1] = weighted or x
      where[i] = { final = #final, cut = not weighted and i or nil }
    end
  end
  return where, final, rows
end

local function roots(where, outputs)
  local list = {}
  for i, place in ipairs(where) do
    if place.cut then list[#list + 1] = outputs[i] end
  end
  return list
end

-- Totals that results and updates read become accumulators.
local function cut_totals(state, where)
  local cuts = {}
  for s, section in ipairs(state.sections) do
    cuts[s] = state.batches[s]:cut(roots(where, state.whole.traced.outputs),
      roots(where, section.outputs), true)
  end
  for i, cut in ipairs(cuts[1]) do
    if cut.kind == "shard" then
      local file, line = cut.reader:origin()
      refuse("%s:%d reads %s, of which each row has its own, where the whole "
        .. "batch is over: with gradients or statistics of it "
        .. "(allow_batch_statistics = true takes statistics of each micro-batch)",
        file, line, cut.whole:type())
    elseif not cut.marked then
      gradient.total(state, gradient.column(cuts, i))
    end
  end
end

-- ---- plans -----------------------------------------------------------------

local function read_by(plan)
  local ids = {}
  for _, v in ipairs(plan:values()) do if v.id then ids[v.id] = true end end
  return ids
end

-- The plan of section `s`: what the final plan reads is added up.
local function plan_part(state, s, rows, wanted, options, space)
  core.trace_section(s - 1)
  for _, job in ipairs(state.jobs) do
    if wanted[core.id(job.into)] then
      core.update("accumulate", { job.into, job.values[s] },
        { scale = job.scales[s], largest = job.largest })
    end
  end
  local traced = state.sections[s].traced
  return core.trace_plan(#traced.inputs + #traced.runtime, rows, options, space,
    state.batches[s])
end

--- Make the plan of what all micro-batches read, if there is anything, in a section of its
--- own.
---@param self mrt.Compiled
---@param state table
---@param entry table
---@param options table
function accumulate.plan_first(self, state, entry, options)
  local list = {}
  for variable, assign in pairs(state.first) do
    list[#list + 1] = { id = core.id(variable), variable = variable, assign = assign }
    entry.gathered[core.id(variable)] = true
  end
  if #list == 0 then return end
  table.sort(list, function(a, b) return a.id < b.id end)
  core.trace_section()
  for i, item in ipairs(list) do
    item.assign()
    entry.whole[i] = item.variable
  end
  entry.first = core.trace_plan(0, {}, options, self.space)
end

-- What a part says that it needs, as the budget of the whole step.
local function for_whole(err, outside)
  if outside and type(err) == "table" and err.needed then
    err.needed = err.needed + outside
  end
  return err
end

-- `outside`: bytes of the whole step that are no part's own.
local function plan_parts(self, state, entry, rows, options, outside)
  local wanted = read_by(entry.core)
  for s in ipairs(state.sizes) do
    local ok, made = pcall(plan_part, state, s, rows[s], wanted, options[s], self.space)
    if not ok then error(for_whole(made, outside and outside[s]), 0) end
    entry.parts[s] = made
  end
end

-- A budget is for the whole step: a micro plan gets what is left of it beside
-- what only the others need.
local function fit(self, state, entry, rows)
  local budget, info = self.options.memory, combine(entry):info()
  local overhead = math.floor(entry.core:device().overhead)
  if not budget or info.peak + overhead <= budget then return end
  local options, outside = {}, {}
  for s, part in ipairs(entry.parts) do
    local own = part:info()
    outside[s] = info.beside - own.persistent - own.outputs
    options[s] = with(self.options, "memory", math.max(1, budget - outside[s]))
  end
  plan_parts(self, state, entry, rows, options, outside)
  info = combine(entry):info()
  if info.peak + overhead <= budget then return end
  core.fail("budget", "accumulate", ("a step of %d micro-batches takes %d bytes, "
    .. "the budget is %d"):format(entry.count, info.peak + overhead, budget))
end

--- What the results and updates of the whole batch read of micro-batches becomes totals:
--- the jobs of `state` are then all that micro-batches add up.
---@param self mrt.Compiled
---@param state table  of accumulate.record
---@return table entry  without plans
---@return mrt.Tensor[] final   what the final plan returns
---@return mrt.Tensor[][] rows  by size: what the plans of micro-batches do
function accumulate.begin(self, state)
  local where, final, rows = place_outputs(state)
  cut_totals(state, where)
  for _, t in ipairs(self.transforms) do
    if t.totals then
      for _, job in ipairs(t:totals(#state.sizes)) do table.insert(state.jobs, job) end
    end
  end
  local traced = state.whole.traced
  return { runtime = traced.runtime, results = traced.results,
    where = where, rows = state.rows, size = state.sizes[1], count = state.count,
    accumulators = {}, gathered = {}, whole = {}, parts = {},
    input_bytes = accumulate.input_bytes(state, #state.sizes + 1),
    row_bytes = allocated(rows[1], state.rows / state.sizes[1]) }, final, rows
end

-- Options under which a swap policy hears of parameters as weights: of what runs once only
-- updates read them.
local function knowing_weights(state, options)
  local swap, weights = options.swap, {}
  if not swap then return options end
  for _, mark in ipairs(state.sections[1].marks) do
    for _, x in ipairs(mark.asked) do weights[core.id(x)] = true end
  end
  return with(options, "swap", function(v)
    if weights[v.id] then v.role = "weight" end
    return swap(v)
  end)
end

--- Make the plan of what runs once, behind all micro-batches, in the section of the whole
--- batch; the entry knows from then on which accumulators it reads.
---@param self mrt.Compiled
---@param state table
---@param entry table
---@param final mrt.Tensor[]
---@param plain table  options
---@return table<integer, boolean> wanted  ids of the variables that it reads
function accumulate.plan_final(self, state, entry, final, plain)
  local traced, options = state.whole.traced, knowing_weights(state, plain)
  entry.core = core.trace_plan(#traced.inputs + #traced.runtime, final,
    options.overflows and with(options, "trap", nil) or options, self.space)
  local wanted = read_by(entry.core)
  for _, job in ipairs(state.jobs) do
    local id = core.id(job.into)
    entry.accumulators[id] = wanted[id]
  end
  return wanted
end

local function make_plans(self, state)
  local entry, final, rows = accumulate.begin(self, state)
  local plain = with(self.options, "memory", nil)
  accumulate.plan_final(self, state, entry, final, plain)
  plan_parts(self, state, entry, rows, { plain, plain })
  accumulate.plan_first(self, state, entry, plain)
  fit(self, state, entry, rows)
  return entry
end

--- Inside a trace: trace the function over its micro-batches and over the whole batch.
---@param self mrt.Compiled
---@param trace mrt.Trace
---@param once fun(input: fun(like: mrt.Tensor): mrt.Tensor): table  calls the function
---@param k integer  2 or more
---@param tensors mrt.Tensor[]
---@return table state
function accumulate.record(self, trace, once, k, tensors)
  local rows = batch_of(tensors)
  local sizes, count = split(rows, k)
  local state = { rows = rows, sizes = sizes, count = count, sections = {},
    batches = {}, jobs = {}, weighted = {}, pool = self.accumulators,
    taken = {}, first = {}, whole = { marks = {}, reduced = {} },
    statistics = self.options.allow_batch_statistics or false }
  trace.parts = state
  trace_parts(state, once)
  state.now = state.whole
  state.whole.traced = once(core.trace_input)
  check_alike(state, state.whole)
  return state
end

--- Inside a trace: trace the function over its micro-batches and the whole
--- batch, and plan both.
---@param self mrt.Compiled
---@param trace mrt.Trace
---@param once fun(input: fun(like: mrt.Tensor): mrt.Tensor): table  calls the function
---@param k integer  2 or more
---@param tensors mrt.Tensor[]
---@return table entry
function accumulate.trace(self, trace, once, k, tensors)
  local state = accumulate.record(self, trace, once, k, tensors)
  local start = os.clock()
  local entry = make_plans(self, state)
  entry.planning_us = (os.clock() - start) * 1e6
  return entry
end

-- ---- running ---------------------------------------------------------------

--- All plans of an entry, in the order in which they run.
---@param entry table  of accumulate.trace, of a pipeline (`plans`), or of one plan
---@return table[]
function accumulate.plans(entry)
  if entry.plans then return entry.plans end
  local list = { entry.first }
  for _, part in ipairs(entry.parts or {}) do list[#list + 1] = part end
  list[#list + 1] = entry.core
  return list
end

--- Swap out what is swapped between steps and begin what the plans need at all times.
---@param entry table
function accumulate.start(entry)
  if entry.started then return end
  local plans = accumulate.plans(entry)
  -- the last one first: what it swaps leaves memory before the others take any
  for i = #plans, 1, -1 do plans[i]:start() end
  entry.started = true
end

--- Run all micro-batches: the accumulators have the sums, and nothing else has
--- changed.
---@param entry table
---@param inputs any[]
---@param run integer  how many steps were before, for random numbers
---@return mrt.Tensor[] rows  results with a row for each row of the batch
function accumulate.run_parts(entry, inputs, run)
  local results
  accumulate.start(entry)
  if entry.first then entry.first:run_part({}, 0, 0, run) end
  for i = 0, entry.count - 1 do
    local row = i * entry.size
    local last = row + entry.size > entry.rows
    results = entry.parts[last and 2 or 1]:run_part(inputs, row, entry.rows, run,
      results)
  end
  return results
end

--- Run a step: its results, in order.  Nothing but the accumulators has changed
--- before the final plan updates, and the next step begins them anew.
---@param entry table
---@param inputs any[]
---@param run integer  as for run_parts
---@return mrt.Tensor[] outputs
function accumulate.run(entry, inputs, run)
  local rows = accumulate.run_parts(entry, inputs, run)
  local final, outputs = entry.core:run_part(inputs, 0, 0, run), {}
  for i, place in ipairs(entry.where) do
    outputs[i] = place.rows and rows[place.rows] or final[place.final]
  end
  return outputs
end

return accumulate
