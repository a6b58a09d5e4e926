--- trace.lua -- a compiled function traced and planned
---
--- An *entry* is what is kept of one: its plan (`core`; of micro-batches, `parts`
--- with two), the inputs read anew before every run (`runtime`), and how to make
--- its results of the plan's outputs (`results`; `single`: the one output is the
--- result).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local accumulate = require "mrt.accumulate"
local again = require "mrt.compile.retrace"
local argument = require "mrt.util.argument"
local budget = require "mrt.plan.budget"
local scaling = require "mrt.compile.loss_scale"
local shard = require "mrt.shard"
local signature = require "mrt.compile.signature"
local swap = require "mrt.policy.swap"
local weights = require "mrt.compile.param_dtype"

local trace = {}

local current -- functions of the trace being made, one per runtime input

local function call(fn, new_input, inputs, n, ...)
  local args = { ... }
  for i = 1, n do args[i] = signature.stand_in(args[i], new_input, inputs, false) end
  return fn(table.unpack(args, 1, n))
end

-- Inside a trace: run the function once on inputs of the trace.
local function once(self, new_input, n, ...)
  local inputs, runtime, templates, outputs = {}, {}, {}, {}
  local _ <close> = shard.enter(self.sharding, self.options)
  local _ <close> = scaling.enter(self.scaler)
  local _ <close> = weights.enter(self.options.weights)
  current = runtime
  local results = table.pack(call(self.fn, new_input, inputs, n, ...))
  scaling.finish()
  shard.finish()
  if self.options.delayed then self.options.delayed:update() end
  current = nil
  weights.finish()
  for i = 1, results.n do
    templates[i] = signature.record(results[i], outputs, false)
  end
  return { inputs = inputs, outputs = outputs, runtime = runtime,
    results = templates }
end

-- Inside a trace: run the function on inputs of the trace, and plan it, in k
-- micro-batches.
local function plan_one(self, group, k, tensors, n, ...)
  group.key = core.trace_keys(group.key)
  if k > 1 then
    local args = table.pack(...)
    return accumulate.trace(self, function(new_input)
      return once(self, new_input, n, table.unpack(args, 1, n))
    end, k, tensors)
  end
  local entry = once(self, core.trace_input, n, ...)
  local start, first = os.clock(), tensors[1]
  self.options.rows = self.options.ranks and first and first:dim() > 0
    and first:size(1) or nil
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
function trace.runtime(fn)
  argument.callable("runtime", fn)
  if not core.tracing() then return core.tensor(fn(), "f32") end
  current[#current + 1] = fn
  return core.trace_input()
end

-- A trace may ask to be made again: once for each reason.
local function settle(self, k, ...)
  local delayed = self.options.delayed
  if delayed then delayed:begin(k) end
  return again.settle(...)
end

local function is_budget(err)
  return type(err) == "table" and err.code == "budget"
end

--- Trace and plan a call.  A budget that the planner cannot meet is explained.
--- Which variables the plans of micro-batches swap, all have to agree on: here.
---@param self mrt.Compiled
---@param group mrt.RunGroup
---@param k integer             micro-batches
---@param tensors mrt.Tensor[]  those among the arguments
---@param n integer             arguments
---@param ... any
---@return table entry
function trace.new(self, group, k, tensors, n, ...)
  local options = self.options
  local function try(quick, ...)
    options.quick = quick
    return pcall(settle, self, k, core.trace, plan_one, self, group, k, tensors, n,
      ...)
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

--- Trace and plan a call anew, to take the place of a plan that has run.
---@param old table  its entry
---@param ... any    as of trace.new
---@return table entry
function trace.again(old, self, group, k, ...)
  return settle(self, k, core.trace_again, old.core, plan_one, self, group, k, ...)
end

return trace
