--- turns.lua -- processes that take their steps in turn
---
--- A machine with much else to do is quicker and slower from one second to the next.
--- Steps of two programs, each begun when the other's has ended, meet the same, and the
--- median of their ratios holds to a few percent where the least of minutes do not.
---
--- The one that measures reads a line before each step, "step", and prints what the step
--- took; any other line is the last, behind which it prints its line of JSON.
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"

local turns = {}

---@class mrt.bench.Turns  a process that takes steps
---@field private to file*
---@field private from file*
---@field private path string
local Turns = {}
Turns.__index = Turns

--- Start one; `command` is a shell's.
---@param command string
---@return mrt.bench.Turns
function turns.start(command)
  local path = os.tmpname()
  os.remove(path)
  if not os.execute(("mkfifo -m 600 '%s'"):format(path)) then
    error("cannot make a pipe at " .. path, 0)
  end
  -- The shell waits for us to open the pipe; it has no end for writing then, so that the
  -- process ends where we do, however that is.
  local from = assert(io.popen(("{ rm -f '%s'; %s\n} <'%s'"):format(path, command, path)))
  -- For reading too: it neither waits for the process nor breaks when that ends.
  local to = assert(io.open(path, "r+"))
  to:setvbuf "line"
  return setmetatable({ to = to, from = from, path = path }, Turns)
end

--- Seconds of its next step; nil: it has ended.
---@return number?
function Turns:step()
  self.to:write "step\n"
  for line in self.from:lines() do
    if tonumber(line) then return tonumber(line) end
  end
end

--- End it.
---@return table? result  what its line of JSON says; nil: there is none
function Turns:finish()
  self.to:write "end\n"
  local line = self.from:read "a":match "({[^\n]*})"
  self.from:close()
  self.to:close()
  os.remove(self.path) -- of a command that no shell could read
  return line and json.decode(line)
end

--- In the process itself: take steps as they are asked for.
---@param clock fun(): number
---@param step fun()
---@return number[] seconds
function turns.take(clock, step)
  local times = {}
  io.stdout:setvbuf "line"
  for line in io.lines() do
    if line ~= "step" then break end
    local before = clock()
    step()
    times[#times + 1] = clock() - before
    print(("%.9f"):format(times[#times]))
  end
  if #times == 0 then error("no step was asked for", 0) end
  return times
end

--- Let all take so many steps, who begins changing from one to the next; those that end
--- early keep what they have.
---@param list mrt.bench.Turns[]
---@param count integer
---@return number[][] seconds  of each
function turns.run(list, count)
  local times = {}
  for i in ipairs(list) do times[i] = {} end
  for turn = 1, count do
    for k = 1, #list do
      local i = (turn + k) % #list + 1
      times[i][turn] = list[i]:step()
    end
  end
  return times
end

--- The median of ratios of steps taken in the same turn; nil: there is none.
---@param a number[]
---@param b number[]
---@return number?
function turns.ratio(a, b)
  local list = {}
  for i = 1, math.min(#a, #b) do list[i] = a[i] / b[i] end
  table.sort(list)
  local n = #list
  return n > 0 and (list[(n + 1) // 2] + list[n // 2 + 1]) / 2 or nil
end

return turns
