--- step.lua -- a step in stages: traced, planned and run
---
--- All ranks trace the whole function, over a micro-batch and over the batch, as
--- accumulation does, and cut it alike.  Each makes the plans of its own parts: of F, B and
--- W, which are run for each micro-batch, and what runs once, with this stage's parameters.
--- Whatever goes from one plan to another is an output of the one and an input of the other.
---
--- SPDX-License-Identifier: MIT

local accumulate = require "mrt.accumulate"
local core = require "mrt.core"
local describe = require "mrt.pipeline.describe"
local fit = require "mrt.pipeline.fit"
local hold = require "mrt.pipeline.hold"
local narrow = require "mrt.pipeline.narrow"
local Maker = require "mrt.pipeline.parts"
local phases = require "mrt.pipeline.phases"
local program = require "mrt.pipeline.program"
local run = require "mrt.pipeline.run"
local with = require "mrt.util.options".with

local op = core.op

local step = {}

local function refuse(text, ...) core.fail("value", "pipeline", text:format(...)) end

-- ---- what is added up, by whom ---------------------------------------------------

---@class mrt.PipelineSum
---@field job table          of accumulation
---@field values table<integer, mrt.Tensor>  by part: what it adds
---@field into table<integer, mrt.Tensor>  by part of this stage: what it adds it up in
---@field gradient boolean
---@field stages integer[]   that have a summand

local function parts_of(values)
  local parts = {}
  for part in pairs(values) do parts[#parts + 1] = part end
  table.sort(parts)
  return parts
end

-- What each part of this stage adds up in: the first in the accumulator, others beside it.
local function places_of(settings, job, parts)
  local into = {}
  for _, part in ipairs(parts) do
    if settings:home(part) == settings.stage then
      into[part] = not next(into) and job.into or core.variable(op.full {
        shape = job.into:get_shape(), value = 0, dtype = job.into:get_dtype() })
    end
  end
  return into
end

local function sums_of(state, settings)
  local graph, list = state.sections[1].pipeline.graph, {}
  for i, job in ipairs(state.jobs) do
    local values, gradient = phases.values(graph, job.values[1])
    local parts = parts_of(values)
    list[i] = { job = job, values = values, gradient = gradient,
      stages = settings:stages_of(parts), into = places_of(settings, job, parts) }
  end
  return list
end

-- Options under which no sum is swapped that several parts or stages add up: it is sent, or
-- read, outside of plans.
local function staying(options, sums)
  local swap, stays = options.swap, {}
  if not swap then return options end
  for _, sum in ipairs(sums) do
    local parts = 0
    for _ in pairs(sum.into) do parts = parts + 1 end
    for _, x in pairs((not sum.gradient or #sum.stages > 1 or parts > 1) and sum.into or {}) do
      stays[core.id(x)] = true
    end
    if next(sum.into) == nil then stays[core.id(sum.job.into)] = true end
  end
  return with(options, "swap", function(v) return not stays[v.id] and swap(v) end)
end

-- ---- what runs once --------------------------------------------------------------

local function plan_add(maker, into)
  core.trace_section()
  core.update("accumulate", { into, core.trace_input(into) }, { scale = 1 })
  return core.trace_plan(1, {}, maker.options, maker.space)
end

-- Plans that add to an accumulator, or write it, what another stage sends.
local function plan_tied(maker, sum)
  local into, plans = sum.job.into, { into = sum.job.into, stages = sum.stages }
  plans.add = plan_add(maker, into)
  core.trace_section()
  core.assign(into, core.trace_input(into))
  plans.write = core.trace_plan(1, {}, maker.options, maker.space)
  plans.nbytes = into:nbytes()
  return plans
end

local function has(list, s)
  for _, x in ipairs(list) do if x == s then return true end end
  return false
end

local function plan_shared(maker, entry)
  entry.tied, entry.totals, entry.beside = {}, {}, {}
  for _, sum in ipairs(maker.sums) do
    for _, x in pairs(maker.wanted[core.id(sum.job.into)] and sum.into or {}) do
      if x ~= sum.job.into then
        entry.accumulators[core.id(x)] = true
        table.insert(entry.beside, { plan = plan_add(maker, sum.job.into), from = x })
      end
    end
    if not sum.gradient then
      table.insert(entry.totals, { into = sum.job.into, root = sum.stages[1] - 1,
        nbytes = sum.job.into:nbytes(), read = maker.wanted[core.id(sum.job.into)] })
    elseif #sum.stages > 1 and has(sum.stages, maker.settings.stage) then
      table.insert(entry.tied, plan_tied(maker, sum))
    end
  end
end

local function first_rows(events, size)
  local out = {}
  for _, e in ipairs(events) do
    local key = e.does .. e.part
    out[key] = out[key] or (e.micro - 1) * size
  end
  return out
end

-- What messages bring to the parts of this stage; bytes of each message, to any.
local function arrivals(maker, parts)
  local came, sizes = {}, {}
  local function note(part, name, xs)
    local all = hold.slot(part, 0, name)
    sizes[all] = 0
    for k, x in ipairs(xs) do
      x = maker:stored(x)
      sizes[all] = sizes[all] + x:nbytes()
      if parts[part] then
        came[hold.slot(part, 0, name .. k)] = { bytes = hold.allocated(x), shape = x:get_shape(),
          dtype = x:get_dtype() }
      end
    end
  end
  local graph = maker.graph
  for part = 1, graph.q do
    local xs = {}
    for k, node in ipairs(graph.ends[part - 1] or {}) do xs[k] = node.x end
    note(part, "in", xs)
    note(part, "dy", graph.dys[part] or {})
  end
  return came, sizes
end

-- Bytes of the results with a row for each row of the batch that this stage makes, or gets.
local function result_bytes(entry, makes)
  local bytes = 0
  for _, r in ipairs(entry.results_of) do
    if (r.stage == entry.settings.stage) == makes then bytes = bytes + r.allocated end
  end
  return bytes
end

-- The most of what is received once the micro-batches are through: one thing after the
-- other, and results, which stay.
local function largest_behind(entry)
  local most = 0
  for _, list in ipairs { entry.tied, entry.totals } do
    for _, t in ipairs(list) do most = math.max(most, hold.allocated(t.into)) end
  end
  return math.max(most, result_bytes(entry, false))
end

local function check_alike(state, m)
  if #state.sizes > 1 or state.count ~= m then
    refuse("a batch of %d rows in %d micro-batches, a multiple of %d wanted", state.rows, m, m)
  end
  if not state.sections[1].pipeline then refuse "the function takes no gradient (mrt.grad)" end
end

-- Add the plans of phases and how often they run in a step.
local function add_phases(entry, list, runs)
  for part = entry.settings.stage, entry.order.p * entry.order.v, entry.order.p do
    for _, kind in ipairs { "F", "B", "W" } do
      local phase = entry.stages[part][kind]
      if phase then list[#list + 1], runs[#runs + 1] = phase.plan, entry.count end
    end
  end
end

-- All plans in the order in which they first run, and how often each does.
local function list_plans(entry, state)
  local list, runs = { entry.first }, { entry.first and 1 }
  add_phases(entry, list, runs)
  entry.input_bytes = accumulate.input_bytes(state, #list + (entry.first and 0 or 1))
  for _, sum in ipairs(entry.beside) do list[#list + 1], runs[#runs + 1] = sum.plan, 1 end
  for _, t in ipairs(entry.tied) do
    local lowest = t.stages[1] == entry.settings.stage
    list[#list + 1], runs[#runs + 1] = t.add, lowest and #t.stages - 1 or 0
    list[#list + 1], runs[#runs + 1] = t.write, lowest and 0 or 1
  end
  list[#list + 1], runs[#runs + 1] = entry.core, 1
  return list, runs
end

-- Plan what runs once within `memory`, or in as few bytes as may be where that is too
-- little; nil: nothing is found.
local function plan_final_within(self, state, entry, final, plain, memory)
  for _ = 1, 2 do
    local within = with(with(plain, "memory", memory), "no_swap", true)
    local ok, err = pcall(accumulate.plan_final, self, state, entry, final, within)
    if ok then return err end
    if type(err) ~= "table" or err.code ~= "budget" then error(err, 0) end
    memory = err.needed
    if not memory then return nil end
  end
end

-- What runs once: within a budget if its bytes are more alone.  `entry.least` is its plan in
-- as few bytes as may be, for when there is no room for that beside all else.
local function plan_final(self, state, entry, final, plain)
  local memory = self.options.memory
  local wanted = accumulate.plan_final(self, state, entry, final, plain)
  if not memory then return wanted end
  local chosen, info = entry.core, entry.core:info()
  if info.peak + math.floor(entry.core:device().overhead) > memory then
    local again = plan_final_within(self, state, entry, final, plain, memory)
    wanted, chosen = again or wanted, again and entry.core or chosen
  end
  local less = plan_final_within(self, state, entry, final, plain, info.working_set)
    and entry.core:info().transient < chosen:info().transient
  entry.core, entry.least = chosen, less and entry.core or nil
  return wanted
end

-- Results with a row for each row of the batch, of a micro-batch, and which part makes each.
local function rows_of(state, list)
  local graph, out = state.sections[1].pipeline.graph, {}
  for i, x in ipairs(list) do out[i] = { x = x, part = phases.rows(graph, x) } end
  return out
end

-- The same of the batch: the stage, the shape.
local function results_of(maker)
  local out, state = {}, maker.state
  for i, row in ipairs(maker.rows) do
    local shape = row.x:get_shape()
    local bytes = row.x:nbytes() // shape[1] * state.rows
    shape[1] = state.rows
    out[i] = { stage = maker.settings:home(row.part), shape = shape, dtype = row.x:get_dtype(),
      nbytes = bytes, allocated = hold.rounded(bytes) }
  end
  return out
end

local function maker_of(self, state, plain, wanted, sums, rows)
  local settings = self.options.pipeline
  return setmetatable({ state = state, settings = settings, order = settings:order(state.count),
    graph = state.sections[1].pipeline.graph, sums = sums, wanted = wanted,
    rows = rows_of(state, rows),
    options = plain, space = self.space, dtypes = {}, kept = {}, unrounded = {},
    pieces = {}, formats = {}, scales = self.options.delayed and self.options.delayed.phases },
    Maker)
end

-- The parts of this stage: who knows what each may hold.
local function keepers_of(maker)
  local settings, keepers = maker.settings, {}
  for part = settings.stage, maker.graph.q, settings.p do keepers[part] = maker:keeper(part) end
  return keepers
end

-- All held, unless nothing shall be.
local function layouts_of(maker, keepers)
  local layouts = {}
  for part, keeper in pairs(keepers) do
    layouts[part] = maker:layout(part, not maker.settings.again and keeper:first() or nil)
  end
  return layouts
end

-- Plans of all that the stage does, with `layouts` held; what else is known of it.
local function plan_stage(self, state, entry, maker, layouts)
  for part, layout in pairs(layouts) do entry.stages[part] = maker:plan(part, layout) end
  plan_shared(maker, entry)
  accumulate.plan_first(self, state, entry, maker.options)
  entry.events = program.of(maker.order, maker.settings.stage)
  entry.first_rows = first_rows(entry.events, entry.size)
  entry.came, entry.sizes = arrivals(maker, entry.stages)
  entry.behind = largest_behind(entry)
  entry.reserved = result_bytes(entry, true)
  entry.held = entry.reserved + hold.bytes(maker.settings.stage, entry.stages, entry.events,
    entry.came, entry.behind)
  entry.parts, entry.plans, entry.runs = {}, list_plans(entry, state)
end

-- Within the budget, if there is one.
local function fit_stage(self, state, entry, maker, keepers)
  local memory = self.options.memory
  if not memory then return end
  local function list(of) return list_plans(of, state) end
  local o = { keepers = keepers, memory = memory, list = list }
  local ok, err = pcall(fit, maker, entry, o)
  if not ok then
    if type(err) ~= "table" or err.code ~= "budget" or not entry.least then error(err, 0) end
    entry.core = entry.least
    fit(maker, entry, o)
  end
  entry.plans, entry.runs = list(entry)
end

-- How many values phases scale; a trace that did not know begins again.
local function look_at_scales(self, maker, keepers, done)
  local all = { layouts_of(maker, keepers) }
  if self.options.memory and not maker.settings.again then
    all[2] = {}
    for part, keeper in pairs(keepers) do
      local front = keeper:front()
      all[2][part] = maker:layout(part, front[#front])
    end
  end
  local ok, err = pcall(maker.scales.look, maker.scales, maker, all)
  if not ok then
    done()
    error(err, 0)
  end
end

local function plan_all(self, state, trace)
  local settings = self.options.pipeline
  local entry, final, rows = accumulate.begin(self, state)
  local sums = sums_of(state, settings)
  local plain = with(with(with(self.options, "pipeline", nil), "memory", nil), "delayed", nil)
  plain = staying(plain, sums)
  local wanted = plan_final(self, state, entry, final, plain)
  trace.stages:check_final(wanted)
  local maker = maker_of(self, state, plain, wanted, sums, rows[1])
  entry.results_of = results_of(maker)
  entry.settings, entry.order, entry.stages = settings, maker.order, {}
  entry.owned, settings.owned = trace.stages.owned, trace.stages.owned
  entry.said = run.describe(maker.order, maker.graph)
  local keepers = keepers_of(maker)
  local done, names = narrow.look(maker, layouts_of(maker, keepers), keepers)
  entry.names, entry.packs = names, maker.packs
  if maker.scales then look_at_scales(self, maker, keepers, done) end
  plan_stage(self, state, entry, maker, layouts_of(maker, keepers))
  fit_stage(self, state, entry, maker, keepers)
  done()
  if maker.scales then maker.scales:settle(entry) end
  return entry
end

--- Inside a trace: trace the function over a micro-batch and over the batch, and plan what
--- this stage does of it.
---@param self mrt.Compiled
---@param trace mrt.Trace
---@param once fun(input: fun(like: mrt.Tensor): mrt.Tensor): table  calls the function
---@param m integer  micro-batches
---@param tensors mrt.Tensor[]
---@return table entry
function step.trace(self, trace, once, m, tensors)
  local state = accumulate.record(self, trace, once, m, tensors)
  local start = os.clock()
  check_alike(state, m)
  local entry = plan_all(self, state, trace)
  entry.planning_us = (os.clock() - start) * 1e6
  entry.run, entry.measured, entry.describe = run.of(entry), run.measured(entry), describe
  return entry
end

return step
