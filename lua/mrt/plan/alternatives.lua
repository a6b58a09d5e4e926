--- alternatives.lua -- the ways to fit a step into a budget, in the order one tries them
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"
local process = require "mrt.compile.process"
local policy_swap = require "mrt.policy.swap"
local precision = require "mrt.policy.precision"

--- One way, planned.
---@class mrt.Alternative
---@field way string        "micro-batch 32", "recompute", ...
---@field changes table     the options of mrt.compile that give it
---@field peak? integer     bytes; nil when it could not be planned
---@field seconds? number   predicted, of a step
---@field fits boolean
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

local MOST_HALVINGS = 6
local WHY = 100 -- characters of a reason, in a line
local SWAP_ALL = "swap weights and optimizer state"

--- A training job: how many steps, and how long it may take ("6h", "90m", seconds).
---@class mrt.Job
---@field steps integer
---@field limit string|number

-- Plan one way and note it.
local function try(list, way, changes)
  local ok, plan = pcall(list.replan, changes)
  local one = { way = way, changes = changes, fits = false }
  if ok then
    one.plan, one.peak, one.seconds = plan, plan.peak, plan.seconds
    one.fits = plan.peak <= list.budget
    one.does = plan:choices().text
  else
    one.why = type(plan) == "table" and plan.message or tostring(plan)
    one.why = one.why:match "^[^\n]*"
  end
  list[#list + 1] = one
  return one
end

-- Micro-batches halved step by step; those that could be planned.
local function halve(list, rows)
  local parts = {}
  local k = 2
  while k <= rows and #parts < MOST_HALVINGS do
    local one = try(list, ("micro-batch %d"):format((rows + k - 1) // k),
      { memory = false, accumulate = k })
    one.parts = k
    parts[#parts + 1] = k
    if not one.peak then break end
    k = k * 2
  end
  return parts
end

-- What the budget option leads to without swapping, unless the script has said
-- what may be swapped.
local function without_swap(list, k)
  return { memory = list.budget, accumulate = k,
    swap = not list.swap and policy_swap.none() or nil }
end

-- Recompute within the budget, at the largest micro-batch that can.
local function recompute(list, rows, parts)
  local one = try(list, "recompute", without_swap(list, false))
  for _, k in ipairs(parts) do
    if one.fits then return one end
    list[#list] = nil
    one = try(list, ("recompute, micro-batch %d"):format((rows + k - 1) // k),
      without_swap(list, k))
  end
  return one
end

-- Both, where the planner may and does.
local function both(list)
  if list.swap then return end
  local one = try(list, "recompute and swap", { memory = list.budget,
    accumulate = false })
  if one.plan and one.plan.swapped == 0 then list[#list] = nil end
end

-- What the script would have to allow, for the bits of its steps change: unless it has.
local function other_bits(list, step)
  local ways = {
    { "compress, at a tolerance of 0.01", "compress", 0.01 },
    { "bf16", "precision", precision.bf16() },
    { "bf16 and compress", "precision", precision.bf16() },
  }
  for i, way in ipairs(ways) do
    local changes = { memory = list.budget, effort = 0, [way[2]] = way[3] }
    if i == 3 then changes.compress = 0.01 end
    local has = step.precision and changes.precision
      or (step.compress or step.tolerated) and changes.compress
    if not has then try(list, way[1], changes).other_bits = true end
  end
end

-- Ranks that share weights, optimizer state and batch evenly (ZeRO-3) until a
-- rank's part fits.
local function devices(list, plan)
  local n = 1
  while n < 2 ^ 20 and plan.persistent / n + plan.transient / n + plan.outputs
    > list.budget do
    n = n * 2
  end
  list[#list + 1] = { way = ("%d devices"):format(n), changes = {},
    fits = true, estimate = true, peak = math.floor((plan.persistent
    + plan.transient) / n + plan.outputs), seconds = plan.seconds / n }
end

local function judge(one, job)
  if not one.fits then return "does not fit" end
  local seconds = one.seconds * job.steps
  local text = format.duration(seconds)
  if seconds <= job.limit then return "fits and in time: " .. text end
  return "fits but too slow: " .. text
end

local seconds_in = { s = 1, m = 60, h = 3600, d = 86400 }

--- Check a job and return its limit in seconds.
---@param job mrt.Job?
---@return {steps: integer, limit: number}?
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

-- What the planner does with the budget: the quickest way that fits, micro-batches
-- where the script allows them, all variables in the swap tier where nothing else
-- fits.
local function choose(list, may_accumulate)
  local best
  for _, one in ipairs(list) do
    local allowed = may_accumulate or not one.changes.accumulate
    if one.way == SWAP_ALL and best or one.other_bits then allowed = false end
    if one.fits and allowed and not one.estimate
      and (not best or one.seconds < best.seconds) then
      best = one
    end
  end
  if best then best.choice = true end
  return best
end

--- Try the ways in their order: the batch as it is; micro-batch halved step by step; then
--- recomputing at the largest micro-batch that fits; then swapping; both; then what changes
--- bits, to compress and bf16; then more devices.
---@param given table  budget, rows, plan, accumulate (may be chosen), job
---@return mrt.Alternatives
local function climb(given)
  local self = setmetatable({ budget = given.budget, replan = given.plan.replan,
    swap = given.swap }, Alternatives)
  local job = Alternatives.read_job(given.job)
  local first = try(self, "as it is", { memory = false, accumulate = false })
  local parts = halve(self, given.rows)
  recompute(self, given.rows, parts)
  try(self, SWAP_ALL, { swap = policy_swap.all(), memory = given.budget })
  both(self)
  other_bits(self, given.plan.step_options or {})
  if first.plan then devices(self, first.plan) end
  self.choice = choose(self, given.accumulate)
  if job then
    for _, one in ipairs(self) do one.job = judge(one, job) end
    self.verdict = self.choice and self.choice.job
      or "does not fit: more devices needed"
  end
  for _, one in ipairs(self) do one.plan = nil end
  self.replan, self.swap = nil, nil
  return self
end

local function verdict(one)
  if one.job then return one.job end
  if one.fits and one.other_bits then return "fits, with other bits" end
  if one.fits then return one.estimate and "would fit, shared evenly" or "fits" end
  return one.why and format.shorten(one.why, WHY) or "does not fit"
end

local function line(one)
  local peak, time = "-", "-"
  if one.peak then
    peak, time = format.bytes(one.peak), ("%.1f ms"):format(one.seconds * 1e3)
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
  return climb { budget = size, rows = plan.rows or 1, plan = plan,
    accumulate = step.accumulate ~= nil, swap = step.swap ~= nil, job = o.job or step.job }
end

return Alternatives
