--- mrt bench refusals -- budgets that nothing fits: how soon that is said
---
---     mrt bench refusals [CASE]
--
-- Training steps of GPTs, recurrent nets and a chain of 10,000 nodes, some in bf16 or in
-- micro-batches, are asked for in half of what persists and in a fiftieth of what moves
-- besides.  Told are processor seconds, the least budget that was named, and whether that
-- one is met when it is asked for; if not, or where it is above what the step takes without
-- a budget, the benchmark ends with status 1.  Nothing runs.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local format = require "mrt.util.format"
local nn, optim = mrt.nn, mrt.optim
local bf16 = mrt.policy.precision.bf16()

local function gpt(layers, dim)
  local model = nn.GPT { vocab = 256, context = 64, layers = layers, heads = 4, dim = dim }
  local function loss(x) return model:loss(x, x) end
  return loss, model:parameters(), mrt.zeros({ 8, 64 }, { dtype = "i64" })
end

local function recurrent(kind, steps)
  local net, head = nn[kind](64, 64, { batch_first = true }), nn.Linear(64, 8)
  local params = net:parameters()
  table.move(head:parameters(), 1, 2, #params + 1, params)
  local function loss(x) return (head((net(x))) ^ 2):mean() end
  return loss, params, mrt.zeros(16, steps, 64)
end

local function chain(length)
  local w = mrt.parameter(mrt.randn(32, 32) * 0.1, "w")
  local function loss(x)
    for _ = 1, length do x = x:matmul(w):tanh() end
    return (x ^ 2):mean()
  end
  return loss, { w }, mrt.zeros(32, 32)
end

-- {name, options, make, what it is made of ...}
local cases = {
  { "gpt3", {}, gpt, 3, 128 }, { "gpt12", {}, gpt, 12, 128 },
  { "gpt12-bf16", { precision = bf16 }, gpt, 12, 128 },
  { "gpt12-accumulate", { accumulate = 4 }, gpt, 12, 128 },
  { "lstm256", {}, recurrent, "LSTM", 256 }, { "lstm1024", {}, recurrent, "LSTM", 1024 },
  { "gru1024", {}, recurrent, "GRU", 1024 },
  { "lstm1024-bf16", { precision = bf16 }, recurrent, "LSTM", 1024 },
  { "chain10000", {}, chain, 2000 },
}

-- The plan, or false and the error; processor seconds.
local function plan(case, memory)
  mrt.seed(1)
  local loss, params, x = case[3](table.unpack(case, 4))
  local opt = optim.adam(params, { lr = 1e-3 })
  local options = { memory = memory }
  for name, value in pairs(case[2]) do options[name] = value end
  local step = mrt.compile(function(input)
    local l = loss(input)
    opt:step(mrt.grad(l, params))
    return l
  end, options)
  local began = os.clock()
  local ok, made = pcall(step.plan, step, x)
  if not ok and made.code ~= "budget" then error(made, 0) end
  return ok and made, ok or made, os.clock() - began
end

-- Is what is said of the budget true?
local function row(case, base, memory)
  local made, err, seconds = plan(case, memory)
  local met = made or plan(case, err.needed)
  local fine = met and (made or err.needed <= base:needs())
  print(("%-18s %7d %10s %10s %7.2f s  %s"):format(case[1], #base:steps(),
    format.bytes(base.peak), format.bytes(memory), seconds,
    made and "met" or ("%s named%s"):format(format.bytes(err.needed),
      fine and "" or ", WRONG")))
  return fine
end

return function(name)
  local fine = true
  print(("%-18s %7s %10s %10s %9s"):format("", "nodes", "peak", "budget", "after"))
  for _, case in ipairs(cases) do
    if not name or name == case[1] then
      local base = plan(case)
      local rest = base.peak - base.transient
      for _, memory in ipairs { rest // 2, rest + base.transient // 50 } do
        fine = row(case, base, memory) and fine
      end
    end
  end
  if not fine then os.exit(1, true) end
end
