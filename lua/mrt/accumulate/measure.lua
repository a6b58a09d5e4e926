--- measure.lua -- a step by the clock, in micro-batches or not
---
--- SPDX-License-Identifier: MIT

local accumulate = require "mrt.accumulate"

-- How often each plan runs in a step, and the row it is measured at.
local function parts_of(entry)
  if not entry.parts then return {} end
  local parts = { { plan = entry.parts[1], row = 0, runs = entry.count } }
  if entry.parts[2] then
    parts[1].runs = entry.count - 1
    parts[2] = { plan = entry.parts[2], row = (entry.count - 1) * entry.size, runs = 1 }
  end
  return parts
end

local function add(out, raw, steps, runs)
  out.total, out.call = out.total + runs * raw.total, out.call + runs * raw.call
  out.runs = out.runs + runs
  for i, step in ipairs(steps) do
    step.measured, step.key, step.runs = raw.seconds[i], raw.keys[i], runs
    out.steps[#out.steps + 1] = step
  end
end

--- Measure the plans of a step, each with its own clock; in stages, those of this one, while
--- all stages do.  Nothing but the accumulators changes, which the next step begins anew.
---@param entry table       of a compiled function
---@param inputs any[]
---@param o {rounds: integer, cpu: boolean?}
---@return table measured   total, call, runs (of plans), steps
return function(entry, inputs, o)
  local out = { total = 0, call = 0, runs = 0, steps = {} }
  local function one(plan, read, row, runs)
    add(out, plan:measure(read, o.rounds, o.cpu, row, entry.rows), plan:steps(), runs)
  end
  -- totals for the final plan to read
  if entry.parts and not entry.measured then accumulate.run_parts(entry, inputs, 0) end
  local first = entry.first
  if first then add(out, first:measure({}, o.rounds, o.cpu), first:steps(), 1) end
  if entry.measured then
    entry.measured(inputs, one)
  else
    for _, part in ipairs(parts_of(entry)) do one(part.plan, inputs, part.row, part.runs) end
  end
  add(out, entry.core:measure(inputs, o.rounds, o.cpu), entry.core:steps(), 1)
  return out
end
