--- tags.lua -- memory by counters of readers and a box of free tags
---
--- The simplest planner there is, as courses draw it (Chen et al. 2016, section 3): a
--- tag stands for a piece of memory.  A value takes a tag out of the box, a new one if the
--- box is empty, and has a counter of readers that are still to come; each step counts its
--- reads down, and at 0 the tag goes back.  Sizes are not looked at: how many tags there
--- are says how many values live at once, the plan's offsets how few bytes they need.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"

---@class mrt.TagStep
---@field taken {value: integer, tag: integer, new: boolean}[]  by values that the step makes
---@field left {value: integer, readers: integer}[]  counters of what it reads, after it
---@field box integer[]  free tags after it, ascending

local tags = {}

-- How often each value is read; none where nobody reads it.
local function counters_of(operands)
  local counters = {}
  for _, o in ipairs(operands) do
    for _, v in ipairs(o.reads) do counters[v] = (counters[v] or 0) + 1 end
  end
  return counters
end

local function give_back(box, tag)
  box[#box + 1] = tag
  table.sort(box)
end

-- The state of the box: free tags, those taken by value, how many there are.
local function take(state, v)
  local tag = table.remove(state.box, 1)
  if not tag then state.count = state.count + 1 end
  state.tag_of[v] = tag or state.count
  return { value = v, tag = state.tag_of[v], new = not tag }
end

-- Tags of what nobody reads after step i go back.
local function release(state, values, counters, i)
  for v, tag in pairs(state.tag_of) do
    if (counters[v] or 0) == 0 and values[v].last <= i then
      give_back(state.box, tag)
      state.tag_of[v] = nil
    end
  end
end

--- Run the box over the steps of a plan.
---@param plan mrt.Plan
---@return mrt.TagStep[]
---@return integer count  of tags
function tags.simulate(plan)
  local values, steps, operands = plan:values(), plan:steps(), plan:operands()
  local counters, number, list = counters_of(operands), {}, {}
  for i, v in ipairs(values) do number[v] = i end
  local births = about.events(values, #steps)
  local state = { box = {}, tag_of = {}, count = 0 }
  for i, o in ipairs(operands) do
    local step = { taken = {}, left = {} }
    for k, v in ipairs(births[i]) do step.taken[k] = take(state, number[v]) end
    for k, v in ipairs(o.reads) do
      counters[v] = counters[v] - 1
      step.left[k] = { value = v, readers = counters[v] }
    end
    release(state, values, counters, i)
    step.box = table.move(state.box, 1, #state.box, 1, {})
    list[i] = step
  end
  return list, state.count
end

--- A step's line: counters that it has counted down, and the box.
---@param step mrt.TagStep
---@param values table[]
---@return string
function tags.line(step, values)
  local words = {}
  for i, l in ipairs(step.left) do
    local v = values[l.value]
    local name = v.name or v.op ~= "" and v.op or v.role
    words[i] = ("%s %d"):format(name, l.readers)
  end
  return ("       readers left: %s; box: %s"):format(
    #words > 0 and table.concat(words, ", ") or "-",
    #step.box > 0 and table.concat(step.box, " ") or "empty")
end

return tags
