--- cycles.lua -- rates that rise and fall, once or again and again
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local read = require "mrt.optim.schedule.read"

local schedule = {}

--- Rise from lr / start to `lr` over a share `rise` of the steps, then fall to
--- lr / start / finish, both along half a cosine (Smith & Topin,
--- arXiv:1708.07120, as in PyTorch); then stay.
---
---     local lr = optim.one_cycle { lr = 1e-3, steps = 1000 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given {lr: number, steps: integer, rise: number?, start: number?, finish: number?}
---  default: rise 0.3, start 25, finish 1e4
---@return mrt.Schedule
function schedule.one_cycle(given)
  local o = read.options("one_cycle", given, { lr = read.number, steps = options.want "size",
    rise = 0.3, start = 25, finish = 1e4 })
  local first, top, last = o.lr / o.start, o.rise * o.steps - 1, o.steps - 1
  return read.schedule("one_cycle", o, function(step)
    local t = math.min(step - 1, last)
    if t <= top then return read.half_cosine(first, o.lr, top > 0 and t / top or 1) end
    return read.half_cosine(o.lr, first / o.finish, (t - top) / (last - top))
  end)
end

---@class mrt.RestartOptions
---@field lr number        where each cycle begins
---@field min? number      where it ends, default 0
---@field steps integer    of the first cycle
---@field factor? integer  by which each is longer than the one before, default 1
---@field warmup? integer  steps of rising before the first, default 0

--- Fall along half a cosine again and again, "SGDR" (Loshchilov & Hutter,
--- arXiv:1608.03983).
---
---     opt.lr = optim.cosine_restarts{lr = 0.1, steps = 1000, factor = 2}
---
--- Raises: an option that there is not.
---@param given mrt.RestartOptions
---@return mrt.Schedule
function schedule.cosine_restarts(given)
  local o = read.options("cosine_restarts", given, { lr = read.number, min = 0, warmup = 0,
    steps = options.want "size", factor = 1 })
  options.size("cosine_restarts", "factor", o.factor)
  return read.schedule("cosine_restarts", o, function(step)
    if step <= o.warmup then return read.rising(o, step) end
    local at, length = step - 1 - o.warmup, o.steps
    if o.factor == 1 then at = at % length end
    while at >= length do at, length = at - length, length * o.factor end
    return read.half_cosine(o.lr, o.min, at / length)
  end)
end

-- How far a cycle reaches, of `lr` - `min`: by its number from 0, and the step.
local heights = {
  triangular = function() return 1 end,
  triangular2 = function(_, cycle) return 2.0 ^ -cycle end,
  exp_range = function(o, _, step) return o.factor ^ (step - 1) end,
}

---@class mrt.CyclicOptions
---@field lr number      the highest rate
---@field min number     the lowest, where each cycle begins
---@field up? integer    steps of rising, default 2000
---@field down? integer  of falling, default `up`
---@field mode? "triangular"|"triangular2"|"exp_range"  the same height each time (the
---  default), half the height each time, or less at each step by `factor`
---@field factor? number  default 1

--- Rise and fall along lines, again and again (Smith, arXiv:1506.01186).
---
---     local lr = optim.cyclic { lr = 1e-3, min = 1e-4, up = 100 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given mrt.CyclicOptions
---@return mrt.Schedule
function schedule.cyclic(given)
  local o = read.options("cyclic", given, { lr = read.number, min = read.number, up = 2000,
    down = options.of "size", mode = "triangular", factor = 1 })
  options.size("cyclic", "up", o.up)
  local height, down = heights[o.mode], o.down or o.up
  if not height then
    core.fail("value", "cyclic", ("mode '%s', triangular, triangular2 or exp_range wanted")
      :format(o.mode))
  end
  return read.schedule("cyclic", o, function(step)
    local cycle, at = (step - 1) // (o.up + down), (step - 1) % (o.up + down)
    local share = at <= o.up and at / o.up or 1 - (at - o.up) / down
    return o.min + (o.lr - o.min) * share * height(o, cycle, step)
  end)
end

return schedule
