--- stop.lua -- Ctrl-C ends a run between two steps
---
--- The first one is only noted: the step goes on to its end, and the run is asked
--- whether it is to go on.  A second one does at once what Ctrl-C does without us.
--- Of several ranks one may have heard of it before another, which is a step behind;
--- so they tell each other, about once a second, at a step on which all agree.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local together = require "mrt.communicator.sync"

local stop = { every = 1 } -- seconds between two rounds among ranks

local WORDS <const> = "\n(the run ends after this step; Ctrl-C again ends it at once)\n"

---@class mrt.train.Stop
---@field size integer    ranks
---@field next integer    the step after which ranks ask each other
local Stop = {}
Stop.__index = Stop

--- Hold interrupts from now on, until it is closed.
---@param done integer  steps of an earlier process
---@return mrt.train.Stop
function stop.new(done)
  local rank, size = together.rank()
  return setmetatable({ held = core.hold_interrupts(rank == 0 and WORDS or ""), size = size,
    next = done + 1, step = done, at = core.clock() }, Stop)
end

-- How many steps rank 0 does until it is time to ask again.
local function steps_until(self, step)
  local now = core.clock()
  local each = (now - self.at) / math.max(step - self.step, 1)
  self.step, self.at = step, now
  return math.max(1, math.floor(math.min(stop.every / math.max(each, 1e-9), 1e6)))
end

--- Is the run to end after this step?  All ranks ask, and get the same answer.
---@param step integer
---@return boolean
function Stop:asked(step)
  if self.size == 1 then return core.interrupted() end
  if step < self.next then return false end
  local steps = steps_until(self, step)
  local said, heard = together.gather(("%d %d"):format(core.interrupted() and 1 or 0, steps)), false
  for _, text in ipairs(said) do heard = heard or text:sub(1, 1) == "1" end
  self.next = step + math.tointeger(tonumber(said[1]:match "%d+$"))
  return heard
end

function Stop:close() getmetatable(self.held).__close(self.held) end
Stop.__close = Stop.close

return stop
