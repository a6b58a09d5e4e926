--- mesh_context_rank.lua -- what one rank of `mrt bench mesh` does for long sequences
---
---     mesh_context_rank.lua CONTEXT TOKENS STEPS WAY[,WAY]
---
--- Trains a GPT on one sequence of so many tokens, with keys and values that go round the
--- ranks (WAY ring) or are gathered (WAY gather); two ways by steps in turn, each of a model
--- of its own.  Rank 0 prints one line of JSON, a list of a table for each way.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"
local nn, optim = mrt.nn, mrt.optim

local context, tokens = math.tointeger(tonumber(arg[1])), math.tointeger(tonumber(arg[2]))
local steps, words = math.tointeger(tonumber(arg[3])), arg[4]
local VOCAB <const>, DIM <const>, LAYERS <const>, HEADS <const> = 64, 64, 2, 4

local comm = mrt.communicator.create()
mrt.seed(1)
local all = mrt.randint(0, 16, 1, tokens + 1)
local x, y = mrt.eval(all:slice(2, 1, tokens) + 0, all:slice(2, 2, tokens + 1) + 0)
all:free()
collectgarbage()
collectgarbage()
local before = mrt.memory().now

-- The model and its optimizer live as long as the step.
local function step_of(way)
  mrt.seed(2)
  local model = nn.GPT { vocab = VOCAB, context = tokens, layers = LAYERS, heads = HEADS,
    dim = DIM }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  local step = mrt.compile(function(a, b)
    local loss = model:loss(a, b)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { mesh = { context = context, ring = way == "ring" } })
  return { way = way, step = step, plan = step:plan(x, y), losses = {}, seconds = {} }
end

local function go(run)
  local sent, began = mrt.communicator.sent(), core.clock()
  local loss = run.step(x, y)
  run.losses[#run.losses + 1] = loss:item()
  run.seconds[#run.seconds + 1] = core.clock() - began
  run.sent = mrt.communicator.sent() - sent
  loss:free()
  collectgarbage()
end

local runs = {}
for way in words:gmatch "%a+" do runs[#runs + 1] = step_of(way) end
for i = 1, steps do
  for _, run in ipairs(runs) do go(run) end
  if i == 1 then mrt.memory { reset = true } end -- before it, the ranks' weights are made alike
end

local results = {}
for i, run in ipairs(runs) do
  local plan = run.plan
  local taken = mrt.memory().peak - before - (plan.inputs - x:nbytes() - y:nbytes())
  results[i] = { way = run.way, losses = comm:allreduce(run.losses, { op = "mean" }),
    seconds = run.seconds, planned = comm:allgather { plan.peak },
    persistent = comm:allgather { plan.persistent }, taken = comm:allgather { taken },
    wire = comm:allgather { plan.wire }, sent = comm:allgather { run.sent } }
end
if comm.rank == 0 then print(json.encode(results)) end
