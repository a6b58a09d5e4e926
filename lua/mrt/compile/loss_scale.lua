--- loss_scale.lua -- a loss scale, for gradients too small for f16
---
--- The gradient of the scaled loss is computed, and what the step's updates read
--- is that divided by the scale.  If any of it is not finite, no update happens:
--- parameters, moments, counts of updates, averages and running statistics stay
--- untouched, and a dynamic scale shrinks.  All of this is in the plan; nothing is
--- asked of the host.
---
---   found   any gradient of this step not finite
---   scale   found: scale * backoff; after `interval` steps in a row without:
---           scale * growth, if that is finite
---
--- as PyTorch's GradScaler (torch/amp/grad_scaler.py) does.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local trace = require "mrt.compile.trace"

local op = core.op

local scaling = {}

local function scalar(value)
  return op.full { shape = {}, value = value, dtype = "f32" }
end

---@class mrt.LossScale
---@field init? number      the first scale (default 65536)
---@field growth? number    default 2
---@field backoff? number   default 0.5
---@field interval? integer  good steps in a row before it grows (default 2000)

local defaults = { init = 65536.0, growth = 2.0, backoff = 0.5, interval = 2000 }

local function refuse(text, ...)
  core.fail("value", "loss_scale", text:format(...))
end

local LEAST = 2.0 ^ -127 -- 1 / scale is finite in f32
local MOST_STEPS = 1 << 24 -- that f32 counts

local function positive(name, x)
  if type(x) ~= "number" or not (x > 0 and x < math.huge) then
    refuse("%s = %s, a positive number wanted", name, tostring(x))
  end
end

local function fits(name, x)
  positive(name, x)
  if not (x >= LEAST and x <= core.dtypes().f32.largest) then
    refuse("%s = %g, %g to %g wanted", name, x, LEAST, core.dtypes().f32.largest)
  end
end

--- Read the option `loss_scale` of a precision policy.
---@param given "dynamic"|number|mrt.LossScale
---@return table settings
function scaling.read(given)
  if type(given) == "number" then
    fits("loss_scale", given)
    return { init = given + 0.0, dynamic = false }
  elseif given ~= "dynamic" and type(given) ~= "table" then
    refuse("\"dynamic\", a number or a table wanted, got %s", tostring(given))
  end
  local o = options.read("loss_scale", given ~= "dynamic" and given or nil, defaults)
  for _, name in ipairs { "growth", "backoff" } do positive(name, o[name]) end
  fits("init", o.init)
  local steps = math.tointeger(o.interval)
  if not (steps and steps >= 1 and steps <= MOST_STEPS) then
    refuse("interval = %s, an integer from 1 to %d wanted", o.interval, MOST_STEPS)
  end
  if o.backoff >= 1 then refuse("backoff = %s, below 1 wanted", o.backoff) end
  if o.growth <= 1 then refuse("growth = %s, above 1 wanted", o.growth) end
  o.dynamic = true
  return o
end

--- A transform.  It lies outside all others of the library: what it scales is what
--- they compute, and what it unscales what they hand back.
---@class mrt.Scaler: mrt.Transform
---@field settings table
---@field scale mrt.Tensor  scalar
---@field good mrt.Tensor   scalar: good steps since the scale last changed
---@field norm mrt.Tensor?     in a trace: of the gradients so far; finite if they are
---@field inverse mrt.Tensor?  ditto: 1 / scale
---@field last mrt.Tensor?     ditto, at its end: whether the step counts
local Scaler = { name = "loss scaling" }
Scaler.__index = Scaler

--- Make the state of a loss scale.
---@param settings table?  of scaling.read
---@return mrt.Scaler?
function scaling.new(settings)
  if not settings then return nil end
  return setmetatable({ settings = settings,
    scale = core.variable(scalar(settings.init), "loss_scale"),
    good = core.variable(scalar(0), "good_steps") }, Scaler)
end

--- Raise if the scale has shrunk to nothing, or to what has no inverse: some
--- gradient is not finite at any scale.
function Scaler:before_step()
  local scale = self.scale:item()
  if scale >= LEAST then return end
  core.fail("data", "loss_scale", ("the scale has shrunk to %g: gradients are not "
    .. "finite at any scale (nan = \"trap\" with loss_scale = 1 tells where that begins)")
    :format(scale))
end

function Scaler:state(out) out.loss_scale, out.good_steps = self.scale, self.good end

function Scaler:load_state(state)
  if not state.loss_scale then return end
  self.scale:assign(state.loss_scale)
  self.good:assign(state.good_steps)
end

-- ---- in a trace ------------------------------------------------------------

local weak = { __mode = "k" }

function Scaler:begin()
  self.raw = setmetatable({}, weak) -- by gradient: before unscaling
  self.deferred = {}
end

-- 1 / scale, rounded once from f64 as PyTorch's is.
local function inverse_of(scale)
  return op.cast(op.reciprocal(op.cast(scale, "f64")), "f32")
end

-- How long they are together, about, in f32; not finite if any of them is not.
local function length(grads)
  local squares = trace.squares(grads)
  if squares then return op.cast(op.sqrt(squares), "f32") end
  local by_dtype, norm = {}, nil
  for _, g in ipairs(grads) do
    local dtype = g:get_dtype()
    if dtype:find "^f8" then g, dtype = op.cast(g, "f32"), "f32" end
    if not by_dtype[dtype] then by_dtype[dtype] = {} table.insert(by_dtype, dtype) end
    table.insert(by_dtype[dtype], g)
  end
  for _, dtype in ipairs(by_dtype) do
    local part = op.global_norm(by_dtype[dtype]):to "f32"
    norm = norm and norm + part or part
  end
  return norm
end

--- Of the scaled loss, and then unscaled.
function Scaler:grad(next, ys, xs, o)
  local dx = next(ys, xs, options.with(o, "scale",
    o.scale and o.scale * self.scale or self.scale))
  self.inverse = self.inverse or inverse_of(self.scale)
  local norm = length(dx)
  self.norm = self.norm and self.norm + norm or norm
  local out = trace.map(dx, function(g) return g * self.inverse:to(g:get_dtype()) end)
  for i, g in ipairs(dx) do self.raw[out[i]] = g end
  return out
end

--- Updates read gradients before unscaling, if they are those of `grad`.
function Scaler:unscaled(next, grads)
  if not self.inverse then return next(grads) end
  local list = {}
  for i, g in ipairs(grads) do
    list[i] = self.raw[g]
    if not list[i] then return next(grads) end
  end
  return list, self.inverse
end

-- Whether all gradients so far are finite; nil: there are none.
local function finite(self)
  return self.norm and op.lt(self.norm, scalar(math.huge))
end

--- Updates happen where all gradients so far are finite.
function Scaler:gate(next, when)
  if not self.norm or when and rawequal(when, self.last) then return next(when) end
  local own = finite(self)
  return next(when and op.logical_and(when, own) or own)
end

--- Only at the end it is known whether the step counts.
function Scaler:later(_, update) table.insert(self.deferred, update) end

-- Rounded once, as PyTorch has it: factors are doubles there.
local function times(scale, factor)
  return op.cast(op.mul(op.cast(scale, "f64"), factor), "f32")
end

local function change(scaler, good_step)
  local o, scale = scaler.settings, scaler.scale
  local good = scaler.good + 1
  local grown = times(scale, o.growth)
  local due = op.ge(good, scalar(o.interval))
  local may = op.logical_and(due, op.lt(grown, scalar(math.huge)))
  core.assign(scale, op.where(good_step, op.where(may, grown, scale),
    times(scale, o.backoff)))
  core.assign(scaler.good, op.where(op.logical_and(good_step, op.logical_not(due)), good,
    scalar(0)))
end

--- What was left for later, and the next scale.
function Scaler:finish()
  self.last = finite(self)
  if #self.deferred > 0 then
    local when = trace.gate(self.last)
    for _, update in ipairs(self.deferred) do update(when) end
  end
  if self.last and self.settings.dynamic then change(self, self.last) end
end

return scaling
