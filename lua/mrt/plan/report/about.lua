--- about.lua -- facts of a plan that several reports state
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local roles = require "mrt.plan.report.roles"

local about = {}

--- "train.lua:12", of a step or a value.
---@param v {file: string, line: integer}
---@return string
function about.line(v)
  return v.line > 0 and ("%s:%d"):format(v.file, v.line) or v.file
end

--- "blocks.3.fc, train.lua:12": the module that was called, or whose parameter is
--- updated, where there is one; and the line.
---@param v {file: string, line: integer, module: string?}
---@return string
function about.place(v)
  return v.module and v.module .. ", " .. about.line(v) or about.line(v)
end

--- "blocks.*.fc": what the modules of a list have in common.
---@param v {module: string?}
---@return string?
function about.modules(v)
  return v.module and (("." .. v.module .. "."):gsub("%.%d+%f[.]", ".*"):sub(2, -2))
end

--- The same of all that are alike but for their place in a list: "blocks.*.fc".
---@param v {file: string, line: integer, module: string?}
---@return string
function about.places(v)
  return about.place { file = v.file, line = v.line, module = about.modules(v) }
end

--- Where swapped values go.
---@return string
function about.tier()
  return core.info().device == "cpu" and "the swap tier, here a file" or "the swap tier"
end

--- The swap tiers of a plan, where there are several; else none.
---@param plan mrt.Plan
---@return table[]
function about.tiers(plan)
  local tiers = plan:tiers()
  return #tiers > 1 and tiers or {}
end

--- One line for hover texts: op, type, bytes, Lua line, steps, offset.
---@param v table  a value
---@return string
function about.value(v)
  local what = v.name or v.op ~= "" and v.op or v.role
  local text = ("%s %s, %s (%s)\n%s"):format(what, v.type,
    format.bytes(v.bytes), roles.words[v.role], about.place(v))
  if not roles.in_arena[v.role] then return text end
  return ("%s\nsteps %d to %d, offset %s"):format(text, v.first, v.last,
    format.count(v.offset))
end

--- Values of the arena alive at a step, those of one line, operator and type, and of
--- modules that are alike, together, the largest first: role, what, type, place, count, bytes.
---@param values table[]
---@param step integer
---@return table[]
function about.alive(values, step)
  local out, groups = {}, {}
  for _, v in ipairs(values) do
    if roles.in_arena[v.role] and v.first <= step and step <= v.last then
      local group = { role = v.role, what = v.name or v.op, type = v.type,
        place = about.place(v), bytes = 0, count = 0 }
      local key = table.concat({ group.role, group.what, group.type,
        about.places(v) }, "\0")
      if not groups[key] then
        groups[key], out[#out + 1], group.key = group, group, key
      end
      group = groups[key]
      if group.place ~= about.place(v) then group.place = about.places(v) end
      group.bytes, group.count = group.bytes + v.bytes, group.count + 1
    end
  end
  table.sort(out, function(p, q)
    if p.bytes ~= q.bytes then return p.bytes > q.bytes end
    return p.key < q.key
  end)
  return out
end

--- The highest step off the hill that the peak stands on: it would be the peak
--- if this one were lowered.
---@param steps table[]
---@param peak integer
---@return integer? step
function about.next_peak(steps, peak)
  local function foot(step, by)
    while steps[step + by] and steps[step + by].live <= steps[step].live do
      step = step + by
    end
    return step
  end
  local left, right, best = foot(peak, -1), foot(peak, 1), nil
  for i, s in ipairs(steps) do
    if (i < left or i > right) and (not best or s.live > steps[best].live) then
      best = i
    end
  end
  return best
end

--- Births and deaths by step: two lists, of lists of values of the arena.
---@param values table[]
---@param count integer  of steps
---@return table[][] births
---@return table[][] deaths
function about.events(values, count)
  local births, deaths = {}, {}
  for i = 1, count do births[i], deaths[i] = {}, {} end
  for _, v in ipairs(values) do
    if roles.in_arena[v.role] and v.bytes > 0 then
      table.insert(births[v.first], v)
      table.insert(deaths[v.last], v)
    end
  end
  return births, deaths
end

--- What a predicted time lacks, after it; "": nothing.
---@param plan mrt.Plan
---@return string
function about.unlinked(plan)
  return plan.unlinked and (", without what %d collectives take: its profile has no links "
    .. "that join so many ranks"):format(plan.unlinked) or ""
end

--- What to say of a checkpoint policy whose answers take more than keeping all; nil:
--- nothing.
---@param plan mrt.Plan  or what the core tells of one
---@param steps? table[]  as plan:steps()
---@return string?
function about.raised(plan, steps)
  if not plan.kept_peak or plan.lower_bound <= plan.kept_peak then return nil end
  local step = (steps or plan:steps())[plan.peak_step]
  return ("the policy raises the peak from %s with all kept to %s, at %s of %s"):format(
    format.bytes(plan.kept_peak), format.bytes(plan.lower_bound), step and step.op or "?",
    step and about.place(step) or "?")
end

return about
