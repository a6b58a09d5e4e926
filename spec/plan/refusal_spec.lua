-- Budgets that nothing meets: refused at once, with one that is met.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

-- Makes a step under options, and what it is called with.
local function gpt(options)
  mrt.seed(1)
  local model = nn.GPT { vocab = 64, context = 16, layers = 2, heads = 2, dim = 32 }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  return mrt.compile(function(x)
    local loss = model:loss(x, x)
    opt:step(mrt.grad(loss, params))
    return loss
  end, options), mrt.randint(0, 64, { 4, 16 }, { dtype = "i64" })
end

local function recurrent(options)
  mrt.seed(1)
  local net, head = nn.LSTM(8, 32, { batch_first = true }), nn.Linear(32, 4)
  local params = net:parameters()
  table.move(head:parameters(), 1, 2, #params + 1, params)
  local opt = optim.adam(params, { lr = 1e-3 })
  return mrt.compile(function(x)
    local loss = (head((net(x))) ^ 2):mean()
    opt:step(mrt.grad(loss, params))
    return loss
  end, options), mrt.randn(4, 32, 8)
end

local function chain(options)
  mrt.seed(1)
  local w = mrt.parameter(mrt.randn(16, 16) * 0.1, "w")
  return mrt.compile(function(x)
    for _ = 1, 60 do x = x:matmul(w):tanh() end
    local loss = (x ^ 2):mean()
    return loss, mrt.grad(loss, w)
  end, options), mrt.randn(16, 16)
end

local none, bf16 = policy.swap.none(), policy.precision.bf16()
local others = {
  gpt = { {}, { accumulate = 2, precision = bf16 }, { checkpoint = policy.checkpoint.every(1) } },
  recurrent = { { swap = none }, { precision = bf16 }, { accumulate = 2, swap = none } },
  chain = { {}, { swap = none }, { accumulate = 2 }, { compress = 0.01 } },
}

local function with(options, memory)
  local own = { memory = memory }
  for k, v in pairs(options) do own[k] = v end
  return own
end

local function plan(make, options)
  local step, x = make(options)
  return pcall(step.plan, step, x)
end

describe("a budget that nothing meets", function()
  for name, make in pairs { gpt = gpt, recurrent = recurrent, chain = chain } do
    it("is refused with one that is met, of a " .. name, function()
      for i, options in ipairs(others[name]) do
        local kept = select(2, plan(make, options))
        local ok, err = plan(make, with(options, 1024))
        assert.is_false(ok)
        assert.equal("budget", err.code)
        local label = ("%s, options %d, %d named"):format(name, i, err.needed)
        assert.is_true(err.needed > 1024 and err.needed <= kept.peak, label)
        local fits, made = plan(make, with(options, err.needed))
        assert.is_true(fits, label .. tostring(made))
        assert.is_true(made.peak <= err.needed, label)
        assert.matches("at its peak, in .*live\n", err.message)
        assert.is_nil(err.plan)
      end
    end)

    it("is not what recomputing alone keeps to, of a " .. name, function()
      for i, options in ipairs(others[name]) do
        local alone = with(options, 1024)
        alone.swap = none
        local needed = select(2, plan(make, alone)).needed
        local swaps = with(options, needed)
        swaps.swap = nil
        assert(plan(make, swaps), ("%s, options %d"):format(name, i))
      end
    end)
  end

  it("is refused after a little work, with the same least", function()
    local least = select(2, plan(recurrent, { memory = 1024 })).needed
    for _, memory in ipairs { 1024, least // 2 } do
      local began = os.clock()
      local ok, err = plan(recurrent, { memory = memory })
      assert.is_true(not ok and err.needed == least)
      assert.is_true(os.clock() - began < 5)
    end
  end)

  it("gives the same bits at the least that is named", function()
    local small = select(2, plan(recurrent, { memory = 1024 })).needed
    local a, x = recurrent {}
    local wanted = {}
    for i = 1, 3 do wanted[i] = a(x):item() end
    local b = recurrent { memory = small }
    for i = 1, 3 do assert.equal(wanted[i], b(x):item()) end
    assert.is_true(b:plan(x).peak <= small)
  end)
end)
