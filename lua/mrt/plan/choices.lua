--- choices.lua -- what a plan recomputes and swaps
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

---@class mrt.Choices
---@field recomputed integer      nodes that run again
---@field recompute_time number   their predicted seconds
---@field activations integer     bytes that wait in the swap tier
---@field variables integer       ditto
---@field tiers table[]          as plan:tiers()
---@field stall number            predicted seconds of waiting for copies
---@field text string

local function recomputed(plan)
  local count, time = 0, 0
  for _, s in ipairs(plan:steps()) do
    if s.recomputed then count, time = count + 1, time + s.time end
  end
  return count, time
end

-- A home has no node, what waits behind the arena has.
local function swapped(plan)
  local values, seen, activations, variables = plan:values(), {}, 0, 0
  for _, t in ipairs(plan:transfers()) do
    local copy = values[t.swapped]
    if not seen[t.swapped] and copy.op == "" then variables = variables + t.bytes end
    if not seen[t.swapped] and copy.op ~= "" then activations = activations + t.bytes end
    seen[t.swapped] = true
  end
  return activations, variables
end

local function words(c)
  local parts = {}
  local function add(text, ...) parts[#parts + 1] = text:format(...) end
  if c.recomputed > 0 then
    add("%d nodes recomputed in %s", c.recomputed, format.time(c.recompute_time))
  end
  if c.activations > 0 then
    add("%s of activations swapped", format.bytes(c.activations))
  end
  if c.variables > 0 then
    add("%s of variables swapped", format.bytes(c.variables))
  end
  local each = {}
  for _, t in ipairs(c.tiers) do
    if t.bytes > 0 then each[#each + 1] = format.bytes(t.bytes) .. " in " .. t.name end
  end
  if #c.tiers > 1 and #each > 0 then add("%s", table.concat(each, " and ")) end
  if c.stall > 0 then add("%s waited for copies", format.time(c.stall)) end
  return #parts > 0 and table.concat(parts, ", ") or "all is kept in memory"
end

--- Look at a plan.
---@param plan mrt.Plan
---@return mrt.Choices
return function(plan)
  local c = { stall = plan.stall }
  c.recomputed, c.recompute_time = recomputed(plan)
  c.activations, c.variables = swapped(plan)
  c.tiers = plan:tiers()
  c.text = words(c)
  return c
end
