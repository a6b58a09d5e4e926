--- alternatives.lua -- the ways to fit a step into a budget, in the order one tries them
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local process = require "mrt.compile.process"
local ladder = require "mrt.plan.ladder"

--- One way, planned.
---@class mrt.Alternative
---@field way string        "micro-batch 32", "recompute", ...
---@field changes table     the options of mrt.compile that give it
---@field script? string     what the script would say instead, where no option gives it
---@field devices? integer   ranks that share everything; nil: one
---@field peak? integer     bytes; nil when it could not be planned
---@field seconds? number   predicted, of a step; nil too where the device's profile has no
---  links that join so many ranks
---@field fits boolean
---@field guessed? boolean   it swaps, and how quick copies are nobody has measured
---@field other_bits? boolean  the step would have other bits, so it is no choice of the
---  planner: the script has to say so
---@field why? string       when it could not be planned
---@field choice? boolean   the planner's
---@field does? string      what is recomputed, swapped, waited for
---@field job? string       "fits and in time", "fits but too slow: 7h 12m", ...

---@class mrt.Alternatives
---@field budget integer
---@field [integer] mrt.Alternative
local Alternatives = {}
Alternatives.__index = Alternatives
Alternatives.__name = "mrt.Alternatives"

local WHY = 100 -- characters of a reason, in a line

--- A training job: how many steps, and how long it may take ("6h", "90m", seconds).
---@class mrt.Job
---@field steps integer
---@field limit string|number

local function judge(one, job)
  if not one.fits then return "does not fit" end
  if not one.seconds then return "fits, in no time that could be told" end
  local seconds = one.seconds * job.steps
  local text = format.duration(seconds)
  if seconds <= job.limit then return "fits and in time: " .. text end
  return "fits but too slow: " .. text
end

local seconds_in = { s = 1, m = 60, h = 3600, d = 86400 }

--- Check a job and return its limit in seconds.
---@param job mrt.Job?
---@return {steps: integer, limit: number}?
---@nodoc
function Alternatives.read_job(job)
  if job == nil then return nil end
  local steps = type(job) == "table" and math.tointeger(job.steps)
  local number, unit
  if type(job) == "table" then
    number, unit = tostring(job.limit):match "^%s*([%d.]+)%s*([smhd]?)%s*$"
  end
  if not steps or steps < 1 or not tonumber(number) then
    core.fail("value", "job", '{steps = 20000, limit = "6h"} wanted (90m, seconds)')
  end
  return { steps = steps, limit = tonumber(number) * (seconds_in[unit] or 1) }
end

-- The quickest of these that fits.
local function quickest(list, may_accumulate, may_guess)
  local best
  for _, one in ipairs(list) do
    local allowed = (may_accumulate or not one.changes.accumulate)
      and (may_guess or not one.guessed) and not one.other_bits and not one.devices
    if one.fits and allowed and (not best or one.seconds < best.seconds) then best = one end
  end
  return best
end

-- What the planner may do with the budget: the quickest way that fits, micro-batches
-- where the script allows them; swapping at rates that nobody has measured where nothing
-- else fits.
local function choose(list, may_accumulate)
  local best = quickest(list, may_accumulate) or quickest(list, may_accumulate, true)
  if best then best.choice = true end
  return best
end

local function complete(list, job)
  for _, one in ipairs(list) do one.job = judge(one, job) end
  list.verdict = list.choice and list.choice.job or "does not fit: more devices needed"
end

-- Of one that fits.
local function fitting(one)
  if one.other_bits then
    return "fits, with other bits" .. (one.script and ": " .. one.script or "")
  elseif one.guessed and not one.choice then
    return "fits; copies as quick as the profile guesses"
  elseif one.devices then
    return one.seconds and "fits, all in pieces (ZeRO-3)"
      or "fits; the profile has no links to tell the time by"
  end
  return "fits"
end

local function verdict(one)
  if one.job then return one.job end
  if one.fits then return fitting(one) end
  return one.why and format.shorten(one.why, WHY) or "does not fit"
end

local function line(one)
  local peak, time = "-", "-"
  if one.peak then
    peak = format.bytes(one.peak)
    time = one.seconds and ("%.1f ms"):format(one.seconds * 1e3) or time
  end
  return ("%s %-32s %10s %12s  %s"):format(one.choice and "*" or " ", one.way,
    peak, time, verdict(one))
end

function Alternatives:__tostring()
  local lines = { ("ways into %s"):format(format.bytes(self.budget)) }
  for _, one in ipairs(self) do lines[#lines + 1] = line(one) end
  lines[#lines + 1] = self.choice and "* the planner's choice: "
    .. self.choice.does or "nothing that the options allow fits"
  if self.verdict then lines[#lines + 1] = "job: " .. self.verdict end
  return table.concat(lines, "\n")
end

--- The alternatives to a plan.
---@param plan mrt.Plan
---@param o {budget: integer|string|{process: integer|string}|nil, job: mrt.Job?}
---@return mrt.Alternatives
---@nodoc
function Alternatives.of(plan, o)
  local step, size = plan.step_options, nil
  if not step then
    core.fail("value", "options", "a plan of a compiled function wanted")
  end
  local limit = process.read(o.budget, "options")
  if limit then
    size = process.left(limit, plan.core, plan.space)
  elseif o.budget then
    local message
    size, message = format.read_bytes(o.budget)
    if not size then core.fail("value", "options", "budget: " .. message) end
  end
  size = size or step.memory or plan.device.capacity
  if not size or size < 1 then
    core.fail("value", "options", "a budget is wanted: options{budget = \"2GiB\"}")
  end
  local job = Alternatives.read_job(o.job or step.job)
  local self = setmetatable(ladder(plan, size), Alternatives)
  self.choice = choose(self, step.accumulate ~= nil)
  if job then complete(self, job) end
  return self
end

return Alternatives
