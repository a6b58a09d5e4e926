--- mrt.plan -- what a planned step takes, and what lives at its peak
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local options = require "mrt.util.options"
local roles = require "mrt.plan.report.roles"

--- A finished plan: what a step takes, before it runs.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step:plan(mrt.ones(3)).peak
---  Numbers are bytes; peak = persistent + transient +
--- outputs, and a run takes exactly that.
---@class mrt.Plan
---@field peak integer
---@field persistent integer   variables and constants
---@field transient integer    the arena: activations, gradients, workspaces
---@field slots integer?       of it: copies of the inputs, on a device that records runs
---@field outputs integer
---@field lower_bound integer  no order of this graph's places could do with less
---@field order_free_bound integer  no order of these nodes could
---@field working_set integer  nor could recomputing: the largest node's needs
---@field inputs integer       the caller's own arguments; not in peak
---@field stall number         predicted seconds of a run spent waiting for copies
---@field wire number          bytes given to other ranks in a run
---@field collectives integer
---@field undivided string?   which experts, and inputs' sequence, ranks do not share (`mesh`)
---@field swapped integer         what is swapped, in a file; not in peak
---@field copied_out integer    bytes of them that a run copies there,
---@field copied_in integer     and back
---@field hosted integer       nodes that the CPU computes: the device has no kernel
---@field staging integer      bytes of the host's memory for them; not in peak
---@field hosted_in integer    bytes copied to the host for them in a run,
---@field hosted_out integer   and back
---@field unrecorded boolean?  so that a device which queues replays no recording
---@field flops number
---@field seconds number       predicted, of one run
---@field unlinked integer?    collectives that the profile has no links for: `seconds` lacks
---  what they take
---@field device table         what it was made for: name, capacity, bandwidth, ...
---@field compressed integer?  bytes that are packed for the backward pass (option
---  `compress`; of one micro-batch), and
---@field compressed_to integer? what they are packed to
---@field kept_peak integer?  with a checkpoint policy: live bytes with all kept
---@field accumulators integer? of `persistent`: what micro-batches are added up in
---@field gathered integer?   of `transient`: weights that are gathered once for all
---  micro-batches, beside the arena
---@field micro_batches integer? how many; steps: of one, then what runs once
---@field micro_batch integer?  rows of each, the last perhaps fewer
---@field batch integer?        rows
---@field pipeline mrt.PlanOfStage?  what is known of a stage
---@field nodes integer        in a run
---@field nodes_traced integer before optimisation
---@field peak_step integer    where most bytes live
---@field planning_us number   from the end of the trace to a plan that can run
local Plan = {}
Plan.__index = Plan
Plan.__name = "mrt.Plan"

--- Wrap a plan of the core.
---@param core_plan userdata
---@param name? string
---@param planning_us number
---@return mrt.Plan
---@nodoc
function Plan.new(core_plan, name, planning_us)
  -- a table is what combines the plans of micro-batches
  local combined = type(core_plan) == "table" and type(core_plan.info) == "function"
  if not combined and (type(core_plan) ~= "userdata" or core.is_tensor(core_plan)) then
    core.fail("value", "plan.new", "a plan of the core wanted, got "
      .. options.show(core_plan))
  end
  local self = core_plan:info()
  self.core, self.title, self.planning_us = core_plan, name, planning_us
  self.device = core_plan:device()
  return setmetatable(self, Plan)
end

--- List the nodes in executing order: op, class (kind of work), file, line,
--- backward, hosted (by the CPU, for a device without the kernel; or absent), in_tier (by
--- the CPU, in the swap tier, where what it updates lies; or absent), accumulate
--- (what sums are rounded to after each term; or absent), flops, bytes, speed (of its
--- flops at best, over plain products in f32: 2 in a dtype that the device multiplies twice
--- as fast, 2.25 of convolutions in Winograd's way, 0 of views and of what is not the
--- device's work), time (predicted seconds), live, comm (of a collective: the number of its
--- communicator).
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:steps() > 0
---@return table[]
function Plan:steps() return self.core:steps() end

--- List the plans of the core that this one is made of: of a micro-batch and of what runs once,
--- of the phases of a stage; and how often each runs in a step.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     #step:plan(mrt.ones(3)):parts()  --> 1
---@return {plan: userdata, runs: integer}[]
function Plan:parts()
  if type(self.core) == "table" then return self.core:parts() end
  return { { plan = self.core, runs = 1 } }
end

--- List the blocks of memory: kind, role, op, class, name, type, bytes, offset,
--- first and last step, file, line.  The role is the kind, but weight, optimizer or
--- buffer for a variable.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:values() > 0
---@return table[]
function Plan:values()
  -- what is in pieces is read by what gathers it, which comes late
  self.variables = self.variables or roles.of_variables(
    self:stage(self.collectives > 0 and "place_collectives" or "differentiated"),
    self:stage(), self.core:values())
  return roles.assign(self.core:values(), self.variables, self:transfers())
end

--- Return the bytes of variables and constants that are in memory already.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:here()
---@return integer
function Plan:here()
  local bytes = 0
  for _, v in ipairs(self.core:values()) do bytes = bytes + (v.here and v.bytes or 0) end
  return bytes
end

--- List what each step reads, writes and could have overwritten: numbers of
--- values.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:operands() > 0
---@return {reads: integer[], writes: integer[], overwritable: integer[]}[]
function Plan:operands() return self.core:operands() end

--- Return the bytes that the forward pass keeps for the backward pass: what
--- policy.checkpoint.budget is about.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:kept()
---@return integer
function Plan:kept() return require "mrt.plan.report.kept" (self) end

--- List the copies between memory and the file of swapped values, which run
--- beside the steps from `start` to `wait`: lane ("in" or "out"), name, value (in
--- the arena) and swapped (behind it), numbers of values, bytes, start, wait; and
--- predicted seconds: time (of the copy alone), beside (of the steps between),
--- stall (spent waiting for it); tier: the number among `plan:tiers()`.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:transfers()
---@return table[]
function Plan:transfers() return self.core:transfers() end

--- List what the plan takes of each swap tier, quickest first: its name, bytes,
--- capacity (absent: nobody knows) and the bytes that a run copies, copied_out and
--- copied_in.  The bytes add up to `plan.swapped`.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:tiers()
---@return {name: string, bytes: integer, capacity: integer?, copied_out: integer,
---  copied_in: integer}[]
function Plan:tiers() return self.core:tiers() end

--- Say what the plan does to take less memory: `recomputed`, how many nodes run
--- again, and `recompute_time`, their predicted seconds; bytes that wait in the swap
--- tier, of `activations` and of `variables`; the predicted `stall`; all as `text`.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:choices()
---@return mrt.Choices
function Plan:choices() return require "mrt.plan.choices" (self) end

--- Bytes that a budget must hold: the peak, and what the device's driver and libraries
--- take beside it.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:needs() >= plan.peak
---@return integer
function Plan:needs() return self.peak + math.floor(self.device.overhead) end

-- Bytes of a device that it has taken, beyond what it had when it was opened, after steps of
-- 100, 527 and 2039 nodes ran on one H100: 35, 134 and 468 MB (scripts/gpu_check).
local RECORDED, EACH = 10e6, 0.225e6

--- Estimate the bytes that a device which records runs takes for this step beside its
--- `overhead`, for the recording, kernels that are loaded and the pool of tensors; 0 on others.
--- Neither the peak nor a budget has them in it.  What communicators take is not among
--- them: nobody has measured that.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     step:plan(mrt.ones(3)):recording() --> 0
---@return integer
function Plan:recording()
  return self.device.records and math.floor(RECORDED + EACH * self.nodes) or 0
end

--- Seconds that the last run spent waiting for copies.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:stalled()
---@return number
function Plan:stalled() return self.core:stalled() end

--- List the results that could not take the place of an input, and why: another
--- consumer, the gradient reads it, ...
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:refused()
---@return mrt.Refusal[]
function Plan:refused() return require "mrt.plan.report.refused" (self) end

-- ---- stages ----------------------------------------------------------------

--- List the stages of the graph, in order: "traced" (as written, without what
--- depends on gradients), "differentiated" (all of it), what each pass left, by
--- its name, and "planned".
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:stages() > 0
---@return string[]
function Plan:stages()
  local names = self.core:stages()
  table.insert(names, 1, "traced")
  return names
end

-- The core's number of a stage; what is traced is shown from what is
-- differentiated.
local function stage_number(self, name)
  local names = self:stages()
  for i, known in ipairs(names) do
    if known == name then return math.max(i - 1, 1) end
  end
  core.fail("value", "plan", ("no stage '%s', there is %s"):format(
    tostring(name), table.concat(names, ", ")))
end

--- Describe the graph after a stage, planning it again up to there.  Nodes read
--- and write values by number; a value keeps its number through all stages, and
--- `block` is its place among `plan:values()` once it has one.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:stage()
---
--- Raises: a stage that there is not.
---@param stage? string  of `plan:stages()`; default "planned"
---@return {nodes: table[], values: table[]}
function Plan:stage(stage)
  stage = stage or "planned"
  local graph = self.core:stage(stage_number(self, stage))
  if stage == "traced" then return require "mrt.plan.report.stage".traced(graph) end
  return graph
end

--- Return the graph after a stage as text, one node a line.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:graph()
---
--- Raises: a stage that there is not.
---@param stage? string  as for `plan:stage`, but "traced"; default "planned"
---@return string
function Plan:graph(stage)
  return self.core:graph(stage_number(self, stage or "planned"))
end

--- Find the largest size whose step fits a budget, by plans alone: nothing runs.
---
---     print(step:plan(tokens, targets):largest("batch", { memory = "24GiB" }))
---
--- "batch" and "context" are the first and second dimension of the first tensor argument,
--- and of all arguments that have that size there.  Any other name ("layers") needs
--- `plan`, a function that plans the step of a size.
---
--- Raises: no such dimension, no budget.
---@param what string
---@param o? {memory?: integer|string, recompute?: boolean, step?: integer, from?: integer,
---  plan?: fun(size: integer): mrt.Plan}
---  memory: the budget, by default that of the step or the device's memory; recompute:
---  plans may do what a budget may; step: sizes are multiples of it; from: where to begin
---@return mrt.Largest
function Plan:largest(what, o) return require "mrt.plan.largest".of(self, what, o) end

--- The ways into a budget, each a plan with its peak and predicted time: the batch as it
--- is, micro-batches, recomputing, swapping, these together; what changes bits (bf16, what
--- is kept compressed, optimizer state in 8 bits, a head in chunks); more devices.  The
--- star is at the quickest that the options allow.  The budget is that of the step
--- (`memory`), or the device's memory.
---
---     print(step:plan(tokens, targets):options{ budget = "512MiB" })
---
--- Raises: an option that there is not.
---@param o? {budget: integer|string|nil, job: mrt.Job?}
---@return mrt.Alternatives
function Plan:options(o)
  return require "mrt.plan.alternatives".of(self, options.read("options", o,
    { budget = options.none, job = options.none }))
end

--- Say in a few sentences what recomputing, swapping and micro-batches would gain
--- here, and when one is not worth it.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:advice()
---@return string
function Plan:advice() return require "mrt.plan.report.advice" (self) end

-- ---- reports ---------------------------------------------------------------

--- Return the report as text: bytes by kind, nodes before and after each
--- optimisation, the peak step, and the largest values alive there with the
--- lines that made them.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     #plan:text() > 0
---@return string
function Plan:text() return require "mrt.plan.report.text" (self) end

-- The same execution with a dynamic caching pool.
local function against_pool(self)
  local dynamic = require "mrt.plan.caching_allocator".simulate(self)
  return table.concat({
    "the arena, and a caching pool that allocates while running",
    ("  %-8s %12s %12s %8s %10s"):format("", "peak", "wasted", "calls", "us"),
    ("  %-8s %12s %12s %8s %10.0f  to plan, once"):format("static",
      format.bytes(self.transient), format.bytes(self.transient - dynamic.live),
      self.transient > 0 and 1 or 0, self.planning_us),
    ("  %-8s %12s %12s %8s %10.0f  in every step, simulated"):format("dynamic",
      format.bytes(dynamic.reserved), format.bytes(dynamic.wasted),
      format.count(dynamic.calls), dynamic.microseconds) }, "\n")
end

--- Print the report, and how a dynamic caching pool would do over the same
--- execution: peak, wasted bytes, allocator calls, microseconds (of planning,
--- and of the simulation for the pool; these two differ from run to run).
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:report()
---
--- Raises: what is no file.
---@param out? file*  default standard output
---@return true? done
---@return string? message
function Plan:report(out)
  out = out or io.stdout
  if type(out) ~= "userdata" and type(out) ~= "table" or not out.write then
    core.fail("value", "report", "a file wanted, got " .. options.show(out))
  end
  local ok, message = out:write(self:text(), "\n", against_pool(self), "\n")
  if not ok then return nil, message end
  self.reported = self.reported or out == io.stdout -- `mrt plan` says it once
  return true
end

--- Print the execution step by step: the node, what is born, overwritten and
--- dies, live bytes, free blocks.
---
---     local step = mrt.compile(function(x) return (x * x):sum() end)
---     local plan = step:plan(mrt.ones(3))
---     plan:walk()
function Plan:walk()
  io.stdout:write(require "mrt.plan.report.walk" (self), "\n")
end

local formats = { [".json"] = "json", [".svg"] = "svg", [".html"] = "html",
  [".graph.svg"] = "graph", [".snapshot.json"] = "memory_viz",
  [".snapshot.pickle"] = "memory_viz_pickle", [".trace.json"] = "trace" }
local modules = { memory_viz = "snapshot", memory_viz_pickle = "snapshot_pickle" }

---@alias mrt.PlanFormat
---| "json"|"svg"|"graph"|"html"|"memory_viz"|"memory_viz_pickle"|"trace"

--- Write the plan to a file, as its name says: .json (mrt/plan/report/json.lua
--- describes it), .svg (live bytes and arena), graph.svg or .graph.svg (the graph
--- after a stage, coloured by the memory that nodes share), .html, .trace.json
--- (predicted times, for chrome://tracing or ui.perfetto.dev), or a snapshot for
--- PyTorch's memory viewer: .snapshot.pickle for the page pytorch.org/memory_viz,
--- .snapshot.json for who reads JSON (torch.cuda._memory_viz takes it decoded).
---
---     plan:save "graph.svg"
---     plan:save("fused.graph.svg", {stage = "fuse"})
---
--- Raises: an ending that there is not; a file's faults are a message.
---@param path string
---@param given? {format: mrt.PlanFormat?, stage: string?, front: boolean?}  `stage` is one
---  of `plan:stages()`, for the graph; default "planned".  front = false: a page without
---  what other budgets would cost, for which the step is planned a dozen times
---@return true? done
---@return string? message  no such folder, a full disk
function Plan:save(path, given)
  local save = require "mrt.plan.report.save"
  given = options.read("save", given, { format = options.none,
    stage = options.none, front = true })
  local bare = type(path) == "string" and path:match "[^/]*$" == "graph.svg"
  local name = save.format(path, formats, given.format or bare and "graph" or nil)
  if given.stage and name ~= "graph" then
    core.fail("value", "save", ("a stage of the graph is drawn into .graph.svg, "
      .. "not into '%s'"):format(path))
  end
  if given.stage then stage_number(self, given.stage) end
  return save.write(path, require("mrt.plan.report." .. (modules[name] or name))(self,
    given))
end

--- Overlay the live bytes of several plans.
---
---     mrt.plan.compare{a, b, names = {"all", "shared"}, capacity = "6GiB"}
---       :save "both.svg"
---
--- Raises: what is no list of plans.
---@param given {names: string[]?, capacity: integer|string|nil, [integer]: mrt.Plan}
---@return mrt.Comparison
function Plan.compare(given)
  if type(given) ~= "table" then
    core.fail("value", "compare", "a list of plans wanted, got " .. options.show(given))
  end
  return require "mrt.plan.report.compare" (given)
end

function Plan:__tostring()
  local text = ("mrt.Plan: peak %s = persistent %s + transient %s + outputs %s")
    :format(format.bytes(self.peak), format.bytes(self.persistent),
      format.bytes(self.transient), format.bytes(self.outputs))
  if self.copied_out + self.copied_in == 0 then return text end
  return ("%s; a step copies %s to the swap tier and %s back"):format(text,
    format.bytes(self.copied_out), format.bytes(self.copied_in))
end

-- Without a plan before the colon a method says so, rather than fail within.
local no_methods = { new = true, compare = true }
for name, method in pairs(Plan) do
  if type(method) == "function" and not no_methods[name] then
    Plan[name] = function(self, ...)
      if type(self) ~= "table" or not self.core then
        core.fail("value", "plan:" .. name, "a plan wanted, got " .. options.show(self))
      end
      return method(self, ...)
    end
  end
end

return Plan
