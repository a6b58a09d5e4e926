--- topology.lua -- where the ranks of a group stand
---
--- Levels of a network, innermost first: devices of a node, nodes of a pod, pods.  `size`
--- is how many devices a level joins, those of the levels below counted; the last joins any
--- number.  Ranks are numbered along the levels.  A group of `size` ranks that stand `stride`
--- apart has some of them in each unit of a level.
---
--- SPDX-License-Identifier: MIT

local topology = {}

--- How many ranks of a group a level joins for the first time: a list, innermost first,
--- whose product is the group's size (or more, where it does not divide).
---
---     topology.joined(levels, { size = 16, stride = 1 })  --> { 8, 2 } on nodes of 8
---
---@param levels mrt.cluster.Level[]
---@param group {size: integer, stride: integer?}
---@return integer[]
function topology.joined(levels, group)
  local out, within, stride = {}, 1, group.stride or 1
  for i, level in ipairs(levels) do
    local size = i < #levels and level.size or math.huge
    local here = math.max(1, math.min(group.size, size // stride))
    out[i] = math.ceil(here / within)
    within = math.max(within, here)
  end
  return out
end

--- The number of the innermost level that joins two ranks.
---@param levels mrt.cluster.Level[]
---@param a integer  ranks, from 0
---@param b integer
---@return integer
function topology.between(levels, a, b)
  for i = 1, #levels - 1 do
    if a // levels[i].size == b // levels[i].size then return i end
  end
  return #levels
end

--- Bytes a second that a device gives to others over a level, all of them at once.
---@param level mrt.cluster.Level
---@return number
function topology.bandwidth(level)
  return level.bandwidth / (level.oversubscription or 1)
end

--- The same cluster with links that take no time: what is not communication.
---@param cluster mrt.Cluster
---@return mrt.Cluster
function topology.unlinked(cluster)
  local free = {}
  for i, level in ipairs(cluster.levels) do
    free[i] = { name = level.name, size = level.size, bandwidth = math.huge, latency = 0 }
  end
  return setmetatable({ levels = free }, { __index = cluster })
end

return topology
