--- advice.lua -- which ways to save memory are worth it for this step
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

local function share(part, whole)
  return whole > 0 and ("%.0f%%"):format(100 * part / whole) or "0%"
end

-- What recomputing could free: what is kept, less the largest need of one node.
local function about_recomputing(plan)
  local kept = plan:kept()
  if kept == 0 then
    return "Recomputing gains nothing: no activation waits for a gradient."
  end
  local floor = math.max(plan.working_set, plan.peak - kept)
  local gain = plan.peak - floor
  if gain < plan.peak // 20 then
    return ("Recomputing is not worth it: of %s only %s (%s) are activations that "
      .. "need not wait; weights, optimizer state and the largest node take the rest.")
      :format(format.bytes(plan.peak), format.bytes(gain), share(gain, plan.peak))
  end
  return ("Recomputing can free up to %s of %s: %s of activations wait for their "
    .. "gradient."):format(format.bytes(gain), format.bytes(plan.peak),
      format.bytes(kept))
end

-- Is moving the variables to the swap tier and back quicker than the step?
local function about_swapping(plan)
  local d = plan.device
  local read, write = d.swap_read or 0, d.swap_write or 0
  if plan.swapped > 0 then
    return ("Swapping keeps %s out of memory; of a step of %s it waits %s (%s) for "
      .. "copies."):format(format.bytes(plan.swapped), format.time(plan.seconds),
        format.time(plan.stall), share(plan.stall, plan.seconds))
  elseif read <= 0 or write <= 0 then
    return "Swapping: this device has no swap tier."
  elseif plan.persistent == 0 then
    return "Swapping gains nothing: there are no weights and no optimizer state."
  end
  local move = plan.persistent / read + plan.persistent / write
  local text = ("Swapping weights and optimizer state moves %s out and in, %s, "
    .. "beside a step of %s"):format(format.bytes(plan.persistent),
      format.time(move), format.time(plan.seconds))
  return move > plan.seconds and text .. ": it is not worth it while all fits."
    or text .. ": it could be hidden."
end

-- What a plan with this option would be, or why there is none.
local function instead(plan, accumulate)
  local ok, other = pcall(plan.replan, { accumulate = accumulate, memory = false })
  if ok then return other end
  return nil, (type(other) == "table" and other.message or tostring(other))
    :match "^[^\n]*"
end

local function compare(whole, split)
  return format.bytes(whole.peak - split.peak),
    share(whole.peak - split.peak, whole.peak), split.seconds / whole.seconds
end

local function about_batches(plan)
  if plan.rows < 2 then
    return "Micro-batches: the batch has one row, there is nothing to split."
  end
  local other, why = instead(plan, not plan.micro_batches and 2)
  if not other then
    return "Micro-batches: this step cannot be split (" .. why .. ")."
  end
  local whole, split = plan, other
  if plan.micro_batches then whole, split = other, plan end
  if split.peak >= whole.peak then
    return "Micro-batches are not worth it: accumulators take as much as they save."
  end
  return ("%s micro-batches save %s (%s) for %.2f times the time; sums come in "
    .. "another order."):format(plan.micro_batches or "Two", compare(whole, split))
end

--- Say in a few sentences which techniques are worth it for this plan.
---@param plan mrt.Plan
---@return string
return function(plan)
  return table.concat({ "This plan: " .. plan:choices().text .. ".",
    about_recomputing(plan), about_swapping(plan), about_batches(plan) }, "\n")
end
