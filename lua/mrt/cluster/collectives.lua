--- collectives.lua -- how long ranks of a cluster take to do something together
---
---   question  seconds of a collective of so many bytes, for ranks that stand so
---   method    Candidates, of which the quickest is taken, as NCCL's tuner does:
---             ring       all ranks in one ring; the slowest link is the rate of all, and
---                        ranks of a node share what leaves it
---             hierarchy  a ring on each level, the piece of the level below on the next
---             tree       2 log2 p steps with all bytes in each direction
---             switch     the switch adds up: each rank gives its bytes once
---             A step costs the level's latency; what medium sizes lose besides grows as
---             the root of the bytes (pipelines of chunks that fill and drain).
---   bytes     of the whole vector, as NCCL counts: allgather's result, reduce_scatter's
---             input, what one rank gives away in all_to_all and shift
---   from      Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005; Graham et al., SHARP,
---             COMHPC 2016
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local topology = require "mrt.cluster.topology"

local collectives = {}

-- Of one level, `p` members of it: bytes that each gives away, in so many steps.
local function moving(level, p, steps, bytes)
  local rate = topology.bandwidth(level)
  if p == 2 and level.pair then rate = rate * level.pair end
  return (level.start or 0) + steps * level.latency + bytes / rate
    + (level.ramp or 0) * math.sqrt(bytes)
end

-- Steps of a ring, or of one along each axis of a torus.
local function steps_of(level, p)
  local axes = level.axes and #level.axes or 1
  return axes * (p ^ (1 / axes) - 1)
end

-- On each level a ring; `ways` is 2 of allreduce, whose halves are one launch, else 1.
-- On the way in bytes become 1 / p of them.
local function by_levels(levels, joined, bytes, ways)
  local seconds = 0
  for i, level in ipairs(levels) do
    local p = joined[i]
    if p > 1 then
      seconds = seconds + moving(level, p, ways * steps_of(level, p), ways * bytes * (p - 1) / p)
    end
    bytes = bytes / p
  end
  return seconds
end

-- The same with one ring through all ranks: ranks of a node share what leaves it, which is
-- as wide as all their cards.
local function one_ring(levels, joined, bytes, ways)
  local size, wire = 1, { start = 0, ramp = 0, bandwidth = math.huge, latency = 0 }
  for i, level in ipairs(levels) do
    local p = joined[i]
    if p > 1 then
      local pair = p == 2 and size == 1 and level.pair or 1
      wire.bandwidth = math.min(wire.bandwidth, topology.bandwidth(level) * size * pair)
      wire.start = math.max(wire.start, level.start or 0)
      wire.ramp = math.max(wire.ramp, level.ramp or 0)
      -- as many steps as ranks, but hops on different levels overlap but for the slowest
      wire.latency = wire.latency + steps_of(level, p) * level.latency
    end
    size = size * p
  end
  local steps = wire.latency
  wire.latency = 0
  return ways * steps + moving(wire, size, 0, ways * bytes * (size - 1) / size)
end

local function tree(levels, joined, bytes, ways)
  local seconds = 0
  for i, level in ipairs(levels) do
    local steps = math.ceil(math.log(joined[i], 2) - 1e-9)
    if steps > 0 then seconds = seconds + moving(level, joined[i], ways * steps, ways * bytes) end
  end
  return seconds
end

-- The switch of the innermost level adds up; rings on the levels above.
local function in_switch(levels, joined, bytes)
  local switch, p = levels[1].switch, joined[1]
  if not switch or p < (switch.least or 3) then return nil end
  local level = { bandwidth = switch.bandwidth, latency = 0, start = switch.latency,
    ramp = switch.ramp, oversubscription = levels[1].oversubscription }
  -- counted as busbw is: 2 (p - 1) / p of the bytes
  local seconds = moving(level, p, 0, 2 * bytes * (p - 1) / p)
  local above = { 1, table.unpack(joined, 2) }
  return seconds + by_levels(levels, above, bytes / p, 2)
end

local function quickest(...)
  local best, way
  local names = { "ring", "hierarchy", "tree", "switch" }
  for i = 1, select("#", ...) do
    local seconds = select(i, ...)
    if seconds and (not best or seconds < best) then best, way = seconds, names[i] end
  end
  return best, way
end

local kinds = {}

function kinds.allreduce(levels, joined, bytes)
  return quickest(one_ring(levels, joined, bytes, 2), by_levels(levels, joined, bytes, 2),
    tree(levels, joined, bytes, 2), in_switch(levels, joined, bytes))
end

function kinds.reduce_scatter(levels, joined, bytes)
  return quickest(one_ring(levels, joined, bytes, 1), by_levels(levels, joined, bytes, 1))
end
kinds.allgather = kinds.reduce_scatter

function kinds.broadcast(levels, joined, bytes)
  return quickest(one_ring(levels, joined, bytes, 1), nil, tree(levels, joined, bytes, 1))
end

-- Each rank has bytes / p for each other; what leaves a unit goes over its level.  On rails
-- cards of one number reach each other alone: the rest goes through the node before.
function kinds.all_to_all(levels, joined, bytes)
  local all, within, given = 1, 1, {}
  for _, p in ipairs(joined) do all = all * p end
  for i, level in ipairs(levels) do
    local upto = within * joined[i]
    given[i] = bytes * (upto - within) / all
    if level.rail then given[1] = given[1] + given[i] * (joined[1] - 1) / joined[1] end
    within = upto
  end
  local seconds = 0
  for i, level in ipairs(levels) do
    if joined[i] > 1 then
      seconds = math.max(seconds, moving(level, joined[i], joined[i] - 1, given[i]))
    end
  end
  return seconds, "direct"
end

-- Each rank has all of `bytes` for the next, at once: as long as over the slowest level.
function kinds.shift(levels, joined, bytes)
  local seconds = 0
  for i, level in ipairs(levels) do
    if joined[i] > 1 then seconds = math.max(seconds, moving(level, joined[i], 1, bytes)) end
  end
  return seconds, "ring"
end

--- Seconds that a group takes for a collective, and the way that was quickest.
---
---     collectives.seconds(levels, "allreduce", 2^20, { size = 8 })
---
--- Raises: a collective that there is not, a group that is none.
---@param levels mrt.cluster.Level[]
---@param kind "allreduce"|"reduce_scatter"|"allgather"|"broadcast"|"all_to_all"|"shift"
---@param bytes number
---@param group {size: integer, stride: integer?}
---@return number seconds
---@return string? way  "ring", "hierarchy", "tree", "switch", "direct"
function collectives.seconds(levels, kind, bytes, group)
  local f = kinds[kind] or core.fail("value", "cluster", ("no collective '%s'"):format(kind))
  if math.type(group.size) ~= "integer" or group.size < 1 then
    core.fail("value", "cluster", "a group has one rank or more")
  end
  if group.size == 1 then return 0 end
  return f(levels, topology.joined(levels, group), bytes)
end

--- Seconds of one rank's bytes to another.
---@param levels mrt.cluster.Level[]
---@param bytes number
---@param from integer  ranks, from 0
---@param to integer
---@return number
function collectives.send(levels, bytes, from, to)
  if from == to then return 0 end
  local level = levels[topology.between(levels, from, to)]
  return level.latency + (level.start or 0) + bytes / topology.bandwidth(level)
end

return collectives
