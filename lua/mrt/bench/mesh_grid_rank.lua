--- mesh_grid_rank.lua -- what one rank of `mrt bench mesh` does for meshes
---
---     mesh_grid_rank.lua gpt|moe|mlp GRID STEPS MICRO-BATCHES
---
--- Trains on the same batches whatever the mesh: GRID is a word like "tensor=2,data=2",
--- "one", "micro" (one rank, micro-batches), or "hand" (the MLP with its collectives written
--- out).  Rank 0 prints one line of JSON.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local json = require "mrt.util.json"
local mesh = require "mrt.mesh"
local nn, optim = mrt.nn, mrt.optim

local kind, word = arg[1], arg[2]
local steps, micro = math.tointeger(tonumber(arg[3])), math.tointeger(tonumber(arg[4]))

local ROWS <const>, CONTEXT <const>, VOCAB <const>, DIM <const> = 16, 16, 64, 64
local LAYERS <const>, HIDDEN <const>, BLOCKS <const> = 4, 256, 2
local EXPERTS <const> = { count = 8, top = 2, hidden = 96 } -- of moe
local RATE <const> = 0.05

local comm = mrt.communicator.create()
local grid = word:find "=" and assert(mesh.parse(word)) or {}

-- ---- batches, the same for all; those with rows of their own have theirs -----------

mrt.seed(1)
local x, y
if kind == "mlp" then
  x, y = mrt.eval(mrt.randn(ROWS, DIM), mrt.randn(ROWS, DIM))
else -- of few symbols, so that there is something to learn
  local all = mrt.randint(0, 16, ROWS, CONTEXT + 1)
  x, y = mrt.eval(all:slice(2, 1, CONTEXT) + 0, all:slice(2, 2, CONTEXT + 1) + 0)
end

local size = mesh.read(grid).size
local inner = size.tensor * size.context -- ranks with the same rows, neighbours
local sharing = size.expert * size.shard * size.data
if sharing > 1 then
  local rows, at = ROWS // sharing, comm.rank // inner % sharing
  x = mrt.eval(x:slice(1, at * rows + 1, (at + 1) * rows) + 0)
  y = mrt.eval(y:slice(1, at * rows + 1, (at + 1) * rows) + 0)
end
collectgarbage()
collectgarbage()
local before = mrt.memory().now
mrt.seed(2)

-- ---- by the option -------------------------------------------------------------------

local function model_of()
  if kind == "gpt" then
    return nn.GPT { vocab = VOCAB, context = CONTEXT, layers = LAYERS, heads = 4, dim = DIM }
  end
  if kind == "moe" then
    return nn.Decoder { vocab = VOCAB, context = CONTEXT, layers = LAYERS, heads = 4, dim = DIM,
      hidden = HIDDEN, experts = EXPERTS }
  end
  local list = {}
  for _ = 1, BLOCKS do
    list[#list + 1] = nn.Linear(DIM, HIDDEN)
    list[#list + 1] = nn.GELU()
    list[#list + 1] = nn.Linear(HIDDEN, DIM)
  end
  return nn.Sequential(table.unpack(list))
end

local function loss_of(model, a, b)
  return kind ~= "mlp" and model:loss(a, b) or (model(a) - b):square():mean()
end

local function micro_batches()
  if word == "micro" then return micro end
  return grid.pipeline and micro // sharing or nil
end

local function trained(params, model)
  local opt = kind ~= "mlp" and optim.adamw(params, { lr = 1e-3 })
    or optim.sgd(params, { lr = RATE })
  return mrt.compile(function(a, b)
    local loss = loss_of(model, a, b)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { mesh = grid, accumulate = micro_batches() })
end

-- Losses, and what was given to others in the last step.
local function train(step)
  local losses, sent = {}, 0
  for i = 1, steps do
    local given = mrt.communicator.sent()
    local loss = step(x, y)
    losses[i] = loss:item()
    sent = mrt.communicator.sent() - given
    loss:free()
    collectgarbage()
    if i == 1 then mrt.memory { reset = true } end -- before it, weights are cut
  end
  return losses, sent
end

local function by_option()
  local model = model_of()
  local params, parameters = model:parameters(), 0
  for _, p in ipairs(params) do parameters = parameters + p:numel() end
  local step = trained(params, model)
  local plan = step:plan(x, y)
  local losses, sent = train(step)
  local taken = mrt.memory().peak - before - (plan.inputs - x:nbytes() - y:nbytes())
  return { losses = comm:allreduce(losses, { op = "mean" }), parameters = parameters,
    planned = comm:allgather { plan.peak }, persistent = comm:allgather { plan.persistent },
    taken = comm:allgather { taken }, wire = comm:allgather { plan.wire },
    sent = comm:allgather { sent }, micro = micro_batches() or 1,
    activation = x:size(1) * (kind ~= "mlp" and CONTEXT or 1) * DIM,
    layers = kind ~= "mlp" and LAYERS or BLOCKS, top = EXPERTS.top,
    experts = kind == "moe" and 3 * LAYERS * EXPERTS.count * EXPERTS.hidden * DIM or 0 }
end

-- ---- Megatron's MLP by hand: columns, then rows, and a sum ---------------------------

local function own_columns(w, n)
  local each = w:size(w:dim()) // n
  return mrt.parameter(mrt.eval(w:slice(w:dim(), comm.rank * each + 1, (comm.rank + 1) * each) + 0))
end

local function own_rows(w, n)
  local each = w:size(1) // n
  return mrt.parameter(mrt.eval(w:slice(1, comm.rank * each + 1, (comm.rank + 1) * each) + 0))
end

-- Of each block: columns of its first weight and bias, rows of its second, all of the last bias.
local function own_weights()
  local params, own, n = model_of():parameters(), {}, comm.size
  for b = 1, #params, 4 do
    own[#own + 1] = { own_rows(params[b], n), own_rows(params[b + 1], n),
      own_columns(params[b + 2], n), mrt.parameter(mrt.eval(params[b + 3] + 0)) }
  end
  return own
end

-- The gradient of a sum over ranks is one over ranks: each has its share of the loss.
local function by_hand()
  local blocks, flat, losses = own_weights(), {}, {}
  for _, block in ipairs(blocks) do table.move(block, 1, 4, #flat + 1, flat) end
  local step = mrt.compile(function(a, b)
    local h = a
    for _, block in ipairs(blocks) do
      local w1, b1, w2, b2 = table.unpack(block)
      local part = h:linear(w1, b1):gelu():linear(w2)
      h = comm:allreduce(part) + b2
    end
    local loss = (h - b):square():mean()
    local grads = mrt.grad(loss / comm.size, flat)
    for i, p in ipairs(flat) do
      local g = i % 4 == 0 and comm:allreduce(grads[i]) or grads[i]
      p:assign(p - RATE * g)
    end
    return loss
  end)
  for i = 1, steps do losses[i] = step(x, y):item() end
  return { losses = losses }
end

local result = word == "hand" and by_hand() or by_option()
result.model, result.grid = kind, word
if comm.rank == 0 then print(json.encode(result)) end
