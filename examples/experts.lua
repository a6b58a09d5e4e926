--- experts.lua -- a model of experts, of which each rank has some
---
---     mrt examples/experts.lua                       one rank, then two and four beside it
---     mrt examples/experts.lua --capacity 1.25       ranks with less room for rows
---     mrt launch -n 2 examples/experts.lua           the two alone
---     mrt plan --mesh expert=8 examples/experts.lua  one of eight, none of which runs
---
--- Each token goes to two of eight experts (Shazeer et al., 2017, arXiv:1701.06538).  Ranks
--- have rows of their own; with the option `mesh` each has some of the experts, too, and
--- tokens go to the rank that has theirs and come back: all_to_all, twice forward and twice
--- backward (Lepikhin et al., GShard, 2020, arXiv:2006.16668).  How many go where is known
--- only in the step, so there is room for all, or for `--capacity` times an even share: then
--- the plan is smaller, and what finds no room is not computed.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"
local format = require "mrt.util.format"
local json = require "mrt.util.json"
local nn, optim = mrt.nn, mrt.optim

local flags = arguments.script {
  about = "Train a model of experts on one rank and on several that share them.",
  { "--ranks N", "the most to start: two, four ... of them", default = 4, least = 1 },
  { "--experts N", "in each layer, a multiple of the ranks", default = 8, least = 2 },
  { "--top N", "of these, that a token goes to", default = 2, least = 1 },
  { "--hidden N", "width of an expert", default = 256, least = 1 },
  { "--layers N", "transformer blocks", default = 2, least = 1 },
  { "--dim N", "width, a multiple of 4", default = 64, least = 4 },
  { "--context N", "tokens of a sequence", default = 32, least = 1 },
  { "--batch N", "sequences in a step, of all ranks together", default = 16, least = 1 },
  { "--steps N", "updates", default = 5, least = 1 },
  { "--capacity X", "room for so many times an even share of a rank's rows", least = 0.1 },
  { "--json", "the figures for a program" },
}

-- ---- the same on every rank, but for its rows -------------------------------

local comm = mrt.communicator.create()
mrt.seed(1)
local all, each = mrt.randint(0, 64, flags.batch, flags.context + 1), flags.batch // comm.size
if each * comm.size ~= flags.batch then
  io.stderr:write(("experts.lua: --batch %d does not divide by %d ranks\n"):format(flags.batch,
    comm.size))
  os.exit(2)
end
local rows = all:slice(1, comm.rank * each + 1, (comm.rank + 1) * each)
local tokens, targets = mrt.eval(rows:slice(2, 1, flags.context) + 0,
  rows:slice(2, 2, flags.context + 1) + 0)

local model = nn.Decoder { vocab = 256, dim = flags.dim, layers = flags.layers, heads = 4,
  context = flags.context, hidden = flags.hidden,
  experts = { count = flags.experts, top = flags.top, hidden = flags.hidden } }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-3 })
local step = mrt.compile(function(x, y)
  local loss = model:loss(x, y)
  opt:step(mrt.grad(loss, params), { clip = 1.0 })
  return loss
end, { mesh = { expert = comm.size, capacity = flags.capacity } })

local function sum(list)
  local out = 0
  for _, n in ipairs(list) do out = out + n end
  return out
end

local function measure()
  local plan, losses, seconds, moved = step:plan(tokens, targets), {}, math.huge, 0
  for i = 1, flags.steps do
    local sent, start = mrt.communicator.sent(), core.clock()
    local loss = step(tokens, targets):item()
    if i > 1 then seconds = math.min(seconds, core.clock() - start) end
    moved = mrt.communicator.sent() - sent
    losses[i] = comm:allreduce({ loss }, { op = "mean" })[1]
  end
  local exchanges = 0
  for _, node in ipairs(plan:stage "dce".nodes) do
    if node.op == "all_to_all" then exchanges = exchanges + 1 end
  end
  return { ranks = comm.size, losses = losses, seconds = seconds, exchanges = exchanges,
    moved = sum(comm:allgather { moved }), wire = sum(comm:allgather { plan.wire }),
    persistent = plan.persistent, peak = plan.peak }
end

-- ---- side by side ------------------------------------------------------------

local function line(title, runs, word_of)
  local words = { ("%-28s"):format(title) }
  for i, r in ipairs(runs) do words[i + 1] = ("%14s"):format(word_of(r)) end
  print(table.concat(words))
end

local function show(runs)
  print(("%d parameters, %d experts in each of %d layers; %d sequences of %d tokens in a step")
    :format(model:count(), flags.experts, flags.layers, flags.batch, flags.context))
  line("ranks", runs, function(r) return r.ranks end)
  line("experts of a layer on each", runs, function(r) return flags.experts // r.ranks end)
  for i = 1, flags.steps do
    line(("loss of step %d"):format(i), runs, function(r) return ("%.6f"):format(r.losses[i]) end)
  end
  line("bytes between steps, a rank", runs, function(r) return format.count(r.persistent) end)
  line("peak, a rank", runs, function(r) return format.count(r.peak) end)
  line("exchanges in a step", runs, function(r) return r.exchanges end)
  line("all give: planned", runs, function(r) return format.count(math.floor(r.wire + 0.5)) end)
  line("          moved", runs, function(r) return format.count(r.moved) end)
  line("quickest step", runs, function(r)
    return r.seconds < math.huge and ("%.1f ms"):format(1e3 * r.seconds) or "-"
  end)
end

-- The same script on so many ranks, which print their figures.
local function started(ranks)
  local pipe <close> = io.popen(arguments.again("launch --no-prefix -n " .. ranks) .. " --json")
  return json.decode(pipe:read "a") or os.exit(1) -- it has said why
end

local runs = { measure() }
for _, ranks in ipairs(comm.size == 1 and not flags.json and { 2, 4, 8 } or {}) do
  if ranks <= flags.ranks then runs[#runs + 1] = started(ranks) end
end
if comm.rank > 0 then return end
if flags.json then print(json.encode(runs[1])) else show(runs) end
