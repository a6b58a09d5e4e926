--- results.lua -- what the stages of scripts/gpu_check share: a file of JSON, and a clock
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"

local results = {}

--- Write a table, whole or not at all.
function results.write(path, value)
  local file = assert(io.open(path .. ".new", "w"))
  assert(file:write(json.encode(value), "\n"))
  assert(file:close())
  assert(os.rename(path .. ".new", path))
end

--- What such a file holds.
function results.read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return json.decode(text)
end

--- Seconds of a compiled step: the mean of `rounds` that follow each other, the last of
--- which is waited for, after some that load and record.
function results.seconds(step, rounds, ...)
  for _ = 1, 3 do step(...):item() end
  local began, last = core.clock(), nil
  for _ = 1, rounds do last = step(...) end
  last:item()
  return (core.clock() - began) / rounds
end

--- A variable of normal numbers: it lies in one place, as inputs need not.
function results.normal(dtype, ...)
  return mrt.variable(mrt.eval(mrt.randn(...):to(dtype)))
end

return results
