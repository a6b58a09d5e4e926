--- budget.lua -- why a step does not fit, and what would help
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local about = require "mrt.report.about"
local format = require "mrt.format"

local budget = {}

local SHOWN = 5 -- of what is alive at the peak

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

-- What else the script may allow, and what each would come to.
local levers = {
  { name = "accumulate = 2", options = { accumulate = 2 } },
  { name = "swap = policy.swap.optimizer()", swap = "optimizer" },
  { name = "swap = policy.swap.all()", swap = "all" },
}

--- Raise the error of a budget that was too little, with what is alive at the
--- peak of the smallest budget that would do.
---@param err table     error object of the core, code "budget"
---@param given integer the budget in bytes
---@param replan fun(changes: table): mrt.Plan
function budget.explain(err, given, replan)
  local needed = err.needed
  if not needed then error(err, 0) end
  local lines = { ("memory = %s is too little; with what may be recomputed, %s "
    .. "(%d bytes) is the least found"):format(format.bytes(given),
      format.bytes(needed), needed) }
  local ok, plan = pcall(replan, { memory = needed })
  if ok then alive(plan, lines) end
  core.fail("budget", "compile", table.concat(lines, "\n"))
end

return budget
