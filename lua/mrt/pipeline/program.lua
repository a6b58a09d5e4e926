--- program.lua -- what a rank does in a step: actions and messages in one order
---
--- Sends wait until they are received, so all ranks take them in one order, which a
--- simulation of the schedule gives: an action counts where it starts, a message where
--- what it brings is there and the receiver is free.  In this order each comes behind
--- what it waits for, and each rank's own are in its order; so the first that has not
--- been done can always be done.
---
--- SPDX-License-Identifier: MIT

local check = require "mrt.pipeline.check"
local simulate = require "mrt.pipeline.simulate"

local program = {}

---@class mrt.PipelineEvent
---@field does "F"|"B"|"W"|"act"|"grad"  an action; a message forth or back
---@field part integer    of the action; that makes what is sent
---@field micro integer
---@field from integer?   stages
---@field to integer?

-- When stage `s` has nothing to do before what starts at `start`: since when.
local function free_since(list, start)
  local since = 0
  for _, a in ipairs(list) do
    if a.start >= start then break end
    since = a.finish
  end
  return since
end

-- The message that an action makes, or nil.
local function message(order, sim, s, a, starts)
  local q, part = order.p * order.v, check.part(s, a.chunk, order.p)
  local there = a.kind == "F" and part + 1 or a.kind == "B" and part - 1 or 0
  if there < 1 or there > q then return nil end
  local to = check.home(there, order.p)
  if to == s then return nil end
  local start = starts[a.kind .. there .. "." .. a.micro]
  return { does = a.kind == "F" and "act" or "grad", part = part, micro = a.micro,
    from = s, to = to, at = math.max(a.finish, free_since(sim.actions[to], start)), rank = 0 }
end

--- All actions and messages of a schedule, in the one order.
---@param order mrt.PipelineOrder
---@return mrt.PipelineEvent[]
function program.events(order)
  local sim, starts, out = simulate(order), {}, {}
  for s, list in ipairs(sim.actions) do
    for _, a in ipairs(list) do
      local part = check.part(s, a.chunk, order.p)
      starts[a.kind .. part .. "." .. a.micro] = a.start
      out[#out + 1] = { does = a.kind, part = part, micro = a.micro, from = s, at = a.start,
        rank = 1 }
    end
  end
  for s, list in ipairs(sim.actions) do
    for _, a in ipairs(list) do out[#out + 1] = message(order, sim, s, a, starts) end
  end
  table.sort(out, function(x, y)
    if x.at ~= y.at then return x.at < y.at end
    if x.rank ~= y.rank then return x.rank < y.rank end -- messages first
    if x.from ~= y.from then return x.from < y.from end
    if x.part ~= y.part then return x.part < y.part end
    if x.micro ~= y.micro then return x.micro < y.micro end
    return x.does < y.does
  end)
  return out
end

--- Those of a stage.
---@param order mrt.PipelineOrder
---@param stage integer
---@return mrt.PipelineEvent[]
function program.of(order, stage)
  local out = {}
  for _, e in ipairs(program.events(order)) do
    if e.from == stage or e.to == stage then out[#out + 1] = e end
  end
  return out
end

return program
