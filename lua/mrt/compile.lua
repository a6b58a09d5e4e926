--- compile.lua -- a function traced once per signature, then run as a plan
---
--- The signature is what a trace depends on: dtype and shape of every tensor
--- argument (in tables one level deep too), the value of every other argument,
--- and which modules are in evaluation mode.  Plans of one function take turns
--- in one space.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Plan = require "mrt.plan"
local accumulate = require "mrt.accumulate"
local budget = require "mrt.budget"
local checkpoint = require "mrt.policy.checkpoint"
local combine = require "mrt.accumulate.combine"
local swap = require "mrt.policy.swap"
local format = require "mrt.format"
local runs = require "mrt.runs"
local signature = require "mrt.signature"

local compile = {}

local MOST_PLANS = 16 -- then the oldest is forgotten
local MOST_EFFORT = 1000
local SLOW_BYTES = 128 << 20 -- to measure copies with

---@class mrt.CompileOptions
---@field name? string        for reports and errors
---@field cse? boolean        common subexpressions (default true, as all below)
---@field fold? boolean       constant folding
---@field dead? boolean       removal of dead nodes
---@field identities? boolean algebraic identities
---@field permutes? boolean   permutations move past pointwise operators
---@field fuse? boolean       pointwise fusion
---@field inplace? boolean    results in the place of inputs
---@field share? boolean      values that share memory
---@field order? "memory"|"program"  which order to run in
---@field effort? integer     how many times longer to search for an order, 1 to 1000
---@field checkpoint? mrt.CheckpointPolicy  what is kept for the backward pass
---@field accumulate? mrt.Accumulate  micro-batches that a batch is split into
---@field allow_batch_statistics? boolean  of each micro-batch: changes results
---@field memory? integer|string  a budget for the peak: "2GiB", 2e9; what it takes is
---  recomputed or swapped, whichever is predicted quickest
---@field job? mrt.Job        what the step is for, told by plan:options()
---@field swap? mrt.SwapPolicy       which variables live in a file; by default those
---  that a budget wants there; policy.swap.none(): nothing is swapped

local kinds = { name = "string", cse = "boolean", fold = "boolean",
  dead = "boolean", identities = "boolean", permutes = "boolean",
  fuse = "boolean", inplace = "boolean", share = "boolean", order = "string",
  effort = "number",
  checkpoint = "any", memory = "any", swap = "any", accumulate = "any",
  allow_batch_statistics = "boolean", job = "table" }

local function check_callable(who, fn)
  if type(fn) == "function" then return end
  local meta = getmetatable(fn)
  if type(meta) ~= "table" or not meta.__call then
    core.fail("value", who, "a function wanted, got " .. type(fn))
  end
end

local function check_table(who, options)
  if type(options) == "table" then return end
  core.fail("value", who, "a table of options wanted, got " .. type(options))
end

local function refuse(who, name, wanted, value)
  core.fail("value", who, ("option '%s': %s wanted, got %s"):format(name,
    wanted, tostring(value)))
end

local function check_effort(effort, who)
  if math.type(effort) ~= "integer" or effort < 1 or effort > MOST_EFFORT then
    refuse(who, "effort", ("an integer from 1 to %d"):format(MOST_EFFORT), effort)
  end
end

local function check_options(given, who)
  local names = {}
  for name in pairs(kinds) do names[#names + 1] = name end
  table.sort(names)
  for name, value in pairs(given) do
    if not kinds[name] then
      core.fail("value", who, ("no option '%s' (options: %s)")
        :format(tostring(name), table.concat(names, ", ")))
    elseif kinds[name] ~= "any" and type(value) ~= kinds[name] then
      refuse(who, name, "a " .. kinds[name], value)
    end
  end
  local order = given.order or "memory"
  if order ~= "memory" and order ~= "program" then
    refuse(who, "order", "memory or program", order)
  end
  check_effort(given.effort or 1, who)
end

local function read_memory(value, who)
  local bytes, message = format.read_bytes(value)
  if not bytes then
    core.fail("value", who, "option 'memory': " .. message)
  end
  return bytes
end

-- ---- tracing ---------------------------------------------------------------

local current -- functions of the trace being made, one per runtime input

local function trace_body(fn, new_input, inputs, n, ...)
  local args = { ... }
  for i = 1, n do args[i] = signature.stand_in(args[i], new_input, inputs, false) end
  return fn(table.unpack(args, 1, n))
end

local devices -- mrt.device, once something is planned

-- Inside a trace: run the function once on inputs of the trace.
local function trace_once(fn, new_input, n, ...)
  local inputs, runtime, templates, outputs = {}, {}, {}, {}
  current = runtime
  local results = table.pack(trace_body(fn, new_input, inputs, n, ...))
  current = nil
  for i = 1, results.n do
    templates[i] = signature.record(results[i], outputs, false)
  end
  return { inputs = inputs, outputs = outputs, runtime = runtime,
    results = templates }
end

-- Inside a trace: run the function on inputs of the trace, and plan it, in k
-- micro-batches.
local function trace_and_plan(self, group, k, tensors, n, ...)
  group.key = core.trace_keys(group.key)
  if k > 1 then
    local args = table.pack(...)
    return accumulate.trace(self, function(new_input)
      return trace_once(self.fn, new_input, n, table.unpack(args, 1, n))
    end, k, tensors)
  end
  local entry = trace_once(self.fn, core.trace_input, n, ...)
  local start = os.clock()
  entry.core = core.trace_end(#entry.inputs + #entry.runtime, entry.outputs,
    self.options, self.space)
  entry.planning_us = (os.clock() - start) * 1e6
  entry.single = #entry.results == 1 and entry.results[1].output == 1
  entry.inputs, entry.outputs = nil, nil
  return entry
end

--- Make a scalar f32 that is read anew before every run: a learning rate, a
--- loss scale.  Outside a trace it is a constant of the present value.
---@param fn fun(): number
---@return mrt.Tensor scalar
function compile.runtime(fn)
  check_callable("runtime", fn)
  if not core.tracing() then return core.tensor(fn(), "f32") end
  current[#current + 1] = fn
  return core.trace_input()
end

-- ---- compiled functions ----------------------------------------------------

--- A compiled function: call it as the one it was made from.
---@class mrt.Compiled
---@overload fun(...: any): any ...
local Compiled = {}
Compiled.__index = Compiled
Compiled.__name = "mrt.Compiled"

local function forget(self, entry)
  self.entries[entry.key] = nil
  runs.forget(self.groups, entry)
end

local function add_entry(self, key, entry)
  self.entries[key] = entry
  table.insert(self.keys, key)
  if #self.keys > MOST_PLANS then
    forget(self, self.entries[table.remove(self.keys, 1)])
  end
end

local function is_budget(err)
  return type(err) == "table" and err.code == "budget"
end

-- Trace and plan.  A budget that the planner cannot meet is explained.  Which
-- variables the plans of micro-batches swap, all have to agree on: here.
local function trace(self, group, k, tensors, n, ...)
  local options = self.options
  local function try(quick, ...)
    options.quick = quick
    return pcall(core.trace, trace_and_plan, self, group, k, tensors, n, ...)
  end
  local ok, entry = try(k > 1 or self.quiet, ...)
  if ok then return entry end
  if not options.memory or not is_budget(entry) then error(entry, 0) end
  if k > 1 and self.given.swap == nil then
    for _, policy in ipairs(budget.fallbacks()) do
      options.swap = swap.decider(policy)
      local swapped, other = try(true, ...)
      if swapped then return other end
    end
    options.swap = nil
  end
  if self.quiet then error(entry, 0) end
  if k > 1 then ok, entry = try(false, ...) end
  if ok then return entry end
  return budget.explain(entry, options.memory, self:replanner(n, ...))
end

-- The entry of this signature in k micro-batches (by default, as many as the
-- next step has), traced and planned when it is new, and the tensors among the
-- arguments.
local function find(self, k, ...)
  local n = select("#", ...)
  local key, tensors = signature.of(n, ...)
  local option = self.options.accumulate
  k = k and accumulate.count(k, self.steps + 1, tensors)
    or option and self:count(option, key, tensors, ...) or 1
  local group = runs.group(self.groups, key)
  if k > 1 then key = ("%s in %d"):format(key, k) end
  local entry = self.entries[key]
  if not entry then
    devices = devices or require "mrt.device"
    devices.ready()
    local old = self.replaced[key]
    if old then
      entry = core.trace_again(old.core, trace_and_plan, self, group, k, tensors,
        n, ...)
    else
      entry = trace(self, group, k, tensors, n, ...)
    end
    self.replaced[key] = nil
    if old then group.entries[old] = nil end
    entry.group, entry.key, group.entries[entry] = group, key, true
    add_entry(self, key, entry)
  end
  return entry, tensors, key
end

-- How many micro-batches the next step has.  With a budget, "auto" takes what
-- makes the step quickest, found once for a signature.
function Compiled:count(option, key, tensors, ...)
  if option ~= "auto" or not self.options.memory then
    return accumulate.count(option, self.steps + 1, tensors)
  end
  local n = select("#", ...)
  self.parts[key] = self.parts[key]
    or budget.parts(accumulate.rows(tensors), self:replanner(n, ...))
  return self.parts[key]
end

-- A function that plans this call under other options, running nothing; false
-- takes an option away.
function Compiled:replanner(n, ...)
  local args = signature.hollow(n, ...)
  return function(changes)
    local other = self:with(changes)
    other.quiet = true
    return other:plan(table.unpack(args, 1, args.n))
  end
end

local function restore_all(entry, ...)
  local outputs, results = { ... }, {}
  for i, template in ipairs(entry.results) do
    results[i] = signature.restore(template, outputs)
  end
  return table.unpack(results, 1, #entry.results)
end

-- A step of a function whose steps may have several micro-batches, or that has
-- run without the plan it has now.
local function run_counted(self, entry, inputs)
  local run = runs.count(entry.group)
  local outputs = entry.parts and accumulate.run(entry, inputs, run)
    or entry.core:run_part(inputs, 0, 0, run)
  self.steps = self.steps + 1
  return restore_all(entry, table.unpack(outputs))
end

--- What `mrt plan` puts here gets the plan of the first step that is called;
--- it ends the process.  If none is, it takes the first that was planned.
---@type fun(plan: mrt.Plan, step: mrt.Compiled, ...)?
compile.planning = nil
---@type mrt.Plan?
compile.first_plan = nil
---@type table?  the step and its arguments, packed
compile.first_call = nil

-- Inside another function's trace it is part of that function.
function Compiled:__call(...)
  if core.tracing() then return self.fn(...) end
  if compile.planning then compile.planning(self:plan(...), self, ...) end
  local entry, inputs = find(self, nil, ...)
  for _, fn in ipairs(entry.runtime) do inputs[#inputs + 1] = fn() end
  if self.options.accumulate or entry.group.past > 0 then
    return run_counted(self, entry, inputs)
  end
  if entry.single then return entry.core:run(inputs) end
  return restore_all(entry, entry.core:run(inputs))
end

--- Plan a call with these arguments, running nothing.
---@param ... any  as for the call
---@return mrt.Plan
function Compiled:plan(...) return self:plan_in(nil, ...) end

--- Plan a call in `k` micro-batches, whatever the option `accumulate` says.
---@param k integer?  nil: as many as the next step has
---@param ... any     as for the call
---@return mrt.Plan
function Compiled:plan_in(k, ...)
  accumulate.check(k)
  local entry, tensors = find(self, k, ...)
  local first = tensors[1]
  entry.plan = entry.plan or Plan.new(entry.parts and combine(entry) or entry.core,
    self.options.name, entry.planning_us)
  entry.plan.replan = entry.plan.replan or self:replanner(select("#", ...), ...)
  entry.plan.step_options = self.options
  entry.plan.rows = first and first:dim() > 0 and first:size(1) or 1
  if compile.planning and not compile.first_plan then
    compile.first_plan, compile.first_call = entry.plan, table.pack(self, ...)
  end
  return entry.plan
end

--- Run the plan of this call with a clock at every node, and leave variables and
--- random numbers as they were; that takes a copy of what it updates.
---@param o {rounds: integer, cpu: boolean?}  cpu: processor time
---@param ... any  as for the call
---@return table measured  total and call (seconds beside the nodes), runs (of
---  plans: one, or those of the micro-batches and the final one), and steps as
---  Plan:steps() has them, with `measured`, `key` and `runs`
function Compiled:measure(o, ...)
  local plan = self:plan(...)
  local entry, inputs = find(self, nil, ...)
  for _, fn in ipairs(entry.runtime) do inputs[#inputs + 1] = fn() end
  local out = require "mrt.accumulate.measure" (entry, inputs, o)
  out.predicted = plan.seconds
  if plan.slow > 0 then out.rates = core.measure_slow(SLOW_BYTES) end
  return out
end

--- Measure a call and plan with what it took: the next call is traced and
--- planned again, with the same bits.  It is no step of the training: variables
--- and random numbers stay as they were, and memory for a copy of what the step
--- updates is taken meanwhile.
---
---     print(step:profile(tokens, targets))
---@param ... any  as for the call
---@return mrt.Profile
function Compiled:profile(...)
  local profile = require "mrt.report.profile"
    (self:measure({ rounds = 5, cpu = compile.processor_time }, ...))
  local entry, _, key = find(self, nil, ...)
  self.options.measured = profile:costs(self.options.measured)
  self.replaced[key], self.entries[key] = entry, nil
  for i, name in ipairs(self.keys) do
    if name == key then table.remove(self.keys, i) break end
  end
  return profile
end

--- Whether profiles count processor time instead of real time: for one thread on
--- a machine with much else to do.
compile.processor_time = false

--- Return what a later process needs to go on where this function is now: its
--- steps, and how far its random numbers have got.
---@return {steps: integer, runs: table[]}
function Compiled:state()
  return { steps = self.steps, runs = runs.state(self.groups) }
end

--- Go on from a state; set the random numbers (mrt.set_rng_state) before.
---@param state {steps: integer, runs: table[]}
function Compiled:load_state(state)
  self.steps, self.groups = state.steps, runs.load(state.runs)
  self.entries, self.keys, self.replaced = {}, {}, {}
end

function Compiled:__tostring() return "mrt.Compiled: " .. self.options.name end

local function merge(options, over)
  local out = {}
  for name, value in pairs(options) do out[name] = value end
  for name, value in pairs(over) do out[name] = value end
  return out
end

--- Options that stand in place of those a script gives: `mrt --policy`.
---@type mrt.CompileOptions?
compile.override = nil

--- Check options and return them as the planner reads them.
---@param options mrt.CompileOptions
---@param who string  for messages
---@return table
function compile.check(options, who)
  check_options(options, who)
  local own = merge(options, {})
  accumulate.check(own.accumulate)
  if own.job then require "mrt.ladder".read_job(own.job) end
  own.checkpoint = checkpoint.decider(own.checkpoint, who)
  own.no_swap = swap.is_none(own.swap)
  own.swap = swap.decider(own.swap)
  if own.memory then own.memory = read_memory(own.memory, who) end
  return own
end

local function new(fn, given)
  local own = compile.check(given, "compile")
  if not own.name then
    local where = type(fn) == "function" and debug.getinfo(fn, "S")
    own.name = where and ("%s:%d"):format(where.short_src, where.linedefined)
      or "a function"
  end
  return setmetatable({ fn = fn, given = given, options = own, entries = {},
    keys = {}, parts = {}, replaced = {}, groups = {}, accumulators = {},
    steps = 0, space = core.space() }, Compiled)
end

--- Compile the same function anew with some options changed; false takes one away.
---@param changes mrt.CompileOptions
---@return mrt.Compiled
function Compiled:with(changes)
  check_table("with", changes)
  local options = merge(self.given, changes)
  for name, value in pairs(changes) do
    if value == false and kinds[name] == "any" then options[name] = nil end
  end
  return new(self.fn, options)
end

--- Make a function that is traced once per signature and from then on only
--- runs its plan.
---
---     local step = mrt.compile(function(x, y)
---       local loss = nn.cross_entropy(model(x), y)
---       opt:step(mrt.grad(loss, model:parameters()))
---       return loss
---     end)
---     step:plan(x, y):report()
---     print(step(x, y):item())
---
--- It may return tensors, tables of tensors, and plain values, which are those
--- of the trace.
---@param fn fun(...): any ...
---@param options? mrt.CompileOptions
---@return mrt.Compiled
function compile.compile(fn, options)
  check_callable("compile", fn)
  if options ~= nil then check_table("compile", options) end
  return new(fn, merge(options or {}, compile.override or {}))
end

return compile
