--- questions.lua -- the classic questions about training and memory, answered by
--- running them
---
---     mrt examples/questions.lua
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local format = require "mrt.util.format"
local nn, optim, data, estimate = mrt.nn, mrt.optim, mrt.data, mrt.estimate

mrt.seed(1)

local function ask(text, ...) print(("\n== " .. text):format(...)) end
local function say(text, ...) print((text):format(...)) end

local shape = { vocab = 64, dim = 64, heads = 4, layers = 4, context = 32 }
local batch = 8
local tokens = mrt.eval(mrt.randint(0, shape.vocab, batch, shape.context))

local model = nn.GPT(shape)
local opt = optim.adamw(model:parameters())
local step = mrt.compile(function(x, y)
  local loss = nn.cross_entropy(model(x), y)
  opt:step(mrt.grad(loss, model:parameters()))
  return loss
end)
local predict = mrt.compile(function(x) return model(x) end)

-- Weights and optimizer state are both variables; state has its own names.
local function kind_of(v)
  if v.kind ~= "variable" then return v.kind end
  local name = v.name or ""
  return (name == "t" or name:find "%.[mv]$") and "optimizer state" or "weight"
end

-- Of each kind: how many, bytes, mean part of the run they are alive.
local function kinds(plan)
  local list, by_name = {}, {}
  for _, v in ipairs(plan:values()) do
    local name = kind_of(v)
    local k = by_name[name]
    if not k then
      k = { name = name, count = 0, bytes = 0, life = 0, last = 0, first = math.huge }
      by_name[name], list[#list + 1] = k, k
    end
    k.count, k.bytes = k.count + 1, k.bytes + v.bytes
    k.life = k.life + (v.last - v.first + 1) / plan.nodes
    k.first, k.last = math.min(k.first, v.first), math.max(k.last, v.last)
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- ---- what takes memory ---------------------------------------------------------

local function what_takes_memory()
  ask "What takes memory in a training step, and what does not?"
  local plan = step:plan(tokens, tokens)
  for _, k in ipairs(kinds(plan)) do
    say("  %-16s %10s in %3d values", k.name, format.bytes(k.bytes), k.count)
  end
  say("Weights and state add up. Activations, gradients and workspaces take turns in one arena of")
  say("%s. Inputs are the caller's. Peak, with the outputs: %s.", format.bytes(plan.transient),
    format.bytes(plan.peak))

  local before = mrt.memory().now
  local big = nn.GPT { vocab = 50257, dim = 12288, layers = 96, heads = 96, context = 2048 }
  local count = 0
  for _, p in ipairs(big:parameters()) do count = count + p:numel() end
  say("A description takes none: %s parameters made, %d bytes allocated.",
    format.count(count), mrt.memory().now - before)
  local x = mrt.eval(mrt.randn(64, 64))
  local whole = mrt.compile(function(v) return v:sum() end):plan(x).transient
  local views = mrt.compile(function(v) return v:reshape(8, 512):slice(1, 1, 4):sum() end)
  say("Views take none: reshaped and cut before it is summed, %d bytes more.",
    views:plan(x).transient - whole)
  local chain = mrt.compile(function(v) return ((v * 2 + 1):tanh() - v):exp() end):plan(x)
  say("Nor what lies between pointwise operators: five of them on %s, an arena of %d bytes.",
    format.bytes(chain.inputs), chain.transient)
end

-- ---- lifetimes ------------------------------------------------------------------

local function lifetimes(title, plan)
  say("  %s: %d steps in executing order", title, plan.nodes)
  for _, k in ipairs(kinds(plan)) do
    say("    %-16s first %3d, last %3d; one lives %5.1f%% of the run", k.name, k.first, k.last,
      100 * k.life / k.count)
  end
end

local function lives()
  ask "How long do weights, activations and optimizer state live?"
  lifetimes("training", step:plan(tokens, tokens))
  lifetimes("inference", predict:plan(tokens))
  print [[
Weights and optimizer state persist from run to run, whatever the step does. In training an
activation waits for the gradient that reads it, the earliest longest; without gradients it
ends with the next operator, and there are no gradients and no optimizer state at all.]]
  local sizes = {}
  for _, n in ipairs { 4, 16, 64 } do
    local layers = {}
    for _ = 1, n do
      layers[#layers + 1] = nn.Linear(64, 64)
      layers[#layers + 1] = nn.ReLU()
    end
    local chain = nn.Sequential(table.unpack(layers))
    local plan = mrt.compile(function(x) return chain(x) end):plan(mrt.zeros(32, 64))
    sizes[#sizes + 1] = ("%d layers %s"):format(n, format.bytes(plan.transient))
  end
  say("The arena of inference does not grow with depth: %s.", table.concat(sizes, ", "))
end

-- ---- checkpointing ----------------------------------------------------------------

local function checkpointing()
  ask "What can checkpointing drop?"
  local plan = step:plan(tokens, tokens)
  local wait = plan:kept()
  say("Activations: an operator made each, and can make it again. %s of them wait",
    format.bytes(wait))
  say "here for the gradient. A layer of GPT-3 175B, 2048 tokens at 16 bit, 8 ways tensor parallel:"
  local layer = { sequence = 2048, dim = 12288, heads = 96, tensor = 8 }
  for _, recompute in ipairs { "none", "selective", "full" } do
    layer.recompute = recompute
    say("  recompute %-10s %9s kept", recompute, format.bytes(estimate.layer(layer)))
  end
  local whole = true
  for _, v in ipairs(plan:values()) do
    if v.kind == "variable" then whole = whole and v.first == 1 and v.last == plan.nodes end
  end
  print "Not weights and optimizer state: no operator makes them, they are what earlier steps left."
  local name = model:parameters()[1].name or "weight"
  local refused = mrt.compile(function(x)
    return mrt.grad(model(x):sum(), model:parameters())[1]
  end, { checkpoint = mrt.policy.checkpoint.names { name } })
  xpcall(refused.plan, function(e) say("A policy that names one is refused: %s", e.message) end,
    refused, tokens)
  say("Each lives from the first step of the plan to the last: %s. They can be moved (swapping)",
    tostring(whole))
  say "or cut among ranks (ZeRO). Recomputing must start somewhere: the layers' inputs stay too."
end

-- ---- GPT-3 ------------------------------------------------------------------------

local function gpt3()
  ask "How large are the activations of GPT-3 2.7B, checkpointed at layers, for 1M tokens?"
  local m = estimate.gpt3.find "2.7B"
  for _, dtype in ipairs { "f16", "f32" } do
    local bytes = estimate.gpt3.estimate(m, { tokens = 1000000, dtype = dtype }).boundary
    say("  %s: 1,000,000 x %d wide x %d layers x %d bytes = %s bytes = %.2f GiB", dtype, m.dim,
      m.layers, estimate.dtypes[dtype], format.count(bytes), bytes / 1024 ^ 3)
  end
  local big = estimate.gpt3.estimate "175B"
  say("Adam of 175B in f32: %s bytes with gradients (3N), %s that persist (2N).",
    format.count(big.adam), format.count(big.optimizer))
end

-- ---- words ------------------------------------------------------------------------

-- Fit one line through `rows` points for an epoch; return updates and error.
local function descend(rows, size)
  mrt.seed(2)
  local x = mrt.eval(mrt.rand(rows, 1))
  local y = mrt.eval(x * 3 - 1)
  local line = nn.Linear(1, 1)
  local sgd = optim.sgd(line:parameters(), { lr = 0.1 })
  local update = mrt.compile(function(a, b)
    local loss = nn.mse_loss(line(a), b)
    sgd:step(mrt.grad(loss, line:parameters()))
    return loss
  end)
  local loader, updates = data.batches({ x, y }, { batch = size, seed = 1 }), 0
  for a, b in loader:epoch() do
    update(a, b)
    updates = updates + 1
  end
  return updates, nn.mse_loss(line(x), y):item()
end

-- The gradient of a mini-batch, and the mean of its micro-batches'.
local function micro()
  local line = nn.Linear(16, 1)
  local x, y = mrt.eval(mrt.randn(32, 16), mrt.randn(32, 1))
  local gradient = mrt.compile(function(a, b)
    return mrt.grad(nn.mse_loss(line(a), b), line.weight)
  end)
  local whole, sum = gradient(x, y), mrt.zeros(1, 16)
  for i = 0, 3 do
    sum = sum + gradient(x:slice(1, 8 * i + 1, 8 * i + 8), y:slice(1, 8 * i + 1, 8 * i + 8))
  end
  return (whole - sum / 4):abs():max():item()
end

local function words()
  ask "Batch, mini-batch, micro-batch; full-batch and stochastic descent?"
  print [[
batch             examples that are processed together
batch processing  all of them in one run of the graph, as rows of one matmul
mini-batch        the examples of one update, a part of the training set
micro-batch       a part of a mini-batch that fits; micro-batching runs the graph for each,
                  adds up the gradients and updates once
full batch        the whole training set in each update: gradient descent proper
stochastic        one example, drawn at random, in each update; mini-batches lie between
One epoch over 240 examples, the same line fitted:]]
  for _, row in ipairs { { "full batch", "all" }, { "mini-batch of 24", 24 },
    { "stochastic", 1 } } do
    local updates, loss = descend(240, row[2])
    say("  %-17s %3d updates, error %.2g", row[1], updates, loss)
  end
  say("A mini-batch of 32 against 4 micro-batches of 8: gradients differ by at most %.1g.", micro())
  local small = mrt.eval(tokens:slice(1, 1, batch // 4))
  say("Micro-batching saves arena: %s for %d sequences, %s for %d.",
    format.bytes(step:plan(tokens, tokens).transient), batch,
    format.bytes(step:plan(small, small).transient), batch // 4)
end

what_takes_memory()
lives()
checkpointing()
gpt3()
words()
