--- fsdp.lua -- a GPT too large for one rank's budget trains on four
---
---     mrt examples/fsdp.lua                     one rank cannot; starts four
---     mrt launch -n 4 examples/fsdp.lua         the four alone
---     mrt plan --ranks 64 examples/fsdp.lua     one of 64, none of which runs
---
--- Weights and optimizer state lie in pieces, one on each rank, and a layer's
--- weights are gathered where they are read: stage 3 of ZeRO (mrt.policy.shard).
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local json = require "mrt.util.json"
local format = require "mrt.util.format"
local nn, optim, policy, data = mrt.nn, mrt.optim, mrt.policy, mrt.data

local flags = arguments.script {
  about = "Train a GPT that is too large for one rank's budget on several.",
  { "--budget BYTES", "memory of a rank", default = "32MiB" },
  { "--data FILE", "text; else this project's layers" },
  { "--ranks N", "to start", default = 4, least = 1 },
  { "--layers N", "transformer blocks", default = 6, least = 1 },
  { "--heads N", "attention heads", default = 4, least = 1 },
  { "--dim N", "width, a multiple of the heads", default = 256, least = 1 },
  { "--context N", "bytes a prediction can look back on", default = 64, least = 1 },
  { "--batch N", "sequences of each rank in a step", default = 2, least = 1 },
  { "--steps N", "updates", default = 12, least = 1 },
}

-- ---- the same on every rank ------------------------------------------------

local comm = mrt.communicator.create()

local function own_sources()
  local folder = assert(package.searchpath("mrt.nn", package.path)):gsub("/[^/]*$", "")
  local list, files = io.popen(("ls '%s'/*.lua"):format(folder:gsub("'", "'\\''"))), {}
  for path in list:lines() do files[#files + 1] = path end
  return files
end

local text, message = data.text(flags.data or { files = own_sources() })
if not text then
  io.stderr:write(("fsdp.lua: %s\n"):format(message))
  return os.exit(1)
end
local before = mrt.memory().now -- what is taken from here on is the step's

mrt.seed(1)
local model = nn.GPT { vocab = text.vocab, dim = flags.dim, layers = flags.layers,
  heads = flags.heads, context = flags.context }
local params = model:parameters()
local opt = optim.adamw(optim.groups(model, { weight_decay = 0.1 }), { lr = 3e-4 })
local step = mrt.compile(function(tokens, targets)
  local loss = model:loss(tokens, targets)
  opt:step(mrt.grad(loss, params), { clip = 1.0 })
  return comm:allreduce(loss, { op = "mean" })
end, { name = "the training step", memory = flags.budget, swap = policy.swap.none(),
  shard = policy.shard.fsdp() })

local loader = text:loader { batch = flags.batch, context = flags.context,
  seed = comm.rank } -- every rank has sequences of its own
local tokens, targets = loader:next()

-- ---- alone: why one rank will not do -----------------------------------------

local function plan_of(ranks)
  local pipe <close> = io.popen(arguments.again("plan --json --ranks " .. ranks))
  return json.decode(pipe:read "a") or os.exit(1) -- it has said why
end

local function show(ranks, plan)
  local b = format.bytes
  print(("%5d %12s %12s %12s %12s"):format(ranks, b(plan.peak), b(plan.persistent),
    b(plan.transient), b(math.ceil(plan.wire))))
end

if comm.size == 1 then
  local verdict = "fits"
  xpcall(step.plan, function(e) verdict = e.message:match "^[^\n]*" end, step, tokens, targets)
  print(("%d parameters in %s\none rank: %s"):format(model:count(),
    format.bytes(flags.budget), verdict))
  print "ranks         peak   persistent    transient         sent"
  show(1, step:with { memory = false }:plan(tokens, targets))
  if flags.ranks > 1 then
    show(flags.ranks, plan_of(flags.ranks))
    if not os.execute(arguments.again("launch --no-prefix -n " .. flags.ranks)) then os.exit(1) end
  end
  return
end

-- ---- on ranks: train ---------------------------------------------------------

local function say(...) if comm.rank == 0 then print(...) end end

for i = 1, flags.steps do
  say(("step %d/%d  loss %.4f"):format(i, flags.steps, step(tokens, targets):item()))
  tokens:free()
  targets:free()
  collectgarbage() -- the loss: the most that is ever taken is what a step takes
  tokens, targets = loader:next()
end
local plan = step:plan(tokens, targets)
local taken = comm:allgather { mrt.memory().peak - before }
say(("planned %d bytes; taken at most, by rank: %s"):format(plan.peak + plan.inputs,
  table.concat(taken, " ")))
