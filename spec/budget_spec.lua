-- The ladder of ways into a budget, automatic micro-batches, and advice.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local x, y = mrt.randn(32, 16), mrt.randint(0, 4, { 32 }, { dtype = "i32" })

-- A training step of a deep narrow net, or what compiling it raises.
local function make(options)
  mrt.seed(1)
  local layers = {}
  for i = 1, 12 do layers[i] = nn.Linear(i > 1 and 64 or 16, 64) end
  layers[13] = nn.Linear(64, 4)
  local net = nn.Sequential(table.unpack(layers))
  local params = net:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(a, b)
    local loss = nn.cross_entropy(net(a), b)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
end

local function rung(ladder, way)
  for _, r in ipairs(ladder) do
    if r.way == way then return r end
  end
end

describe("the ladder of ways into a budget", function()
  local base = make():plan(x, y)

  it("plans each way, in order, and chooses what the budget option does", function()
    local budget = base.peak - base.transient // 3
    local ladder = base:options { budget = budget }
    assert.equal("as it is", ladder[1].way)
    assert.equal(base.peak, ladder[1].peak)
    assert.is_false(ladder[1].fits)
    assert.is_true(rung(ladder, "recompute").choice)
    assert.equal(make { memory = budget }:plan(x, y).peak, ladder.choice.peak)
    for i, r in ipairs(ladder) do
      if r.peak then assert.equal(r.peak <= budget, r.fits, r.way) end
      if i > 2 and r.way:match "^micro%-batch" and ladder[i - 1].peak then
        assert.is_true(r.peak <= ladder[i - 1].peak, r.way)
      end
    end
    assert.matches("%* recompute", tostring(ladder))
  end)

  it("takes the batch as it is when that fits", function()
    assert.equal("as it is", base:options { budget = base.peak }.choice.way)
  end)

  it("completes with the time of a job", function()
    local job = { steps = 100, limit = "1h" }
    assert.matches("^fits and in time", base:options { budget = base.peak, job = job }.verdict)
    job.limit = base.seconds * 50
    assert.matches("^fits but too slow", base:options { budget = base.peak, job = job }.verdict)
    assert.matches("more devices needed", base:options { budget = 1000, job = job }.verdict)
  end)

  it("refuses budgets and jobs that make no sense", function()
    for _, o in ipairs { { budget = "2 apples" }, { budget = -1 },
      { budget = "1MiB", job = { steps = 0, limit = "6h" } },
      { budget = "1MiB", job = { steps = 3, limit = "soon" } } } do
      assert.is_false(pcall(base.options, base, o))
    end
  end)
end)

describe("accumulate = auto", function()
  it("is one batch without a budget, and as many as make the step quickest with one", function()
    assert.equal(make { accumulate = "auto" }:plan(x, y).peak, make():plan(x, y).peak)
    local whole = make():plan(x, y)
    local step = make { accumulate = "auto", memory = whole.peak - whole.transient // 3 }
    local plan = step:plan(x, y)
    assert.is_true(plan.peak <= whole.peak - whole.transient // 3)
    assert.near(make()(x, y):item(), step(x, y):item(), 1e-5)
  end)
end)

describe("a budget below what recomputing can do", function()
  local least = select(2, pcall(function()
    local step = make { memory = 1000, swap = policy.swap.none() }
    return step:plan(x, y)
  end)).needed

  it("is met by swapping, with the same bits, unless the script rules it out", function()
    local step = make { memory = least - 4096, swap = nil }
    local plain = make()
    for _ = 1, 3 do assert.equal(plain(x, y):item(), step(x, y):item()) end
    assert.is_true(step:plan(x, y).peak <= least - 4096)
    local ok, err = pcall(make { memory = least - 4096, swap = policy.swap.none() }, x, y)
    assert.is_false(ok)
    assert.equal("budget", err.code)
    assert.matches("at its peak", err.message)
  end)
end)

describe("advice", function()
  it("names what is worth it and what is not", function()
    local advice = make():plan(x, y):advice()
    assert.matches("Recomputing", advice)
    assert.matches("wapping", advice)
    assert.matches("icro%-batch", advice)
    local double = mrt.compile(function(a) return a * 2 end)
    assert.matches("no activation waits", double:plan(x):advice())
    assert.matches("Swapping gains nothing", double:plan(x):advice())
  end)

  it("speaks of what a plan does already", function()
    local w = mrt.parameter(mrt.randn(64, 64), "w")
    local step = mrt.compile(function(a)
      local loss = (a:matmul(w) ^ 2):mean()
      w:assign(w - mrt.grad(loss, w))
      return loss
    end, { accumulate = 4, swap = mrt.policy.swap.all { least = 1 } })
    local advice = step:plan(mrt.ones(256, 64)):advice()
    assert.matches("4 micro%-batches save %d", advice)
    assert.matches("Swapping keeps %d+.%d KiB out of memory", advice)
  end)
end)
