--- brief.lua -- a plan in about ten lines: what `mrt plan` says first
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local roles = require "mrt.plan.report.roles"

local LARGEST <const> = 4 -- lines about what is alive at the peak
local KINDS <const> = 4 -- of bytes

local function add(lines, head, text, ...)
  lines[#lines + 1] = ("%-10s  %s"):format(head, select("#", ...) > 0 and text:format(...) or text)
end

-- How the peak stands to a budget, or to what the device has; "": neither is known.
local function verdict(plan, budget)
  local has = plan.device.capacity
  local line = budget or has > 0 and has
  if not line then return "" end
  local needs = plan:needs()
  local whose = budget and "the budget of " .. format.bytes(budget)
    or ("the %s of %s"):format(format.bytes(has), plan.device.name)
  if needs > line then
    return ("; %s more than %s"):format(format.bytes(needs - line), whose)
  end
  return ("; %s of %s"):format(("%.3g %%"):format(100 * needs / line), whose)
end

-- Kinds of bytes at the peak, the largest first.
local function kinds(plan, values)
  local list = {}
  for role, bytes in pairs(roles.sums(values, plan.peak_step)) do
    if not roles.outside[role] and bytes > 0 then list[#list + 1] = { role, bytes } end
  end
  table.sort(list, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return a[1] < b[1]
  end)
  local words, rest = {}, 0
  for i, one in ipairs(list) do
    if i <= KINDS then
      words[i] = ("%s %s"):format(roles.words[one[1]], format.bytes(one[2]))
    else
      rest = rest + one[2]
    end
  end
  if rest > 0 then words[#words + 1] = "others " .. format.bytes(rest) end
  return #words > 0 and table.concat(words, ", ") or "nothing"
end

local function largest(plan, lines, values)
  local list = about.alive(values, plan.peak_step)
  for i = 1, math.min(LARGEST, #list) do
    local g = list[i]
    add(lines, i == 1 and "largest" or "", "%10s  %s%s %s, %s", format.bytes(g.bytes),
      g.count > 1 and g.count .. " x " or "", format.shorten(g.what, 30), g.type, g.place)
  end
end

-- What only some plans have: a line each.
local function special(plan, lines, steps)
  if plan.micro_batches then
    add(lines, "batch", "%d micro-batches of %d rows, of %d", plan.micro_batches, plan.micro_batch,
      plan.batch)
  end
  if plan.swapped > 0 then
    add(lines, "swapped", "%s; %s out and %s back in a step, which waits %s for them",
      format.bytes(plan.swapped), format.bytes(plan.copied_out), format.bytes(plan.copied_in),
      format.time(plan.stall))
  end
  if plan.undivided then add(lines, "whole", "%s", plan.undivided) end
  if plan.collectives > 0 then
    local o = plan.step_options or {}
    add(lines, "ranks", "%s%s given to other ranks, in %d collectives",
      o.ranks and ("this is rank %d of %d; "):format(o.rank, o.ranks) or "",
      format.bytes(math.ceil(plan.wire)), plan.collectives)
  end
  if plan.hosted > 0 then
    add(lines, "on the CPU", "%d of %d nodes, and %s of the host's memory", plan.hosted, plan.nodes,
      format.bytes(plan.staging))
  end
  local raised = about.raised(plan, steps)
  if raised then add(lines, "checkpoint", "%s", raised) end
end

--- Ten lines: the peak and what it is made of, where it is, what is largest there, the time
--- of a step, how to see more.
---@param plan mrt.Plan
---@param run {script: string, budget: integer?}  the words behind `mrt plan`
---@return string
return function(plan, run)
  local lines, values, steps = {}, plan:values(), plan:steps()
  add(lines, "plan of", "%s", plan.title or "a step")
  add(lines, "peak", "%s (%s bytes)%s", format.bytes(plan.peak), format.count(plan.peak),
    verdict(plan, run.budget))
  add(lines, "made of", "%s", kinds(plan, values))
  largest(plan, lines, values)
  local top = steps[plan.peak_step]
  if top then
    add(lines, "peak is at", "step %d of %d: %s%s, %s", plan.peak_step, #steps,
      format.shorten(top.op, 30), top.backward and " (gradient)" or "", about.place(top))
  end
  special(plan, lines, steps)
  add(lines, "step time", "%s, predicted for %s%s", format.time(plan.seconds), plan.device.name,
    about.unlinked(plan))
  if not run.budget then
    add(lines, "less", "mrt plan --budget %s %s", format.bytes(math.max(plan.peak // 2, 1))
      :gsub(" ", ""), run.script)
  end
  add(lines, "more", "mrt plan --long, or --html page.html for pictures")
  return table.concat(lines, "\n")
end
