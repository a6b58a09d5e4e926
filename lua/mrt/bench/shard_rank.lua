--- shard_rank.lua -- what one rank of `mrt bench shard` does
---
---     shard_rank.lua POLICY VARIANT STEPS PATH
---
--- Trains a small GPT on its part of the same global batches.  Rank 0 saves the
--- final weights to PATH and prints one line of JSON.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local which, variant, path = arg[1], arg[2], arg[4]
local steps = math.tointeger(tonumber(arg[3]))

local ROWS <const>, CONTEXT <const>, VOCAB <const> = 12, 16, 256

local narrow = variant ~= "f32"

-- Narrow buckets are of one layer: a bucket counts little beside the model, as in
-- models that are worth spreading.
local function options()
  local o = narrow and { gather = "bf16", reduce = "bf16", bucket = 0,
    retain = variant == "retain" } or nil
  return { precision = narrow and policy.precision.bf16() or nil, shard =
    which == "ddp" and policy.shard.ddp(o) or which == "fsdp" and policy.shard.fsdp(o)
    or which ~= "none" and policy.shard.zero(math.tointeger(tonumber(which)), o) or nil }
end

local comm = mrt.communicator.create()
mrt.seed(1)

-- This rank's rows of every batch: of few symbols, so that there is something to learn.
local rows = ROWS // comm.size
local batches = {}
for i = 1, steps do
  local own = mrt.randint(0, 16, ROWS, CONTEXT + 1)
    :slice(1, comm.rank * rows + 1, (comm.rank + 1) * rows)
  batches[i] = { mrt.eval(own:slice(2, 1, CONTEXT) + 0, own:slice(2, 2, CONTEXT + 1) + 0) }
end
collectgarbage()
local before = mrt.memory().now

local model = nn.GPT { vocab = VOCAB, context = CONTEXT, layers = 12, heads = 4, dim = 128 }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-3 })
local step = mrt.compile(function(tokens, targets)
  local loss = model:loss(tokens, targets)
  opt:step(mrt.grad(loss, params), { clip = not narrow and 1.0 or nil })
  return comm:allreduce(loss, { op = "mean" })
end, options())

local losses, times, sent = {}, {}, 0
for i, batch in ipairs(batches) do
  local began, given = core.clock(), comm:sent()
  local loss = step(table.unpack(batch))
  losses[i], times[i] = loss:item(), core.clock() - began
  sent = comm:sent() - given -- of the last one
  loss:free()
end
local taken = mrt.memory().peak - before

local plan = step:plan(table.unpack(batches[1]))
local other = plan.inputs -- but the batches, which were there before
for _, x in ipairs(batches[1]) do other = other - x:nbytes() end

-- The most bytes of gradients alive at once.
local function gradients()
  local change, most, live = {}, 0, 0
  for _, v in ipairs(plan:values()) do
    if v.role == "gradient" then
      change[v.first] = (change[v.first] or 0) + v.bytes
      change[v.last + 1] = (change[v.last + 1] or 0) - v.bytes
    end
  end
  for i = 1, #plan:steps() do
    live = live + (change[i] or 0)
    most = math.max(most, live)
  end
  return most
end

local weights = {}
for i, p in ipairs(params) do weights[("%03d"):format(i)] = mrt.eval(p:to "f32" * 1) end
local result = { parameters = model:count(), losses = losses, peak = plan.peak,
  persistent = plan.persistent, gradients = gradients(), wire = plan.wire,
  seconds = math.min(table.unpack(times)), planned = comm:allgather { plan.peak },
  taken = comm:allgather { taken - other }, sent = comm:allgather { sent } }
if comm.rank == 0 then
  assert(mrt.save(path, weights))
  print(json.encode(result))
end
