--- falling.lua -- rates that fall, perhaps after a warm-up
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local read = require "mrt.optim.schedule.read"

local schedule = {}

---@class mrt.FallingOptions
---@field lr number        the highest rate
---@field min? number      the lowest, default 0
---@field warmup? integer  steps of rising, default 0
---@field steps integer    in all

local falling = { lr = read.number, min = 0, warmup = 0, steps = options.want "size" }

--- Return the same rate for every step, after an optional warm-up.
---
---     local lr = optim.constant { lr = 1e-3, warmup = 100 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given {lr: number, warmup: integer?}
---@return mrt.Schedule
function schedule.constant(given)
  local o = read.options("constant", given, { lr = read.number, warmup = 0 })
  return read.schedule("constant", o, function(step)
    return step <= o.warmup and read.rising(o, step) or o.lr
  end)
end

--- Fall from `lr` to `min` along half a cosine (Loshchilov & Hutter,
--- arXiv:1608.03983, without restarts), after a linear warm-up; then stay.
---
---     opt.lr = optim.cosine{lr = 1e-3, min = 1e-4, warmup = 100, steps = 2000}
---
--- Raises: an option that there is not.
---@param given mrt.FallingOptions
---@return mrt.Schedule
function schedule.cosine(given)
  local o = read.options("cosine", given, falling)
  return read.schedule("cosine", o, function(step)
    local t = read.progress(o, step)
    if not t then return read.rising(o, step) end
    return o.min + (o.lr - o.min) * 0.5 * (1 + math.cos(math.pi * t))
  end)
end

--- Fall from `lr` to `min` along a line, after a linear warm-up; then stay.
---
---     local lr = optim.linear { lr = 1e-3, steps = 1000, warmup = 100 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given mrt.FallingOptions
---@return mrt.Schedule
function schedule.linear(given)
  local o = read.options("linear", given, falling)
  return read.schedule("linear", o, function(step)
    local t = read.progress(o, step)
    return t and o.lr + (o.min - o.lr) * t or read.rising(o, step)
  end)
end

--- Multiply the rate by `factor` every `every` steps.
---
---     local lr = optim.step { lr = 1e-3, every = 100, factor = 0.5 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given {lr: number, factor: number?, every: integer}
---@return mrt.Schedule
function schedule.step(given)
  local o = read.options("step", given, { lr = read.number, factor = 0.1,
    every = options.want "size" })
  return read.schedule("step", o, function(step)
    return o.lr * o.factor ^ ((step - 1) // o.every)
  end)
end

--- Multiply the rate by `factor` after each of the steps `at`.
---
---     opt.lr = optim.multistep{lr = 0.1, at = {32000, 48000}}
---
--- Raises: an option that there is not.
---@param given {lr: number, factor: number?, at: integer[]}  factor: default 0.1
---@return mrt.Schedule
function schedule.multistep(given)
  local o = read.options("multistep", given, { lr = read.number, factor = 0.1,
    at = options.want "table" })
  for i, step in ipairs(o.at) do options.size("multistep", "at " .. i, step) end
  return read.schedule("multistep", o, function(step)
    local rate = o.lr
    for _, last in ipairs(o.at) do
      if step > last then rate = rate * o.factor end
    end
    return rate
  end)
end

--- Multiply the rate by `factor` at every step, after an optional warm-up; it
--- falls no lower than `min`.
---
---     local lr = optim.exponential { lr = 1e-3, factor = 0.999 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given {lr: number, factor: number, min: number?, warmup: integer?}
---@return mrt.Schedule
function schedule.exponential(given)
  local o = read.options("exponential", given, { lr = read.number, factor = read.number,
    min = 0, warmup = 0 })
  return read.schedule("exponential", o, function(step)
    if step <= o.warmup then return read.rising(o, step) end
    return math.max(o.min, o.lr * o.factor ^ (step - 1 - o.warmup))
  end)
end

---@class mrt.PolynomialOptions: mrt.FallingOptions
---@field power? number  default 1

--- Fall from `lr` to `min` as a power of what is left of the way, after a linear warm-up;
--- then stay.
---
---     opt.lr = optim.polynomial{lr = 1e-3, steps = 1000, power = 2}
---
--- Raises: an option that there is not.
---@param given mrt.PolynomialOptions
---@return mrt.Schedule
function schedule.polynomial(given)
  local o = read.options("polynomial", given, { lr = read.number, min = 0, warmup = 0,
    steps = options.want "size", power = 1 })
  return read.schedule("polynomial", o, function(step)
    local t = read.progress(o, step)
    return t and o.min + (o.lr - o.min) * (1 - t) ^ o.power or read.rising(o, step)
  end)
end

--- Rise along a line over `warmup` steps, then fall with the root of the step (Vaswani et
--- al., arXiv:1706.03762): lr min(step / warmup, sqrt(warmup / step)).
---
---     local lr = optim.inverse_sqrt { lr = 1e-3, warmup = 100 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given {lr: number, warmup: integer?}  warmup: default 4000
---@return mrt.Schedule
function schedule.inverse_sqrt(given)
  local o = read.options("inverse_sqrt", given, { lr = read.number, warmup = 4000 })
  options.size("inverse_sqrt", "warmup", o.warmup)
  return read.schedule("inverse_sqrt", o, function(step)
    return o.lr * math.min(step / o.warmup, math.sqrt(o.warmup / step))
  end)
end

local ways_down = {
  linear = function(t) return 1 - t end,
  cosine = function(t) return read.half_cosine(1, 0, t) end,
  sqrt = function(t) return 1 - math.sqrt(t) end,
}

---@class mrt.WSDOptions: mrt.FallingOptions
---@field decay integer  how many of the steps, the last ones, it falls in
---@field way? "linear"|"cosine"|"sqrt"  how it falls, default "sqrt": 1 - sqrt(t)

--- Warm up, stay at `lr`, fall to `min` in the last `decay` of the `steps` (Hu et al.,
--- arXiv:2404.06395; the way down is that of Haegele et al., arXiv:2405.18392); then stay.
---
---     opt.lr = optim.wsd{lr = 1e-3, warmup = 100, steps = 5000, decay = 1000}
---
--- Raises: an option that there is not.
---@param given mrt.WSDOptions
---@return mrt.Schedule
function schedule.wsd(given)
  local o = read.options("wsd", given, { lr = read.number, min = 0, warmup = 0,
    steps = options.want "size", decay = options.want "size", way = "sqrt" })
  local down = ways_down[o.way]
  if not down then
    core.fail("value", "wsd", ("way '%s', linear, cosine or sqrt wanted"):format(o.way))
  elseif o.warmup + o.decay > o.steps then
    core.fail("value", "wsd", ("warmup %d and decay %d in %d steps"):format(o.warmup, o.decay,
      o.steps))
  end
  local level = o.steps - o.decay
  return read.schedule("wsd", o, function(step)
    if step <= o.warmup then return read.rising(o, step) end
    local t = math.max(0, math.min(1, (step - 1 - level) / o.decay))
    return o.min + (o.lr - o.min) * down(t)
  end)
end

return schedule
