--- delayed.lua -- f8 numbers in stages, scaled by what was largest in earlier steps
---
--- Each phase of a part is a plan with sites and state of its own (compile/fp8_scaling.lua),
--- called "B2.17": the phase, the part, for how many sites it has room: the more a phase
--- computes again, the more it has.  What is held is chosen with that room taken, and traced once
--- more where the phase's sites are not those that were known.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local retrace = require "mrt.compile.retrace"
local together = require "mrt.communicator.sync"
local with = require "mrt.util.options".with

local op = core.op

local delayed = {}

---@class mrt.PhaseScales
---@field owner mrt.Delayed
---@field settings mrt.PipelineSettings
---@field now table<string, mrt.ScaleState>?  in a trace, by phase and part: "B2"; nil: not known
---@field found table<userdata, {key: string, list: table[]}>  ditto, by plan: its sites
---@field names string[]   of all states that this stage has had
local Scales = {}
Scales.__index = Scales

local weak = { __mode = "k" }

--- Make them for a function.
---@param owner mrt.Delayed
---@param settings mrt.PipelineSettings
---@return mrt.PhaseScales
function delayed.new(owner, settings)
  return setmetatable({ owner = owner, settings = settings, names = {},
    found = setmetatable({}, weak) }, Scales)
end

--- Traces of a call begin.
function Scales:begin() self.now = nil end

local function keys_of(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

--- The states of this stage's phases, in one order.
---@return mrt.ScaleState[]
function Scales:known()
  local list = {}
  for i, key in ipairs(keys_of(self.now or {})) do list[i] = self.now[key] end
  return list
end

--- Inside the section of a phase that is about to be planned: the options with what the core
--- asks.  The largest of the micro-batches is added up.
---@param key string  "B2"
---@param options table
---@return table
function Scales:phase(key, options)
  local state, own = self.now and self.now[key], {}
  if state then
    own.scale, own.amax = state.scale, state.amax
    core.update("accumulate", { state.amax, state.amax }, { scale = 1, largest = true })
  end
  function own.sites(self_, list) self_.list = list end
  return with(options, "delayed", own)
end

--- It has been planned.
---@param plan userdata
---@param key string
---@param own table  of what `phase` gave
function Scales:planned(plan, key, own) self.found[plan] = { key = key, list = own.list or {} } end

-- Where a phase has so many sites at most.
local function state_of(self, key, sites)
  local name = key .. "." .. sites
  if not self.owner.states[name] then table.insert(self.names, name) end
  return self.owner:state_of(sites, name)
end

-- The sites of phases, of the layouts in which they have most, by phase and part.
local function most_sites(self, maker, all)
  local most = {}
  for _, layouts in ipairs(all) do
    for _, layout in pairs(layouts) do
      for _, phase in pairs(layout) do
        local plan = maker:plan_phase(phase)
        local list = self.found[plan].list
        if #list >= #(most[phase.key] or {}) then most[phase.key] = list end
        plan:free()
      end
    end
  end
  return most
end

--- See how many sites phases have at most, in a trace that does not know it yet: it is made
--- again with room for these.
---@param maker mrt.PipelineMaker
---@param all table<integer, table>[]  layouts of the parts: with nothing computed again, with all
function Scales:look(maker, all)
  if self.now then return end
  local most = most_sites(self, maker, all)
  retrace.request(function()
    self.now = {}
    for key, list in pairs(most) do
      self.now[key] = #list > 0 and state_of(self, key, #list) or nil
      if self.now[key] then self.now[key].list = list end
    end
  end)
end

--- The plans of this stage have been chosen.
---@param entry table
function Scales:settle(entry)
  local other, same = {}, self.owner.same
  for _, part in pairs(entry.stages) do
    for _, kind in ipairs { "F", "B", "W" } do
      local found = part[kind] and self.found[part[kind].plan]
      local state = found and self.now[found.key]
      if state then
        if not same(found.list, state.list) then other[state] = found.list end
        entry.accumulators[core.id(state.amax)] = true
      end
    end
  end
  if next(other) == nil then return end
  retrace.request(function()
    for state, list in pairs(other) do state.list = list end
  end)
end

-- ---- snapshots -----------------------------------------------------------------

-- Let a variable of stage s be on the first, which saves for all, what it is there.
local function hand_on(self, s, variable)
  local x = op.broadcast(variable, { root = s - 1, comm = self.settings.comm.number })
  if self.settings.stage == 1 and s > 1 then variable:assign(x) end
  x:free()
end

--- The states of all stages by name; all ranks call it.  The first stage has their values.
---@return table<string, mrt.ScaleState>
function Scales:all()
  local owner, settings = self.owner, self.settings
  if not settings.p or settings.p == 1 then return owner.states end
  local said = together.gather(table.concat(self.names, " "), settings.comm)
  for s, names in ipairs(said) do
    for name in names:gmatch "%S+" do
      local state = owner:state_of(math.tointeger(tonumber(name:match "%d+$")), name)
      hand_on(self, s, state.scale)
      hand_on(self, s, state.history)
    end
  end
  return owner.states
end

return delayed
