--- profile.lua -- where a step of GPT-2 takes its time on a device
---
---     mrt scripts/gpu/profile.lua CASE FILE [DEVICE]
---
--- Seconds of each operator, measured node by node and as planned, and of the dearest
--- nodes; each node is waited for, which costs it some microseconds.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local gpt = require "mrt.bench.gpt"
local results = require "results"

local case, file, device = arg[1], arg[2], arg[3] or "cuda:0"
mrt.device(device)
local step, x, y = gpt.make(gpt.cases[case], {})
step(x, y):item()
local m = step:measure({ rounds = 3 }, x, y)

local by_op, ops, nodes = {}, {}, {}
for i, s in ipairs(m.steps) do
  local of = by_op[s.op]
  if not of then
    of = { op = s.op, nodes = 0, ms = 0, planned_ms = 0 }
    by_op[s.op], ops[#ops + 1] = of, of
  end
  local ms, planned = s.measured * 1e3, s.time * 1e3
  of.nodes, of.ms, of.planned_ms = of.nodes + 1, of.ms + ms, of.planned_ms + planned
  nodes[i] = { op = s.op, at = (s.file or "?") .. ":" .. (s.line or 0), backward = s.backward,
    ms = ms, planned_ms = planned, flops = s.flops, bytes = s.bytes }
end
local function dearest(a, b) return a.ms > b.ms end
table.sort(ops, dearest)
table.sort(nodes, dearest)
results.write(file, { case = case, nodes = #m.steps, total_ms = m.total * 1e3,
  planned_ms = m.predicted * 1e3, operators = ops, dearest = table.move(nodes, 1, 60, 1, {}) })

print(("%s: %d nodes, %.2f ms waited for one by one, %.2f planned"):format(case, #m.steps,
  m.total * 1e3, m.predicted * 1e3))
print(("%-24s %6s %9s %9s"):format("operator", "nodes", "ms", "planned"))
for i = 1, math.min(#ops, 24) do
  local o = ops[i]
  print(("%-24s %6d %9.3f %9.3f"):format(o.op, o.nodes, o.ms, o.planned_ms))
end
