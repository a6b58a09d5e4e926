--- order.lua -- the largest live sum of the chosen order
---
--- Beside it: program order's (PyTorch's), what any order needs, the best of all
--- orders of small graphs, a search 10 times as long of larger ones.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local optim = require "mrt.optim"
local graphs = require "bench.plan.graphs"
local models = require "mrt.bench.cases"
local best_order = require "bench.plan.best"

local LONG = 10

local function live(plan)
  return (select(2, graphs.arena(plan)))
end

local function row(name, program, chosen)
  local _, bytes, any = graphs.arena(chosen)
  print(("%-22s %6d %14d %14d %14d %8.3f"):format(name, chosen.nodes,
    live(program), bytes, any, any > 0 and bytes / any or 1))
end

-- 24 layers of 256 without biases, trained by AdamW.
local function deep_net(options)
  local weights = {}
  for i = 1, 24 do weights[i] = mrt.variable(mrt.zeros(256, 256)) end
  local opt = optim.adamw(weights, { lr = 1e-3 })
  return mrt.compile(function(x)
    for _, w in ipairs(weights) do x = x:matmul(w):relu() end
    local loss = (x * x):mean()
    opt:step(mrt.grad(loss, weights))
    return loss
  end, options):plan(mrt.zeros(4, 256))
end

-- The most bytes of weight gradients that live at once.
local function gradients_alive(plan)
  local change, most, now = {}, 0, 0
  for _, v in ipairs(plan:values()) do
    if v.kind == "gradient" and v.bytes == 256 * 256 * 4 then
      change[v.first] = (change[v.first] or 0) + v.bytes
      change[v.last + 1] = (change[v.last + 1] or 0) - v.bytes
    end
  end
  for i = 1, plan.nodes + 1 do
    now = now + (change[i] or 0)
    most = math.max(most, now)
  end
  return most
end

local function training_steps()
  print "order: the largest live sum, in bytes"
  print "step                    nodes        program         chosen      any order   ch/any"
  for _, name in ipairs(models.names) do
    local function plan(order)
      local step, x, y = models.make(name, { order = order })
      return step:plan(x, y)
    end
    row(name, plan "program", plan "memory")
  end
  local program, chosen = deep_net { order = "program" }, deep_net()
  row("deep net 24 x 256", program, chosen)
  for seed = 1, 5 do
    row("random step " .. seed,
      graphs.training(seed, 40, { order = "program" }), graphs.training(seed, 40))
  end
  print(("deep net, AdamW: gradients of weights alive at once: %d bytes in "
    .. "program order, %d chosen (a layer has %d)")
    :format(gradients_alive(program), gradients_alive(chosen), 256 * 256 * 4))
end

-- Graphs of up to 20 nodes against all orders.
local function against_all(count)
  local found, worst, done = 0, 1, 0
  for seed = 1, count do
    for k, sort in ipairs(graphs.sorts) do
      local nodes = sort[2](graphs.generator(seed * 100 + k), 6 + seed % 15)
      local bytes = live(graphs.plan(nodes))
      local best = best_order(nodes, bytes // graphs.ROW) * graphs.ROW
      done = done + 1
      found = found + (bytes == best and 1 or 0)
      worst = math.max(worst, best > 0 and bytes / best or 1)
    end
  end
  print(("%d graphs of 6 to 20 nodes, all sorts: the best of all orders in %d "
    .. "(%.2f %%), worst ratio %.4f")
    :format(done, found, 100 * found / done, worst))
end

local function against_long(count)
  print(("graphs of 200 nodes against a search %d times as long, %d of each sort")
    :format(LONG, count))
  print "sort              mean    worst   chosen/any order   program/chosen   ms to plan"
  for k, sort in ipairs(graphs.sorts) do
    local sum, worst, room, gain, seconds = 0, 1, 0, 0, 0
    for seed = 1, count do
      local nodes = sort[2](graphs.generator(seed * 100 + k), 200)
      local began = os.clock()
      local chosen = graphs.plan(nodes)
      seconds = seconds + os.clock() - began
      local bytes = live(chosen)
      local ratio = bytes / live(graphs.plan(nodes, { effort = LONG }))
      sum, worst = sum + ratio, math.max(worst, ratio)
      room = room + bytes / select(3, graphs.arena(chosen))
      gain = gain + live(graphs.plan(nodes, { order = "program" })) / bytes
    end
    print(("%-15s %6.4f  %7.4f   %16.3f   %14.3f   %10.1f"):format(sort[1],
      sum / count, worst, room / count, gain / count, seconds / count * 1e3))
  end
end

return function(count)
  training_steps()
  against_all(10 * (count or 4))
  against_long(count or 4)
end
