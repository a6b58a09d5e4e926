--- walk.lua -- a plan's execution, step by step
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local tags = require "mrt.plan.report.tags"

-- What lies between those alive: how many blocks, their bytes, the largest.
local function holes(alive, size)
  local list = {}
  for v in pairs(alive) do list[#list + 1] = v end
  table.sort(list, function(a, b) return a.offset < b.offset end)
  local at, count, total, largest = 0, 0, 0, 0
  local function hole(to)
    if to <= at then return end
    count, total, largest = count + 1, total + to - at, math.max(largest, to - at)
  end
  for _, v in ipairs(list) do
    hole(v.offset)
    at = math.max(at, v.offset + v.bytes)
  end
  hole(size)
  return count, total, largest
end

local function name(v)
  return ("%s %s"):format(format.shorten(v.name or v.op, 40), v.type)
end

local function event(lines, sign, v, tag)
  lines[#lines + 1] = ("       %s %-10s %-34s %12s at %s%s"):format(sign, v.role,
    name(v), format.bytes(v.bytes), format.count(v.offset),
    tag and (", %stag %d"):format(tag.new and "new " or "", tag.tag) or "")
end

-- Results that take the place of what the step reads last.
local function in_place(lines, values, operands, step)
  for _, w in ipairs(operands.writes) do
    local v = values[w]
    if v.first < step or v.kind == "variable" then
      lines[#lines + 1] = ("       = %-10s over %s"):format(v.role, name(v))
    end
  end
end

--- Return the execution as text: each step's node, what is born (+), written in
--- place (=) and dies (-), then the live bytes and the free blocks of the arena
--- while it runs; beside them counters of readers and the box of free tags that the
--- simplest planner would have (tags.lua).
---@param plan mrt.Plan
---@return string
return function(plan)
  local values, steps, operands = plan:values(), plan:steps(), plan:operands()
  local births, deaths = about.events(values, #steps)
  local boxes, count_of_tags = tags.simulate(plan)
  local lines, alive = {}, {}
  for i, s in ipairs(steps) do
    for _, v in ipairs(births[i]) do alive[v] = true end
    local count, total, largest = holes(alive, plan.transient)
    lines[#lines + 1] = ("%5d  %s%s, %s: live %s, %d free block%s of %s%s")
      :format(i, s.op, s.backward and " (gradient)" or "", about.place(s),
        format.bytes(s.live), count, count == 1 and "" or "s",
        format.bytes(total), count > 1 and ", the largest "
        .. format.bytes(largest) or "")
    for k, v in ipairs(births[i]) do event(lines, "+", v, boxes[i].taken[k]) end
    in_place(lines, values, operands[i], i)
    for _, v in ipairs(deaths[i]) do
      event(lines, "-", v)
      alive[v] = nil
    end
    lines[#lines + 1] = tags.line(boxes[i], values)
  end
  lines[#lines + 1] = ("%d tags"):format(count_of_tags)
  return table.concat(lines, "\n")
end
