--- two_states.lua -- what spec/bindings/two_states.c runs in each thread
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

mrt.seed((...))
local model = nn.GPT { vocab = 17, dim = 32, layers = 2, heads = 2, context = 16,
  dropout = 0.1 }
local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
local step = mrt.compile(function(tokens, targets)
  local loss = nn.cross_entropy(model(tokens), targets)
  opt:step(mrt.grad(loss, model:parameters()))
  return loss
end)
for _ = 1, 10 do
  step(mrt.randint(0, 17, 4, 16), mrt.randint(0, 17, 4, 16))
end

local bits = {}
for i, p in ipairs(model:parameters()) do bits[i] = p:bytes() end
return table.concat(bits)
