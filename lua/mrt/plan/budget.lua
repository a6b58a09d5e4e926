--- budget.lua -- why a step does not fit, and what would help
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local swap = require "mrt.policy.swap"

local budget = {}

local SHOWN = 5 -- of what is alive at the peak
local LARGE = 4000 -- steps; of so many, levers are not planned: who asks waits
local UNTRIED = "levers, not tried of a step so large: micro-batches, fewer rows, more devices"
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

-- The least found is not quite the least there is.
local NEAR <const> = 1.25

-- May it be worth planning?  A k-th of the batch takes no less than a k-th; what may be
-- swapped has been already, unless the script says what.
local function may_help(changes, needed, given, swaps)
  if changes.swap then return not swaps end
  return needed <= NEAR * changes.accumulate * given
end

-- The first of them that fits, and what it saves.
local function next_lever(needed, given, replan, swaps)
  for _, lever in ipairs(levers) do
    local changes = { memory = given, effort = 0 } -- who asks waits
    for name, value in pairs(lever[2]) do changes[name] = value end
    local ok, plan
    if may_help(lever[2], needed, given, swaps) then
      ok, plan = pcall(replan, changes, nil, "any")
    end
    if ok and plan:needs() <= given then
      return ("next lever: %s fits, with a peak of %s (%s less)"):format(lever[1],
        format.bytes(plan.peak), format.bytes(needed - plan.peak))
    end
  end
  return "no lever tried here fits: fewer rows, or more devices"
end

--- Policies of swapping that a step in micro-batches falls back on, unless the script
--- says what may be swapped: they change no bit.
---@param first? boolean  the first of them only: what swaps most
---@return mrt.SwapPolicy[]
function budget.fallbacks(first)
  local all = swap.all { least = 4096 }
  return first and { all } or { all, swap.optimizer { least = 4096 } }
end

-- A plan of what is needed: the core's, if it has made one, or the first that fits.
local function offered(err, replan)
  local core_plan, least = err.plan, { memory = err.needed }
  err.plan = nil
  if core_plan then return pcall(require "mrt.plan".new, core_plan, nil, 0) end
  local ok, plan = pcall(replan, least, nil, "any")
  if ok then return ok, plan end
  return pcall(replan, least)
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
  local ok, plan = offered(err, replan)
  if ok then alive(plan, lines) end
  local swaps = err.message:find("swapping,", 1, true)
  lines[#lines + 1] = ok and #plan:steps() >= LARGE and UNTRIED
    or next_lever(needed, given, replan, swaps)
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
