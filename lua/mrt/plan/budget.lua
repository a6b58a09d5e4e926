--- budget.lua -- why a step does not fit, and what would help
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local swap = require "mrt.policy.swap"

local budget = {}

local SHOWN = 5 -- of what is alive at the peak
local MOST_PARTS = 1024

-- What is alive where the plan needs most, by the lines that made it.
local function alive(plan, lines)
  local steps = plan:steps()
  local top = steps[plan.peak_step]
  if not top then return end
  lines[#lines + 1] = ("at its peak, in %s (%s), live"):format(top.op,
    about.place(top))
  local list = about.alive(plan:values(), plan.peak_step)
  for i = 1, math.min(SHOWN, #list) do
    local g = list[i]
    lines[#lines + 1] = ("  %10s %5s %-10s %-12s %s"):format(
      format.bytes(g.bytes), g.count > 1 and g.count .. " x" or "", g.role,
      g.what, g.place)
  end
end

-- What else a script may allow, in the order to try.
local levers = {
  { "accumulate = 2", { accumulate = 2 } },
  { "accumulate = 4", { accumulate = 4 } },
  { "accumulate = 8", { accumulate = 8 } },
  { "swap = policy.swap.optimizer()", { swap = swap.optimizer() } },
  { "swap = policy.swap.all()", { swap = swap.all() } },
}

-- The first of them that fits, and what it saves.
local function next_lever(needed, given, replan)
  for _, lever in ipairs(levers) do
    local changes = { memory = given, effort = 0 } -- who asks waits
    for name, value in pairs(lever[2]) do changes[name] = value end
    local ok, plan = pcall(replan, changes)
    if ok and plan:needs() <= given then
      return ("next lever: %s fits, with a peak of %s (%s less)"):format(lever[1],
        format.bytes(plan.peak), format.bytes(needed - plan.peak))
    end
  end
  return "no lever tried here fits: fewer rows, or more devices"
end

--- Policies of swapping that a step in micro-batches falls back on, unless the script
--- says what may be swapped: they change no bit.
---@return mrt.SwapPolicy[]
function budget.fallbacks()
  return { swap.optimizer { least = 4096 }, swap.all { least = 4096 } }
end

--- Raise the error of a budget that was too little, with what is alive at the
--- peak of the smallest budget that would do, and the next lever.
---@param err table     error object of the core, code "budget"
---@param given integer the budget in bytes
---@param replan fun(changes: table): mrt.Plan
---@param bound? string  of the process, which leaves the step that budget
function budget.explain(err, given, replan, bound)
  local needed = err.needed
  if not needed then error(err, 0) end
  local lines = { ("%s is too little; with %s, %s (%d bytes) is the least found")
    :format(bound and ("%s leave %s to the step, which"):format(bound, format.bytes(given))
      or "memory = " .. format.bytes(given), err.message:match "with ([%a ]+),"
      or "micro-batches", format.bytes(needed), needed) }
  local ok, plan = pcall(replan, { memory = needed, effort = 0 })
  if not ok then ok, plan = pcall(replan, { memory = needed }) end
  if ok then alive(plan, lines) end
  lines[#lines + 1] = next_lever(needed, given, replan)
  local message = table.concat(lines, "\n")
  local from, to = err.text:find(err.message, 1, true)
  err.text = from and err.text:sub(1, from - 1) .. message .. err.text:sub(to + 1)
    or message
  err.message = message
  error(err, 0)
end

-- Seconds of a plan; of one that swaps at a rate that is a guess more than of any that
-- does not.
local function cost(plan)
  local guess = plan.swapped > 0 and not plan.device.swap_known
  return (guess and 1e9 or 0) + plan.seconds
end

--- The number of micro-batches that makes the step quickest within the budget:
--- 1, 2, 4, ...; 1 when none fits, whose error then says why.
---@param rows integer  of the batch
---@param replan fun(changes: table): mrt.Plan
---@return integer
function budget.parts(rows, replan)
  local best, quickest, k = 1, math.huge, 1
  while k <= rows and k <= MOST_PARTS do
    local ok, plan = pcall(replan, { accumulate = k })
    if ok and cost(plan) < quickest then best, quickest = k, cost(plan) end
    if ok and k > 4 * best then break end
    k = k * 2
  end
  return best
end

return budget
