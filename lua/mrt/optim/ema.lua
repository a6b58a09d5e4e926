--- ema.lua -- exponential moving averages of parameters
---
---     local ema = optim.ema(model:parameters(), {decay = 0.999})
---     opt:step(mrt.grad(loss, model:parameters()))
---     ema:update()                          -- in the same step, or after it
---     ema:apply(function() validate(model) end)
---
--- Polyak & Juditsky 1992, with a fixed decay.  The averages are variables like
--- an optimizer's state: planned, saved, and updated in place.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local argument = require "mrt.util.argument"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"
local load_state = require "mrt.io.load_state"
local masks = require "mrt.prune.masks"
local trace = require "mrt.compile.trace"
local groups = require "mrt.optim.groups"

---@class mrt.EMA
---@field averages mrt.Tensor[]  in the order of the parameters
---@field t mrt.Tensor           scalar: updates so far
local EMA = {}
EMA.__index = EMA

local dtypes = core.dtypes()

-- Averages of narrow parameters are in f32: they move by little.
local function wide(p) return dtypes[p:get_dtype()].narrow and p:to "f32" or p:copy() end

local function rate(self)
  local decay = self.decay
  if self.warmup then decay = (self.t + 1):div(self.t + 10):minimum(decay) end
  return decay
end

local function update(self, when)
  local cast, share = {}, 1 - rate(self)
  for i, p in ipairs(self.params) do
    local dtype = self.averages[i]:get_dtype()
    cast[dtype] = cast[dtype] or core.is_tensor(share) and share:to(dtype)
      or mrt.full({}, share, { dtype = dtype })
    core.update("average", { self.averages[i], p, cast[dtype], when })
    masks.restore(p, when, self.averages[i])
  end
  self.t:assign(self.t + 1, { when = when })
end

--- Move the averages towards the parameters: now, or in the step that is being
--- compiled, after what it has done to them so far.
---
---     ema:update()
---
--- Raises: an option that there is not.
---@param given? {when: mrt.Tensor}  a bool scalar, false to leave all untouched
function EMA:update(given)
  local when = options.read("ema:update", given, { when = options.of "tensor" }).when
  if core.tracing() then return update(self, trace.gate(when)) end
  local key = when ~= nil
  self.compiled[key] = self.compiled[key]
    or mrt.compile(function(predicate) update(self, predicate) end)
  self.compiled[key](when)
end

--- Put the averages in the place of the parameters and these in theirs; a
--- second call puts them back.
---
---     ema:exchange()
function EMA:exchange()
  self.exchanging = self.exchanging or mrt.compile(function()
    local before = {}
    for i, p in ipairs(self.params) do before[i] = p:copy() end
    for i, p in ipairs(self.params) do
      p:assign(self.averages[i])
      masks.restore(p)
      self.averages[i]:assign(before[i])
    end
  end)
  self.exchanging()
end

--- Call `fn` while the parameters have the averages' values; they are put back
--- if it fails too.
---
---     local loss = ema:apply(evaluate)
---
--- Raises: what the function raises; the parameters are back.
---@param fn fun(...): ...
---@param ... any  its arguments
---@return any ...  its results
function EMA:apply(fn, ...)
  argument.callable("ema:apply", fn)
  self:exchange()
  local results = table.pack(pcall(fn, ...))
  self:exchange()
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

--- Return the state by name: "t", and "3" for the average of parameter 3.
---
---     local state = ema:state()
---
--- Shapes: as the parameters.
---@return table<string, mrt.Tensor>
function EMA:state()
  local state = { t = self.t }
  for i, average in ipairs(self.averages) do state[tostring(i)] = average end
  return state
end

--- Set the state, all or nothing.
---
--- Raises: a name that is missing, unknown, or has another shape.
---
---     ema:load_state(state)
---@param state table<string, mrt.Tensor>
---@return mrt.EMA self
function EMA:load_state(state)
  load_state.load(self:state(), state)
  return self
end

function EMA:__tostring()
  local o = { decay = self.decay, warmup = self.warmup }
  return ("%s of %s"):format(describe.options("ema", o, { warmup = false }),
    describe.tensors(self.params))
end

--- Keep averages of parameters, which begin as these are now and come nearer to them by
--- a share of 1 - decay with each update.
---
---     local ema = optim.ema(model:parameters(), { decay = 0.99 })
---     for _ = 1, 3 do step(x, y); ema:update() end
---
--- With `warmup` the decay is min(decay, (1 + t) / (10 + t)) at update t, from 0.
---
--- Shapes: averages of the parameters' shapes.
--- Raises: a decay outside of 0 to 1.
---@param params mrt.Tensor[]|mrt.Group[]
---@param given? {decay: number?, warmup: boolean?}  default 0.999, false
---@return mrt.EMA
return function(params, given)
  local o = options.read("ema", given, { decay = 0.999, warmup = false })
  if not (o.decay >= 0 and o.decay < 1) then
    core.fail("value", "ema", ("decay = %g, wanted 0 <= decay < 1"):format(o.decay))
  end
  local self = setmetatable({ decay = o.decay, warmup = o.warmup, compiled = {},
    averages = {}, params = groups.read("ema", params) }, EMA)
  self.t = mrt.variable(mrt.zeros {}, "ema.t")
  for i, p in ipairs(self.params) do
    self.averages[i] = mrt.variable(wide(p), ("ema.%s"):format(p:get_name() or i))
  end
  return self
end
