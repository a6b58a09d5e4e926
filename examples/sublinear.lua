--- sublinear.lua -- memory of a deep chain: linear, square root, logarithmic
---
---     mrt examples/sublinear.lua                    tables
---     mrt examples/sublinear.lua --out FILE.svg     a picture as well
---
--- A chain of N equal layers keeps N activations for its backward pass.  With
--- sqrt(N) of them kept it takes O(sqrt N) and one more forward pass; halved again
--- and again, each half inside a region of its own, O(log N) and O(log N) more
--- forward passes (Chen et al. 2016, arXiv 1604.06174); with none kept O(1) and
--- N(N-1)/2 layers.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local chart = require "mrt.plan.report.chart"
local format = require "mrt.util.format"
local checkpoint = mrt.policy.checkpoint

local flags = arguments.script {
  about = "Memory of a deep chain.",
  { "--most N", "layers of the deepest chain", default = 256, least = 1 },
  { "--fixed N", "layers of the chain cut into K", default = 144, least = 1 },
  { "--out FILE", "a picture, .svg or .html" },
}

local ROWS = 1024

-- A step over layers of these widths; `run(layers, x)` calls them in turn.
local function plan_of(widths, run, policy)
  local w = {}
  for i = 1, #widths - 1 do
    w[i] = mrt.parameter(mrt.randn(widths[i], widths[i + 1]))
  end
  local opt, layers = mrt.optim.sgd(w, { lr = 0.1 }), {}
  for i, v in ipairs(w) do layers[i] = function(x) return x:matmul(v):tanh() end end
  local step = mrt.compile(function(x)
    local loss = run(layers, x):square():mean()
    opt:step(mrt.grad(loss, w))
    return loss
  end, { checkpoint = policy })
  return step:plan(mrt.zeros(ROWS, widths[1]))
end

local function in_turn(layers, x)
  for _, layer in ipairs(layers) do x = mrt.layer(layer, x) end
  return x
end

-- Both halves of first..last, the first one as a region with its own halves.
local function halves(layers, x, first, last)
  first, last = first or 1, last or #layers
  if first == last then return layers[first](x) end
  local middle = (first + last) // 2
  x = mrt.checkpoint(function(y) return halves(layers, y, first, middle) end, x)
  return halves(layers, x, middle + 1, last)
end

local ways = {
  { name = "all kept", run = in_turn, policy = checkpoint.none() },
  { name = "sqrt(N) kept", run = in_turn, policy = checkpoint.sqrt() },
  { name = "halves of halves", run = halves },
  { name = "none kept", run = in_turn, policy = checkpoint.all() },
}

local function equal(n)
  local widths = {}
  for i = 1, n + 1 do widths[i] = 16 end
  return widths
end

-- Layers run again, per layer.
local function again(plan, n)
  local count = 0
  for _, s in ipairs(plan:steps()) do
    if s.recomputed and s.class == "matmul" then count = count + 1 end
  end
  return count / n
end

print "memory against the number of layers (extra runs per layer)"
io.write(("%6s"):format "layers")
for _, way in ipairs(ways) do io.write(("%26s"):format(way.name)) end
local lines = {}
for i, way in ipairs(ways) do lines[i] = { name = way.name, points = {} } end
local n = 8
while n <= flags.most do
  io.write(("\n%6d"):format(n))
  for i, way in ipairs(ways) do
    local plan = plan_of(equal(n), way.run, way.policy)
    lines[i].points[#lines[i].points + 1] = { n, plan.transient }
    io.write(("%17s  (%5.2f)"):format(format.bytes(plan.transient), again(plan, n)))
  end
  n = n * 2
end

-- Wide layers first: cuts at equal counts are not cuts at equal bytes.
local function unequal(m)
  local widths = {}
  for i = 1, m + 1 do widths[i] = i <= m // 4 and 64 or 8 end
  return widths
end

local function against_k(title, widths)
  local m = #widths - 1
  print(("\n\n%s, %d layers cut into K\n%6s%14s%18s"):format(title, m, "K", "memory",
    "extra runs/layer"))
  local memory, work, best = { name = title, points = {} },
    { name = title, points = {} }, { 1, math.huge }
  local k = 1
  while k <= m do
    local plan = plan_of(widths, in_turn, checkpoint.segments(k))
    memory.points[#memory.points + 1] = { k, plan.transient }
    work.points[#work.points + 1] = { k, again(plan, m) }
    if plan.transient < best[2] then best = { k, plan.transient } end
    print(("%6d%14s%18.2f"):format(k, format.bytes(plan.transient), again(plan, m)))
    k = k + math.max(1, k // 4)
  end
  print(("least at K = %d; sqrt(%d) = %.1f"):format(best[1], m, math.sqrt(m)))
  return memory, work
end

local memory, work = against_k("equal layers", equal(flags.fixed))
local memory_2, work_2 = against_k("wide layers first", unequal(flags.fixed))
if flags.out then
  assert(chart.save(flags.out, {
    { title = "Arena of a training step of N layers", series = lines,
      x = { label = "layers N", log = true },
      y = { label = "arena", log = true, bytes = true } },
    { title = ("%d layers cut into K segments"):format(flags.fixed),
      series = { memory, memory_2 }, x = { label = "segments K", log = true },
      y = { label = "arena", bytes = true } },
    { title = "Layers run again", series = { work, work_2 },
      x = { label = "segments K", log = true },
      y = { label = "extra runs per layer" } } }))
  print("\nwritten: " .. flags.out)
end
