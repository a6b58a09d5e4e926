--- every.lua -- the plans of all stages, of which none need be there
---
--- SPDX-License-Identifier: MIT

local check = require "mrt.pipeline.check"
local communicator = require "mrt.communicator"
local core = require "mrt.core"
local merge = require "mrt.compile.options".merge
local show = require "mrt.util.options".show
local size = require "mrt.util.options".size
local simulate = require "mrt.pipeline.simulate"

-- Predicted times by stage and chunk.  The first part's B does what its W would.
local function times_of(plans, p)
  local seconds = { F = {}, B = {}, W = {} }
  for _, plan in ipairs(plans) do
    for _, phase in ipairs(plan.pipeline.phases) do
      seconds[phase.kind][phase.part] = phase.seconds
    end
  end
  local times = {}
  for kind, by_part in pairs(seconds) do
    times[kind] = function(stage, chunk) return by_part[check.part(stage, chunk, p)] or 0 end
  end
  return times
end

--- See pipeline.plan.
---@param step mrt.Compiled
---@param p integer   stages
---@param ... any     as for the call
---@return {plans: mrt.Plan[], simulation: mrt.PipelineSimulation}
return function(step, p, ...)
  local given = type(step) == "table" and step.given and step.given.pipeline
  if not given then
    core.fail("value", "pipeline", "a compiled function with the option 'pipeline' wanted, got "
      .. show(step))
  end
  size("pipeline", "stages", p)
  local plans, order = {}, nil
  for s = 1, p do
    local comm <close> = setmetatable({}, { __close = function(c) c.comm:close() end })
    comm.comm = communicator.supposed(p, s - 1)
    local other = step:with { pipeline = merge(given, { comm = comm.comm, stages = p }) }
    plans[s] = other:plan(...)
    order = other.options.pipeline:order(plans[s].micro_batches)
  end
  return { plans = plans, simulation = simulate(order, times_of(plans, p)) }
end
