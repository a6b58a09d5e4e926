-- The ladder of ways into a budget, automatic micro-batches, and advice.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local device = require "mrt.device"
local random_graph = require "support.random_graph"
local training = require "support.training"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local x, y = mrt.randn(32, 16), mrt.randint(0, 4, { 32 }, { dtype = "i32" })

-- A training step of a deep narrow net, or what compiling it raises.
local function make(options)
  mrt.seed(1)
  local layers = {}
  for i = 1, 12 do layers[i] = nn.Linear(i > 1 and 64 or 16, 64) end
  layers[13] = nn.Linear(64, 4)
  local net = nn.Sequential(table.unpack(layers))
  return training.step(net, optim.adamw(net:parameters(), { lr = 1e-3 }), options)
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
    for _, way in ipairs { "bf16", "compress to int8" } do
      local r = rung(ladder, way) -- real plans, which the script would have to allow
      assert.is_true(r.other_bits and r.fits and not r.choice, way)
    end
    assert.is_true(rung(ladder, "bf16").seconds < rung(ladder, "recompute").seconds)
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

-- A machine whose swap tier copies so many bytes a second.
local function machine(rate, guessed)
  device.use { name = "spec", memory = { capacity = 1e12, bandwidth = 1e10 },
    flops = { f32 = 1e11 }, swap = { capacity = 1e12, bandwidth = rate, latency = 1e-7,
      guessed = guessed } }
end

-- The forward pass of a random program.
local function random_loss(seed, leaves)
  if seed % 5 == 0 then
    local run = random_graph.program(seed, 6 + seed % 18)
    return function() return table.unpack(run(leaves, function(t) return t end)) end
  end
  local random, input = random_graph.generator(seed), mrt.randn(128, 64)
  mrt.eval(input)
  local kinds = {
    function(h) return (h:matmul(leaves[1]) + leaves[2]):gelu():matmul(leaves[3]) end,
    function(h) return h + h:layer_norm():matmul(leaves[1]):tanh():matmul(leaves[3]) end,
    function(h) return h:layer_norm():dropout(0.1) end,
    function(h) return h:sigmoid() * h end,
    function(h) return mrt.checkpoint(function(t) return t:tanh() * t end, h) end,
  }
  local layers = {}
  for i = 1, 4 + random(12) do layers[i] = kinds[random(#kinds)] end
  return function()
    local h = input
    for _, layer in ipairs(layers) do h = layer(h) end
    return h:square():mean()
  end
end

-- A step of it, its gradient and an update: whether it could be planned, the plan or
-- why not, a function that runs it and returns all bits.
local function random_step(seed, options)
  mrt.seed(seed)
  local leaves = { mrt.variable(mrt.randn(64, 96) * 0.1, "w1"),
    mrt.variable(mrt.randn(1, 96), "w2"), mrt.variable(mrt.randn(96, 64) * 0.1, "w3") }
  mrt.eval(leaves)
  local loss = random_loss(seed, leaves)
  mrt.seed(seed + 1)
  local step = mrt.compile(function()
    local results = { loss() }
    local grads = mrt.grad(results[1], leaves, { allow_unused = true })
    for i, w in ipairs(leaves) do w:assign(w - grads[i] * 0.01) end
    return table.unpack(results)
  end, options)
  step.quiet = options and options.swap ~= nil -- what would do is not asked
  local ok, plan = pcall(step.plan, step)
  return ok, plan, function()
    local all = {}
    for i, t in ipairs { step() } do all[i] = t:bytes() end
    step()
    for _, w in ipairs(leaves) do all[#all + 1] = w:bytes() end
    return table.concat(all, "|")
  end
end

describe("memory alone", function()
  local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 20
  after_each(function()
    core.set_poison(false)
    device.use "declared"
  end)

  it("is never slower than either way alone, within its budget, with the same bits", function()
    core.set_poison(true)
    local swaps, both = 0, 0
    -- under sanitizers each takes seconds
    for seed = 1, graphs < 20 and math.min(graphs, 2) or graphs do
      machine(({ 1e12, 1e10, 1e9, 1e7 })[seed % 4 + 1])
      local _, all, bits = random_step(seed)
      local wanted = bits()
      local memory = all.peak - math.floor((seed % 2 == 0 and 0.2 or 0.4)
        * all.transient)
      local can, alone = random_step(seed, { memory = memory,
        swap = policy.swap.none() })
      local copies, moved = random_step(seed, { memory = memory,
        checkpoint = policy.checkpoint.none() })
      local ok, plan, run = random_step(seed, { memory = memory })
      if copies then -- sums of the same seconds in another order are as good
        assert(ok and plan.seconds <= moved.seconds * (1 + 1e-9), "seed " .. seed)
      end
      if can then
        assert.equal(0, alone.swapped)
        assert(ok and plan.seconds <= alone.seconds, "seed " .. seed)
      elseif not ok then
        assert.equal("budget", plan.code)
        memory = plan.needed
        ok, plan, run = random_step(seed, { memory = memory })
        assert(ok, "seed " .. seed)
      end
      assert(plan.peak <= memory, "seed " .. seed)
      local does = plan:choices()
      if does.activations + does.variables > 0 then swaps = swaps + 1 end
      if does.activations > 0 and does.recomputed > 0 then both = both + 1 end
      assert(run() == wanted, "seed " .. seed)
    end
    if graphs < 20 then return end -- too few to tell
    assert.is_true(swaps > graphs / 5)
    assert.is_true(both > 0)
  end)

  it("swaps where copies are hidden, recomputes where they are not", function()
    local function choices(rate, options)
      machine(rate)
      local all = make():plan(x, y)
      options.memory = all.peak - all.transient // 3
      return make(options):plan(x, y):choices()
    end
    assert.equal(0, choices(1e5, {}).activations + choices(1e5, {}).variables)
    local fast = choices(1e13, {})
    assert.is_true(fast.activations + fast.variables > 0)
    assert.equal(0, fast.recomputed)
  end)

  it("swaps in deep recurrent nets too, in the order that they take least in #long", function()
    machine(1e12)
    local T, N, H, classes = 256, 8, 128, 500
    local lstm, head = nn.LSTM(50, H, { layers = 4 }), nn.Linear(H, classes)
    local params = lstm:parameters()
    table.move(head:parameters(), 1, 2, #params + 1, params)
    local function part(input, targets, h, c)
      local out
      out, h, c = lstm(input, h, c)
      return nn.cross_entropy(head(out):reshape(-1, classes), targets:reshape(-1)), h, c
    end
    local function plan(options)
      return mrt.compile(function(input, targets)
        local h, c, sum = mrt.zeros(4, N, H), mrt.zeros(4, N, H), 0
        for i = 1, T, 16 do
          local loss
          loss, h, c = mrt.layer(part, input:slice(1, i, i + 15), targets:slice(1, i, i + 15), h, c)
          sum = sum + loss
        end
        for i, g in ipairs(mrt.grad(sum, params)) do params[i]:assign(params[i] - g * 0.1) end
        return sum
      end, options):plan(mrt.zeros(T, N, 50), mrt.zeros({ T, N }, { dtype = "i32" }))
    end
    local all = plan {}
    assert.is_true(#all:steps() > 4000) -- large: fewer candidates
    local within = plan { memory = all.peak - all.transient * 4 // 5 }
    assert.is_true(within.seconds < 1.01 * all.seconds)
  end)

  it("recomputes where nobody knows how quick copies are, and swaps where it must", function()
    local function within(share, guessed, options)
      machine(1e13, guessed)
      options = options or {}
      local all = make():plan(x, y)
      options.memory = all.peak - math.floor(share * all.transient)
      return make(options):plan(x, y)
    end
    assert.is_true(within(1 / 3, false).swapped > 0)
    local plan = within(1 / 3, true)
    assert.equal(0, plan.swapped)
    assert.is_true(plan:choices().recomputed > 0)
    local ok = pcall(within, 1.2, true, { swap = policy.swap.none() })
    assert.is_false(ok)
    assert.is_true(within(1.2, true).swapped > 0)
    device.use "declared"
    assert.is_false(device.current().swap_known)
  end)

  it("says how many bytes a step copies", function()
    local out, back, step = 0, 0, make { swap = policy.swap.all { least = 1 } }
    local plan = step:plan(x, y)
    for _, t in ipairs(plan:transfers()) do
      if t.lane == "out" then out = out + t.bytes else back = back + t.bytes end
    end
    assert.same({ out, back }, { plan.copied_out, plan.copied_in })
    assert.is_true(out > 0 and back > 0)
    assert.matches("a step +[%d.]+ %a+ +[%d,]+  to the swap tier, here a file, and .- back",
      plan:text())
    assert.matches("; a step copies .* to the swap tier and .* back$", tostring(plan))
    assert.is_nil(tostring(make():plan(x, y)):find("swap", 1, true))
    local parts = make({ swap = policy.swap.all { least = 1 }, accumulate = 4 }):plan(x, y)
    assert.is_true(parts.copied_in > back)
  end)

  it("leaves to policies what they have answered #long", function()
    local function choices(options, part)
      machine(1e13)
      local all = make():plan(x, y)
      options.memory = all.peak - all.transient // (part or 3)
      return make(options):plan(x, y):choices()
    end
    local kept = choices { checkpoint = policy.checkpoint.none() }
    assert.equal(0, kept.recomputed)
    assert.is_true(kept.activations > 0)
    local held = choices { checkpoint = function() return "keep" end }
    assert.equal(0, held.recomputed + held.activations)
    assert.is_true(held.variables > 0)
    local open = choices { swap = function() return "keep" end }
    assert.equal(0, open.variables)
    assert.is_true(open.activations > 0)
    local never = choices { swap = policy.swap.none() }
    assert.equal(0, never.variables + never.activations)
    local half = choices({ checkpoint = function(value)
      return value.layer % 2 == 0 and "recompute" or "keep"
    end, swap = policy.swap.none() }, 5)
    assert.is_true(half.recomputed > 0)
    assert.equal(0, half.activations)
  end)
end)

describe("a budget below what recomputing can do", function()
  local least = select(2, pcall(function()
    local step = make { memory = 1000, swap = policy.swap.none() }
    return step:plan(x, y)
  end)).needed * 15 // 16

  it("is met by swapping, with the same bits, unless the script rules it out", function()
    local step = make { memory = least, swap = nil }
    local plain = make()
    for _ = 1, 3 do assert.equal(plain(x, y):item(), step(x, y):item()) end
    assert.is_true(step:plan(x, y).peak <= least)
    local ok, err = pcall(make { memory = least, swap = policy.swap.none() }, x, y)
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
