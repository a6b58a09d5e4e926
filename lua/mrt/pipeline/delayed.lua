--- delayed.lua -- f8 numbers in stages, scaled by what was largest in earlier steps
---
--- Each phase of a part is a plan with sites and state of its own (compile/fp8_scaling.lua),
--- called "B2.17": the phase, the part, how many sites.  A trace begins with the states that the
--- last one asked for; where a plan turns out to have other sites it is made again.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local retrace = require "mrt.compile.retrace"
local together = require "mrt.communicator.sync"
local with = require "mrt.util.options".with

local op = core.op

local delayed = {}

local MOST <const> = 4 -- traces until sites are those that were known

---@class mrt.PhaseScales
---@field owner mrt.Delayed
---@field settings mrt.PipelineSettings
---@field now table<string, mrt.ScaleState>  in a trace, by phase and part: "B2"
---@field found table<userdata, {key: string, list: table[]}>  ditto, by plan: its sites
---@field names string[]   of all states that this stage has had
---@field traces integer
local Scales = {}
Scales.__index = Scales

local weak = { __mode = "k" }

--- Make them for a function.
---@param owner mrt.Delayed
---@param settings mrt.PipelineSettings
---@return mrt.PhaseScales
function delayed.new(owner, settings)
  return setmetatable({ owner = owner, settings = settings, now = {}, names = {}, traces = 0,
    found = setmetatable({}, weak) }, Scales)
end

--- Traces of a call begin.
function Scales:begin() self.now, self.traces = {}, 0 end

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
  for i, key in ipairs(keys_of(self.now)) do list[i] = self.now[key] end
  return list
end

--- Inside the section of a phase that is about to be planned: the options with what the core
--- asks.  The largest of the micro-batches is added up.
---@param key string  "B2"
---@param options table
---@return table
function Scales:phase(key, options)
  local state, own = self.now[key], {}
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

-- What the chosen plans have.
local function sites_of(self, entry)
  local lists = {}
  for _, part in pairs(entry.stages) do
    for _, kind in ipairs { "F", "B", "W" } do
      local found = part[kind] and self.found[part[kind].plan]
      if found then lists[found.key] = found.list end
    end
  end
  return lists
end

-- The state of a phase with these sites.
function Scales:state_of(key, list)
  local name = key .. "." .. #list
  local state = self.owner:state_of(#list, name)
  if not state.list then table.insert(self.names, name) end
  state.list = list
  return state
end

--- The plans of this stage have been chosen.  If their sites were not known, the trace is made
--- again.
---@param entry table
function Scales:settle(entry)
  local lists, same = sites_of(self, entry), require "mrt.compile.fp8_scaling".same
  local asked = {}
  for key, list in pairs(lists) do
    local state = self.now[key]
    if #list ~= (state and #state.list or 0) or state and not same(list, state.list) then
      asked[#asked + 1] = key
    end
    if state then entry.accumulators[core.id(state.amax)] = true end
  end
  if #asked == 0 then return end
  self.traces = self.traces + 1
  if self.traces == MOST then
    core.fail("value", "precision", "fp8, scaling = \"delayed\": plans of phases change with the "
      .. "scaled values that they have")
  end
  retrace.request(function()
    for _, key in ipairs(asked) do
      self.now[key] = #lists[key] > 0 and self:state_of(key, lists[key]) or nil
    end
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
