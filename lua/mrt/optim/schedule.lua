--- schedule.lua -- learning rates as functions of the step
---
--- A schedule is called with the number of the update about to be made, from 1,
--- and returns its learning rate.  Any function will do:
---
---     opt.lr = function(step) return 0.1 / math.sqrt(step) end
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local schedule = {}

---@alias mrt.Schedule fun(step: integer): number

---@class mrt.FallingOptions
---@field lr number        the highest rate
---@field min? number      the lowest, default 0
---@field warmup? integer  steps of rising, default 0
---@field steps integer    in all

local number = options.want "number"
local falling = { lr = number, min = 0, warmup = 0, steps = options.want "size" }

-- The share of the way from the end of warming up to the last step, in [0, 1];
-- nil while warming up.
local function progress(o, step)
  if step <= o.warmup then return nil end
  local way = o.steps - o.warmup
  return way > 0 and math.min(1, (step - 1 - o.warmup) / way) or 1
end

-- Rising: step / (warmup + 1) of the full rate, so that no step has none.
local function rising(o, step) return o.lr * step / (o.warmup + 1) end

-- The options of a schedule: here a rate is a number and no schedule itself.
local function read(who, given, defaults)
  local o = options.read(who, given, defaults)
  if type(o.lr) ~= "number" then
    core.fail("value", who, ("lr: a number wanted, got %s"):format(options.show(o.lr)))
  end
  return o
end

-- A schedule from its formula.
local function schedule_of(who, formula)
  return function(step)
    if type(step) ~= "number" then
      core.fail("value", who, ("the step: a number wanted, got %s"):format(options.show(step)))
    end
    return formula(step)
  end
end

--- Return the same rate for every step, after an optional warm-up.
---@param given {lr: number, warmup: integer?}
---@return mrt.Schedule
function schedule.constant(given)
  local o = read("constant", given, { lr = number, warmup = 0 })
  return schedule_of("constant", function(step)
    return step <= o.warmup and rising(o, step) or o.lr
  end)
end

--- Fall from `lr` to `min` along half a cosine (Loshchilov & Hutter,
--- arXiv:1608.03983, without restarts), after a linear warm-up; then stay.
---
---     opt.lr = optim.cosine{lr = 1e-3, min = 1e-4, warmup = 100, steps = 2000}
---@param given mrt.FallingOptions
---@return mrt.Schedule
function schedule.cosine(given)
  local o = read("cosine", given, falling)
  return schedule_of("cosine", function(step)
    local t = progress(o, step)
    if not t then return rising(o, step) end
    return o.min + (o.lr - o.min) * 0.5 * (1 + math.cos(math.pi * t))
  end)
end

--- Fall from `lr` to `min` along a line, after a linear warm-up; then stay.
---@param given mrt.FallingOptions
---@return mrt.Schedule
function schedule.linear(given)
  local o = read("linear", given, falling)
  return schedule_of("linear", function(step)
    local t = progress(o, step)
    return t and o.lr + (o.min - o.lr) * t or rising(o, step)
  end)
end

--- Multiply the rate by `factor` every `every` steps.
---@param given {lr: number, factor: number?, every: integer}
---@return mrt.Schedule
function schedule.step(given)
  local o = read("step", given, { lr = number, factor = 0.1,
    every = options.want "size" })
  return schedule_of("step", function(step) return o.lr * o.factor ^ ((step - 1) // o.every) end)
end

--- Multiply the rate by `factor` after each of the steps `at`.
---
---     opt.lr = optim.multistep{lr = 0.1, at = {32000, 48000}}
---@param given {lr: number, factor: number?, at: integer[]}  factor: default 0.1
---@return mrt.Schedule
function schedule.multistep(given)
  local o = read("multistep", given, { lr = number, factor = 0.1,
    at = options.want "table" })
  for i, step in ipairs(o.at) do options.size("multistep", "at " .. i, step) end
  return schedule_of("multistep", function(step)
    local rate = o.lr
    for _, last in ipairs(o.at) do
      if step > last then rate = rate * o.factor end
    end
    return rate
  end)
end

--- Multiply the rate by `factor` at every step, after an optional warm-up; it
--- falls no lower than `min`.
---@param given {lr: number, factor: number, min: number?, warmup: integer?}
---@return mrt.Schedule
function schedule.exponential(given)
  local o = read("exponential", given, { lr = number, factor = number,
    min = 0, warmup = 0 })
  return schedule_of("exponential", function(step)
    if step <= o.warmup then return rising(o, step) end
    return math.max(o.min, o.lr * o.factor ^ (step - 1 - o.warmup))
  end)
end

-- From `a` to `b` along half a cosine, t in [0, 1].
local function between(a, b, t) return b + (a - b) * 0.5 * (1 + math.cos(math.pi * t)) end

--- Rise from lr / start to `lr` over a share `rise` of the steps, then fall to
--- lr / start / finish, both along half a cosine (Smith & Topin,
--- arXiv:1708.07120, as in PyTorch); then stay.
---@param given {lr: number, steps: integer, rise: number?, start: number?, finish: number?}
---  default: rise 0.3, start 25, finish 1e4
---@return mrt.Schedule
function schedule.one_cycle(given)
  local o = read("one_cycle", given, { lr = number, steps = options.want "size",
    rise = 0.3, start = 25, finish = 1e4 })
  local first, top, last = o.lr / o.start, o.rise * o.steps - 1, o.steps - 1
  return schedule_of("one_cycle", function(step)
    local t = math.min(step - 1, last)
    if t <= top then return between(first, o.lr, top > 0 and t / top or 1) end
    return between(o.lr, first / o.finish, (t - top) / (last - top))
  end)
end

---@class mrt.Plateau
---@field lr number        the present rate
---@field best number?     the smallest value seen
---@field waiting integer  how many values in a row were no better
---@field rate mrt.Schedule
---@field see fun(self: mrt.Plateau, value: number)

--- Lower the rate when a value (a validation loss) stops falling: after
--- `patience` values in a row that are not below the best by a share of
--- `threshold`, the rate is multiplied by `factor`, down to `min`.  Call `see`
--- with each value.
---
---     local plateau = optim.plateau{lr = 0.1, patience = 3}
---     opt.lr = plateau.rate
---     plateau:see(validation_loss)
---@param given {lr: number, factor: number?, patience: integer?, threshold: number?, min: number?}
---  default: factor 0.1, patience 10, threshold 1e-4, min 0
---@return mrt.Plateau
function schedule.plateau(given)
  local o = options.read("plateau", given, { lr = number, factor = 0.1, patience = 10,
    threshold = 1e-4, min = 0 })
  local plateau = { lr = o.lr, waiting = 0 }
  function plateau.rate() return plateau.lr end
  function plateau:see(value)
    if type(value) ~= "number" then
      core.fail("value", "plateau:see", "a number wanted, got " .. options.show(value))
    end
    if not self.best or value < self.best - math.abs(self.best) * o.threshold then
      self.best, self.waiting = value, 0
      return
    end
    self.waiting = self.waiting + 1
    if self.waiting > o.patience then
      self.lr, self.waiting = math.max(o.min, self.lr * o.factor), 0
    end
  end
  return plateau
end

return schedule
