--- run.lua -- one rendering: what it has written, and what it may still spend
---
--- A template is a program that others wrote: its steps, the bytes and items of all the
--- values that it makes, and the depth of its calls are bounded, so that rendering ends
--- in bounded time and memory whatever the template says.
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"

---@class mrt.template.Run
---@field line integer        of what is being computed
---@field now integer?        seconds since 1970, for strftime_now
---@field steps integer       left
---@field bytes integer       left
---@field out {n: integer, bytes: integer}  parts of the text being written
local Run = {}
Run.__index = Run

local run = {}

--- What a rendering may take unless the template was made with other limits.
run.limits = {
  steps = 10000000,       -- expressions, statements, items gone through
  bytes = 256 * 1048576,  -- of all strings and lists that are made, added up
  depth = 100,            -- macros within macros, values within values
}

---@param limits {steps: integer, bytes: integer, depth: integer}
---@return mrt.template.Run
function run.new(limits)
  return setmetatable({ line = 1, steps = limits.steps, bytes = limits.bytes,
    limits = limits, depth = 0, captures = 0, out = { n = 0, bytes = 0 } }, Run)
end

--- Count steps.
---@param n integer
function Run:spend(n)
  self.steps = self.steps - n
  if self.steps < 0 then
    fail.here("it takes more than %d steps", self.limits.steps)
  end
end

--- Count the steps of a pass over n bytes.
---@param n integer
function Run:scan(n) self:spend(n // 64) end

--- Count bytes, before they are made.
---@param n number
function Run:take(n)
  self.bytes = self.bytes - n
  if self.bytes < 0 then
    fail.here("it makes values of more than %d bytes", self.limits.bytes)
  end
end

--- Count the bytes of a string that was made, and return it.
---@param s string
---@return string
function Run:made(s)
  self:take(#s)
  self:scan(#s)
  return s
end

--- One level deeper; `leave` goes back.
function Run:enter()
  self.depth = self.depth + 1
  if self.depth > self.limits.depth then
    fail.here("it goes more than %d levels deep", self.limits.depth)
  end
end

function Run:leave() self.depth = self.depth - 1 end

--- Write text.
---@param s string
function Run:write(s)
  if s == "" then return end
  local out = self.out
  self:take(#s)
  out.n = out.n + 1
  out[out.n], out.bytes = s, out.bytes + #s
end

--- Begin to write elsewhere; `release` returns what was written since.
---@return table outer  to be given to `release`
function Run:capture()
  local outer = self.out
  self.out, self.captures = { n = 0, bytes = 0 }, self.captures + 1
  return outer
end

---@param outer table
---@return string
function Run:release(outer)
  local text = table.concat(self.out, "", 1, self.out.n)
  self.out, self.captures = outer, self.captures - 1
  return self:made(text)
end

return run
