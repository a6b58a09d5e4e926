--- ranks_plan.lua -- one row of `mrt bench ranks`, planned only
---
---     ranks_plan.lua LAYERS DIM HEADS VOCAB CONTEXT STAGE ROWS K RECOMPUTE PRECISION
---
--- ROWS is of a micro-batch of one rank.  Prints a line: seconds, wire bytes, peak.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function number(i) return assert(math.tointeger(tonumber(arg[i]))) end

local context, stage, rows, k = number(5), number(6), number(7), number(8)
local precision = arg[10] == "fp16" and "f16" or "bf16"
local narrow = { gather = precision, reduce = precision }
local model = nn.GPT { layers = number(1), dim = number(2), heads = number(3), vocab = number(4),
  context = context }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-4 })
local step = mrt.compile(function(x)
  local loss = model:loss(x, x)
  opt:step(mrt.grad(loss, params))
  return loss
end, { precision = policy.precision[precision](), accumulate = k > 1 and k or nil,
  checkpoint = arg[9] == "full" and policy.checkpoint.every(1) or nil,
  shard = stage == 0 and policy.shard.ddp { reduce = precision }
    or policy.shard.zero(stage, narrow) })
local plan = step:plan(mrt.zeros({ rows * k, context }, { dtype = "i64" }))
print(("seconds %.9g wire %d peak %d"):format(plan.seconds, plan.wire, plan.peak))
os.exit(0)
