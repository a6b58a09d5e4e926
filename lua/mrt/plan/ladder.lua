--- ladder.lua -- the rungs of the ladder: each way into a budget, planned
---
--- In the order in which one tries them: the batch as it is; micro-batches, halved step
--- by step; recomputing, swapping, both; these in micro-batches; then what changes bits,
--- which only the script can allow; then more devices.
---
--- All are plans, most of them the first that fits of its kind; what the planner would do
--- by itself is planned as it would be.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local policy_swap = require "mrt.policy.swap"
local precision = require "mrt.policy.precision"
local shard = require "mrt.policy.shard"
local what_if = require "mrt.plan.what_if"

local MOST_HALVINGS <const> = 6
local MOST_RANKS <const> = 1 << 20
local TRIES <const> = 4 -- counts of ranks that are planned
local CHUNKS <const> = 8
local SWAP_ALL <const> = "swap weights and optimizer state"

-- Note a plan, or why there is none.
local function note(list, one, ok, plan)
  one.fits = false
  if ok then
    one.plan, one.peak, one.seconds = plan, plan.peak, plan.seconds
    one.fits = plan:needs() <= list.budget
    one.does = plan:choices().text
    one.guessed = plan.swapped > 0 and not plan.device.swap_known or nil
  else
    one.why = type(plan) == "table" and plan.message or tostring(plan)
    one.why = one.why:match "^[^\n]*"
  end
  return one
end

-- Plan one way and put it on the list.
local function try(list, way, changes, glance)
  local one = { way = way, changes = changes }
  list[#list + 1] = note(list, one, pcall(list.replan, changes, nil, glance))
  return one
end

-- ---- with the same bits --------------------------------------------------------

-- Micro-batches halved step by step; those that could be planned, {k, rows, seconds}.
local function halve(list, rows)
  local parts, k = {}, 2
  while k <= rows and #parts < MOST_HALVINGS do
    local size = (rows + k - 1) // k
    local one = try(list, ("micro-batch %d"):format(size), { memory = false, accumulate = k })
    if not one.peak then break end
    parts[#parts + 1] = { k = k, rows = size, seconds = one.seconds, fits = one.fits }
    k = k * 2
  end
  return parts
end

-- What a plan within the budget does, in a word or two.
local function deed(plan)
  local c = plan:choices()
  local recomputes = c.recomputed > 0
  if not plan.swapped or plan.swapped == 0 then return "recompute" end
  return recomputes and "recompute and swap" or "swap"
end

-- Recompute, swap, or both, as the budget option does; and each alone where it does both.
local function within(list)
  local changes = { memory = list.budget, accumulate = false }
  local both = try(list, "recompute", changes)
  both.way = both.plan and deed(both.plan) or both.way
  if both.way == "recompute" or list.given.swap ~= nil then return end
  list[#list] = nil
  try(list, "recompute", { memory = list.budget, accumulate = false,
    swap = policy_swap.none() }, true)
  list[#list + 1] = both
end

local function swap_all(list)
  if list.given.swap ~= nil then return end
  try(list, SWAP_ALL, { swap = policy_swap.all(), memory = list.budget, accumulate = false }, true)
end

-- The least predicted time so far of what fits and keeps bits.
local function quickest(list)
  local least = math.huge
  for _, one in ipairs(list) do
    if one.fits then least = math.min(least, one.seconds) end
  end
  return least
end

-- Micro-batches that recompute or swap besides, from the largest on: as long as they can
-- be quicker than what there is, which those that take longer with all kept are not.
local function combine(list, parts)
  local failed
  for _, part in ipairs(parts) do
    if part.fits or part.seconds >= quickest(list) then return end
    local one = try(list, "recompute", { memory = list.budget, accumulate = part.k }, true)
    one.way = ("%s, micro-batch %d"):format(one.plan and deed(one.plan) or one.way, part.rows)
    if one.fits then failed = nil end
    if not one.fits then list[#list], failed = nil, one end
  end
  list[#list + 1] = failed
end

-- ---- with other bits -----------------------------------------------------------

-- What an option of mrt.compile gives, unless the script has it already.
local function options_that_change(list)
  local step, narrow = list.given, precision.bf16()
  local function one(way, changes)
    changes.memory = list.budget
    local has = changes.precision and step.precision
      or changes.compress and (step.compress or step.tolerated)
    if not has then try(list, way, changes, true).other_bits = true end
  end
  one("compress to int8", { compress = "int8" })
  one("bf16", { precision = narrow })
  one("bf16 and compress to int8", { precision = narrow, compress = "int8" })
end

-- What the script would have to say otherwise, where there is something that could.
local function scripts_that_change(list)
  local function one(way, script, transform, found)
    local transforms = table.move(list.given.transforms or {}, 1,
      #(list.given.transforms or {}), 1, {})
    transforms[#transforms + 1] = transform
    local rung = { way = way, changes = {}, script = script, other_bits = true }
    note(list, rung, pcall(list.replan, { memory = list.budget, transforms = transforms }, nil,
      true))
    if found() then list[#list + 1] = rung end
  end
  if not list.given.ranks then
    one("optimizer state in 8 bits", 'state = "8bit"',
      what_if.state "8bit")
  end
  one(("head in %d chunks"):format(CHUNKS), "nn.linear_cross_entropy",
    what_if.chunked_head(CHUNKS))
end

-- ---- more devices ----------------------------------------------------------------

-- The plan of one of n ranks that have a part of the batch each, and of all else.
local function on(list, n, rows)
  local own = (rows + n - 1) // n
  local function part(shape)
    if shape[1] ~= rows then return shape end
    local out = table.move(shape, 1, #shape, 1, {})
    out[1] = own
    return out
  end
  local one = { way = ("%d devices"):format(n), changes = {}, devices = n,
    script = "mrt launch, and shard = policy.shard.zero(3)" }
  return require "mrt.shard.suppose" (n, function(comm)
    note(list, one, pcall(list.replan, { memory = list.budget, accumulate = false,
      shard = shard.zero(3, { comm = comm }) }, part, true))
    if not one.plan then return one end
    if one.plan.unlinked then one.seconds = nil end
    one.plan.core:free()
    one.plan = nil
    return one
  end)
end

-- The count of ranks, a power of two, from which even shares would fit.
local function evenly(list, plan)
  local n, budget = 2, list.budget - plan.device.overhead
  while n < MOST_RANKS and (plan.persistent + plan.transient) / n + plan.outputs > budget do
    n = n * 2
  end
  return n
end

-- As few ranks as fit, by powers of two, from n on.
local function fewest(list, n, rows)
  local one = on(list, n, rows)
  local fewer = one.fits
  for _ = 2, TRIES do
    n = fewer and n // 2 or n * 2
    if n < 2 or n > MOST_RANKS or one.fits and not fewer then break end
    local other = on(list, n, rows)
    if fewer and not other.fits then break end
    one = other
  end
  return one
end

local function devices(list, plan, rows)
  local _, size = core.communicator.info(core.communicator.world())
  if list.given.ranks or list.given.shard or size > 1 then return end -- there are several
  list[#list + 1] = fewest(list, evenly(list, plan), rows)
end

--- Plan all ways into a budget.
---@param plan mrt.Plan    of a compiled function
---@param budget integer   bytes
---@return mrt.Alternative[]
return function(plan, budget)
  local list = { budget = budget, replan = plan.replan, given = plan.step_options }
  local rows = plan.rows or 1
  local first = try(list, "as it is", { memory = false, accumulate = false })
  local parts = halve(list, rows)
  within(list)
  swap_all(list)
  combine(list, parts)
  options_that_change(list)
  scripts_that_change(list)
  if first.plan then devices(list, first.plan, rows) end
  for _, one in ipairs(list) do one.plan = nil end
  list.replan, list.given = nil, nil
  return list
end
