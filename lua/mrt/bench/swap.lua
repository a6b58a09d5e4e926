--- mrt bench swap -- a training run three times its memory: predicted and real stall
--
--     mrt bench swap [tokens]
--
-- A GPT whose variables live in a file is trained within less than a third of
-- what it takes in memory, and that is enforced.  The step's stall is predicted
-- from the plan, bandwidths measured just before, and the times of its other
-- nodes; measured is the time spent in nodes that wait.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local format = require "mrt.util.format"
local nn, optim, swap = mrt.nn, mrt.optim, mrt.policy.swap

local ROUNDS = 7

local function make(length, policy)
  mrt.seed(1)
  local model = nn.GPT { vocab = 2048, dim = 512, layers = 8, heads = 8,
    context = length }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 3e-4 })
  local step = mrt.compile(function(tokens, targets)
    local loss = nn.cross_entropy(model(tokens), targets)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { swap = policy })
  local x, y = mrt.randint(0, 2048, 1, length), mrt.randint(0, 2048, 1, length)
  mrt.eval(x, y)
  local losses = {}
  return { step = step, x = x, y = y, plan = step:plan(x, y), losses = losses,
    run = function() losses[#losses + 1] = step(x, y):item() end }
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- One run by the clock: the seconds of each step without waiting, and waiting.
local function time(t)
  local out, waited, whole = {}, 0, 0
  local measured = t.step:measure({ rounds = 1 }, t.x, t.y)
  for i, s in ipairs(measured.steps) do
    local waits = s.op == "swap_wait"
    out[i] = waits and 0 or s.measured
    if waits then waited = waited + s.measured end
    whole = whole + s.measured
  end
  return out, waited, whole
end

return function(tokens)
  tokens = math.tointeger(tonumber(tokens or 16)) or error("tokens wanted", 0)
  local whole, swapped = make(tokens), make(tokens, swap.all())
  local plan = swapped.plan
  print(("in memory %s; swapped: %s of memory, %s in the file, %.2fx the memory")
    :format(format.bytes(whole.plan.peak), format.bytes(plan.peak),
      format.bytes(plan.swapped), whole.plan.peak / plan.peak))
  local moved = 0
  for _, t in ipairs(plan:transfers()) do moved = moved + t.bytes end
  print(("%d copies, %s a step"):format(#plan:transfers(), format.bytes(moved)))
  core.set_budget(plan.peak)
  for _ = 1, 3 do swapped.run() end
  core.set_budget(0)
  for _ = 1, 3 do whole.run() end
  print "a step     stall: predicted   measured   ratio   MB/s out in, shared; latency"
  local ratios = {}
  for i = 1, ROUNDS do
    local rates = core.measure_swap(512 << 20)
    local seconds, waited, step = time(swapped)
    local stall = plan.core:predict_stall(seconds, rates)
    ratios[i] = stall / waited
    print(("%5.0f ms %16.1f ms %7.1f ms %7.2f   %d %d, %d %d; %d us"):format(
      step * 1e3, stall * 1e3, waited * 1e3, ratios[i],
      rates.out // 1e6, rates["in"] // 1e6, rates.out_shared // 1e6,
      rates.in_shared // 1e6, rates.latency * 1e6 // 1))
  end
  print(("median ratio %.2f; in memory a step takes %.0f ms; losses %s"):format(
    median(ratios), select(3, time(whole)) * 1e3,
    table.concat(whole.losses, " ") == table.concat(swapped.losses, " ")
      and "equal, bit for bit" or "DIFFER"))
end
