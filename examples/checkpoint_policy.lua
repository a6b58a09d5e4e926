--- checkpoint_policy.lua -- a policy of one's own beside those that come along
---
---     mrt examples/checkpoint_policy.lua                  a table
---     mrt examples/checkpoint_policy.lua --out FILE.svg   a picture as well
---
--- A policy says for each activation whether it is kept for the backward pass or
--- computed again.  It never changes a number: every loss below is the same to the
--- bit.  `mine` keeps what layers hand on, and of the rest what takes longest to
--- compute for its bytes.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local chart = require "mrt.plan.report.chart"
local format = require "mrt.util.format"
local small = dofile((arg[0]:gsub("[^/]*$", "small_gpt.lua")))
local checkpoint = mrt.policy.checkpoint

local flags = small.flags("Checkpoint policies compared.",
  { layers = 6, dim = 96, heads = 4, context = 64, batch = 16, steps = 7 })
flags.dropout = 0.1

local WORTH = 1e-10 -- seconds that a byte must save to be kept

local function mine(value)
  if value.boundary or value.time / value.bytes > WORTH then return "keep" end
  return "recompute"
end

local policies = {
  { "none()", checkpoint.none() },
  { "selective()", checkpoint.selective() },
  { "mine", mine },
  { "budget(50%)", checkpoint.budget "50%" },
  { "budget(25%)", checkpoint.budget "25%" },
  { "every(1)", checkpoint.every(1) },
  { "sqrt()", checkpoint.sqrt() },
  { "all()", checkpoint.all() },
}

-- Train anew under a policy: the plan, the losses' bits, seconds of the fastest step.
local function train(policy)
  local step, x, y = small.make(flags, { checkpoint = policy })
  return step:plan(x, y), small.run(flags.steps, step, x, y)
end

print(("GPT, %d layers of %d, batch %d x %d, dropout 0.1; times of a step")
  :format(flags.layers, flags.dim, flags.batch, flags.context))
print(("%-14s %11s %11s %12s %12s  %s"):format("policy", "peak", "kept", "predicted",
  "measured", "losses"))

local predicted = { name = "predicted", bare = true, points = {} }
local measured = { name = "measured", bare = true, points = {} }
local base
for _, entry in ipairs(policies) do
  local plan, bits, time = train(entry[2])
  base = base or { seconds = plan.seconds, bits = bits, time = time }
  local more = { plan.seconds / base.seconds, time / base.time }
  print(("%-14s %11s %11s %11.2fx %11.2fx  %s"):format(entry[1], format.bytes(plan.peak),
    format.bytes(plan:kept()), more[1], more[2], bits == base.bits and "same bits" or "OTHER"))
  predicted.points[#predicted.points + 1] = { plan.peak, more[1] }
  measured.points[#measured.points + 1] = { plan.peak, more[2], entry[1] }
end

if flags.out then
  assert(chart.save(flags.out, { {
    title = "A step under eight policies", series = { predicted, measured },
    x = { label = "peak", bytes = true },
    y = { label = "time, all kept = 1" } } }))
  print("written: " .. flags.out)
end
