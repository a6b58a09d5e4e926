--- tensor_parallel.lua -- a GPT whose products several ranks compute together
---
---     mrt examples/tensor_parallel.lua                 one rank, then two and four beside it
---     mrt launch -n 2 examples/tensor_parallel.lua     the two alone
---     mrt plan --mesh tensor=8 examples/tensor_parallel.lua    one of eight, none of which runs
---
--- The step is that of one rank: the option `mesh` alone has weights in pieces, the first
--- of a pair by columns and the second by rows, as in Megatron-LM (Shoeybi et al., 2019,
--- arXiv:1909.08053), with activations between the pairs in pieces, too (Korthikanti et
--- al., 2022, arXiv:2205.05198).  Sums over ranks have another order: losses agree to
--- rounding.  Vectors of few bytes go to each of the others at once: of four ranks a little
--- more is moved than planned.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"
local format = require "mrt.util.format"
local json = require "mrt.util.json"
local nn, optim = mrt.nn, mrt.optim

local flags = arguments.script {
  about = "Train a GPT on one rank and on several that compute each product together.",
  { "--ranks N", "the most to start: two, four ... of them", default = 4, least = 1 },
  { "--layers N", "transformer blocks", default = 2, least = 1 },
  { "--heads N", "attention heads", default = 4, least = 1 },
  { "--dim N", "width, a multiple of the heads", default = 128, least = 1 },
  { "--vocab N", "tokens that there are", default = 256, least = 4 },
  { "--context N", "tokens of a sequence", default = 64, least = 1 },
  { "--batch N", "sequences in a step, the same on every rank", default = 8, least = 1 },
  { "--steps N", "updates", default = 5, least = 1 },
  { "--json", "the figures for a program" },
}

-- ---- the same on every rank ------------------------------------------------

local comm = mrt.communicator.create()
mrt.seed(1)
local rows = mrt.randint(0, flags.vocab // 4, flags.batch, flags.context + 1) -- few to learn
local tokens, targets = mrt.eval(rows:slice(2, 1, flags.context) + 0,
  rows:slice(2, 2, flags.context + 1) + 0)
rows:free()
collectgarbage()
collectgarbage()
local before = mrt.memory().now

local model = nn.GPT { vocab = flags.vocab, dim = flags.dim, layers = flags.layers,
  heads = flags.heads, context = flags.context }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-3 })
local step = mrt.compile(function(x, y)
  local loss = model:loss(x, y)
  opt:step(mrt.grad(loss, params), { clip = 1.0 })
  return loss
end, { mesh = { tensor = comm.size } })

-- How often each collective is in the step, by the graph after the pass that divides it.
local function collectives(plan)
  local counts = { allgather = 0, reduce_scatter = 0, allreduce = 0 }
  for _, node in ipairs(plan:stage "partition".nodes) do
    if counts[node.op] then counts[node.op] = counts[node.op] + 1 end
  end
  return counts
end

local function sum(list)
  local out = 0
  for _, n in ipairs(list) do out = out + n end
  return out
end

local function measure()
  local plan, losses, seconds, moved = step:plan(tokens, targets), {}, math.huge, 0
  for i = 1, flags.steps do
    local sent, start = mrt.communicator.sent(), core.clock()
    local loss = step(tokens, targets)
    losses[i] = loss:item()
    if i > 1 then seconds = math.min(seconds, core.clock() - start) end
    loss:free()
    collectgarbage()
    collectgarbage()
    if i == 1 then mrt.memory { reset = true } end -- first, weights are cut
    moved = mrt.communicator.sent() - sent
  end
  local taken = mrt.memory().peak - before
    - (plan.inputs - tokens:nbytes() - targets:nbytes()) -- these two there were before
  return { ranks = comm.size, losses = losses, seconds = seconds,
    moved = sum(comm:allgather { moved }), wire = sum(comm:allgather { plan.wire }),
    collectives = collectives(plan), persistent = plan.persistent,
    planned = comm:allgather { plan.peak }, taken = comm:allgather { taken } }
end

-- ---- side by side ------------------------------------------------------------

local function line(title, runs, word_of)
  local words = { ("%-22s"):format(title) }
  for i, r in ipairs(runs) do words[i + 1] = ("%16s"):format(word_of(r)) end
  print(table.concat(words))
end

local function show(runs)
  print(("%d parameters; %d sequences of %d tokens in a step"):format(model:count(), flags.batch,
    flags.context))
  line("ranks", runs, function(r) return r.ranks end)
  for i = 1, flags.steps do
    line(("loss of step %d"):format(i), runs, function(r) return ("%.6f"):format(r.losses[i]) end)
  end
  line("bytes between steps", runs, function(r) return format.count(r.persistent) end)
  for rank = 1, runs[#runs].ranks do
    local function of(list) return list[rank] and format.count(list[rank]) or "" end
    line(("rank %d: planned"):format(rank - 1), runs, function(r) return of(r.planned) end)
    line("        taken", runs, function(r) return of(r.taken) end)
  end
  line("all give: planned", runs, function(r) return format.count(math.floor(r.wire + 0.5)) end)
  line("          moved", runs, function(r) return format.count(r.moved) end)
  for _, name in ipairs { "allgather", "reduce_scatter", "allreduce" } do
    line(name .. "s", runs, function(r) return r.collectives[name] end)
  end
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
