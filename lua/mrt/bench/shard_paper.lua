--- shard_paper.lua -- what `mrt bench shard` plans for 64 ranks: `shard_paper.lua STAGE`
---
--- A GPT of 7.5 billion parameters with everything that the paper counts retained.
--- Planned only, by `mrt plan --ranks 64 --json`.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local stage = math.tointeger(tonumber(arg[1]))
local o = { gather = "bf16", reduce = "bf16", retain = true }
local model = nn.GPT { vocab = 50304, context = 64, layers = 36, heads = 32, dim = 4096 }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-4 })
local tokens = mrt.zeros({ 1, 64 }, { dtype = "i64" })

mrt.compile(function(x)
  local loss = model:loss(x, x)
  opt:step(mrt.grad(loss, params))
  return loss
end, { name = ("%d parameters"):format(model:count()), precision = policy.precision.bf16(),
  shard = stage == 0 and policy.shard.ddp(o) or policy.shard.zero(stage, o) }):plan(tokens)
