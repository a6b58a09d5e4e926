--- runs.lua -- how often a compiled function has run
---
--- A step draws its random numbers by the seed, its place in the trace and how
--- often the function has run with arguments of this signature.  All plans of
--- one signature count together, however many micro-batches they have; plans
--- that were forgotten, and runs of a process before this one, count too.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local runs = {}

---@class mrt.RunGroup
---@field name string    the signature
---@field key integer?   of the first random operator in its trace
---@field entries table<table, true>  its plans
---@field past integer   runs of what is no plan any more, since
---@field begun integer  this beginning of the random numbers

local function beginning()
  local _, _, begun = core.random()
  return begun
end

--- What the plans of one signature share.
---@param groups table<string, mrt.RunGroup>
---@param name string
---@return mrt.RunGroup
function runs.group(groups, name)
  local group = groups[name]
    or { name = name, entries = {}, past = 0, begun = beginning() }
  groups[name] = group
  return group
end

--- Runs so far, since the random numbers last began.
---@param group mrt.RunGroup
---@return integer
function runs.count(group)
  local begun = beginning()
  if group.begun ~= begun then group.past, group.begun = 0, begun end
  local count = group.past
  for entry in pairs(group.entries) do count = count + entry.core:runs() end
  return count
end

--- A plan goes; its runs still count while the group has others.
---@param groups table<string, mrt.RunGroup>
---@param entry table
function runs.forget(groups, entry)
  local group = entry.group
  local count = runs.count(group)
  group.entries[entry] = nil
  for other in pairs(group.entries) do count = count - other.core:runs() end
  group.past = count
  if not next(group.entries) then groups[group.name] = nil end
end

--- What another process needs to go on with the same random numbers.
---@param groups table<string, mrt.RunGroup>
---@return {signature: string, key: integer?, runs: integer}[]
function runs.state(groups)
  local list = {}
  for name, group in pairs(groups) do
    list[#list + 1] = { signature = name, key = group.key,
      runs = runs.count(group) }
  end
  table.sort(list, function(a, b) return a.signature < b.signature end)
  return list
end

--- Is it a list as `state` makes them?
---@param list any
---@return boolean
function runs.is_state(list)
  if type(list) ~= "table" then return false end
  for _, given in ipairs(list) do
    if type(given) ~= "table" or type(given.signature) ~= "string"
      or math.type(given.runs) ~= "integer"
      or given.key ~= nil and math.type(given.key) ~= "integer" then
      return false
    end
  end
  return true
end

--- Groups as `state` described them, without plans yet.
---@param list {signature: string, key: integer?, runs: integer}[]
---@return table<string, mrt.RunGroup>
function runs.load(list)
  local groups = {}
  for _, given in ipairs(list) do
    local group = runs.group(groups, given.signature)
    group.key, group.past = given.key, given.runs
  end
  return groups
end

return runs
