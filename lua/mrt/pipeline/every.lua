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

-- The same step on stage `s`, and the communicator that is not there.
local function staged(step, p, s)
  local mesh = step.given.mesh
  if not mesh then
    local comm = communicator.supposed(p, s - 1)
    return step:with { pipeline = merge(step.given.pipeline, { comm = comm, stages = p }) }, comm
  end
  local ranks = require "mrt.mesh".read(mesh).ranks
  local comm = communicator.supposed(ranks, (s - 1) * (ranks // p))
  return step:with { mesh = merge(mesh, { comm = comm }) }, comm
end

local function has_stages(step)
  local given = type(step) == "table" and step.given
  return given and (given.mesh and (given.mesh.pipeline or 1) > 1
    or not given.mesh and given.pipeline)
end

--- See pipeline.plan.
---@param step mrt.Compiled
---@param p integer   stages
---@param ... any     as for the call
---@return {plans: mrt.Plan[], simulation: mrt.PipelineSimulation, order: mrt.PipelineOrder}
return function(step, p, ...)
  if not has_stages(step) then
    core.fail("value", "pipeline", "a compiled function with the option 'pipeline' wanted, got "
      .. show(step))
  end
  size("pipeline", "stages", p)
  local mesh = step.given.mesh
  if mesh and mesh.pipeline ~= p then
    core.fail("value", "pipeline", ("%d stages, its mesh has %d"):format(p, mesh.pipeline))
  end
  local plans, order = {}, nil
  for s = 1, p do
    local other, comm = staged(step, p, s)
    local _ <close> = setmetatable({}, { __close = function() comm:close() end })
    plans[s] = other:plan(...)
    order = other.options.pipeline:order(plans[s].micro_batches)
  end
  return { plans = plans, simulation = simulate(order, times_of(plans, p)), order = order }
end
