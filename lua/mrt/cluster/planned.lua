--- planned.lua -- how long a script's planned step takes on a cluster
---
---   input     plans: of one rank, or of each stage of a pipeline; the mesh
---   method    Nodes are read from the plans of a micro-batch and of what runs once
---             (nodes.lua), and each collective is given to the ranks that share in it.
---             Collectives that a plan begins ahead run beside what stands between there and
---             where they are waited for (overlap.lua), others beside nothing.  Stages run
---             through their schedule, a sender waits until its bytes are there.
---
--- SPDX-License-Identifier: MIT

local check = require "mrt.pipeline.check"
local collectives = require "mrt.cluster.collectives"
local mesh = require "mrt.mesh"
local nodes = require "mrt.cluster.nodes"
local overlap = require "mrt.cluster.overlap"
local simulate = require "mrt.pipeline.simulate"
local topology = require "mrt.cluster.topology"

local planned = {}

local RECORDED <const> = 0.02 -- of the launches of eager PyTorch, where a device replays a step

-- Axes innermost first, and how far apart their ranks are.
local axes <const> = { "tensor", "context", "expert", "shard", "data", "pipeline" }

local function groups_of(size)
  local out, stride = {}, 1
  for _, axis in ipairs(axes) do
    out[axis] = { size = size[axis], stride = stride }
    stride = stride * size[axis]
  end
  if size.expert > 1 and size.shard == 1 then -- the rest of the weights is alike on all of these
    out.data = { size = size.expert * size.data, stride = out.expert.stride }
  end
  return out
end

-- Gradients and shards of weights are vectors, activations are not.
local vectors <const> = { "shard", "data", "tensor", "context" }
local arrays <const> = { "tensor", "context", "shard", "data" }

-- Of what is gathered or scattered those who are as many as the results are larger or
-- smaller; keys and values go round the ranks of a sequence, rows to those with experts.
local function guessed(groups, node)
  local order, first = node.vector and vectors or arrays, nil
  if node.collective == "shift" then return groups.context end
  if node.collective == "all_to_all" then return groups.expert end
  for _, axis in ipairs(order) do
    local group = groups[axis]
    if group.size > 1 then
      first = first or group
      if node.ratio > 1 and math.abs(node.ratio / group.size - 1) < 0.2 then return group end
    end
  end
  return first or groups.tensor
end

-- Who shares in a collective: the ranks of its communicator, where that is of a mesh.
local function group_of(groups, node)
  return node.comm and mesh.members(node.comm) or guessed(groups, node)
end

-- Seconds and flops of a plan of the core.
local function measure(o, plan)
  local list, flops = nodes.of_plan(plan, true), 0
  for _, node in ipairs(list) do
    flops = flops + node.flops
    if node.kind == "collective" then node.group = group_of(o.groups, node) end
  end
  return overlap.seconds(o.job, list), flops
end

local function phases_of(plan)
  local is_phase = {}
  for _, p in ipairs(plan.pipeline and plan.pipeline.phases or {}) do is_phase[p.plan] = true end
  return is_phase
end

-- What a plan runs in a step: seconds but of the plans in `apart`, and flops of all.
local function total_of(o, plan, apart)
  local seconds, flops = 0, 0
  for _, part in ipairs(plan:parts()) do
    local s, f = measure(o, part.plan)
    flops = flops + part.runs * f
    if not apart[part.plan] then seconds = seconds + part.runs * s end
  end
  return seconds, flops
end

-- A micro-batch's bytes to the next stage, or back.
local function sending(o, stage, phase)
  local stages, to = o.size.pipeline, phase.kind == "F" and stage + 1 or stage - 1
  local apart = o.groups.pipeline.stride
  return collectives.send(o.cluster.levels, phase.sends, (stage - 1) * apart,
    (to - 1) % stages * apart)
end

local function piped(o, plans, order)
  local times = { F = {}, B = {}, W = {} }
  for stage, plan in ipairs(plans) do
    for _, phase in ipairs(plan.pipeline.phases) do
      times[phase.kind][phase.part] = measure(o, phase.plan)
        + (phase.sends > 0 and sending(o, stage, phase) or 0)
    end
  end
  local by = {}
  for kind, list in pairs(times) do
    by[kind] = function(stage, chunk) return list[check.part(stage, chunk, #plans)] or 0 end
  end
  return simulate(order, by)
end

local function setting(cluster, size)
  return { cluster = cluster, size = size, groups = groups_of(size),
    job = { cluster = cluster, mesh = size, software = { host = RECORDED } } }
end

local function seconds_of(cluster, size, plans, order)
  local o, rest, flops = setting(cluster, size), 0, 0
  for _, plan in ipairs(plans) do
    local s, f = total_of(o, plan, phases_of(plan))
    rest, flops = math.max(rest, s), flops + f
  end
  local sim = order and piped(o, plans, order)
  return rest + (sim and sim.makespan or 0), sim and sim.bubble or 0, flops / #plans
end

--- Predict how long one rank works for a step; its collectives are of all devices.
---@param cluster mrt.Cluster
---@param plan mrt.Plan
---@return number seconds
function planned.rank(cluster, plan)
  local size = { tensor = 1, context = 1, expert = 1, shard = 1, data = cluster.devices,
    pipeline = 1 }
  return (total_of(setting(cluster, size), plan, {}))
end

---@class mrt.cluster.Planned
---@field seconds number  of a step, predicted
---@field exposed number  of these: it would be so much quicker if links took no time
---@field bubble number   share of the pipeline's time in which stages are idle
---@field flops number    of a rank in a step, what is recomputed among it
---@field utilisation number  of the device's peak in bf16

--- Predict the step.
---@param cluster mrt.Cluster
---@param size table<string, integer>  of the mesh
---@param plans mrt.Plan[]  of each stage; one without a pipeline
---@param order? mrt.PipelineOrder
---@return mrt.cluster.Planned
function planned.step(cluster, size, plans, order)
  local seconds, bubble, flops = seconds_of(cluster, size, plans, order)
  local free = seconds_of(topology.unlinked(cluster), size, plans, order)
  return { seconds = seconds, exposed = math.max(0, seconds - free), bubble = bubble,
    flops = flops, utilisation = flops / (seconds * cluster.device.flops.bf16) }
end

return planned
