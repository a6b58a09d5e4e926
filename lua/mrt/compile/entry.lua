--- entry.lua -- a compiled function traced and planned
---
--- An *entry* is what is kept of one: its plan (`core`; of micro-batches, `parts`
--- with two), the inputs read anew before every run (`runtime`), and how to make
--- its results of the plan's outputs (`results`; `single`: the one output is the
--- result).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local accumulate = require "mrt.accumulate"
local budget = require "mrt.plan.budget"
local combine = require "mrt.accumulate.combine"
local compress = require "mrt.policy.compress"
local process = require "mrt.compile.process"
local retrace = require "mrt.compile.retrace"
local signature = require "mrt.compile.signature"
local swap = require "mrt.policy.swap"
local trace = require "mrt.compile.trace"

local entry = {}

-- Inside a trace: call the function once, on inputs of the trace.
local function once(self, now, new_input, n, ...)
  local args, inputs, templates, outputs = { ... }, {}, {}, {}
  for i = 1, n do args[i] = signature.stand_in(args[i], new_input, inputs, false) end
  local results = now:call(self.fn, table.unpack(args, 1, n))
  for i = 1, results.n do
    templates[i] = signature.record(results[i], outputs, false)
  end
  return { inputs = inputs, outputs = outputs, runtime = now.runtime,
    results = templates }
end

-- The same over micro-batches, in stages if so it is wanted.
local function plan_parts(self, now, k, tensors, n, ...)
  local args = table.pack(...)
  local how = self.options.pipeline and require "mrt.pipeline.step" or accumulate
  return how.trace(self, now, function(new_input)
    return once(self, now, new_input, n, table.unpack(args, 1, n))
  end, k, tensors)
end

-- Inside a trace: call the function on inputs of the trace, and plan it, in k
-- micro-batches.
local function plan_one(self, now, group, k, tensors, n, ...)
  local batch = tensors[1]
  self.options.offer = k == 1 and not self.quiet -- a plan, for the message of a refusal
  group.key = core.trace_keys(group.key)
  now.rows = batch and batch:dim() > 0 and batch:size(1) or 1
  if k > 1 then return plan_parts(self, now, k, tensors, n, ...) end
  local made = once(self, now, core.trace_input, n, ...)
  local start = os.clock()
  self.options.rows = self.options.ranks and batch and batch:dim() > 0 and now.rows or nil
  self.options.like = self.like -- of other sizes; its order and schedule may do
  made.core = core.trace_end(#made.inputs + #made.runtime, made.outputs,
    self.options, self.space)
  self.like, self.options.like = made.core, nil -- a plan is kept no longer than that
  made.planning_us = (os.clock() - start) * 1e6
  made.single = #made.results == 1 and made.results[1].output == 1
  made.inputs, made.outputs = nil, nil
  return made
end

-- Each attempt is a trace of its own.
local function attempt(self, old, ...)
  local now = trace.new(self.options, self.transforms)
  if old then return core.trace_again(old.core, now, plan_one, self, now, ...) end
  return core.trace(now, plan_one, self, now, ...)
end

-- A trace may ask to be made again: once for each reason.
local function settle(self, old, group, k, ...)
  for _, t in ipairs(self.transforms) do
    if t.prepare then t:prepare(k) end
  end
  return retrace.settle(attempt, self, old, group, k, ...)
end

local function is_budget(err)
  return type(err) == "table" and err.code == "budget"
end

local function free(made)
  for _, plan in ipairs(accumulate.plans(made)) do plan:free() end
end

-- What is left on the rank of a mesh where least is: what ranks compute together they have to
-- plan alike.
local function least_of(mesh, bytes)
  local all = mesh and mesh.all
  if not all or all.size == 1 then return bytes end
  return math.tointeger(all:allreduce({ bytes }, { op = "min" })[1])
end

-- Plan under a bound on the process: without a budget, to see what is the step's of
-- what is in memory; that plan, if it fits, or the budget for another.
local function within_process(self, try, quick, ...)
  local options = self.options
  if not options.process then return nil end
  options.memory = nil
  local ok, made = try(quick, ...)
  if not ok then error(made, 0) end
  local whole = made.parts and combine(made) or made.core
  options.memory, options.bound = process.left(options.process, whole, self.space)
  options.memory = least_of(options.mesh, options.memory)
  if whole:info().peak <= options.memory then return made end
  free(made)
end

-- Micro-batches that gather weights each for itself need not keep them all.
local function gathering_each(self, k, try, ...)
  if k == 1 or not self.options.shard then return nil end
  self.options.gather_each = true
  local ok, made = try(true, ...)
  return ok and made or nil
end

-- Swapping that steps in micro-batches fall back on, unless the script says what may.
local function swapping(self, k, try, ...)
  local options = self.options
  if k == 1 or self.given.swap ~= nil then return nil end
  local made -- in less than with all swapped no other policy fits either
  for _, policy in ipairs(budget.fallbacks(options.any)) do
    options.swap = swap.together(swap.decider(policy), k)
    local swapped, other = try(true, ...)
    if made and swapped then free(made) end
    if not swapped then break end
    made = other
  end
  options.swap = nil
  return made
end

local function seconds_of(made)
  return (made.parts and combine(made) or made.core):info().seconds
end

-- The quicker of two that are plans; what is not taken is freed.
local function quicker(ok, made, fits, other)
  if not fits then return ok, made end
  if ok and seconds_of(made) <= seconds_of(other) then
    free(other)
    return ok, made
  end
  if ok then free(made) end
  return fits, other
end

local PARTS <const> = { 0.25, 0.5, 1 } -- of what is kept, that are tried

-- Where what is kept may be kept smaller within a budget: as much of it as makes the
-- step quickest, the largest values first.
local function compressing(self, try, ok, made, ...)
  local options = self.options
  if not options.tolerated or not options.memory then return ok, made end
  for _, part in ipairs(PARTS) do
    options.compress = compress.part(options.tolerated, part)
    local fits, other = try(true, ...)
    if not fits and not is_budget(other) then error(other, 0) end
    ok, made = quicker(ok, made, fits, other)
  end
  options.compress = nil
  return ok, made
end

-- What steps in micro-batches may do besides.
local function otherwise(self, k, try, ...)
  return gathering_each(self, k, try, ...) or swapping(self, k, try, ...)
end

-- Of what was raised so far, or nil, and now, unless all is well, the error that names
-- the lesser budget.
local function lesser(least, ok, err)
  if ok or not is_budget(err) or not err.needed then return least end
  return least and least.needed <= err.needed and least or err
end

-- A least is named, looked for if it was not yet.
local function refused(self, try, err, n, ...)
  local options, ok = self.options, false
  if not err.needed and options.quick then ok, err = try(false, ...) end
  if ok then return err end
  -- ranks of other stages may be within theirs: nothing here may wait for them
  if options.pipeline then error(err, 0) end
  return budget.explain(err, options.memory, self:replanner(n, ...), options.bound)
end

-- Within the budget, if there is one.
local function plan_within(self, old, group, k, tensors, n, ...)
  local options = self.options
  options.gather_each = nil
  local least -- of the budgets that would have done, the error that names it
  local function try(quick, ...)
    options.quick = quick
    local ok, made = pcall(settle, self, old, group, k, tensors, n, ...)
    least = lesser(least, ok, made)
    return ok, made
  end
  local more = k > 1 or options.tolerated ~= nil -- is tried before a least is named
  local plain = within_process(self, try, k > 1 or self.quiet, ...)
  if plain then return plain end
  local ok, made = try(more or self.quiet, ...)
  ok, made = compressing(self, try, ok, made, ...)
  if ok then return made end
  if not options.memory or not is_budget(made) then error(made, 0) end
  local other = otherwise(self, k, try, ...)
  if other then return other end
  if self.quiet then error(made, 0) end
  return refused(self, try, least or made, n, ...)
end

-- Which variables the plans of micro-batches swap, and where to, all have to agree on.
local function plan_call(self, old, group, k, ...)
  local own = self.options.swap
  self.options.swap = swap.together(own, k)
  local ok, made = pcall(plan_within, self, old, group, k, ...)
  self.options.swap = own
  if not ok then error(made, 0) end
  return made
end

--- Trace and plan a call.  A budget that the planner cannot meet is explained.
--- Which variables the plans of micro-batches swap, all have to agree on: here.
---@param self mrt.Compiled
---@param old table?            an entry that has run, whose place it takes
---@param group mrt.RunGroup
---@param k integer             micro-batches
---@param tensors mrt.Tensor[]  those among the arguments
---@param n integer             arguments
---@param ... any
---@return table entry
function entry.new(self, old, group, k, tensors, n, ...)
  local made = plan_call(self, old, group, k, tensors, n, ...)
  if not made.packs then compress.check(self.given.compress, accumulate.plans(made)) end
  if self.options.memory and not self.quiet then core.trim() end -- what planning took is no step's
  return made
end

return entry
