--- train.lua -- what the files of this folder start: a small GPT on all ranks there are
---
---     mrt examples/launch/train.lua --way data                  one rank, all the rows
---     mrt launch -n 2 examples/launch/train.lua --way pipeline  the layers on two
---
--- The same rows in every step, 12 of them: by `data` each rank takes its part of them, by
--- `pipeline` and `tensor` all ranks have all rows and a part of the model.  Rank 0 prints
--- what carries the messages, and the losses, which are one rank's to rounding.  With
--- --snapshots it saves, and goes on from there with any number of ranks.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local ROWS <const>, CONTEXT <const>, VOCAB <const> = 12, 16, 32

local comm = mrt.communicator.create()

local ways = {
  data = function() return { shard = policy.shard.ddp() } end,
  pipeline = function() return { accumulate = 4, pipeline = { schedule = "1f1b" } } end,
  tensor = function() return { mesh = { tensor = comm.size } } end,
}

local flags = arguments.script {
  about = "Train a small GPT on the ranks that a launcher has started.",
  { "--way NAME", "data, pipeline or tensor", default = "data" },
  { "--steps N", "updates", default = 5, least = 1 },
  { "--snapshots FOLDER", "save there after each step, and go on from the last one" },
}
local way = assert(ways[flags.way], "--way: data, pipeline or tensor wanted")
assert(flags.way ~= "data" or ROWS % comm.size == 0, "data: as many ranks wanted as divide 12")

mrt.seed(1)                                                -- the same on every rank
local rows = mrt.randint(0, VOCAB // 4, ROWS, CONTEXT + 1)
local x, y = rows:slice(2, 1, CONTEXT) + 0, rows:slice(2, 2, CONTEXT + 1) + 0
if flags.way == "data" then
  local n = ROWS // comm.size
  local first, last = comm.rank * n + 1, (comm.rank + 1) * n
  x, y = x:slice(1, first, last) + 0, y:slice(1, first, last) + 0
end
mrt.eval(x, y)

local model = nn.GPT { vocab = VOCAB, dim = 48, layers = 4, heads = 6, context = CONTEXT }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-2 })
local step = mrt.compile(function(a, b)
  local loss = model:loss(a, b)
  opt:step(mrt.grad(loss, params))
  return flags.way == "data" and comm:allreduce(loss, { op = "mean" }) or loss
end, comm.size > 1 and way() or {})

if comm.rank == 0 then print(("%s: %d ranks, %s"):format(flags.way, comm.size, comm.transport)) end
mrt.train.run {
  model = model, optimizer = opt, step = step, steps = flags.steps, log_every = flags.steps,
  loader = mrt.data.batches({ x, y }, { batch = x:size(1) }),
  snapshots = flags.snapshots, resume = flags.snapshots and true, snapshot_every = 1,
  on_step = function(now)
    if comm.rank == 0 then print(("step %d, loss %.4f"):format(now.step, now.loss)) end
  end,
}
comm:close()
