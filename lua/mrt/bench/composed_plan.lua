--- composed_plan.lua -- one row of `mrt bench composed`, planned only
---
---     composed_plan.lua LAYERS DIM ROWS CONTEXT STAGE GATHER REDUCE K CHECKPOINT BUDGET [VOCAB]
---
--- "-" leaves an option out.  BUDGET is a size, or a part of what moves without one, as
--- "50%".  Prints a line of JSON.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local json = require "mrt.util.json"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function word(i) return arg[i] ~= "-" and arg[i] or nil end
local function number(i) return math.tointeger(tonumber(arg[i])) end

local layers, dim, stage = number(1), number(2), number(5)
local model = nn.GPT { vocab = number(11) or 50304, context = number(4), layers = layers,
  heads = dim // 64, dim = dim }
local params = model:parameters()
local opt = optim.adamw(params, { lr = 1e-4 })
local tokens = mrt.zeros({ number(3), number(4) }, { dtype = "i64" })
local o = { gather = word(6), reduce = word(7) }
local shard = stage == 0 and policy.shard.ddp(o) or policy.shard.zero(stage, o)

local function planned(memory)
  return mrt.compile(function(x)
    local loss = model:loss(x, x)
    opt:step(mrt.grad(loss, params))
    return loss
  end, { precision = policy.precision.bf16(), shard = shard, memory = memory,
    accumulate = word(8) and number(8),
    checkpoint = word(9) and policy.checkpoint.every(number(9)) }):plan(tokens)
end

local budget = word(10)
local part = budget and tonumber(budget:match "^(%d+)%%$")
if part then
  local free = planned()
  budget = math.floor(free:needs() - (1 - part / 100) * free.transient)
end
local began = core.clock()
local ok, plan = pcall(planned, budget)
local seconds = core.clock() - began
if ok then
  -- values of a boundary's size that live from the forward to the backward pass
  local kept, boundary = 0, number(3) * number(4) * dim
  for _, v in ipairs(plan:values()) do
    local fits = v.bytes == 2 * boundary or v.bytes == 4 * boundary
    if fits and v.role == "activation" and v.last - v.first > 100 then
      kept = math.max(kept, v.bytes)
    end
  end
  print(json.encode { parameters = model:count(), peak = plan.peak, kept = kept,
    persistent = plan.persistent, transient = plan.transient, wire = plan.wire,
    planning = seconds })
else
  print(json.encode { refused = tostring(plan):match "^[^\n]*", planning = seconds })
end
os.exit(0)
