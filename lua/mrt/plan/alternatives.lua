--- alternatives.lua -- the ways to fit a step into a budget, in the order one tries them
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local policy_swap = require "mrt.policy.swap"

--- One way, planned.
---@class mrt.Rung
---@field way string        "micro-batch 32", "recompute", ...
---@field changes table     the options of mrt.compile that give it
---@field peak? integer     bytes; nil when it could not be planned
---@field seconds? number   predicted, of a step
---@field fits boolean
---@field why? string       when it could not be planned
---@field choice? boolean   the planner's
---@field does? string      what is recomputed, swapped, waited for
---@field job? string       "fits and in time", "fits but too slow: 7h 12m", ...

---@class mrt.Ladder
---@field budget integer
---@field [integer] mrt.Rung
local Ladder = {}
Ladder.__index = Ladder
Ladder.__name = "mrt.Ladder"

local MOST_HALVINGS = 6
local WHY = 100 -- characters of a reason, in a line
local SWAP_ALL = "swap weights and optimizer state"

--- A training job: how many steps, and how long it may take ("6h", "90m", seconds).
---@class mrt.Job
---@field steps integer
---@field limit string|number

-- Plan one way and note it.
local function try(ladder, way, changes)
  local ok, plan = pcall(ladder.replan, changes)
  local rung = { way = way, changes = changes, fits = false }
  if ok then
    rung.plan, rung.peak, rung.seconds = plan, plan.peak, plan.seconds
    rung.fits = plan.peak <= ladder.budget
    rung.does = plan:choices().text
  else
    rung.why = type(plan) == "table" and plan.message or tostring(plan)
    rung.why = rung.why:match "^[^\n]*"
  end
  ladder[#ladder + 1] = rung
  return rung
end

-- Micro-batches halved step by step; those that could be planned.
local function halve(ladder, rows)
  local parts = {}
  local k = 2
  while k <= rows and #parts < MOST_HALVINGS do
    local rung = try(ladder, ("micro-batch %d"):format((rows + k - 1) // k),
      { memory = false, accumulate = k })
    rung.parts = k
    parts[#parts + 1] = k
    if not rung.peak then break end
    k = k * 2
  end
  return parts
end

-- What the budget option leads to without swapping, unless the script has said
-- what may be swapped.
local function without_swap(ladder, k)
  return { memory = ladder.budget, accumulate = k,
    swap = not ladder.swap and policy_swap.none() or nil }
end

-- Recompute within the budget, at the largest micro-batch that can.
local function recompute(ladder, rows, parts)
  local rung = try(ladder, "recompute", without_swap(ladder, false))
  for _, k in ipairs(parts) do
    if rung.fits then return rung end
    ladder[#ladder] = nil
    rung = try(ladder, ("recompute, micro-batch %d"):format((rows + k - 1) // k),
      without_swap(ladder, k))
  end
  return rung
end

-- Both, where the planner may and does.
local function both(ladder)
  if ladder.swap then return end
  local rung = try(ladder, "recompute and swap", { memory = ladder.budget,
    accumulate = false })
  if rung.plan and rung.plan.slow == 0 then ladder[#ladder] = nil end
end

-- Ranks that share weights, optimizer state and batch evenly (ZeRO-3) until a
-- rank's part fits.
local function devices(ladder, plan)
  local n = 1
  while n < 2 ^ 20 and plan.persistent / n + plan.transient / n + plan.outputs
    > ladder.budget do
    n = n * 2
  end
  ladder[#ladder + 1] = { way = ("%d devices"):format(n), changes = {},
    fits = true, estimate = true, peak = math.floor((plan.persistent
    + plan.transient) / n + plan.outputs), seconds = plan.seconds / n }
end

local function judge(rung, job)
  if not rung.fits then return "does not fit" end
  local seconds = rung.seconds * job.steps
  local text = format.duration(seconds)
  if seconds <= job.limit then return "fits and in time: " .. text end
  return "fits but too slow: " .. text
end

local seconds_in = { s = 1, m = 60, h = 3600, d = 86400 }

--- Check a job and return its limit in seconds.
---@param job mrt.Job?
---@return {steps: integer, limit: number}?
function Ladder.read_job(job)
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

-- What the planner does with the budget: the quickest way that fits, micro-batches
-- where the script allows them, all variables in the slow tier where nothing else
-- fits.
local function choose(ladder, may_accumulate)
  local best
  for _, rung in ipairs(ladder) do
    local allowed = may_accumulate or not rung.changes.accumulate
    if rung.way == SWAP_ALL and best then allowed = false end
    if rung.fits and allowed and not rung.estimate
      and (not best or rung.seconds < best.seconds) then
      best = rung
    end
  end
  if best then best.choice = true end
  return best
end

--- Climb the ladder: the batch as it is; micro-batch halved step by step; then
--- recomputing at the largest micro-batch that fits; then swapping; both; then more
--- devices.
---@param given table  budget, rows, plan, accumulate (may be chosen), job
---@return mrt.Ladder
local function climb(given)
  local self = setmetatable({ budget = given.budget, replan = given.plan.replan,
    swap = given.swap }, Ladder)
  local job = Ladder.read_job(given.job)
  local first = try(self, "as it is", { memory = false, accumulate = false })
  local parts = halve(self, given.rows)
  recompute(self, given.rows, parts)
  try(self, SWAP_ALL, { swap = policy_swap.all(), memory = given.budget })
  both(self)
  if first.plan then devices(self, first.plan) end
  self.choice = choose(self, given.accumulate)
  if job then
    for _, rung in ipairs(self) do rung.job = judge(rung, job) end
    self.verdict = self.choice and self.choice.job
      or "does not fit: more devices needed"
  end
  for _, rung in ipairs(self) do rung.plan = nil end
  self.replan, self.swap = nil, nil
  return self
end

local function verdict(rung)
  if rung.job then return rung.job end
  if rung.fits then return rung.estimate and "would fit, shared evenly" or "fits" end
  return rung.why and format.shorten(rung.why, WHY) or "does not fit"
end

local function line(rung)
  local peak, time = "-", "-"
  if rung.peak then
    peak, time = format.bytes(rung.peak), ("%.1f ms"):format(rung.seconds * 1e3)
  end
  return ("%s %-32s %10s %12s  %s"):format(rung.choice and "*" or " ", rung.way,
    peak, time, verdict(rung))
end

function Ladder:__tostring()
  local lines = { ("ways into %s"):format(format.bytes(self.budget)) }
  for _, rung in ipairs(self) do lines[#lines + 1] = line(rung) end
  lines[#lines + 1] = self.choice and "* the planner's choice: "
    .. self.choice.does or "nothing that the options allow fits"
  if self.verdict then lines[#lines + 1] = "job: " .. self.verdict end
  return table.concat(lines, "\n")
end

--- The ladder of a plan.
---@param plan mrt.Plan
---@param o {budget: integer|string|nil, job: mrt.Job?}
---@return mrt.Ladder
function Ladder.of(plan, o)
  local step, size = plan.step_options, nil
  if not step then
    core.fail("value", "options", "a plan of a compiled function wanted")
  end
  if o.budget then
    local message
    size, message = format.read_bytes(o.budget)
    if not size then core.fail("value", "options", "budget: " .. message) end
  end
  size = size or step.memory or plan.device.capacity
  if not size or size < 1 then
    core.fail("value", "options", "a budget is wanted: options{budget = \"2GiB\"}")
  end
  return climb { budget = size, rows = plan.rows or 1, plan = plan,
    accumulate = step.accumulate ~= nil, swap = step.swap ~= nil, job = o.job or step.job }
end

return Ladder
