-- recurrent_spec.lua -- RNN, LSTM and GRU against their formulas, step by step;
-- what they keep in memory
local mrt = require "mrt"
local bits = require("support.bits").of
local nn = mrt.nn

local kinds = { "RNN", "LSTM", "GRU" }

local function near(a, b, tolerance)
  local off = (a - b):abs():amax():item()
  assert(off <= (tolerance or 1e-5), ("differs by %g"):format(off))
end

-- One step from plain operators: the new states.
local plain = {
  RNN = function(a, b) return { (a + b):tanh() } end,
  LSTM = function(a, b, states)
    local i, f, g, o = (a + b):split(states[1]:size(2), 2)
    local c = f:sigmoid() * states[2] + i:sigmoid() * g:tanh()
    return { o:sigmoid() * c:tanh(), c }
  end,
  GRU = function(a, b, states)
    local n = states[1]:size(2)
    local ar, az, an = a:split(n, 2)
    local br, bz, bn = b:split(n, 2)
    local r, z = (ar + br):sigmoid(), (az + bz):sigmoid()
    local m = (an + r * bn):tanh()
    return { (1 - z) * m + z * states[1] }
  end,
}

-- A network of kind `name` as a loop over time and layers.
local function by_hand(m, name, x, ...)
  local rows, last = {}, {}
  for t = 1, x:size(1) do rows[t] = x:select(1, t) end
  for l = 0, m.layers - 1 do
    local states = {}
    for s = 1, name == "LSTM" and 2 or 1 do
      local given = select(s, ...)
      states[s] = given and given:select(1, l + 1) or mrt.zeros(x:size(2), m.hidden)
    end
    for t, row in ipairs(rows) do
      local a = row:linear(m["weight_ih_l" .. l], m["bias_ih_l" .. l])
      local b = states[1]:linear(m["weight_hh_l" .. l], m["bias_hh_l" .. l])
      states = plain[name](a, b, states)
      rows[t] = states[1]
    end
    last[l + 1] = states[1]
  end
  return mrt.stack(rows), mrt.stack(last)
end

describe("a recurrent network", function()
  before_each(function() mrt.seed(3) end)

  it("is its formula, with its gradients, in chunks of any length #long", function()
    for _, name in ipairs(kinds) do
      for _, chunk in ipairs { 64, 2 } do
        local m = nn[name](3, 5, { layers = 2, chunk = chunk })
        local x = mrt.eval(mrt.randn(5, 4, 3))
        local states = {}
        for s = 1, name == "LSTM" and 2 or 1 do states[s] = mrt.eval(mrt.randn(2, 4, 5)) end
        local xs = m:parameters()
        xs[#xs + 1] = x
        table.move(states, 1, #states, #xs + 1, xs)
        local function loss(y, h) return (y * y * y):sum() + h:sin():sum() end
        local y, h = m(x, table.unpack(states))
        local y2, h2 = by_hand(m, name, x, table.unpack(states))
        near(y2, y)
        near(h2, h)
        local g, g2 = mrt.grad(loss(y, h), xs), mrt.grad(loss(y2, h2), xs)
        mrt.eval(g)
        mrt.eval(g2)
        for i = 1, #xs do near(g2[i], g[i], 1e-4) end
      end
    end
  end)

  it("has second derivatives", function()
    for _, name in ipairs(kinds) do
      local m = nn[name](2, 3, { chunk = 2 })
      local x = mrt.eval(mrt.randn(3, 2, 2))
      local function second(y)
        local p = m:parameters()
        local sum = 0
        for _, g in ipairs(mrt.grad((y * y * y):sum(), p)) do sum = sum + (g * g):sum() end
        return mrt.grad(sum, p)
      end
      local g, g2 = mrt.eval(second((m(x)))), mrt.eval(second((by_hand(m, name, x))))
      for i = 1, #g do near(g2[i], g[i], 1e-3) end
    end
  end)

  it("goes on from its last states, and takes the batch first", function()
    for _, name in ipairs(kinds) do
      local m = nn[name](3, 5)
      local x = mrt.eval(mrt.randn(6, 2, 3))
      local whole = m(x)
      local first = table.pack(m(x:slice(1, 1, 4)))
      local rest = m(x:slice(1, 5, 6), table.unpack(first, 2))
      near(whole, mrt.cat { first[1], rest })
      local turned = nn[name](3, 5, { batch_first = true }):load_state(m:state())
      near(whole:transpose(1, 2), (turned(x:transpose(1, 2))))
    end
  end)

  it("keeps no gradient of a weight for every step #long", function()
    for _, name in ipairs(kinds) do
      local m = nn[name](8, 32, { chunk = 8 })
      local rows = m.weight_hh_l0:size(1)
      local function plan_of(time)
        local step = mrt.compile(function(x)
          return mrt.grad(((m(x)) ^ 2):sum(), m:parameters())[2]
        end)
        local plan, products = step:plan(mrt.zeros(time, 2, 8)), 0
        local ours = ("f32[%d,32]"):format(rows)
        for _, value in ipairs(plan:values()) do
          if value.type == ours and value.op == "matmul" then products = products + 1 end
        end
        return plan, products
      end
      local short, one = plan_of(8)
      local long, four = plan_of(32)
      assert.is_true(one <= 1 and four <= 4, ("%d, %d products"):format(one, four))
      -- states, gates and results grow; gradients of weights do not
      local a_step = 2 * 32 * 4 * 16
      assert.is_true(long.transient - short.transient < 24 * a_step + 2 * rows * 32 * 4)
    end
  end)

  it("drops between layers while training, the same in micro-batches", function()
    for _, name in ipairs(kinds) do
      local x = mrt.eval(mrt.randn(6, 5, 3))
      local function train(k)
        mrt.seed(9)
        local m = nn[name](3, 4, { layers = 2, dropout = 0.5, batch_first = true })
        mrt.eval(m:parameters())
        local plain_y = bits { (m:eval()(x)) }
        m:train()
        local step = mrt.compile(function(rows)
          local loss = ((m(rows)) ^ 2):mean()
          for i, g in ipairs(mrt.grad(loss, m:parameters())) do
            m:parameters()[i]:assign(m:parameters()[i] - g)
          end
          return loss
        end, { accumulate = k })
        mrt.seed(10)
        step(x)
        return m, plain_y
      end
      local whole, parts = train(1), train(3)
      for i, p in ipairs(whole:parameters()) do near(p, parts:parameters()[i]) end
    end
  end)

  it("refuses what does not fit", function()
    local lstm = nn.LSTM(3, 4, { layers = 2 })
    assert.error_matches(function() lstm(mrt.zeros(5, 3)) end, "LSTM: .*%[T, N, 3%]")
    assert.error_matches(function() lstm(mrt.zeros(5, 2, 4)) end, "LSTM: .*%[T, N, 3%]")
    assert.error_matches(function() lstm(mrt.zeros(0, 2, 3)) end, "at least one step")
    assert.error_matches(function() lstm(mrt.zeros(5, 2, 3), mrt.zeros(1, 2, 4)) end,
      "initial state 1 is f32%[1,2,4%], %[2,2,4%] wanted")
    assert.error_matches(function() lstm(mrt.zeros(5, 2, 3), { mrt.zeros(2, 2, 4) }) end,
      "initial state 1: a tensor wanted, got a table")
    assert.error_matches(function() nn.GRU(3, 4, { chunk = 65 }) end, "chunk = 65")
    assert.error_matches(function() nn.GRU(3, 4, { nonlinearity = "relu" }) end,
      "no option 'nonlinearity'")
    assert.error_matches(function() nn.RNN(3, 4, { nonlinearity = "gelu" }) end, "'gelu'")
    assert.error_matches(function() nn.RNN(3) end, "hidden: a positive integer")
  end)
end)

describe("a recurrent network within a budget", function()
  local policy = mrt.policy
  local checkpoint = policy.checkpoint

  -- Planning one step: the plan, or why there is none.
  local function plan(name, layers, steps, options, quiet)
    local net = nn[name](8, 64, { layers = layers })
    local params = net:parameters()
    local opt = mrt.optim.sgd(params, { lr = 0.1 })
    local step = mrt.compile(function(x)
      local loss = net(x):square():mean()
      opt:step(mrt.grad(loss, params))
      return loss
    end, options)
    step.quiet = quiet -- what would do is not asked
    return pcall(step.plan, step, mrt.zeros(steps, 16, 8))
  end

  local function within(name, layers, steps, memory)
    return plan(name, layers, steps, { memory = memory, swap = policy.swap.none() },
      true)
  end

  it("never needs more than segments do #long", function()
    for _, case in ipairs { { "LSTM", 1, 16 }, { "LSTM", 2, 10 }, { "LSTM", 4, 6 },
      { "GRU", 2, 12 } } do
      local name, layers, steps = table.unpack(case)
      for _, p in ipairs { checkpoint.sqrt(), checkpoint.every(1), checkpoint.segments(2) } do
        local _, theirs = plan(name, layers, steps, { checkpoint = p })
        local ok, ours = within(name, layers, steps, theirs.peak)
        assert(ok, ("%s, %d layers, %d steps, %s"):format(name, layers, steps, p))
        assert.is_true(ours.peak <= theirs.peak)
        -- a plan is thought to run 200 times: less than 20 ms is not searched for
        assert(ours.seconds <= theirs.seconds * 1.02 + 0.02 / 200,
          ("%s, %s: %g s for %g s"):format(name, p, ours.seconds, theirs.seconds))
      end
    end
  end)

  it("is refused with a budget that does #long", function()
    for _, case in ipairs { { "LSTM", 2, 6 }, { "GRU", 2, 7 } } do
      local name, layers, steps = table.unpack(case)
      local ok, why = plan(name, layers, steps, { memory = 1000,
        swap = policy.swap.none() })
      assert.is_false(ok)
      local again, ours = within(name, layers, steps, why.needed)
      assert(again, ("%s: %d bytes"):format(name, why.needed))
      assert.is_true(ours.peak <= why.needed)
    end
  end)
end)
