--- fit.lua -- a stage within its budget, to the byte, in the least time
---
--- What a stage takes is its variables, what it holds of micro-batches in flight, and the
--- largest arena of its plans.  From a choice of what is held (keep.lua) the walk through the
--- schedule counts the second before anything is planned; the plans of phases then get what
--- is left as budgets of their own, within which the planner recomputes.  Fewer bytes held
--- leave more to the arenas, and take more time: the front of choices is bisected for the
--- first that fits, and some behind that are planned too, since what recomputes less within
--- a phase may be quicker.
---
---   never   exceeds the budget; refuses one that the error of a lesser one has named
---   cost    plans of the phases, for about log2 of the front's choices, and a few
---
--- SPDX-License-Identifier: MIT

local combine = require "mrt.accumulate.combine"
local core = require "mrt.core"
local format = require "mrt.util.format"
local hold = require "mrt.pipeline.hold"
local with = require "mrt.util.options".with

local KINDS <const> = { "F", "B", "W" }
local BEHIND <const> = 3 -- choices behind the first that fits which are planned too

---@class mrt.PipelineFit
---@field maker mrt.PipelineMaker
---@field entry table
---@field budget integer   bytes, without what a device keeps for itself
---@field overhead integer that
---@field fronts table<integer, mrt.PipelineChoice[]>  by part
---@field count integer    choices of the longest front
---@field tried table<integer, table>  by place on the front: what came of it
local Fit = {}
Fit.__index = Fit

-- The parts' choices at a place on the front, from 1 to `count`.
function Fit:layouts(place)
  local out = {}
  for part, front in pairs(self.fronts) do
    local at = self.count == 1 and 1 or 1 + (place - 1) * (#front - 1) // (self.count - 1)
    out[part] = self.maker:layout(part, front[at])
  end
  return out
end

-- In one order, for ranks of the same stage plan alike.
local function each_phase(stages, f)
  local parts = {}
  for part in pairs(stages) do parts[#parts + 1] = part end
  table.sort(parts)
  for _, part in ipairs(parts) do
    for _, kind in ipairs(KINDS) do
      local phase = stages[part][kind]
      if phase then f(phase, part, kind) end
    end
  end
end

local function free(stages)
  each_phase(stages, function(phase)
    if phase.plan then phase.plan:free() end
    phase.plan, phase.blocks = nil, nil
  end)
end

-- Plan a phase within `room` for its arena; nil: as it comes.  False, and the arena that
-- would do, if that is known: there is too little room.
function Fit:plan_phase(layout, room, own)
  local maker, options = self.maker, nil
  if room then
    local bytes = math.tointeger(room + own + self.overhead)
    options = with(maker.options, "memory", math.max(1, bytes))
  end
  local ok, plan = pcall(maker.plan_phase, maker, layout, options)
  if ok then return plan end
  if type(plan) ~= "table" or plan.code ~= "budget" then error(plan, 0) end
  return false, plan.needed and plan.needed - own - self.overhead or math.huge
end

-- Plan phases again whose arena is larger than there is room, within that.  The arena that
-- would do for all if some do not fit, else nil.
function Fit:shrink(stages, layouts, room)
  local most
  each_phase(stages, function(phase, part, kind)
    local info = phase.plan:info()
    if info.transient <= room then return end
    local own = info.persistent + info.outputs
    local plan, arena = self:plan_phase(layouts[part][kind], room, own)
    if not plan then
      most = math.max(most or 0, arena)
    else
      phase.plan:free()
      phase.plan, phase.blocks = plan, plan:blocks()
    end
  end)
  return most
end

-- What the step takes with these plans, and what of it is not an arena's.
function Fit:taken(stages, held)
  local entry = setmetatable({ stages = stages, held = held, describe = false },
    { __index = self.entry })
  entry.plans, entry.runs = self.list(entry)
  return combine(entry):info()
end

-- What is held with these phases, planned or not.
function Fit:held(stages)
  return self.entry.reserved + hold.bytes(self.maker.settings.stage, stages, self.entry.events,
    self.entry.came, self.entry.behind)
end

-- What a place takes at least where its plans do not fit; nil: they do.
function Fit:squeeze(found, layouts, info)
  local room, others = self.budget - info.beside, self:others(found.stages)
  local arena = self:shrink(found.stages, layouts, math.max(room, 0))
  if arena or others > room then return info.beside + math.max(arena or 0, others) end
  found.held = self:held(found.stages)
  info = self:taken(found.stages, found.held)
  return info.peak > self.budget and info.peak or nil
end

-- Plan a place on the front: `seconds` if it fits, else perhaps the bytes that it `needs`.
function Fit:try(place)
  local layouts, stages, maker = self:layouts(place), {}, self.maker
  for part, layout in pairs(layouts) do stages[part] = maker:sketch(part, layout) end
  local found = { place = place, stages = stages, held = self:held(stages) }
  if found.held > self.budget and place < self.count then return found end
  each_phase(stages, function(phase, part, kind)
    phase.plan = self:plan_phase(layouts[part][kind])
    phase.blocks = phase.plan:blocks()
  end)
  found.held = self:held(stages)
  local info = self:taken(stages, found.held)
  found.needed = info.peak > self.budget and self:squeeze(found, layouts, info) or nil
  if found.needed then
    free(stages)
    return found
  end
  found.seconds = self:taken(stages, found.held).seconds
  return found
end

-- The largest arena of the plans that are no phases.
function Fit:others(stages)
  local phases, most = {}, 0
  each_phase(stages, function(phase) phases[phase.plan] = true end)
  for _, plan in ipairs(self.list(setmetatable({ stages = stages }, { __index = self.entry }))) do
    if not phases[plan] then most = math.max(most, plan:info().transient) end
  end
  return most
end

function Fit:at(place)
  if not self.tried[place] then self.tried[place] = self:try(place) end
  return self.tried[place]
end

-- The first place that fits, by halving: those behind take less.
function Fit:first()
  local low, high = 1, self.count
  while low < high do
    local mid = (low + high) // 2
    if self:at(mid).seconds then high = mid else low = mid + 1 end
  end
  return self:at(low).seconds and low or nil
end

-- The quickest of the first that fits and some behind it.
function Fit:quickest()
  local first = self:first()
  if not first then return nil end
  local step = math.max(1, (self.count - first) // (2 * BEHIND))
  for i = 1, BEHIND do self:at(math.min(self.count, first + i * step)) end
  local best
  for _, found in pairs(self.tried) do
    local faster = found.seconds and (not best or found.seconds < best.seconds
      or found.seconds == best.seconds and found.place < best.place)
    if faster then best = found end
  end
  for _, found in pairs(self.tried) do
    if found ~= best then free(found.stages) end
  end
  return best
end

-- The place that takes least of those tried, and what.
function Fit:least()
  local least
  for _, found in pairs(self.tried) do
    local known = found.needed and found.needed < math.huge
    if known and (not least or found.needed < least.needed) then least = found end
  end
  return least, least and least.needed + self.overhead
end

-- Raise that the budget is too little, with what would do.
function Fit:refuse()
  local least, needed = self:least()
  local settings = self.maker.settings
  local text = ("stage %d of %d: memory = %s is too little"):format(settings.stage, settings.p,
    format.bytes(self.budget + self.overhead))
  if least then
    text = ("%s; with recomputing, %s (%d bytes) is the least found, %s of it held for "
      .. "micro-batches in flight; next levers: more micro-batches (option 'accumulate'), more "
      .. "stages"):format(text, format.bytes(needed), needed, format.bytes(least.held))
  end
  local _, err = pcall(core.fail, "budget", "pipeline", text)
  err.needed = needed
  error(err, 0)
end

--- Choose what a stage holds and plan its phases anew, so that it takes no more than a
--- budget.
---
--- Raises: a budget that is too little, with the bytes that would do.
---@param maker mrt.PipelineMaker
---@param entry table   planned with all held; its `stages` and `held` become those that fit
---@param o {keepers: table<integer, mrt.PipelineKeeper>, memory: integer,
---  list: fun(entry: table): table, table}  list: all plans of an entry, and how often they run
return function(maker, entry, o)
  local overhead = math.floor(entry.core:device().overhead)
  local self = setmetatable({ maker = maker, entry = entry, budget = o.memory - overhead,
    overhead = overhead, fronts = {}, count = 1, tried = {}, list = o.list }, Fit)
  if combine(entry):info().peak <= self.budget then return end
  for part, keeper in pairs(o.keepers) do
    self.fronts[part] = maker.settings.again and { false } or keeper:front()
    self.count = math.max(self.count, #self.fronts[part])
  end
  local best = self:quickest()
  if not best then self:refuse() end
  free(entry.stages)
  entry.stages, entry.held = best.stages, best.held
end
