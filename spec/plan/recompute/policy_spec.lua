--- policy_spec.lua -- the memory and the work that each policy promises
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local recomputing = require "plan.recompute.recomputing"
local failure = require "support.failure"
local optim, checkpoint = mrt.optim, mrt.policy.checkpoint
local again, alive = recomputing.again, recomputing.alive
local cases, train = recomputing.cases, recomputing.train

local LAYERS, WIDE, ROWS = 64, 8, 256
local ACTIVATION = ROWS * WIDE * 4

-- 64 equal layers x -> tanh(x w), of which the backward pass reads the results.
local function chain(options, layers)
  mrt.seed(1)
  local w = {}
  for i = 1, layers or LAYERS do
    w[i] = mrt.parameter(mrt.randn(WIDE, WIDE) * 0.4, "w" .. i)
  end
  local opt = optim.sgd(w, { lr = 0.1 })
  local step = mrt.compile(function(x)
    for _, v in ipairs(w) do
      x = mrt.layer(function(y) return y:matmul(v):tanh() end, x)
    end
    local loss = (x * x):mean()
    opt:step(mrt.grad(loss, w))
    return loss
  end, options)
  return step, mrt.eval(mrt.randn(ROWS, WIDE)), w
end

local function chain_plan(policy)
  local step, x = chain { checkpoint = policy }
  return step:plan(x)
end

describe("on a chain of 64 layers", function()
  -- What a plan runs, in whichever order.
  local function steps_of(plan)
    local lines = {}
    for line in plan:graph():gmatch "[^\n]+" do lines[#lines + 1] = line end
    table.sort(lines)
    return lines
  end

  local full

  setup(function() full = chain_plan(checkpoint.none()) end)

  it("none() is the plan without a policy", function()
    local step, x = chain()
    local plain = step:plan(x)
    assert.same(steps_of(plain), steps_of(full))
    assert.equal(plain.peak, full.peak)
    assert.is_true(alive(full) >= LAYERS * ACTIVATION)
  end)

  it("sqrt() takes 2 sqrt(N) + 2 activations for one more forward pass", function()
    local plan = chain_plan(checkpoint.sqrt())
    assert.is_true(again(plan, "matmul") <= LAYERS)
    assert.is_true(alive(plan) <= (2 * 8 + 2) * ACTIVATION)
    assert.is_true(plan.peak < 0.45 * full.peak)
  end)

  it("all() takes a few activations for N(N-1)/2 more layers", function()
    local plan = chain_plan(checkpoint.all())
    assert.is_true(again(plan, "matmul") <= LAYERS * (LAYERS - 1) // 2)
    assert.is_true(alive(plan) <= 4 * ACTIVATION)
  end)

  it("every(k) and segments(k) keep what segments hand on, and run no layer thrice", function()
    for _, k in ipairs { 2, 5, 16, 64 } do
      for _, policy in ipairs { checkpoint.every(k), checkpoint.segments((LAYERS + k - 1) // k) } do
        local plan = chain_plan(policy)
        local segments = (LAYERS + k - 1) // k
        assert.is_true(again(plan, "matmul") <= LAYERS)
        assert.is_true(alive(plan) <= (segments + k + 2) * ACTIVATION, tostring(policy))
      end
    end
    assert.equal(chain_plan(checkpoint.segments(1000)).peak, chain_plan(checkpoint.every(1)).peak)
  end)

  it("budget() keeps at most that, and no more work than it must", function()
    for _, percent in ipairs { 75, 50, 25 } do
      local plan = chain_plan(checkpoint.budget(percent .. "%"))
      assert.is_true(plan:kept() <= full:kept() * percent / 100)
      assert.is_true(plan:kept() > full:kept() * percent / 100 - 2 * ACTIVATION)
      assert.is_true(again(plan, "matmul") <= LAYERS * (100 - percent) // 100 + 8, percent)
    end
    for _, n in ipairs { 2, 5, 20 } do
      local plan = chain_plan(checkpoint.budget(n * ACTIVATION))
      assert.is_true(plan:kept() <= n * ACTIVATION)
      assert.is_true(again(plan, "matmul") <= 3 * LAYERS)
    end
  end)

  it("a function that drops every result runs no layer more than three times", function()
    local plan = chain_plan(function() return "recompute" end)
    assert.is_true(again(plan, "matmul") <= 2 * LAYERS)
    assert.is_true(alive(plan) <= (2 * 8 + 2) * ACTIVATION)
  end)
end)

describe("budget()", function()
  it("holds for what a GPT keeps, in bytes and in shares", function()
    local _, full = train(cases[2], { checkpoint = checkpoint.none() })
    local all = full:kept()
    for _, percent in ipairs { 100, 60, 30, 10, 3 } do
      local _, plan = train(cases[2], { checkpoint = checkpoint.budget(percent .. "%") })
      assert.is_true(plan:kept() <= all * percent // 100, percent)
      _, plan = train(cases[2], { checkpoint = checkpoint.budget(all * percent // 100) })
      assert.is_true(plan:kept() <= all * percent // 100, percent)
    end
    local _, plan = train(cases[2], { checkpoint = checkpoint.budget "100%" })
    assert.equal(0, again(plan))
  end)

  it("takes less extra time the more may be kept", function()
    local last = math.huge
    for percent = 5, 100, 15 do
      local _, plan = train(cases[2], { checkpoint = checkpoint.budget(percent .. "%") })
      assert.is_true(plan.seconds <= last * 1.02)
      last = plan.seconds
    end
  end)
end)

describe("values are chosen", function()
  local function plan_of(policy)
    mrt.seed(1)
    local a, b = mrt.parameter(mrt.randn(16, 16), "a"), mrt.parameter(mrt.randn(16, 16), "b")
    local step = mrt.compile(function(x)
      local h = mrt.name(x:matmul(a), "hidden"):softmax(2)
      local y = mrt.name(h * h, "scaled"):matmul(b)
      y = mrt.name(y, "out"):layer_norm()
      local loss = (y * y):mean()
      return loss, table.unpack(mrt.grad(loss, { a, b }))
    end, { checkpoint = policy, fuse = false })
    return step:plan(mrt.zeros(8, 16))
  end

  it("by operator, class or name", function()
    local plan = plan_of(checkpoint.selective { recompute = { "softmax" } })
    assert.equal(1, again(plan, "softmax"))
    assert.equal(0, again(plan, "matmul"))
    assert.equal(1, again(plan_of(checkpoint.selective { recompute = { "scaled" } }), "mul"))
    plan = plan_of(checkpoint.selective { keep = { "matmul" } })
    assert.equal(0, again(plan, "matmul"))
    assert.equal(1, again(plan, "layer_norm"))
    plan = plan_of(checkpoint.selective { keep = { "norm", "scaled", "softmax" } })
    assert.equal(1, again(plan, "matmul"))
    assert.equal(0, again(plan, "layer_norm"))
  end)

  it("by name alone", function()
    local plan = plan_of(checkpoint.names { "hidden" })
    assert.equal(1, again(plan, "matmul"))
    assert.equal(0, again(plan_of(checkpoint.names { "hidden", "out" }), "matmul"))
    assert.matches("no activation is named 'hiden'", failure(plan_of, checkpoint.names { "hiden" }))
  end)

  it("not among parameters", function()
    for _, policy in ipairs { checkpoint.names { "a" }, checkpoint.selective { keep = { "a" } },
      checkpoint.selective { recompute = { "b" } } } do
      local _, text = failure(plan_of, policy)
      assert.matches("'[ab]' is a parameter or other variable", text)
      assert.matches("only activations", text)
    end
    local asked = {}
    plan_of(function(value)
      asked[#asked + 1] = value.name
      return "keep"
    end)
    assert.same({ "hidden", "scaled", "out" }, asked)
  end)

  it("and words that mean nothing are told apart", function()
    assert.matches("'sofmax' is no operator, class or name of an activation",
      failure(plan_of, checkpoint.selective { recompute = { "sofmax" } }))
  end)
end)
