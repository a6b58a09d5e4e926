--- region_spec.lua -- regions that the program says are recomputed
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local recomputing = require "plan.recompute.recomputing"
local failure = require "support.failure"
local nn, optim, checkpoint = mrt.nn, mrt.optim, mrt.policy.checkpoint
local again, alive = recomputing.again, recomputing.alive

local LAYERS, WIDE, ROWS = 64, 8, 256
local ACTIVATION = ROWS * WIDE * 4

setup(function() core.set_poison(true) end)
teardown(function() core.set_poison(false) end)

describe("a region by hand", function()
  local function model_of(seed, wrap)
    mrt.seed(seed)
    local a, b = nn.Linear(12, 12), nn.Linear(12, 12)
    local params = { a.weight, a.bias, b.weight, b.bias }
    mrt.eval(params)
    mrt.seed(seed)
    local function block(x) return b(a(x):gelu():dropout(0.3)):tanh() end
    local function loss(x)
      local y = wrap(block, x)
      return (wrap(block, y) * y):mean()
    end
    return loss, params
  end

  -- Bits of two compiled steps, or of two rounds without compile, and the plan.
  local function run(wrap, eager)
    local loss, params = model_of(5, wrap)
    local opt = optim.sgd(params, { lr = 0.5 })
    local function round(x)
      local l = loss(x)
      opt:step(mrt.grad(l, params))
      return l
    end
    local step = eager and round or mrt.compile(round)
    local x, bits = mrt.full({ 6, 12 }, 0.25), {}
    for i = 1, 2 do bits[i] = step(x):bytes() end
    for _, p in ipairs(params) do bits[#bits + 1] = p:bytes() end
    return table.concat(bits, "|"), not eager and step:plan(x) or nil
  end

  local function plain(f, x) return f(x) end
  local wraps = {
    mrt.checkpoint,
    function(f, x) return mrt.checkpoint(f, x, { preserve_rng_state = false }) end,
    function(f, x)
      return mrt.checkpoint(f, x, { use_reentrant = false, preserve_rng_state = true })
    end,
    function(f, x) return mrt.checkpoint(mrt.checkpoint, f, x) end,
    function(f, x)
      return mrt.checkpoint(function(y) return mrt.checkpoint(f, y * 1.0) end, x)
    end,
    function(f, x) return mrt.checkpoint(nn.Sequential(f), x) end,
    function(f, x)
      local y, z = mrt.checkpoint(function(t) return f(t), nil, t end, x)
      assert.is_nil(y == nil or z)
      return y
    end,
    function(f, x) return mrt.checkpoint_sequential({ f, function(t) return t end }, 2, x) end,
  }

  it("gives the bits of a plain call, compiled or not", function()
    local wanted, full = run(plain)
    local eager = run(plain, true)
    for i, wrap in ipairs(wraps) do
      local bits, plan = run(wrap)
      assert(bits == wanted, ("way %d, compiled"):format(i))
      assert(run(wrap, true) == eager, ("way %d, eager"):format(i))
      assert(again(plan) > 0 and plan:kept() < full:kept(), ("way %d keeps too much"):format(i))
    end
  end)

  it("within regions takes O(log N) activations for O(log N) more passes", function()
    local function halves(layers, x, first, last)
      if first == last then return layers[first](x) end
      local middle = (first + last) // 2
      x = mrt.checkpoint(function(y) return halves(layers, y, first, middle) end, x)
      return halves(layers, x, middle + 1, last)
    end
    mrt.seed(1)
    local w, layers = {}, {}
    for i = 1, LAYERS do
      w[i] = mrt.parameter(mrt.randn(WIDE, WIDE) * 0.4)
      layers[i] = function(x) return x:matmul(w[i]):tanh() end
    end
    local opt = optim.sgd(w, { lr = 0.1 })
    local step = mrt.compile(function(x)
      local loss = (halves(layers, x, 1, LAYERS) ^ 2):mean()
      opt:step(mrt.grad(loss, w))
      return loss
    end)
    local plan = step:plan(mrt.zeros(ROWS, WIDE))
    assert.is_true(alive(plan) <= (6 + 4) * ACTIVATION)
    assert.is_true(again(plan, "matmul") <= 3 * LAYERS)
  end)

  it("is over when its function fails", function()
    local clean = select(2, run(plain)):graph()
    for _, f in ipairs { mrt.checkpoint, mrt.layer } do
      assert.matches("oops", failure(f, function() error "oops" end))
      assert.equal(clean, select(2, run(plain)):graph())
      local caught = mrt.compile(function(x)
        pcall(f, function() error "oops" end)
        local y = x:matmul(x):tanh()
        return mrt.grad((y * y):sum(), x)
      end)
      assert.equal(0, again(caught:plan(mrt.zeros(4, 4))))
    end
  end)

  it("goes with a policy for the rest", function()
    local function plan_of(policy)
      local loss, params = model_of(5, mrt.checkpoint)
      local step = mrt.compile(function(x)
        local l = loss(x)
        return l, table.unpack(mrt.grad(l, params))
      end, { checkpoint = policy })
      return step:plan(mrt.zeros(6, 12))
    end
    local asked = 0
    local plan = plan_of(function(value)
      asked = asked + 1
      assert.is_false(value.region)
      return "keep"
    end)
    assert.is_true(asked > 0)
    assert.equal(again(plan_of()), again(plan))
    plan_of(checkpoint.sqrt())
  end)

  it("refuses what is no function or no count", function()
    assert.matches("checkpoint: a function or module wanted, got 3",
      failure(mrt.checkpoint, 3))
    assert.matches("layer: a function or module wanted, got nil", failure(mrt.layer))
    local id = function(x) return x end
    for _, k in ipairs { 0, 3, 1.5, "2" } do
      assert.matches("segments = .-, wanted 1 to 2",
        failure(mrt.checkpoint_sequential, { id, id }, k, mrt.zeros(2)))
    end
    assert.matches("a list of layers wanted",
      failure(mrt.checkpoint_sequential, {}, 1, mrt.zeros(2)))
    assert.matches("no option 'preserve_rng' %(options: preserve_rng_state, use_reentrant%)",
      failure(mrt.checkpoint_sequential, { id }, 1, mrt.zeros(2), { preserve_rng = false }))
  end)
end)
