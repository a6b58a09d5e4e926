--- swap.lua -- when is moving a value to the swap tier free?
---
---     mrt examples/swap.lua                  tables
---     mrt examples/swap.lua --out FILE.svg   a picture as well
---
--- For activations of a GPT's training step: the time to copy each out and in
--- (T_swap) against the time of what runs between its last use in the forward pass
--- and its first in the backward pass (T_compute), on this machine and on devices
--- that are not here.  Then the step really runs with weights and optimizer state
--- in a file: the losses are the same bits.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local chart = require "mrt.plan.report.chart"
local format = require "mrt.util.format"
local small = dofile((arg[0]:gsub("[^/]*$", "small_gpt.lua")))

local flags = small.flags("When is swapping free?",
  { layers = 4, dim = 128, heads = 4, context = 64, batch = 8 })

-- The activations with their T_swap and T_compute: seconds between the last forward
-- and the first backward step that reads them.  The easiest to hide come first.
local function gaps(plan)
  local steps, list, last, first = plan:steps(), {}, {}, {}
  for i, touched in ipairs(plan:operands()) do
    for _, v in ipairs(touched.reads) do
      if not steps[i].backward then last[v] = i
      elseif last[v] and not first[v] then first[v] = i end
    end
  end
  local d = plan.device
  for v, value in ipairs(plan:values()) do
    if value.role == "activation" and first[v] then
      local between = 0
      for i = last[v] + 1, first[v] - 1 do between = between + steps[i].time end
      list[#list + 1] = { value = value, compute = between,
        swap = value.bytes / d.swap_write + value.bytes / d.swap_read }
    end
  end
  table.sort(list, function(a, b)
    local p, q = a.compute / a.swap, b.compute / b.swap
    if p ~= q then return p > q end
    return a.value.first < b.value.first
  end)
  return list
end

local series, least, most = {}, math.huge, 0.0

-- Note the values that have something to hide behind.
local function add_points(name, list)
  local points = {}
  for _, gap in ipairs(list) do
    if gap.compute > 0 then
      points[#points + 1] = { gap.compute * 1e3, gap.swap * 1e3 }
      least, most = math.min(least, gap.swap * 1e3), math.max(most, gap.swap * 1e3)
    end
  end
  series[#series + 1] = { name = name, bare = true, points = points }
end

local function table_for(name)
  if name then mrt.device.use(name) end
  local step, x, y = small.make(flags)
  local plan = step:plan(x, y)
  local d = plan.device
  if d.swap_read <= 0 then return end
  print(("\n%s: swap tier %s/s in, %s/s out"):format(d.name,
    format.bytes(d.swap_read), format.bytes(d.swap_write)))
  print(("%-20s %10s %11s %11s  %s"):format("value", "bytes", "T_swap", "T_compute",
    "hidden"))
  local list, hidden = gaps(plan), 0
  for i, gap in ipairs(list) do
    local free = gap.swap <= gap.compute
    hidden = hidden + (free and 1 or 0)
    if i <= 3 or i > #list - 3 then -- the easiest and the hardest
      print(("%-20s %10s %8.3f ms %8.3f ms  %s"):format(gap.value.op,
        format.bytes(gap.value.bytes), gap.swap * 1e3, gap.compute * 1e3,
        free and "yes" or "no"))
    end
  end
  print(("%d of %d activations could leave for free, one at a time"):format(hidden, #list))
  add_points(d.name, list)
end

table_for(nil)
for _, name in ipairs { "a100-40", "h200" } do table_for(name) end
mrt.device.use "declared"

local kept, x, y = small.make(flags)
local swapped = small.make(flags, { swap = mrt.policy.swap.all() })
local a, b = kept:plan(x, y), swapped:plan(x, y)
print "\nstep   all in memory   weights and optimizer state in a file"
for i = 1, 4 do
  local p, q = kept(x, y):item(), swapped(x, y):item()
  print(("%4d   %.10f    %.10f  %s"):format(i, p, q, p == q and "same bits" or "DIFFER"))
end
print(("peak   %-12s    %s, and %s in the file"):format(format.bytes(a.peak),
  format.bytes(b.peak), format.bytes(b.swapped)))

if flags.out then
  series[#series + 1] = { name = "T_swap = T_compute", dashed = true,
    points = { { least, least }, { most, most } } }
  assert(chart.save(flags.out, { { title = "Below the line a copy is free",
    series = series, x = { label = "T_compute, ms", log = true },
    y = { label = "T_swap, ms", log = true } } }))
  print("written: " .. flags.out)
end
