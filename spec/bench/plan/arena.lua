--- arena.lua -- the arena's height beside the largest live sum
---
--- No placement of the same lifetimes is lower than the largest sum of live
--- bytes.  Where the height is more than 1 % above it, a longer search says
--- whether it is the lowest there is.  The examples' steps stand here with the
--- sizes that the examples have by default.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local graphs = require "bench.plan.graphs"
local models = require "mrt.bench.cases"

local TARGET = 1.01

-- Is the height proven to be the lowest?
local function proven(plan)
  local buffers = {}
  for _, v in ipairs(plan:values()) do
    if v.kind == "activation" or v.kind == "gradient" or v.kind == "workspace" then
      buffers[#buffers + 1] = { v.bytes, v.first, v.last + 1 }
    end
  end
  local result = core.pack(buffers, {})
  return result.proven and result.height >= plan.transient
end

local function ratio_of(plan)
  local height, live = graphs.arena(plan)
  return live > 0 and height / live or 1
end

local function row(name, plan)
  local height, live, any = graphs.arena(plan)
  print(("%-22s %6d %14d %14d %8.4f %14d"):format(name, plan.nodes, height, live,
    ratio_of(plan), any))
end

-- Steps that only the examples have.
local function examples()
  local a, b = mrt.variable(mrt.randn(64, 64)), mrt.variable(mrt.randn(64, 64))
  return {
    { "planning: exp(ab + 3)", mrt.compile(function()
      return mrt.grad((a:matmul(b) + 3):exp():sum(), { a, b })
    end):plan() },
  }
end

local function random_steps(count)
  local sum, worst, over, optimal = 0, {}, 0, 0
  for seed = 1, count do
    local plan = graphs.training(seed, 4 + seed % 40)
    local ratio = ratio_of(plan)
    sum = sum + ratio
    if ratio > TARGET then
      over = over + 1
      local lowest = proven(plan)
      optimal = optimal + (lowest and 1 or 0)
      worst[#worst + 1] = { ratio, seed, plan.nodes, lowest }
    end
  end
  table.sort(worst, function(x, y) return x[1] > y[1] end)
  print(("%d random training steps: mean %.5f, %d more than 1 %% above, "
    .. "%d of them the lowest there is")
    :format(count, sum / count, over, optimal))
  for i = 1, math.min(#worst, 10) do
    print(("  seed %6d %6d nodes %10.4f  %s"):format(worst[i][2], worst[i][3],
      worst[i][1], worst[i][4] and "lowest" or "open"))
  end
end

return function(count)
  print "arena: height over the largest live sum; any order needs at least the last"
  print "model                   nodes         height           live    ratio      any order"
  for _, name in ipairs(models.names) do
    local step, x, y = models.make(name)
    row(name, step:plan(x, y))
  end
  for _, one in ipairs(examples()) do row(one[1], one[2]) end
  random_steps(count or 2000)
end
