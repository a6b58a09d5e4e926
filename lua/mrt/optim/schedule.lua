--- schedule.lua -- learning rates as functions of the step
---
--- A schedule is called with the number of the update about to be made, from 1,
--- and returns its learning rate.  Any function will do:
---
---     opt.lr = function(step) return 0.1 / math.sqrt(step) end
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.options"

local schedule = {}

---@alias mrt.Schedule fun(step: integer): number

---@class mrt.FallingOptions
---@field lr number        the highest rate
---@field min? number      the lowest, default 0
---@field warmup? integer  steps of rising, default 0
---@field steps integer    in all

local function read(what, given, defaults)
  local o = options.read(what, given, defaults)
  if o.lr == nil then core.fail("value", what, "lr is missing") end
  if defaults.steps and o.steps == nil then
    core.fail("value", what, "steps is missing")
  end
  return o
end

-- The share of the way from the end of warming up to the last step, in [0, 1];
-- nil while warming up.
local function progress(o, step)
  if step <= o.warmup then return nil end
  local way = o.steps - o.warmup
  return way > 0 and math.min(1, (step - 1 - o.warmup) / way) or 1
end

-- Rising: step / (warmup + 1) of the full rate, so that no step has none.
local function rising(o, step) return o.lr * step / (o.warmup + 1) end

--- Return the same rate for every step, after an optional warm-up.
---@param given {lr: number, warmup: integer?}
---@return mrt.Schedule
function schedule.constant(given)
  local o = read("constant", given, { lr = options.none, warmup = 0 })
  return function(step)
    return step <= o.warmup and rising(o, step) or o.lr
  end
end

--- Fall from `lr` to `min` along half a cosine (Loshchilov & Hutter,
--- arXiv:1608.03983, without restarts), after a linear warm-up; then stay.
---
---     opt.lr = optim.cosine{lr = 1e-3, min = 1e-4, warmup = 100, steps = 2000}
---@param given mrt.FallingOptions
---@return mrt.Schedule
function schedule.cosine(given)
  local o = read("cosine", given, { lr = options.none, min = 0, warmup = 0,
    steps = options.none })
  return function(step)
    local t = progress(o, step)
    if not t then return rising(o, step) end
    return o.min + (o.lr - o.min) * 0.5 * (1 + math.cos(math.pi * t))
  end
end

--- Fall from `lr` to `min` along a line, after a linear warm-up; then stay.
---@param given mrt.FallingOptions
---@return mrt.Schedule
function schedule.linear(given)
  local o = read("linear", given, { lr = options.none, min = 0, warmup = 0,
    steps = options.none })
  return function(step)
    local t = progress(o, step)
    return t and o.lr + (o.min - o.lr) * t or rising(o, step)
  end
end

--- Multiply the rate by `factor` every `every` steps.
---@param given {lr: number, factor: number?, every: integer}
---@return mrt.Schedule
function schedule.step(given)
  local o = read("step", given, { lr = options.none, factor = 0.1,
    every = options.none })
  if math.type(o.every) ~= "integer" or o.every < 1 then
    core.fail("value", "step", "every, a positive integer, is missing")
  end
  return function(step) return o.lr * o.factor ^ ((step - 1) // o.every) end
end

return schedule
