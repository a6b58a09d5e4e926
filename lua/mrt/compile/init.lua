--- compile -- a function traced once per signature, then run as a plan
---
--- The signature is what a trace depends on: dtype and shape of every tensor
--- argument (in tables one level deep too), the value of every other argument,
--- and which modules are in evaluation mode.  Plans of one function take turns
--- in one space.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Plan = require "mrt.plan"
local about = require "mrt.plan.report.about"
local accumulate = require "mrt.accumulate"
local argument = require "mrt.util.argument"
local budget = require "mrt.plan.budget"
local cache = require "mrt.compile.cache"
local combine = require "mrt.accumulate.combine"
local describe = require "mrt.util.describe"
local elastic = require "mrt.compile.elastic"
local entries = require "mrt.compile.entry"
local figures = require "mrt.device.figures"
local format = require "mrt.util.format"
local options = require "mrt.compile.options"
local runs = require "mrt.compile.runs"
local signature = require "mrt.compile.signature"
local show = require "mrt.util.options".show
local param_dtype = require "mrt.compile.param_dtype"
local transforms = require "mrt.compile.transforms"

local compile = { check = options.check }

local SWAP_BYTES = 128 << 20 -- to measure copies with

-- ---- compiled functions ----------------------------------------------------

--- A compiled function: call it as the one it was made from.
---@class mrt.Compiled
---@overload fun(...: any): any ...
local Compiled = {}
Compiled.__index = Compiled
Compiled.__name = "mrt.Compiled"

-- What other files of the library call may be called by anybody.
local function refuse(method, wanted, got)
  argument.refuse("step:" .. method, "%s wanted, got %s", wanted, show(got))
end

-- Its place is taken by a plan that is made anew.
local function replace(self, key)
  self.replaced[key] = self.plans:remove(key)
end

-- Whether no variable of the entry has been converted since it was traced.
local function fits(entry)
  if entry.conversions == param_dtype.conversions then return true end
  local all = true
  for _, plan in ipairs(accumulate.plans(entry)) do all = all and plan:fits() end
  entry.conversions = all and param_dtype.conversions or nil
  return all
end

local MUCH <const> = 1 << 20 -- bytes

-- A policy that takes much more than keeping all is told so, once.
local function tell_of_raised(self, entry)
  if self.quiet or self.told or not self.options.checkpoint then return end
  local plan = entry.parts and entry.parts[1] or entry.core
  local info = plan:info()
  if info.lower_bound < (info.kept_peak or info.lower_bound) + MUCH then return end
  local text = about.raised(info, plan:steps())
  if not text then return end
  self.told = true
  warn(("mrt: %s: option 'checkpoint': %s"):format(self.options.name, text))
end

-- The entry that is there for a signature, if it can still run.
local function known(self, key)
  local entry = self.plans:get(key)
  if not entry or fits(entry) then return entry end
  replace(self, key)
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
  local entry = known(self, key)
  if not entry then
    figures.ready()
    local old = self.replaced[key]
    if not old and not self.quiet then self.plans:tracing(self.options.name, n, ...) end
    entry = entries.new(self, old, group, k, tensors, n, ...)
    entry.args = signature.hollow(n, ...)
    self.replaced[key] = nil
    if old then group.entries[old] = nil end
    tell_of_raised(self, entry)
    entry.group, entry.key, group.entries[entry] = group, key, true
    entry.conversions = param_dtype.conversions
    self.plans:put(entry, function(gone) runs.forget(self.groups, gone) end)
  end
  return entry, tensors, key
end

-- How many micro-batches the next step has.  With a budget, "auto" takes what
-- makes the step quickest, found once for a signature.
function Compiled:count(option, key, tensors, ...)
  argument.tensors("step:count", tensors)
  if option ~= "auto" or not (self.options.memory or self.options.process) then
    return accumulate.count(option, self.steps + 1, tensors)
  end
  local n = select("#", ...)
  self.parts[key] = self.parts[key]
    or budget.parts(accumulate.rows(tensors), self:replanner(n, ...))
  return self.parts[key]
end

-- A function that plans this call under other options, running nothing; false takes
-- an option away.  A second argument says which shape a tensor has instead of its own;
-- a third, that the first plan that fits a budget does, or "any" that does.
function Compiled:replanner(n, ...)
  if math.type(n) ~= "integer" or n < 0 then refuse("replanner", "a count", n) end
  local args = signature.hollow(n, ...)
  return function(changes, shape_of, how)
    local other = self:with(changes)
    local set = other.options
    other.quiet, set.glance, set.any = true, how and how ~= "any", how == "any"
    local own = shape_of and signature.resized(args, shape_of) or args
    return other:plan(table.unpack(own, 1, own.n))
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
  local outputs = entry.run and entry.run(inputs, run)
    or entry.parts and accumulate.run(entry, inputs, run)
    or entry.core:run_part(inputs, 0, 0, run)
  self.steps = self.steps + 1
  return restore_all(entry, table.unpack(outputs))
end

--- What `mrt plan` puts here gets the plan of the first step that is called;
--- it ends the process.  If none is, it takes the first that was planned.  What has
--- `passed_by` is no step of the script's, and runs.
---@type fun(plan: mrt.Plan, step: mrt.Compiled, ...)?
compile.planning = nil
---@type mrt.Plan?
compile.first_plan = nil
---@type table?  the step and its arguments, packed
compile.first_call = nil

local function ended(self, ...)
  for _, t in ipairs(self.after_step) do t:after_step() end
  return ...
end

local DEEPEST = 100 -- calls of one step within its own trace

local inside = { __close = function(call) call.step.depth = call.step.depth - 1 end }

-- Plan the call of an entry anew.
local function replan_last(self, entry)
  return find(self, nil, table.unpack(entry.args, 1, entry.args.n))
end

-- Inside another function's trace it is part of that function.  No tail call: one
-- that calls itself for ever would not end.
local function inline(self, ...)
  self.depth = self.depth + 1
  local _ <close> = setmetatable({ step = self }, inside)
  if self.depth > DEEPEST then
    core.fail("state", self.options.name, "the compiled function calls itself without end")
  end
  return self.fn(...)
end

function Compiled:__call(...)
  if core.tracing() then return inline(self, ...) end
  if self.asks then elastic.ask(self, replan_last) end
  if compile.planning and not self.passed_by then compile.planning(self:plan(...), self, ...) end
  local entry, inputs = find(self, nil, ...)
  if not entry.compared and self.options.mesh then self.options.mesh:compare(inputs) end
  entry.compared = true
  for _, t in ipairs(self.before_step) do t:before_step() end
  for _, fn in ipairs(entry.runtime) do inputs[#inputs + 1] = fn() end
  if self.options.accumulate or entry.group.past > 0 then
    return ended(self, run_counted(self, entry, inputs))
  end
  if entry.single then return ended(self, entry.core:run(inputs)) end
  return ended(self, restore_all(entry, entry.core:run(inputs)))
end

--- Go on within another budget from the next step on: plans are made anew, with the
--- same bits, and what they need no more goes back to the system.  Several ranks say so
--- together.  A function is asked before each step, with how often it has been: it gives
--- a budget, or nil for no change.
---
--- Raises: nothing fits that budget.  The function goes on within the one before; where
--- a function gave it, Lua's warnings say so.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step:budget "20MiB"
---@param bytes integer|string|false|fun(n: integer): integer|string|false|nil  "3GiB";
---  false: no budget
function Compiled:budget(bytes)
  if core.tracing() then core.fail("usage", "budget: not within a step") end
  elastic.set(self, bytes, replan_last)
end

--- Plan a call with these arguments, running nothing.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step:plan(mrt.ones(3)):report()
---
--- Raises: what the trace raises; a budget that nothing fits.
---@param ... any  as for the call
---@return mrt.Plan
function Compiled:plan(...)
  if getmetatable(self) ~= Compiled then
    core.fail("value", "plan", "a compiled function wanted in front: step:plan(x), with a colon")
  end
  return self:plan_in(nil, ...)
end

local function whole_inputs(mesh, tensors) return mesh and mesh:undivided(tensors) end

--- Plan a call in `k` micro-batches, whatever the option `accumulate` says.
---
---     local w = mrt.variable(mrt.ones(3))
---     local step = mrt.compile(function(x) return mrt.grad((x * w):square():mean(), w) end)
---     local plan = step:plan_in(4, mrt.ones(8, 3))
---
--- Raises: k below 1; a step without gradients, in several.
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
  entry.plan.step_options, entry.plan.space = self.options, self.space
  entry.plan.undivided = whole_inputs(self.options.mesh, tensors)
  entry.plan.first_shape = first and first:size() or nil
  entry.plan.rows = first and first:dim() > 0 and first:size(1) or 1
  if compile.planning and not compile.first_plan then
    compile.first_plan, compile.first_call = entry.plan, table.pack(self, ...)
  end
  return entry.plan
end

--- Run the plan of this call with a clock at every node, and leave variables and
--- random numbers as they were; that takes a copy of what it updates.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local times = step:measure({ rounds = 3 }, mrt.ones(3))
---
--- Raises: options without a whole number of rounds.
---@param o {rounds: integer, cpu: boolean?}  cpu: processor time
---@param ... any  as for the call
---@return table measured  total and call (seconds beside the nodes), runs (of
---  plans: one, or those of the micro-batches and the final one), device (that the plan
---  was made for), and steps as Plan:steps() has them, with `measured`, `key` and `runs`
function Compiled:measure(o, ...)
  if type(o) ~= "table" or math.type(o.rounds) ~= "integer" then
    refuse("measure", "its options", o)
  end
  local plan = self:plan(...)
  local entry, inputs = find(self, nil, ...)
  for _, fn in ipairs(entry.runtime) do inputs[#inputs + 1] = fn() end
  local out = require "mrt.accumulate.measure" (entry, inputs, o)
  out.predicted, out.device = plan.seconds, plan.device
  if plan.swapped > 0 then out.rates = core.measure_swap(SWAP_BYTES) end
  return out
end

--- Measure a call and plan with what it took: the next call is traced and
--- planned again, with the same bits.  It is no step of the training: variables
--- and random numbers stay as they were, and memory for a copy of what the step
--- updates is taken meanwhile.
---
---     print(step:profile(tokens, targets))
---
--- Raises: what the step raises.
---@param ... any  as for the call
---@return mrt.Profile
function Compiled:profile(...)
  local profile = require "mrt.plan.report.profile"
    (self:measure({ rounds = 5, cpu = compile.processor_time }, ...))
  local _, _, key = find(self, nil, ...)
  self.options.measured = profile:costs(self.options.measured)
  replace(self, key)
  return profile
end

--- Run a call once in f32, unfused, and tell how large the numbers are that each
--- operator makes: which layers would lose them in a narrow dtype.  It is no step
--- of the training: variables and random numbers stay as they were.
---
---     print(step:ranges(tokens, targets))
---
--- Raises: what the step raises.
---@param ... any  as for the call
---@return mrt.Ranges
function Compiled:ranges(...)
  local plain = self:with { precision = false, checkpoint = false, memory = false,
    swap = false, accumulate = false, pipeline = false, fuse = false, nan = false }
  local entry, inputs = find(plain, nil, ...)
  for _, fn in ipairs(entry.runtime) do inputs[#inputs + 1] = fn() end
  return require "mrt.plan.report.ranges" (entry.core:steps(), entry.core:watch(inputs))
end

--- Compute the gradients of a call with and without what the option `compress` keeps
--- smaller, and tell how far they are off.  It is no step of the training: variables and
--- random numbers stay as they were.
---
---     local step = mrt.compile(fn, { compress = "int8" })
---     print(step:compress_error(tokens, targets))
---@param ... any  as for the call
---@return mrt.CompressError
function Compiled:compress_error(...)
  if type(self.given.compress) == "number" or not self.given.compress then
    core.fail("usage", "compress_error", "the function compresses nothing of its own: the option "
      .. "'compress' with a format or a function wanted")
  end
  return require "mrt.plan.report.compress_error" (self, compile.compile, ...)
end

--- Whether profiles count processor time instead of real time: for one thread on
--- a machine with much else to do.
compile.processor_time = false

--- Return what a later process needs to go on where this function is now: its
--- steps, and how far its random numbers have got.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local state = step:state()
---
--- Shapes: tensors of any shape.
---@return {steps: integer, runs: table[], loss_scale: mrt.Tensor?,
---  good_steps: mrt.Tensor?, fp8: (integer|string)[]?}
function Compiled:state()
  local out = { steps = self.steps, runs = runs.state(self.groups) }
  for _, t in ipairs(self.transforms) do if t.state then t:state(out) end end
  return out
end

--- Make the variables that a state has and that are not here yet; `state` may
--- have them without their numbers.
---@param state table
---@nodoc
function Compiled:expect_state(state)
  for _, t in ipairs(self.transforms) do
    if t.expect_state then t:expect_state(state) end
  end
end

--- The scale of the loss before the next step; nil: the policy has none.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step:loss_scale()
---@return number?
function Compiled:loss_scale() return self.scaler and self.scaler.scale:item() end

--- How noisy the gradient has been, under `gradient_noise = true`: scale, noise, signal,
--- small and big; nil: there was no step yet.
---
---     local step = mrt.compile(fn, { gradient_noise = true, accumulate = 2 })
---     step(tokens, targets)
---     print(step:gradient_noise().scale)   -- rows of a batch that pays
---@return mrt.GradientNoiseScale?
function Compiled:gradient_noise()
  return self.options.noisy and self.options.noisy:look()
end

--- The values that the plan made last scales to fit f8, in the order of the program,
--- under `precision.fp8 { scaling = "delayed" }`: scale (of the next step), amax (of
--- the last), dtype, type, op, name, file, line, layer and backward; nil: there are
--- none yet.  As text, a table.
---
---     print(step:fp8())
---@return table[]?
function Compiled:fp8() return self.options.delayed and self.options.delayed:look() end

--- Go on from a state; set the random numbers (mrt.set_rng_state) before.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step:load_state(step:state())
---
--- Shapes: tensors as state() gave them.
--- Raises: a state of something else.
---@param state {steps: integer, runs: table[], loss_scale: mrt.Tensor?,
---  good_steps: mrt.Tensor?, fp8: (integer|string)[]?}
function Compiled:load_state(state)
  if type(state) ~= "table" or math.type(state.steps) ~= "integer"
    or not runs.is_state(state.runs) then
    core.fail("value", "load_state", "a state of a compiled function wanted, got "
      .. show(state))
  end
  for _, t in ipairs(self.transforms) do
    if t.load_state then t:load_state(state) end
  end
  self.steps, self.groups = state.steps, runs.load(state.runs)
  self.plans, self.replaced = cache.new(), {}
end

function Compiled:__tostring()
  local latest = self.plans:latest()
  return ("mrt.Compiled: %s, %s%s"):format(self.options.name,
    describe.count(self.plans.count, "plan"), latest and latest.core and
    ", peak " .. format.bytes(latest.core:info().peak) or "")
end

--- Whether a value is a compiled function.
---@param value any
---@return boolean
function compile.is(value) return getmetatable(value) == Compiled end

--- Options that stand in place of those a script gives: `mrt --policy`.
---@type mrt.CompileOptions?
compile.override = nil

local function with_hook(list, hook)
  local out = {}
  for _, t in ipairs(list) do if t[hook] then out[#out + 1] = t end end
  return out
end

local function new(fn, given)
  local own = options.check(given, "compile")
  if not own.name then
    local where = type(fn) == "function" and debug.getinfo(fn, "S")
    own.name = where and ("%s:%d"):format(where.short_src, where.linedefined)
      or "a function"
  end
  local list, by_name = transforms.new(own)
  own.delayed, own.noisy = by_name["fp8 scaling"], by_name["gradient noise scale"]
  return setmetatable({ fn = fn, given = given, options = own,
    plans = cache.new(), parts = {}, replaced = {}, groups = {}, accumulators = {},
    transforms = list, scaler = by_name["loss scaling"],
    before_step = with_hook(list, "before_step"), after_step = with_hook(list, "after_step"),
    steps = 0, depth = 0, space = core.space() }, Compiled)
end

--- Compile the same function anew with some options changed; false takes one away.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local small = step:with { memory = "20MiB" }
---
--- Raises: an option that there is not.
---@param changes mrt.CompileOptions|table<string, false>
---@return mrt.Compiled
function Compiled:with(changes)
  options.check_names("with", changes)
  return new(self.fn, options.change(self.given, changes))
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
---@param fn fun(...: any): any ...
---@param given? mrt.CompileOptions
---@return mrt.Compiled
function compile.compile(fn, given)
  argument.callable("compile", fn)
  if given ~= nil then options.check_names("compile", given) end
  local own = options.merge(given or {}, compile.override or {})
  local made = new(fn, own)
  if own.gradient_noise then require "mrt.compile.gradient_noise".want_parts(own) end
  return made
end

return compile
