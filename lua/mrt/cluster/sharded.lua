--- sharded.lua -- a step whose parameters lie in pieces on the ranks of `data`
---
--- Unit by unit (what comes first, each layer, what comes last) parameters are gathered
--- before they are used, one unit ahead of the computation, no more than two at a time;
--- gradients are scattered behind (Zhao et al., PyTorch FSDP, VLDB 2023).  Gathers and
--- scatters share the links, so one waits for the other; kernels that run beside are slower.
---
--- SPDX-License-Identifier: MIT

local Events = require "mrt.cluster.events"
local collectives = require "mrt.cluster.collectives"
local parts = require "mrt.cluster.parts"

local sharded = {}

-- Links when only one card of a node takes part.
local function through_one_card(levels)
  local out = table.move(levels, 1, #levels, 1, {})
  for i = 2, #out do
    out[i] = setmetatable({ bandwidth = levels[i].bandwidth / levels[1].size },
      { __index = levels[i] })
  end
  return out
end

-- Units in the order of the forward pass; some layers may keep what others compute again.
local function units_of(job)
  local first, layer, last = parts.first(job), parts.layer(job), parts.last(job)
  local kept = job.recomputed and parts.layer(job, "none") or layer
  local list = { first }
  for i = 1, job.model.layers do
    list[#list + 1] = i <= (job.recomputed or job.model.layers) and layer or kept
  end
  list[#list + 1] = last
  return list, first.parameters + job.model.layers * layer.parameters
    + (job.software.untied and last.parameters or 0), job.model.layers * layer.experts
end

-- Seconds to gather and to scatter each kind of unit.
local function wires(job, units, group, others)
  local levels = job.software.one_card and through_one_card(job.cluster.levels)
    or job.cluster.levels
  local gather, scatter = {}, {}
  local function seconds(kind, unit, bytes)
    local own = collectives.seconds(levels, kind, unit.parameters * bytes, group)
    if (unit.experts or 0) == 0 then return own end
    return own + collectives.seconds(levels, kind, unit.experts * bytes, others)
  end
  for _, unit in ipairs(units) do
    if not gather[unit] then
      gather[unit] = seconds("allgather", unit, job.software.gathered or 2)
      scatter[unit] = seconds("reduce_scatter", unit, job.software.gradient)
    end
  end
  return gather, scatter
end

local function streams(job)
  local sim, traits = Events.new(), job.software
  local s = { sim = sim, compute = sim:stream "compute", done = {} }
  s.wire = traits.alone and s.compute
    or sim:stream("wire", { slows = s.compute, by = job.cluster.overlap })
  return s
end

-- A pass over a unit: gathered if so many seconds are given, scattered too.
local function visit(s, chain, gather, scatter)
  local after = gather and { s.sim:task(s.wire, gather, { s.done[#s.done - 1] }) }
  local id = s.sim:task(s.compute, math.max(chain.host, chain.device), after)
  s.done[#s.done + 1] = id
  if scatter then s.sim:task(s.wire, scatter, { id }) end
end

--- Seconds of all micro-batches, and the parameters of a rank before they are cut.
---@param job mrt.cluster.Job
---@param group {size: integer, stride: integer}
---@param others {size: integer, stride: integer}  that have the same experts
---@return number seconds
---@return integer parameters
---@return integer experts  besides: parameters of these
function sharded.run(job, group, others)
  local units, parameters, experts = units_of(job)
  local gather, scatter = wires(job, units, group, others)
  local s = streams(job)
  for micro = 1, job.micros do
    local again, final = job.zero == 3, micro == job.micros
    for _, unit in ipairs(units) do
      visit(s, unit.forward, (again or micro == 1) and gather[unit])
    end
    for i = #units, 1, -1 do -- the last unit is still there
      local unit = units[i]
      visit(s, unit.backward, again and i < #units and gather[unit],
        (again or final) and scatter[unit])
    end
  end
  return s.sim:run(), parameters, experts
end

return sharded
