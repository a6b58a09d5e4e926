--- front.lua -- peak against predicted time: what budgets and micro-batches would give
---
--- Each point is a plan: the batch as it is with all kept, in micro-batches, and the first
--- that the planner finds within each of a row of budgets, down to the least.  The larger
--- the step, the fewer budgets, for each costs a search; of a step too large there is no
--- front.  How many there are does not depend on the machine.
---
--- SPDX-License-Identifier: MIT

local front = {}

local LARGEST <const> = 3000 -- nodes of a step that is planned again
local WORK <const> = 5000    -- nodes in all budgets together
local MOST <const>, LEAST <const> = 9, 3 -- budgets
local LOWEST <const> = 0.3   -- of the peak with all kept
local PARTS <const> = 16     -- micro-batches, at most

--- One point.
---@class mrt.plan.Point
---@field way string        "as it is", "micro-batch 6", "memory = ..."
---@field memory? integer   the budget, in bytes
---@field accumulate? integer
---@field peak integer      bytes
---@field needs integer     bytes that a budget must hold
---@field seconds number    predicted, of a step
---@field does string       what is recomputed, swapped, waited for
---@field guessed? boolean  it swaps, and how quick copies are nobody has measured

-- Plan one way; nil, and the bytes that would do, where it does not fit.
local function try(plan, list, way, changes, glance)
  local ok, other = pcall(plan.replan, changes, nil, glance)
  if not ok then return nil, type(other) == "table" and other.needed or nil end
  local point = { way = way, memory = changes.memory or nil,
    accumulate = changes.accumulate or nil, peak = other.peak, needs = other:needs(),
    seconds = other.seconds, does = other:choices().text,
    guessed = other.swapped > 0 and not other.device.swap_known or nil }
  list[#list + 1] = point
  return point
end

local function micro_batches(plan, list)
  local rows, k = plan.rows or 1, 2
  while k <= rows and k <= PARTS do
    local way = ("accumulate = %d"):format(k)
    if not try(plan, list, way, { memory = false, accumulate = k }) then return end
    k = k * 2
  end
end

-- Less and less, as far as the planner finds a plan, or down to LOWEST.
local function budgets(plan, list, first)
  local count = math.min(math.max(WORK // math.max(plan.nodes, 1), LEAST), MOST)
  local last = first.needs
  local function within(bytes)
    local point, needed = try(plan, list, "memory", { memory = bytes, accumulate = false }, true)
    last = point and bytes or last
    return point, needed
  end
  for i = 1, count do
    local bytes = math.floor(first.peak * (1 - (1 - LOWEST) * i / count)) + first.needs - first.peak
    local point, needed = within(bytes)
    if not point and not needed then -- far below the least
      point, needed = within((bytes + last) // 2)
    end
    if needed and needed < last then within(needed) end
    if not point then return end
  end
end

--- The points of a plan's front, the largest peak first; none where its step is too large
--- to be planned again, or not of a compiled function.
---@param plan mrt.Plan
---@return mrt.plan.Point[]
function front.of(plan)
  local list = {}
  if not plan.replan or plan.nodes > LARGEST then return list end
  local first = try(plan, list, "as it is", { memory = false, accumulate = false })
  if not first then return list end
  micro_batches(plan, list)
  budgets(plan, list, first)
  table.sort(list, function(a, b)
    if a.peak ~= b.peak then return a.peak > b.peak end
    return a.seconds < b.seconds
  end)
  return list
end

return front
