--- malloc_count.lua -- what spec/run/malloc_count.c counts: the step of a small GPT
---
--- Allowed are Lua's own small objects, some of each step; tensors and scratch
--- of this model are larger than any of them.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim
local count, counted = _G.count, _G.counted

local STEPS = 5
local STEP, LARGEST = 8 * 1024, 4 * 1024

mrt.seed(1)
local model = nn.GPT { vocab = 65, dim = 96, layers = 2, heads = 4, context = 64 }
local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
local step = mrt.compile(function(tokens, targets)
  local loss = nn.cross_entropy(model(tokens), targets)
  opt:step(mrt.grad(loss, model:parameters()), { clip = 1.0 })
  return loss
end)

local tokens, targets = mrt.randint(0, 65, 8, 64), mrt.randint(0, 65, 8, 64)
local loss
for _ = 1, 3 do loss = step(tokens, targets) end
collectgarbage()
local before = mrt.memory { reset = true }

count()
for _ = 1, STEPS do loss = step(tokens, targets) end
local requests, bytes, largest = counted()

local plan = step:plan(tokens, targets)
print(("a step of %d nodes, %d bytes: %d requests, %d bytes, the largest %d")
  :format(plan.nodes, plan.peak, requests // STEPS, bytes // STEPS, largest))
assert(loss:item() > 0)
assert(bytes < STEP * STEPS, "a step allocates too many bytes")
assert(largest < LARGEST, "a step allocates something large")
-- Losses, until the collector comes round.
assert(mrt.memory().peak <= before.now + 64 * STEPS, "a step allocates tensors")
