--- pipeline.lua -- a GPT in stages: four schedules side by side
---
---     mrt examples/pipeline.lua                       plans, draws, then starts four ranks
---     mrt launch -n 4 examples/pipeline.lua           the four alone
---     mrt examples/pipeline.lua --svg pipeline.svg    the picture: stages against time
---
--- Each rank has a part of the layers, and micro-batches go through them.  GPipe and 1F1B
--- are idle alike, but 1F1B holds fewer activations; with two parts of the layers on each
--- rank less is idle; and ZB-H1 fills what is left with gradients of weights.  The last is
--- a schedule of one's own: a Lua function.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"
local nn, optim, pipeline = mrt.nn, mrt.optim, mrt.pipeline

local flags = arguments.script {
  about = "Train a GPT in stages, by several schedules.",
  { "--stages N", "ranks to start", default = 4, least = 1 },
  { "--micro-batches N", "in a step", default = 8, least = 2 },
  { "--layers N", "transformer blocks", default = 8, least = 1 },
  { "--heads N", "attention heads", default = 4, least = 1 },
  { "--dim N", "width, a multiple of the heads", default = 128, least = 1 },
  { "--context N", "tokens of a sequence", default = 64, least = 1 },
  { "--batch N", "sequences of a micro-batch", default = 1, least = 1 },
  { "--steps N", "updates by each schedule", default = 5, least = 1 },
  { "--svg FILE", "draw the schedules with their predicted times" },
}

local VOCAB <const> = 64

--- Each micro-batch goes forth and back before the next: nothing is in flight but that.
local function one_by_one(p, m)
  local stages = {}
  for s = 1, p do
    stages[s] = {}
    for i = 1, m do
      table.insert(stages[s], { "F", i })
      table.insert(stages[s], { "B", i })
    end
  end
  return stages
end

local ways = {
  { "GPipe", { schedule = "gpipe" } },
  { "1F1B", { schedule = "1f1b" } },
  { "1F1B, recomputing", { schedule = "1f1b", recompute = true } },
  { "interleaved 1F1B", { schedule = "interleaved" } },
  { "ZB-H1", { schedule = "zero_bubble" } },
  { "one by one", { schedule = one_by_one } },
}

-- ---- the same on every rank ------------------------------------------------

local comm = mrt.communicator.create()
local m = flags.micro_batches
mrt.seed(1)
local rows = mrt.randint(0, VOCAB // 4, m * flags.batch, flags.context + 1) -- few to learn
local tokens, targets = mrt.eval(rows:slice(2, 1, flags.context) + 0,
  rows:slice(2, 2, flags.context + 1) + 0)

-- An ordinary training step: the option alone puts it in stages.
local function training(how)
  mrt.seed(2)
  local model = nn.GPT { vocab = VOCAB, dim = flags.dim, layers = flags.layers,
    heads = flags.heads, context = flags.context }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(x, y)
    local loss = model:loss(x, y)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { accumulate = m, pipeline = how })
end

-- ---- alone: plans of all stages, and the picture -------------------------------

-- Bytes of each stage by `field` of its plan.
local function bytes_of(plans, field)
  local out = {}
  for s, plan in ipairs(plans) do out[s] = field(plan) end
  return out
end

local function row(list)
  local out = {}
  for i, n in ipairs(list) do out[i] = ("%9s"):format(format.bytes(n)) end
  return table.concat(out, " ")
end

local function plan_all()
  local pictures = {}
  print(("%d stages, %d micro-batches: idle if a backward takes two forwards, and as predicted; "
    .. "bytes by stage"):format(flags.stages, m))
  for i, way in ipairs(ways) do
    local all = pipeline.plan(training(way[2]), flags.stages, tokens, targets)
    local peaks = bytes_of(all.plans, function(plan) return plan.peak end)
    print(("%-18s %5.1f %% %5.1f %%  in flight %s\n%34s at most %s"):format(way[1],
      100 * all.plans[1].pipeline.bubble, 100 * all.simulation.bubble,
      row(bytes_of(all.plans, function(plan) return plan.pipeline.held end)), "", row(peaks)))
    pictures[i] = { title = way[1], simulation = all.simulation, bytes = peaks }
  end
  if not flags.svg then return end
  local file <close> = assert(io.open(flags.svg, "w"))
  assert(file:write(pipeline.svg(pictures)))
end

if comm.size == 1 then
  plan_all()
  local begin = arguments.again("launch --no-prefix -n " .. flags.stages)
  if flags.stages > 1 and not os.execute(begin) then os.exit(1) end
  return
end

-- ---- on ranks: train ---------------------------------------------------------

local function say(...) if comm.rank == 0 then print(...) end end

-- Losses, and the bytes that each rank has taken beside those that it planned.
local function train(how)
  collectgarbage()
  local before = mrt.memory().now
  local step, losses = training(how), {}
  local plan = step:plan(tokens, targets)
  mrt.memory { reset = true }
  for i = 1, flags.steps do
    local loss = step(tokens, targets)
    losses[i] = ("%.6f"):format(loss:item())
    loss:free()
  end
  local own = plan.inputs - tokens:nbytes() - targets:nbytes()
  return losses, comm:allgather { plan.peak }, comm:allgather { mrt.memory().peak - before - own }
end

say(("\ntrained on %d ranks: losses; bytes planned, and taken, by rank"):format(comm.size))
for _, way in ipairs(ways) do
  local losses, planned, taken = train(way[2])
  say(("%-18s %s\n  planned %s\n  taken   %s"):format(way[1], table.concat(losses, " "),
    table.concat(planned, " "), table.concat(taken, " ")))
end
