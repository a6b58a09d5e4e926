--- fp8_scaling.lua -- scales of f8 numbers from what was largest in earlier steps
---
--- Each value that a product reads in f8 is a *site*; they are numbered in the
--- order of the program.  A step scales a site by what earlier steps have found,
--- and notes what is largest in it now:
---
---   history  the largest magnitudes of the last steps, this one included
---   amax     the largest of them
---   scale    largest f8 / amax / 2^margin; as before where amax is 0 or not
---            finite; the largest f32 where that is infinite; 1 at first
---
--- as Transformer Engine's DelayedScaling with the algorithm "max" does
--- (Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433,
--- section 3; NVIDIA, Transformer Engine, common/recipe).  What is larger than f8
--- holds at that scale is rounded to the largest f8.  All of this is in the plan.
---
--- How many sites there are is known once a trace is planned: then that is thrown
--- away, the variables are made and the function is traced again.  Plans of as
--- many sites share them.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local retrace = require "mrt.compile.retrace"

local op = core.op
local dtypes = core.dtypes()

local delayed = {}

local LARGEST <const> = 0x1.fffffep+127 -- of f32
local MOST_MARGIN <const> = 64

---@class mrt.DelayedScaling
---@field history integer  steps
---@field margin integer   the scale is 2^margin smaller than what just fits

--- Read the options `history` and `margin` of policy.precision.fp8.
---@param history any
---@param margin any
---@return mrt.DelayedScaling
function delayed.read(history, margin)
  options.size("precision.fp8", "option 'history'", history)
  if math.type(margin) ~= "integer" or margin < 0 or margin > MOST_MARGIN then
    core.fail("value", "precision.fp8", ("option 'margin': an integer from 0 to %d "
      .. "wanted, got %s"):format(MOST_MARGIN, options.show(margin)))
  end
  return { history = history, margin = margin }
end

-- ---- state -------------------------------------------------------------------

---@class mrt.ScaleState
---@field scale mrt.Tensor    f32[sites]
---@field history mrt.Tensor  f32[history,sites], the last step first
---@field amax mrt.Tensor     f32[sites], in plans of micro-batches only
---@field list table[]?       what the sites are, once planned

---@class mrt.Delayed: mrt.Transform
---@field settings mrt.DelayedScaling
---@field states table<integer, mrt.ScaleState>  by how many sites there are
---@field now mrt.ScaleState?  of the trace that is made, or was last
---@field scale mrt.Tensor?    its variables, for the core
---@field amax mrt.Tensor?
---@field parts boolean        whether that is of micro-batches
---@field asked table[]?       the sites it was begun again for
local Delayed = { name = "fp8 scaling" }
Delayed.__index = Delayed

--- Make the state of a function's scales.
---@param settings mrt.DelayedScaling?
---@return mrt.Delayed?
function delayed.new(settings)
  return settings and setmetatable({ settings = settings, states = {} }, Delayed)
end

local function variable(shape, value, name)
  return core.variable(op.full { shape = shape, value = value, dtype = "f32" }, name)
end

local function state_of(self, sites)
  self.states[sites] = self.states[sites] or {
    scale = variable({ sites }, 1, "fp8.scale"),
    history = variable({ self.settings.history, sites }, 0, "fp8.history"),
    amax = variable({ sites }, 0, "fp8.amax") }
  return self.states[sites]
end

local function use(self, state)
  self.now, self.scale, self.amax = state, state and state.scale, state and state.amax
end

local function same(a, b)
  if #a ~= #b then return false end
  for i, site in ipairs(a) do
    if site.dtype ~= b[i].dtype then return false end
  end
  return true
end

--- The core has planned: these are the sites.  Without variables for them the
--- trace is thrown away.
---@param sites table[]  op, name, file, line, layer, backward, type, dtype
function Delayed:sites(sites)
  local now = self.now
  if now and now.list and same(sites, now.list) then
    now.list = sites
  elseif #sites == 0 and (self.parts or not now) then
    return -- a final plan, which has no products
  elseif self.asked then
    core.fail("value", "precision", ("fp8, scaling = \"delayed\": one step has plans "
      .. "of %d and of %d scaled values; products that only some have can stay in "
      .. "bf16 (option 'except')"):format(#self.asked, #sites))
  else
    retrace.request(function()
      self.asked = sites
      use(self, #sites > 0 and state_of(self, #sites) or nil)
      if self.now then self.now.list = sites end
    end)
  end
end

--- Variables and plain values by name, for a snapshot.
---@param out table
function Delayed:state(out)
  out.fp8 = {}
  for sites, state in pairs(self.states) do
    table.insert(out.fp8, sites)
    out["fp8.scale." .. sites] = state.scale
    out["fp8.history." .. sites] = state.history
  end
  table.sort(out.fp8)
end

--- Make the variables that a state has, with its numbers if they are there.
---@param state table
function Delayed:load_state(state)
  for _, sites in ipairs(state.fp8 or {}) do
    local own = state_of(self, sites)
    local scale, history = state["fp8.scale." .. sites], state["fp8.history." .. sites]
    if scale then own.scale:assign(scale) end
    if history then own.history:assign(history) end
  end
end

Delayed.expect_state = Delayed.load_state

-- ---- in a trace ----------------------------------------------------------------

--- Traces of a step in `k` micro-batches begin.
---@param k integer
function Delayed:prepare(k) self.parts, self.asked = k > 1, nil end

local function room(list)
  local values = {}
  for i, site in ipairs(list) do values[i] = dtypes[site.dtype].largest end
  return core.tensor(values, "f32")
end

-- fp8_max / amax / 2^margin, where amax is positive and finite; nothing is divided
-- by 0, which nan = "trap" would take for a fault.
local function next_scale(self, state, history)
  local amax = history:amax(1)
  local zero = op.full { shape = {}, value = 0, dtype = "f32" }
  local infinite = op.full { shape = {}, value = math.huge, dtype = "f32" }
  local usable = op.logical_and(op.gt(amax, zero), op.lt(amax, infinite))
  local scale = room(state.list) / op.where(usable, amax, 1)
    * 2.0 ^ -self.settings.margin
  return op.where(usable, op.minimum(scale, LARGEST), state.scale)
end

--- The function has been traced: what the next step scales by.
function Delayed:finish()
  local state = self.now
  if not state then return end
  local length = self.settings.history
  local history = op.reshape(state.amax, { 1, state.amax:size(1) })
  if length > 1 then
    history = op.cat({ history, op.slice(state.history, 1, 1, length - 1) }, { dim = 1 })
  end
  state.scale:assign(next_scale(self, state, history))
  state.history:assign(history)
end

--- What a plan of `sections` micro-batches adds up beside gradients: the largest.
---@param sections integer
---@return table[] jobs  of accumulate.trace
function Delayed:totals(sections)
  local state = self.now
  if not state then return {} end
  local job = { into = state.amax, values = {}, scales = {}, largest = true }
  for s = 1, sections do job.values[s], job.scales[s] = state.amax, 1 end
  return { job }
end

-- ---- to look at ------------------------------------------------------------------

local Scales = {} -- metatable of what Delayed:look returns

function Scales:__tostring()
  local lines = { ("%11s  %11s  %-8s  %s"):format("scale", "amax", "dtype", "what") }
  for _, s in ipairs(self) do
    lines[#lines + 1] = ("%11.5g  %11.5g  %-8s  %s%s %s, %s%s:%d"):format(s.scale, s.amax,
      s.dtype, s.backward and "gradient, " or "", s.name or s.op, s.type,
      s.module and s.module .. ", " or "", s.file, s.line)
  end
  return table.concat(lines, "\n")
end

--- The sites of the plan that was made last.
---@return table[]? sites
function Delayed:look()
  local state = self.now
  if not state or not state.list then return nil end
  local scales, out = state.scale:totable(), setmetatable({}, Scales)
  local amaxes = state.history:select(1, 1):totable()
  for i, site in ipairs(state.list) do
    out[i] = { scale = scales[i], amax = amaxes[i] }
    for key, value in pairs(site) do out[i][key] = value end
  end
  return out
end

return delayed
