--- mesh_pipeline_rank.lua -- what one rank of `mrt bench mesh` does for pipelines
---
---     mesh_pipeline_rank.lua gpt|mlp WAY STEPS MICRO-BATCHES
---
--- Trains on the same batches whatever the way: "one", a schedule, "recompute" (1F1B),
--- "hand", or "data", "zero1" and "zero3" of two pipelines.  Rank 0 prints one line of JSON.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local json = require "mrt.util.json"
local nn, optim = mrt.nn, mrt.optim

local kind, way = arg[1], arg[2]
local steps, m = math.tointeger(tonumber(arg[3])), math.tointeger(tonumber(arg[4]))

local ROWS <const>, CONTEXT <const>, VOCAB <const>, DIM <const> = 16, 16, 64, 64
local WIDTHS <const> = { 32, 64, 64, 64, 64, 64, 64, 64, 8 } -- of the MLP
local RATE <const> = 0.05

local comm = mrt.communicator.create()

mrt.seed(1)

-- Of few symbols, so that there is something to learn.
local function batch()
  if kind == "mlp" then return mrt.randn(ROWS, WIDTHS[1]), mrt.randn(ROWS, WIDTHS[#WIDTHS]) end
  local all = mrt.randint(0, 16, ROWS, CONTEXT + 1)
  return all:slice(2, 1, CONTEXT) + 0, all:slice(2, 2, CONTEXT + 1) + 0
end

local x, y = mrt.eval(batch())
local MESHES <const> = { data = true, zero1 = true, zero3 = true }
local pipe, same
if MESHES[way] then
  pipe, same = comm:split(comm.rank // 2), comm:split(comm.rank % 2)
  local function own(t) return t:slice(1, same.rank * 8 + 1, same.rank * 8 + 8) + 0 end
  x, y, m = own(x), own(y), m // 2
  mrt.eval(x, y)
end
collectgarbage()
local before = mrt.memory().now

mrt.seed(2)

local function layers_of()
  local list = {}
  for i = 1, #WIDTHS - 1 do
    list[#list + 1] = nn.Linear(WIDTHS[i], WIDTHS[i + 1])
    if i < #WIDTHS - 1 then list[#list + 1] = nn.Tanh() end
  end
  return list
end

local function result(t)
  t.model, t.way = kind, way
  if comm.rank == 0 then print(json.encode(t)) end
end

-- ---- GPipe by hand: each stage has its layers, and plain SGD ------------------------

local rows = x:size(1) // m
local first, last = comm.rank == 0, comm.rank == comm.size - 1

local function part(t, i) return t:slice(1, (i - 1) * rows + 1, i * rows) end

local function own_layers()
  local list = layers_of()
  local each = #list // comm.size
  local from = comm.rank * each + 1
  return nn.Sequential(table.unpack(list, from, last and #list or from + each - 1))
end

-- What goes in and comes out of each micro-batch.
local function forwards(own, like)
  local inputs, outputs = {}, {}
  for i = 1, m do
    inputs[i] = mrt.parameter((first and part(x, i) or comm:recv(like, { from = comm.rank - 1 }))
      + 0)
    outputs[i] = own(inputs[i])
    if last then outputs[i] = (outputs[i] - part(y, i)):square():mean()
    else comm:send(outputs[i], { to = comm.rank + 1 }) end
  end
  return inputs, outputs
end

-- Gradients of the parameters, each divided by m, added up.
local function backwards(params, inputs, outputs, like)
  local sums = {}
  for i = 1, m do
    local dy = not last and { comm:recv(like, { from = comm.rank + 1 }) } or nil
    local grads = mrt.grad({ outputs[i] }, { inputs[i], table.unpack(params) },
      { grad_outputs = dy })
    if not first then comm:send(grads[1], { to = comm.rank - 1 }) end
    for k in ipairs(params) do
      local g = grads[k + 1] / m
      sums[k] = mrt.eval(sums[k] and sums[k] + g or g)
    end
  end
  return sums
end

local function by_hand()
  local own, losses, like = own_layers(), {}, mrt.zeros(rows, WIDTHS[2])
  local params = own:parameters()
  for i = 1, steps do
    local inputs, outputs = forwards(own, like)
    local sums = backwards(params, inputs, outputs, like)
    local total = 0
    for k = 1, last and m or 0 do total = total + outputs[k]:item() / m end
    for k, p in ipairs(params) do p:assign(p - RATE * sums[k]) end
    losses[i] = comm:broadcast({ total }, { root = comm.size - 1 })[1]
  end
  return result { losses = losses }
end

-- ---- by the option --------------------------------------------------------------------

-- The options of a way.
local function options_of()
  if way == "one" then return { accumulate = m } end
  local how = { schedule = way }
  if way == "recompute" then how = { schedule = "1f1b", recompute = true } end
  if MESHES[way] then how = { comm = pipe, replicas = way == "data" and same or nil } end
  local stage = math.tointeger(tonumber(way:match "^zero(%d)"))
  return { accumulate = m, pipeline = how,
    shard = stage and mrt.policy.shard.zero(stage, { comm = same }) or nil }
end

local function trained()
  local model = kind == "mlp" and nn.Sequential(table.unpack(layers_of()))
    or nn.GPT { vocab = VOCAB, context = CONTEXT, layers = 8, heads = 4, dim = DIM }
  local params = model:parameters()
  local opt = kind == "mlp" and optim.sgd(params, { lr = RATE })
    or optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(a, b)
    local loss = kind == "mlp" and (model(a) - b):square():mean() or model:loss(a, b)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options_of())
end

-- Bytes that this rank has given to others so far.
local function sent_so_far()
  return same and pipe:sent() + same:sent() or comm:sent()
end

local function by_option()
  local step, losses, sent = trained(), {}, 0
  local plan = step:plan(x, y)
  mrt.memory { reset = true }
  for i = 1, steps do
    local given = sent_so_far()
    local loss = step(x, y)
    sent = sent_so_far() - given -- of the last one
    losses[i] = loss:item()
    loss:free()
  end
  local taken = mrt.memory().peak - before - (plan.inputs - x:nbytes() - y:nbytes())
  if same then losses = same:allreduce(losses, { op = "mean" }) end
  local stage = plan.pipeline or { bubble = 0, in_flight = 1, held = 0 }
  return result { losses = losses, mesh = same and same.size, wire = comm:allgather { plan.wire },
    bubble = stage.bubble, planned = comm:allgather { plan.peak },
    taken = comm:allgather { taken }, sent = comm:allgather { sent },
    held = comm:allgather { stage.held }, in_flight = comm:allgather { stage.in_flight },
    activation = 4 * rows * (kind == "mlp" and WIDTHS[2] or CONTEXT * DIM),
    tied = kind == "mlp" and 0 or 4 * VOCAB * DIM }
end

if way == "hand" then by_hand() else by_option() end
