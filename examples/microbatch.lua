--- microbatch.lua -- tokens a second against the rows computed at once
---
---     mrt examples/microbatch.lua                  a table
---     mrt examples/microbatch.lua --out FILE.svg   a picture as well
---
--- One batch, in more and more micro-batches (`accumulate = k`).  Small ones take
--- less memory, but read every weight for fewer rows: below some size the flops done
--- for each byte moved, the arithmetic intensity, no longer keep the machine busy,
--- and throughput falls.
---
--- SPDX-License-Identifier: MIT

local chart = require "mrt.plan.report.chart"
local core = require "mrt.core"
local format = require "mrt.util.format"
local small = dofile((arg[0]:gsub("[^/]*$", "small_gpt.lua")))

local flags = small.flags("Throughput against micro-batch.",
  { layers = 3, dim = 256, heads = 4, context = 32, batch = 32 },
  { "--seconds X", "to measure each size", default = 1.5, least = 0 })

local function flop_per_byte(plan)
  local flops, bytes = 0, 0
  for _, s in ipairs(plan:steps()) do flops, bytes = flops + s.flops, bytes + s.bytes end
  return flops / bytes
end

-- The fastest of as many steps as fit into the time, at least three.
local function seconds(step, x, y)
  step(x, y):item()
  local times, began = {}, core.clock()
  repeat
    local before = core.clock()
    step(x, y):item()
    times[#times + 1] = core.clock() - before
  until #times >= 3 and core.clock() - began >= flags.seconds
  table.sort(times)
  return times[1]
end

print(("GPT, %d layers of %d, sequences of %d tokens"):format(flags.layers, flags.dim,
  flags.context))
print(("%6s %11s %14s %14s %14s"):format("rows", "peak", "flop per byte", "predicted/s",
  "measured/s"))
local predicted = { name = "predicted", dashed = true, points = {} }
local measured = { name = "measured", points = {} }
local work = { name = "flop per byte", points = {} }
local tokens, rows = flags.batch * flags.context, flags.batch
while rows >= 1 do
  local step, x, y = small.make(flags,
    { accumulate = (flags.batch + rows - 1) // rows })
  local plan, n = step:plan(x, y), #work.points + 1
  work.points[n] = { rows, flop_per_byte(plan) }
  predicted.points[n] = { rows, tokens / plan.seconds }
  measured.points[n] = { rows, tokens / seconds(step, x, y) }
  print(("%6d %11s %14.1f %14s %14s"):format(rows, format.bytes(plan.peak), work.points[n][2],
    format.rate(predicted.points[n][2]), format.rate(measured.points[n][2])))
  rows = rows // 2
end

if flags.out then
  local across = { label = "rows of a micro-batch", log = true }
  assert(chart.save(flags.out, {
    { title = "Tokens a second", series = { predicted, measured }, x = across,
      y = { label = "tokens a second" } },
    { title = "Arithmetic intensity", series = { work }, x = across,
      y = { label = "flop per byte moved" } } }))
  print("written: " .. flags.out)
end
