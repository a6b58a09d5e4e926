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
--- many sites share them.  Of a step in stages each phase of a part has its own
--- (lua/mrt/pipeline/delayed.lua): what F and B both read is a site of both, whose
--- largest is the same.
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
---@field states table<integer|string, mrt.ScaleState>  by how many sites there are, or by the
---  name of a phase and these
---@field phases mrt.PhaseScales?  of a step in stages
---@field mesh mrt.Mesh?
---@field now mrt.ScaleState?  of the trace that is made, or was last
---@field scale mrt.Tensor?    its variables, for the core
---@field amax mrt.Tensor?
---@field parts boolean        whether that is of micro-batches
---@field asked table[]?       the sites it was begun again for
local Delayed = { name = "fp8 scaling" }
Delayed.__index = Delayed

--- Make the state of a function's scales.
---@param settings mrt.DelayedScaling?
---@param given table  options of the function
---@return mrt.Delayed?
function delayed.new(settings, given)
  if not settings then return nil end
  local self = setmetatable({ settings = settings, states = {}, mesh = given.mesh }, Delayed)
  local pipeline = given.pipeline
  if pipeline then self.phases = require "mrt.pipeline.delayed".new(self, pipeline) end
  return self
end

local function variable(shape, value, name)
  return core.variable(op.full { shape = shape, value = value, dtype = "f32" }, name)
end

--- The state of so many sites, of a plan that needs no name or of this one.
---@param sites integer
---@param name? string
---@return mrt.ScaleState
---@nodoc
function Delayed:state_of(sites, name)
  name = name or sites
  self.states[name] = self.states[name] or {
    scale = variable({ sites }, 1, "fp8.scale"),
    history = variable({ self.settings.history, sites }, 0, "fp8.history"),
    amax = variable({ sites }, 0, "fp8.amax") }
  return self.states[name]
end

local function use(self, state)
  self.now, self.scale, self.amax = state, state and state.scale, state and state.amax
end

--- Whether two lists of sites are scaled alike.
---@param a table[]
---@param b table[]
---@return boolean
---@nodoc
function Delayed.same(a, b)
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
  if now and now.list and self.same(sites, now.list) then
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
      use(self, #sites > 0 and self:state_of(#sites) or nil)
      if self.now then self.now.list = sites end
    end)
  end
end

--- Variables and plain values by name, for a snapshot: of stages those of all.
---@param out table
function Delayed:state(out)
  out.fp8 = {}
  for name, state in pairs(self.phases and self.phases:all() or self.states) do
    table.insert(out.fp8, name)
    out["fp8.scale." .. name] = state.scale
    out["fp8.history." .. name] = state.history
  end
  table.sort(out.fp8, function(a, b) return tostring(a) < tostring(b) end)
end

--- Make the variables that a state has, with its numbers if they are there.
---@param state table
function Delayed:load_state(state)
  for _, name in ipairs(state.fp8 or {}) do
    local sites = math.tointeger(tonumber(tostring(name):match "%d+$"))
    local own = self:state_of(sites, name)
    local scale, history = state["fp8.scale." .. name], state["fp8.history." .. name]
    if scale then own.scale:assign(scale) end
    if history then own.history:assign(history) end
  end
end

Delayed.expect_state = Delayed.load_state

-- ---- in a trace ----------------------------------------------------------------

--- Traces of a step in `k` micro-batches begin.
---@param k integer
function Delayed:prepare(k)
  self.parts, self.asked = k > 1, nil
  if self.phases then self.phases:begin() end
end

local function room(state)
  local values = {}
  for i = 1, state.amax:size(1) do
    local site = state.list[i] -- nil: there is room for more, whose largest is 0
    values[i] = site and dtypes[site.dtype].largest or 1
  end
  return core.tensor(values, "f32")
end

-- fp8_max / amax / 2^margin, where amax is positive and finite; nothing is divided
-- by 0, which nan = "trap" would take for a fault.
local function next_scale(self, state, history)
  local amax = history:amax(1)
  local zero = op.full { shape = {}, value = 0, dtype = "f32" }
  local infinite = op.full { shape = {}, value = math.huge, dtype = "f32" }
  local usable = op.logical_and(op.gt(amax, zero), op.lt(amax, infinite))
  local scale = room(state) / op.where(usable, amax, 1)
    * 2.0 ^ -self.settings.margin
  return op.where(usable, op.minimum(scale, LARGEST), state.scale)
end

-- Ranks that each see other rows, or pieces, of what is one value: those of their batch, of
-- a mesh's tensor and context.
local function beside(self)
  local now, mesh, list = self.trace, self.mesh, { self.trace.ranks }
  list[#list + 1] = now.replicas
  for _, name in ipairs { "tensor", "context" } do
    list[#list + 1] = mesh and mesh.size[name] > 1 and mesh.comm[name] or nil
  end
  return list
end

-- What the next step scales by: the same on all ranks.
local function move_on(self, state)
  local amax = state.amax
  for _, comm in ipairs(beside(self)) do
    if comm.size > 1 then amax = op.allreduce(amax, { comm = comm.number, op = "max" }) end
  end
  local length = self.settings.history
  local history = op.reshape(amax, { 1, state.amax:size(1) })
  if length > 1 then
    history = op.cat({ history, op.slice(state.history, 1, 1, length - 1) }, { dim = 1 })
  end
  state.scale:assign(next_scale(self, state, history))
  state.history:assign(history)
end

--- The function has been traced.
function Delayed:finish()
  for _, state in ipairs(self.phases and self.phases:known() or { self.now }) do
    move_on(self, state)
  end
end

--- What a plan of `sections` micro-batches adds up beside gradients: the largest.
---@param sections integer
---@return table[] jobs  of accumulate.trace
function Delayed:totals(sections)
  local state = self.now
  if not state or self.phases then return {} end
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

local function add_sites(out, state)
  local scales, amaxes = state.scale:totable(), state.history:select(1, 1):totable()
  for i, site in ipairs(state.list or {}) do
    local one = { scale = scales[i], amax = amaxes[i] }
    for key, value in pairs(site) do one[key] = value end
    out[#out + 1] = one
  end
end

--- The sites of the plan that was made last; of stages those of this one.
---@return table[]? sites
function Delayed:look()
  local out = setmetatable({}, Scales)
  for _, state in ipairs(self.phases and self.phases:known() or { self.now }) do
    add_sites(out, state)
  end
  return #out > 0 and out or nil
end

return delayed
