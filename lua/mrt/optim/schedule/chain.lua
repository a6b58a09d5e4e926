--- chain.lua -- schedules one after the other, and shares of a rate
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local read = require "mrt.optim.schedule.read"

local schedule = {}

---@class mrt.Phase
---@field lr number|mrt.Schedule  called with the step counted from 1 in this phase
---@field steps integer?          how long it lasts; the last may go on for ever

-- Read the phases: each with its rate and the step before it.
local function phases_of(given)
  if type(given) ~= "table" or #given == 0 then
    core.fail("value", "chain", "a list of {steps = integer, lr = schedule} wanted, got "
      .. options.show(given))
  end
  local phases, before = {}, 0
  for i, phase in ipairs(given) do
    local who = ("chain: phase %d"):format(i)
    local o = options.read(who, phase, { lr = options.want(nil), steps = options.of "size" })
    if type(o.lr) ~= "number" and not options.is_callable(o.lr) then
      core.fail("value", who, ("lr: a number or a schedule wanted, got %s")
        :format(options.show(o.lr)))
    elseif not o.steps and i < #given then
      core.fail("value", who, "steps is missing: only the last phase may go on for ever")
    end
    phases[i] = { lr = o.lr, before = before }
    before = before + (o.steps or 0)
  end
  return phases
end

--- Follow one schedule after the other.  A phase counts its own steps from 1, so any
--- schedule fits; the last goes on beyond its steps.
---
---     opt.lr = optim.chain {
---       { steps = 100, lr = optim.ramp { lr = 1e-3, steps = 100 } },
---       { steps = 900, lr = 1e-3 },
---       { lr = optim.cosine { lr = 1e-3, steps = 1000 } },
---     }
---
--- Raises: an option that there is not.
---@param given mrt.Phase[]
---@return mrt.Schedule
function schedule.chain(given)
  local phases = phases_of(given)
  return read.schedule("chain", { phases = #phases }, function(step)
    local i = 1
    while phases[i + 1] and step > phases[i + 1].before do i = i + 1 end
    local phase = phases[i]
    if type(phase.lr) == "number" then return phase.lr end
    return phase.lr(step - phase.before)
  end)
end

---@class mrt.RampOptions
---@field lr number       the full rate
---@field steps integer   how many it takes
---@field start? number   share of the rate in the first, default 1/3
---@field finish? number  share afterwards, default 1

--- Go from one share of the rate to another along a line; then stay.
---
---     local lr = optim.ramp { lr = 1e-3, steps = 100, start = 0, finish = 1 }
---
--- Raises: an option that there is not, a rate below 0.
---@param given mrt.RampOptions
---@return mrt.Schedule
function schedule.ramp(given)
  local o = read.options("ramp", given, { lr = read.number, steps = options.want "size",
    start = 1 / 3, finish = 1 })
  return read.schedule("ramp", o, function(step)
    local t = math.min(1, (step - 1) / o.steps)
    return o.lr * (o.start + (o.finish - o.start) * t)
  end)
end

return schedule
