--- memory_spec.lua -- a run takes what its plan says; garbage and depth are bounded
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local training = require "support.training"
local nn, optim = mrt.nn, mrt.optim

local program = os.getenv "MRT" or "build/mrt"

local function now() return training.memory().now end

local function trained(model)
  return training.step(model, optim.adamw(model:parameters(), { lr = 1e-3 }), nil,
    { clip = 1.0 })
end

local cases = {
  { name = "an MLP",
    model = function()
      return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 5))
    end,
    batch = function(n) return mrt.randn(n, 20), mrt.randint(0, 5, n) end },
  { name = "a GPT",
    model = function()
      return nn.GPT { vocab = 31, dim = 48, layers = 2, heads = 3, context = 16, dropout = 0.1 }
    end,
    batch = function(n) return mrt.randint(0, 31, n, 16), mrt.randint(0, 31, n, 16) end },
}

-- Train on x, y and compare what is allocated with what the plan says.
local function exercise(case, before, x, y)
  local step = trained(case.model())
  local plan = step:plan(x, y)
  assert.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
  assert.is_true(plan.peak <= 1.03 * plan.lower_bound)
  local loss = step(x, y)
  assert.equal(plan.peak + plan.inputs, now() - before)
  mrt.memory { reset = true }
  for _ = 1, 3 do
    loss:free()
    loss = step(x, y)
  end
  assert.equal(plan.peak + plan.inputs, mrt.memory().peak - before)
end

describe("the peak of a plan", function()
  for _, case in ipairs(cases) do
    it("is what a run allocates, to the byte: " .. case.name, function()
      local before = now()
      local x, y = mrt.eval(case.batch(8))
      local inputs = now() - before
      exercise(case, before, x, y)
      assert.equal(inputs, now() - before)
    end)
  end

  it("is shared: the plans of one function take turns in the largest arena", function()
    local before = now()
    local step = trained(cases[2].model())
    local inputs, plans, expected, transient = {}, {}, 0, 0
    for i, n in ipairs { 4, 9, 2 } do
      local x, y = mrt.eval(cases[2].batch(n))
      inputs[i], plans[i] = { x, y }, step:plan(x, y)
    end
    for i in ipairs(plans) do step(table.unpack(inputs[i])):free() end
    for _, plan in ipairs(plans) do
      expected = expected + plan.inputs + plan.outputs
      transient = math.max(transient, plan.transient)
    end
    assert.equal(expected + transient + plans[1].persistent, now() - before)
  end)

  it("leaves results that are still held their bits", function()
    local step = mrt.compile(function(x) return x * 2, (x + 1):sum() end)
    local held = {}
    for i = 1, 5 do held[i] = { step(mrt.full({ 3 }, i)) } end
    for i = 1, 5 do
      assert.same({ 2 * i, 2 * i, 2 * i }, held[i][1]:totable())
      assert.equal(3 * i + 3, held[i][2]:item())
    end
  end)
end)

-- Runs in a process of its own, once what libraries keep is warm.
local growth = [[
  local mrt = require "mrt"
  local nn, optim = mrt.nn, mrt.optim
  local function status(name)
    for line in io.lines "/proc/self/status" do
      local kib = line:match("^" .. name .. ":%s*(%d+)")
      if kib then return kib * 1024 end
    end
  end
  local function train(width, batch)
    local model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width),
      nn.GELU(), nn.Linear(width, 10))
    local opt = optim.adamw(model:parameters())
    local step = mrt.compile(function(x, y)
      local loss = nn.cross_entropy(model(x), y)
      opt:step(mrt.grad(loss, model:parameters()))
      return loss
    end)
    local x, y = mrt.eval(mrt.randn(batch, 64), mrt.randint(0, 10, batch))
    local plan = step:plan(x, y)
    for _ = 1, 3 do step(x, y):item() end
    return plan.peak + plan.inputs
  end
  train(64, 16)
  collectgarbage()
  local before = status "VmRSS"
  print(train(2048, 256), status "VmHWM" - before)]]

describe("a process #process", function()
  it("grows by no more than the peak and 3% or 16 MiB", function()
    local pipe = io.popen(("%s -e '%s'"):format(program, growth))
    local peak, grown = pipe:read("n", "n")
    assert.is_true(pipe:close())
    assert.is_true(peak > 40 << 20)
    local allowed = peak + math.max(0.03 * peak, 16 << 20)
    assert(grown <= allowed, ("grew by %d, allowed are %d"):format(grown, allowed))
  end)
end)

describe("lazy tensors", function()
  it("leave bounded garbage", function()
    collectgarbage()
    local before, heap = now(), collectgarbage "count" * 1024
    mrt.memory { reset = true }
    for i = 1, 2000 do mrt.eval(mrt.full({ 1 << 18 }, i)) end
    -- batches grow with Lua's own heap (bindings/module/pressure.c)
    local allowed = math.max(64 << 20, 16 * heap)
    assert(mrt.memory().peak - before < allowed, mrt.memory().peak - before)
  end)

  it("may be chained deeply, evaluated, differentiated and freed", function()
    local before = now()
    do
      local x = mrt.variable(mrt.ones(1))
      local y = x * 1
      for _ = 1, 100000 do y = y + x end
      assert.equal("f32[1]\n[100001.0]", tostring(y))
      local g = mrt.grad(y:sum(), x) -- printing let nothing go that this needs
      assert.equal(100001, g:item())
    end
    assert.equal(before, now())
    do
      local pending = mrt.ones(1)
      for _ = 1, 100000 do pending = pending + 1 end
    end
    assert.equal(before, now())
  end)

  it("cost nothing before they are needed: parameters of any size", function()
    local before, count = now(), 0
    local model = nn.GPT { vocab = 50257, dim = 12288, layers = 96, heads = 96, context = 2048 }
    for _, p in ipairs(model:parameters()) do count = count + p:numel() end
    assert.is_true(count > 174e9)
    assert.equal(before, now())
  end)
end)
