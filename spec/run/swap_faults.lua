--- swap_faults.lua -- what spec/run/swap_faults.c does while copies fail
---
--- A step that breaks off has changed nothing, or says that what it updates is
--- torn; then reading that raises until it is assigned, and training goes on.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local fail_at, interrupt_at, in_child = ...
local nn, optim, swap = mrt.nn, mrt.optim, mrt.policy.swap

mrt.seed(1)
local model = nn.Sequential(nn.Linear(40, 50), nn.GELU(), nn.Linear(50, 30),
  nn.GELU(), nn.Linear(30, 3))
local opt = optim.adamw(model:parameters(), { lr = 0.01 })
local step = mrt.compile(function(x, y)
  local loss = nn.cross_entropy(model(x), y)
  opt:step(mrt.grad(loss, model:parameters()))
  return loss
end, { swap = swap.all { least = 1 } })
local x, y = mrt.eval(mrt.randn(8, 40), mrt.randint(0, 3, 8))
step(x, y)

local variables = {}
for _, p in ipairs(model:parameters()) do variables[#variables + 1] = p end
for _, v in pairs(opt:state()) do variables[#variables + 1] = v end

local function bits()
  local all = {}
  for i, v in ipairs(variables) do all[i] = v:bytes() end
  return table.concat(all)
end

local function copies()
  local all = {}
  for i, v in ipairs(variables) do all[i] = mrt.eval(v * 1) end
  return all
end

-- Break the step off at wait n; false when it has fewer.
local outcomes = { torn = 0, whole = 0 }
local function attempt(at, n, code)
  local before, saved = bits(), copies()
  at(n)
  local ok, problem = pcall(step, x, y)
  local waits = at(0)
  if ok then
    assert(waits < n or code == "interrupted", "nothing was noticed")
    return waits >= n
  end
  assert(problem.code == code, tostring(problem))
  if tostring(problem):find "torn" then
    outcomes.torn = outcomes.torn + 1
    local readable, torn = pcall(variables[1].bytes, variables[1])
    assert(not readable and tostring(torn):find "torn")
    assert(not pcall(step, x, y))
    for i, v in ipairs(variables) do v:assign(saved[i]) end
  else
    outcomes.whole = outcomes.whole + 1
  end
  assert(bits() == before, "a step was done by half")
  return true
end

local n = 1
while attempt(fail_at, n, "device") do n = n + 1 end
assert(outcomes.torn > 5 and outcomes.whole > 5)
n = 1
while attempt(interrupt_at, n, "interrupted") do n = n + 1 end
assert(step(x, y):item() >= 0)

-- The file's threads are the parent's alone.
assert(in_child(function()
  local ok, problem = pcall(step, x, y)
  assert(not ok and tostring(problem):find "belongs to the process that made it")
  ok, problem = pcall(variables[1].bytes, variables[1])
  assert(not ok and problem.code == "device")
end))
assert(step(x, y):item() >= 0)
print(("%d torn, %d whole"):format(outcomes.torn, outcomes.whole))
