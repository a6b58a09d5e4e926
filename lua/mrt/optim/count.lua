--- count.lua -- how many updates an optimizer has made, without waiting for them
---
--- The count `t` is a variable that each step raises.  On a device that queues its work
--- to read it is to wait for the step under way, and a schedule asks before each step: so
--- it is counted here as well.  The core tells how often the variable was written: one
--- run of the step that was about to come is one more, and raises it by the updates in
--- that step.  Whatever else has happened (a state was loaded, a run failed) is more than
--- one, and `t` is read.
---
--- Where updates can be skipped (a loss scale), a step under way counts as made, and those
--- before it as what they were: each step's count is kept in a tensor that can be read
--- while the next one runs.  So a skipped update is known one step late.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local count = {}

---@class mrt.optim.Count
---@field value integer?   as of `writes`
---@field writes integer?  of the variable, by the core
---@field coming integer?  updates in the step that comes, or came since
---@field skips boolean?   it may leave them out
---@field keep function?   compiled: the count as it is now, to be read later
---@field kept mrt.Tensor? what that gave behind the last step but one, or the last

local counts = setmetatable({}, { __mode = "k" }) ---@type table<mrt.Tensor, mrt.optim.Count>
local made = setmetatable({}, { __mode = "k" }) -- by a trace's inputs: updates, by `t`

local function record(t)
  counts[t] = counts[t] or {}
  return counts[t]
end

local function read(x) return math.tointeger(x:item()) end

local function reread(c, t)
  if c.kept then c.kept:free() end
  c.kept = nil
  return read(t)
end

-- The step before the last has ended, or is waited for.
local function late(c, t)
  if not c.keep then
    c.keep = mrt.compile(function() return t:copy() end)
    c.keep.passed_by = true -- mrt plan wants the step that comes after
  end
  local before = c.kept
  c.kept = c.keep()
  if not before then return read(c.kept) end
  local value = read(before) + c.coming
  before:free()
  return value
end

--- Return how many updates have been made.
---@param t mrt.Tensor  the variable that counts them
---@return integer
function count.now(t)
  if core.tracing() or not core.info().queues then return read(t) end
  local c, writes = record(t), core.writes(t)
  if writes == c.writes then return c.value end
  if not (c.coming and writes == c.writes + 1) then
    c.value = reread(c, t)
  elseif c.skips then
    c.value = late(c, t)
  else
    c.value = c.value + c.coming
  end
  c.writes, c.coming = writes, nil
  return c.value
end

--- A trace has an update of what `t` counts.
---@param t mrt.Tensor
---@param when mrt.Tensor?  it may be skipped
function count.update(t, when)
  local now = core.current_trace()
  if not now then return end
  local inputs = now.runtime
  made[inputs] = made[inputs] or {}
  made[inputs][t] = (made[inputs][t] or 0) + 1
  if when ~= nil then record(t).skips = true end
end

--- Inside a trace: what tells, before each run, how many updates there are.
---@param t mrt.Tensor
---@return fun(): integer
function count.before(t)
  local trace = core.current_trace()
  local inputs = trace and trace.runtime
  return function()
    local now = count.now(t)
    record(t).coming = inputs and made[inputs] and made[inputs][t]
    return now
  end
end

return count
