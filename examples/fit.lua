--- fit.lua -- one GPT trained within smaller and smaller memory
---
---     mrt examples/fit.lua                     a table
---     mrt examples/fit.lua --out FILE.svg      a picture as well
---
--- `memory = bytes` alone makes the planner find what to compute again.  The peak is
--- what the step allocates, to the byte, and every loss is the same to the bit.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local chart = require "mrt.plan.report.chart"
local core = require "mrt.core"
local format = require "mrt.util.format"
local small = dofile((arg[0]:gsub("[^/]*$", "small_gpt.lua")))

local flags = small.flags("A GPT within less memory.",
  { layers = 6, dim = 96, heads = 4, context = 64, batch = 16, steps = 7 },
  { "--percent LIST", "budgets, of the whole peak", default = "100,80,65,50,40,30,22,15" })
flags.dropout = 0.1

-- A step to train anew, its batch, and its plan.
local function prepare(memory)
  local step, x, y = small.make(flags, { memory = memory })
  return { step = step, x = x, y = y, plan = step:plan(x, y) }
end

-- Why nothing fits a budget, in a line; another error goes on.
local function reason(e)
  if e.code ~= "budget" then error(e, 0) end
  return e.message:match "^[^\n]*"
end

-- Bits of the losses, seconds of the fastest step, bytes allocated at most.
local function measure(before, inputs, ...)
  mrt.memory { reset = true }
  local bits, seconds = small.run(flags.steps, ...)
  return bits, seconds, mrt.memory().peak - inputs - before
end

local function now()
  collectgarbage()
  collectgarbage()
  return mrt.memory().now
end

print(("GPT, %d layers of %d, batch %d x %d, AdamW"):format(flags.layers, flags.dim,
  flags.batch, flags.context))
print(("%7s %11s %11s %11s %10s %10s %10s  %s"):format("budget", "bytes", "peak",
  "allocated", "predicted", "measured", "planning", "losses"))

local predicted = { name = "predicted", dashed = true, points = {} }
local measured = { name = "measured", points = {} }
local base = {}
for percent in flags.percent:gmatch "%d+" do
  local before = now()
  local budget = base.peak and base.peak * percent // 100
  local began = core.clock()
  local ok, made = pcall(prepare, budget)
  local planning = core.clock() - began
  if not ok then
    print(("%6s%% %11s  %s"):format(percent, format.bytes(budget), reason(made)))
    break
  end
  local plan = made.plan
  local bits, time, allocated = measure(before, plan.inputs, made.step, made.x, made.y)
  if not base.peak then
    base = { peak = plan.peak, bits = bits, seconds = plan.seconds, time = time }
  end
  local more = { plan.seconds / base.seconds, time / base.time }
  print(("%6s%% %11s %11s %11s %9.2fx %9.2fx %7.0f ms  %s"):format(percent,
    format.bytes(budget or plan.peak), format.bytes(plan.peak), format.bytes(allocated),
    more[1], more[2], planning * 1e3, bits == base.bits and "same bits" or "OTHER"))
  predicted.points[#predicted.points + 1] = { plan.peak / base.peak * 100, more[1] }
  measured.points[#measured.points + 1] = { plan.peak / base.peak * 100, more[2] }
end
print(("a step with all kept: %.2f ms"):format(base.time * 1e3))

if flags.out then
  assert(chart.save(flags.out, { { title = "Time of a step against its peak",
    series = { predicted, measured }, x = { label = "peak, % of all kept" },
    y = { label = "time, all kept = 1" } } }))
  print("written: " .. flags.out)
end
