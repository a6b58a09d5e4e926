--- checkpoint_spec.lua -- what is not kept is computed again: the same bits, in
--- the memory and with the work that each policy promises
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"
local random_program = require "support.random_program"
local nn, optim, checkpoint = mrt.nn, mrt.optim, mrt.policy.checkpoint

local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 40

local shipped = {
  checkpoint.none(), checkpoint.all(), checkpoint.every(1), checkpoint.every(2),
  checkpoint.segments(2), checkpoint.sqrt(), checkpoint.selective(),
  checkpoint.selective { keep = { "matmul" } },
  checkpoint.selective { recompute = { "matmul", "norm" } }, checkpoint.names {},
  checkpoint.budget "50%", checkpoint.budget "10%", checkpoint.budget(1),
}

-- A policy that answers at random, the same for the same seed.
local function at_random(seed)
  local answers = { "keep", "recompute", "recompute" }
  return function(value)
    local random = random_graph.generator(seed * 977 + value.first_use)
    return answers[random(3) + 0], random(10)
  end
end

local function now()
  collectgarbage()
  collectgarbage()
  return mrt.memory().now
end

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err), err
end

-- ---- what a plan does --------------------------------------------------------

local function kept(plan) return plan:kept() end

-- How often nodes of an operator run again.
local function again(plan, op)
  local count = 0
  for _, s in ipairs(plan:steps()) do
    if s.recomputed and (not op or s.op:find(op, 1, true)) then count = count + 1 end
  end
  return count
end

-- Bytes of activations alive at once.
local function alive(plan)
  local change, now_alive, most = {}, 0, 0
  for _, v in ipairs(plan:values()) do
    if v.kind == "activation" then
      change[v.first] = (change[v.first] or 0) + v.bytes
      change[v.last + 1] = (change[v.last + 1] or 0) - v.bytes
    end
  end
  for i = 1, plan.nodes do
    now_alive = now_alive + (change[i] or 0)
    most = math.max(most, now_alive)
  end
  return most
end

-- ---- steps -------------------------------------------------------------------

local function training(model, options)
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-2 })
  return mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options)
end

local cases = {
  { name = "an MLP with dropout",
    model = function()
      return nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 32),
        nn.LayerNorm(32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 5))
    end,
    batch = function() return mrt.randn(16, 20), mrt.randint(0, 5, 16) end },
  { name = "a GPT with dropout",
    model = function()
      return nn.GPT { vocab = 31, dim = 32, layers = 4, heads = 2, context = 16, dropout = 0.1 }
    end,
    batch = function() return mrt.randint(0, 31, 4, 16), mrt.randint(0, 31, 4, 16) end },
}

-- Losses and parameters of three steps, and the plan.
local function train(case, options)
  mrt.seed(11)
  local model = case.model()
  mrt.eval(model:parameters())
  local x, y = mrt.eval(case.batch())
  mrt.seed(12)
  local step = training(model, options)
  local bits = {}
  for i = 1, 3 do
    bits[i] = step(x, y):bytes()
  end
  for _, p in ipairs(model:parameters()) do
    bits[#bits + 1] = p:bytes()
  end
  return table.concat(bits, "|"), step:plan(x, y)
end

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

setup(function() core.set_poison(true) end)
teardown(function() core.set_poison(false) end)

describe("recomputing changes no bit", function()
  for _, case in ipairs(cases) do
    it("of losses and parameters: " .. case.name, function()
      local wanted, full = train(case)
      local policies = { table.unpack(shipped) }
      for seed = 1, 6 do policies[#policies + 1] = at_random(seed) end
      for i, policy in ipairs(policies) do
        local bits, plan = train(case, { checkpoint = policy })
        assert(bits == wanted, ("policy %d, %s: other bits"):format(i, tostring(policy)))
        assert.is_true(plan.peak >= plan.lower_bound)
      end
      for _, percent in ipairs { 70, 45 } do
        local memory = full.peak * percent // 100
        local ok, bits, plan = pcall(train, case, { memory = memory })
        if not ok then
          assert.equal("budget", bits.code)
          break
        end
        assert(bits == wanted, ("budget %d%%: other bits"):format(percent))
        assert.is_true(plan.peak <= memory)
      end
    end)
  end

  it("of programs made at random, eager or compiled", function()
    for seed = 1, graphs do
      local policy = seed % 3 == 0 and at_random(seed) or shipped[seed % #shipped + 1]
      local ok, err = pcall(random_program.run, random_graph.generator(seed),
        { checkpoint = policy })
      assert(ok, ("seed %d, %s: %s"):format(seed, tostring(policy), tostring(err)))
    end
  end)

  it("of graphs made at random, trained by updates in the same step", function()
    local function run(seed, options)
      mrt.seed(seed)
      local leaves = { mrt.variable(mrt.randn(4, 6)), mrt.variable(mrt.randn(1, 6)),
        mrt.variable(mrt.randn(6, 4)) }
      mrt.eval(leaves)
      mrt.seed(seed + 1)
      local program = random_graph.program(seed, 4 + seed % 20)
      local step = mrt.compile(function()
        local results = program(leaves, function(t) return t end)
        local grads = mrt.grad(results[1], leaves, { allow_unused = true })
        for i, w in ipairs(leaves) do w:assign(w - grads[i] * 0.01) end
        return table.unpack(results)
      end, options)
      step.quiet = true -- what else would do is not asked
      local bits = {}
      for _, t in ipairs { step() } do bits[#bits + 1] = mrt.eval(t):bytes() end
      for _, t in ipairs(leaves) do bits[#bits + 1] = mrt.eval(t):bytes() end
      return table.concat(bits, "|"), step:plan()
    end
    for seed = 1, graphs do
      local wanted, full = run(seed)
      local memory = full.working_set + (full.peak - full.working_set) * (1 + seed % 3) // 4
      for _, options in ipairs { { checkpoint = shipped[seed % #shipped + 1] },
        { checkpoint = at_random(seed) }, seed <= 12 and { memory = memory } or nil } do
        local ok, bits, plan = pcall(run, seed, options)
        if not ok then
          assert(bits.code == "budget", ("seed %d: %s"):format(seed, tostring(bits)))
        else
          assert(bits == wanted, ("seed %d: other bits"):format(seed))
          assert(not options.memory or plan.peak <= options.memory)
        end
      end
    end
  end)
end)

describe("a plan with clones", function()
  it("takes what it says, to the byte", function()
    for _, policy in ipairs { checkpoint.sqrt(), checkpoint.all(), checkpoint.budget "30%" } do
      local before = now()
      local x, y = mrt.eval(cases[2].batch())
      local step = training(cases[2].model(), { checkpoint = policy })
      local plan = step:plan(x, y)
      local loss = step(x, y)
      assert.equal(plan.peak + plan.inputs, now() - before)
      mrt.memory { reset = true }
      for _ = 1, 3 do
        loss:free()
        loss = step(x, y)
      end
      assert.equal(plan.peak + plan.inputs, mrt.memory().peak - before)
    end
  end)

  it("runs no update twice, and nothing after what it reads was updated", function()
    -- One weight in both layers, another updated before the first layer's backward
    -- pass ends.
    local function run(options)
      mrt.seed(3)
      local w, v = mrt.parameter(mrt.randn(8, 8), "w"), mrt.parameter(mrt.randn(8, 8), "v")
      mrt.eval(w, v)
      local step = mrt.compile(function(x)
        local y = x:matmul(w):tanh():matmul(v):tanh():matmul(w):tanh()
        local loss = (y * y):sum()
        local dw, dv = table.unpack(mrt.grad(loss, { w, v }))
        w:assign(w - dw * 0.1)
        v:assign(v - dv * 0.1)
        return loss
      end, options)
      local bits = {}
      for i = 1, 4 do bits[i] = step(mrt.full({ 4, 8 }, 0.5)):bytes() end
      local plan = step:plan(mrt.full({ 4, 8 }, 0.5))
      return table.concat(bits) .. w:bytes() .. v:bytes(), plan
    end
    local wanted = run()
    for _, policy in ipairs(shipped) do
      local bits, plan = run { checkpoint = policy }
      assert.equal(wanted, bits)
      local updated = {}
      local steps, values = plan:steps(), plan:values()
      for i, o in ipairs(plan:operands()) do
        for _, r in ipairs(o.reads) do
          assert(not (steps[i].recomputed and updated[r]), tostring(policy))
        end
        for _, k in ipairs(o.writes) do
          if values[k].kind == "variable" then
            assert.is_false(steps[i].recomputed)
            updated[k] = true
          end
        end
      end
    end
  end)

  it("keeps tied weights right", function()
    local function run(tie, options)
      return train({ model = function()
        return nn.GPT { vocab = 17, dim = 16, layers = 3, heads = 2, context = 8, tie = tie }
      end, batch = function() return mrt.randint(0, 17, 3, 8), mrt.randint(0, 17, 3, 8) end },
        options)
    end
    for _, tie in ipairs { true, false } do
      local wanted = run(tie)
      for _, policy in ipairs { checkpoint.all(), checkpoint.sqrt() } do
        assert.equal(wanted, (run(tie, { checkpoint = policy })))
      end
    end
  end)
end)

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
      assert.is_true(kept(plan) <= kept(full) * percent / 100)
      assert.is_true(kept(plan) > kept(full) * percent / 100 - 2 * ACTIVATION)
      assert.is_true(again(plan, "matmul") <= LAYERS * (100 - percent) // 100 + 8, percent)
    end
    for _, n in ipairs { 2, 5, 20 } do
      local plan = chain_plan(checkpoint.budget(n * ACTIVATION))
      assert.is_true(kept(plan) <= n * ACTIVATION)
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
    local all = kept(full)
    for _, percent in ipairs { 100, 60, 30, 10, 3 } do
      local _, plan = train(cases[2], { checkpoint = checkpoint.budget(percent .. "%") })
      assert.is_true(kept(plan) <= all * percent // 100, percent)
      _, plan = train(cases[2], { checkpoint = checkpoint.budget(all * percent // 100) })
      assert.is_true(kept(plan) <= all * percent // 100, percent)
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
      local text = failure(plan_of, policy)
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
      assert(again(plan) > 0 and kept(plan) < kept(full), ("way %d keeps too much"):format(i))
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
    assert.matches("checkpoint: a function or module wanted, got number",
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

describe("bad input", function()
  local function step_with(options)
    local w = mrt.parameter(mrt.ones(8, 8), "w")
    return mrt.compile(function(x)
      local y = x:matmul(w):tanh():matmul(w):tanh()
      local loss = (y * y):sum()
      return loss, mrt.grad(loss, w)
    end, options)
  end
  local x = mrt.zeros(4, 8)

  local function fails(checkpoint_option)
    return failure(function() return step_with { checkpoint = checkpoint_option }:plan(x) end)
  end

  it("of a policy is told with its line, and what it was asked about", function()
    local text = fails(function(value) return value.nothing.here end)
    assert.matches("the policy %(spec/checkpoint_spec.lua:%d+%) failed on .-, "
      .. "spec/checkpoint_spec.lua:%d+ %(f32", text)
    assert.matches("spec/checkpoint_spec.lua:%d+: attempt to index a nil value", text)
    text = fails(function() error { message = "own" } end)
    assert.matches("own", text)
    assert.matches("answered \"maybe\" for .-\"keep\", \"recompute\" or \"swap\" wanted",
      fails(function() return "maybe" end))
    assert.matches("answered 3 for ", fails(function() return 3 end))
    assert.matches("answered a table", fails(function() return {} end))
    assert.matches("gave the priority \"high\" for ", fails(function() return "keep", "high" end))
    assert.matches("gave the priority .?nan for ", fails(function() return "keep", 0 / 0 end))
    assert.matches("option 'checkpoint': a policy or a function wanted, got \"sqrt\"",
      fails "sqrt")
    assert.matches("policy.checkpoint.sqrt makes a policy and must be called",
      fails(checkpoint.sqrt))
    local step = step_with()
    assert.equal("number", type(step:plan(x).peak)) -- and all goes on
  end)

  it("of a policy that changes what it is shown, or stops halfway, does no harm", function()
    local wanted = step_with():plan(x).peak
    assert.matches("read%-only: 'bytes' cannot be set",
      fails(function(value) value.bytes = nil end))
    local step = step_with { checkpoint = function(value, plan)
      assert(not pcall(function() plan[1] = nil end) and #plan > 1 and plan[1].op)
      assert(not pcall(function() plan.variables.w = nil end) and plan.variables.w)
      for key, field in pairs(value) do assert(value[key] == field) end
      return "keep"
    end }
    assert.equal(wanted, step:plan(x).peak)
    local calls = 0
    step = step_with { checkpoint = function()
      calls = calls + 1
      if calls == 2 then error "not now" end
      return "keep"
    end }
    assert.matches("not now", failure(step.plan, step, x))
    assert.equal(wanted, step:plan(x).peak)
  end)

  it("of a policy that plans another step while it is asked is refused or done", function()
    local step = step_with { checkpoint = function()
      local ok, err = pcall(function() return step_with():plan(x) end)
      assert(ok or tostring(err):find("trac"), tostring(err))
      return "recompute"
    end }
    assert.is_true(step:plan(x).peak > 0)
    step = step_with { checkpoint = function()
      pcall(function() return mrt.eval(mrt.zeros(3) + 1) end)
      return "recompute"
    end }
    local loss = step(x)
    assert.equal(0, loss:item())
  end)

  it("of shipped policies names what would do", function()
    for _, case in ipairs { { checkpoint.every, 0 }, { checkpoint.every, 1.5 },
      { checkpoint.every }, { checkpoint.segments, -1 }, { checkpoint.segments, "4" } } do
      assert.matches("a positive integer wanted, got", failure(table.unpack(case)))
    end
    assert.matches("a list of names wanted, got nil", failure(checkpoint.names))
    assert.matches("a list of names wanted, it has 1 = 7", failure(checkpoint.names, { 7 }))
    assert.matches("no option 'drop' %(options: keep, recompute%)",
      failure(checkpoint.selective, { drop = {} }))
  end)

  it("of budgets says what parses", function()
    for _, good in ipairs { "2 GiB", 2e9, "50%", " 12.5 % ", "512MiB", 4096, "1e6", "100%" } do
      checkpoint.budget(good)
      if not tostring(good):find "%%" then step_with { memory = good } end
    end
    for _, bad in ipairs { "2 apples", -1, 0, "", "101%", "%", "-5%", "1.2.3%", 0 / 0, 1 / 0,
      "many", {}, true } do
      assert.matches("; \"50%%\" is a share of what is kept",
        failure(checkpoint.budget, bad))
      assert.matches("option 'memory': .* is not a number of bytes; 6GiB",
        failure(step_with, { memory = bad }))
    end
    assert.matches("'50%%' is not a number of bytes", failure(step_with, { memory = "50%" }))
  end)

  it("of memory below what is possible leaves nothing half done", function()
    local step = step_with { memory = 100 }
    for _ = 1, 2 do
      local text, err = failure(step.plan, step, x)
      assert.equal("budget", err.code)
      assert.matches("memory = 100 B is too little", text)
    end
    local least = tonumber(select(2, pcall(step.plan, step, x)).needed)
    local plan = step_with { memory = least }:plan(x)
    assert.is_true(plan.peak <= least)
    assert.equal(0, step_with { memory = least }(x):item())
  end)
end)
