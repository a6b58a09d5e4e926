--- read.lua -- what all schedules share: options, steps, shapes of a way down
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local describe = require "mrt.util.describe"
local options = require "mrt.util.options"

local read = {}

---@alias mrt.Schedule fun(step: integer): number

--- A number that must be given.
read.number = options.want "number"

--- The options of a schedule: here a rate is a number and no schedule itself.
---@param who string
---@param given table?
---@param defaults table
---@return table
function read.options(who, given, defaults)
  local o = options.read(who, given, defaults)
  if type(o.lr) ~= "number" then
    core.fail("value", who, ("lr: a number wanted, got %s"):format(options.show(o.lr)))
  elseif not (o.lr >= 0) then
    core.fail("value", who, ("lr = %g, 0 or more wanted"):format(o.lr))
  end
  return o
end

--- A schedule from its formula.
---@param who string
---@param o table  what it was made of, to be told
---@param formula fun(step: number): number
---@return mrt.Schedule
function read.schedule(who, o, formula)
  return describe.name(function(step)
    if type(step) ~= "number" then
      core.fail("value", who, ("the step: a number wanted, got %s"):format(options.show(step)))
    end
    return formula(step)
  end, function() return describe.options(who, o) end)
end

--- Rising: step / (warmup + 1) of the full rate, so that no step has none.
---@param o {lr: number, warmup: integer}
---@param step number
---@return number
function read.rising(o, step) return o.lr * step / (o.warmup + 1) end

--- The share of the way from the end of warming up to the last step, in [0, 1];
--- nil while warming up.
---@param o {warmup: integer, steps: integer}
---@param step number
---@return number?
function read.progress(o, step)
  if step <= o.warmup then return nil end
  local way = o.steps - o.warmup
  return way > 0 and math.min(1, (step - 1 - o.warmup) / way) or 1
end

--- From `a` to `b` along half a cosine, t in [0, 1].
---@param a number
---@param b number
---@param t number
---@return number
function read.half_cosine(a, b, t) return b + (a - b) * 0.5 * (1 + math.cos(math.pi * t)) end

return read
