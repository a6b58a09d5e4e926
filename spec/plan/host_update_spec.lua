-- host_update_spec.lua -- updates that the CPU makes in the swap tier, where the variables
-- lie: the same bits, the bytes that were planned, taken where they are quicker
--
-- The toy device has memory of its own and the host's as its swap tier; with MRT_CUDA the
-- CUDA device is tried too.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require "support.bits"
local failure = require "support.failure"
local program = require "support.program"
local random_graph = require "support.random_graph"
local training = require "support.training"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local devices = { "toy:0" }
if os.getenv "MRT_CUDA" then devices[2] = "cuda:0" end

local optimizers = {
  { "adamw", { lr = 1e-2, weight_decay = 0.1 } }, { "adam", { lr = 1e-2 } },
  { "sgd", { lr = 1e-1, momentum = 0.9 } }, { "rmsprop", { lr = 1e-2 } },
  { "lion", { lr = 1e-3 } }, { "adamw", { lr = 1e-2, state = "8bit" } },
}

-- A model, its optimizer and a step on the present device.
local function trainer(options, o)
  o = o or {}
  mrt.seed(3)
  local model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1),
    nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5))
  local kind = optimizers[o.optimizer or 1]
  local opt = optim[kind[1]](model:parameters(), kind[2])
  return training.step(model, opt, options, { clip = o.clip }), model, opt
end

local function batch(i)
  mrt.seed(100 + i)
  return mrt.eval(mrt.randn(16, 64)), mrt.eval(mrt.randint(0, 5, 16))
end

-- Three steps: the bits of all that they leave, and the plan.  `exact`: what is in the
-- swap tier then is what was planned.
local function train(device, options, o)
  mrt.device(device)
  local before = training.memory().swapped
  local step, model, opt = trainer(options, o)
  local losses = {}
  for i = 1, 3 do
    if o and o.elastic and i == 3 then -- refused or not, the run goes on
      pcall(step.budget, step, step:plan(batch(1)).peak * 3 // 4)
    end
    losses[i] = step(batch(i)):item()
  end
  local plan = step:plan(batch(1))
  if o and o.exact then assert.equal(plan.swapped, training.memory().swapped - before) end
  return table.concat(losses, " ") .. bits.trained(model, opt), plan
end

local function in_tier(plan)
  local n = 0
  for _, s in ipairs(plan:steps()) do
    if s.in_tier then
      assert.is_true(s.hosted)
      n = n + 1
    end
  end
  return n
end

describe("updates on the host", function()
  after_each(function()
    mrt.device "cpu"
    require("mrt.core").set_poison(false)
  end)

  it("are made where the state is swapped to, with the same bits and in fewer bytes", function()
    local swap = policy.swap.optimizer { least = 4096 }
    for _, device in ipairs(devices) do
      for i = 1, #optimizers do
        local o = { optimizer = i, clip = i % 2 == 0 and 1 or nil, exact = true }
        local wanted, plain = train(device, {}, o)
        local copied, there = train(device, { swap = swap, update_on_host = false }, o)
        local got, here = train(device, { swap = swap, update_on_host = true }, o)
        local what = device .. " " .. optimizers[i][1]
        assert(wanted == copied and wanted == got, what)
        assert.equal(0, in_tier(there), what)
        assert.equal(2, in_tier(here), what) -- of the large matrices
        assert.is_true(here.peak < there.peak and there.peak < plain.peak + 4096 * 8, what)
        assert.equal(there.swapped, here.swapped, what)
        assert.equal(0, here.copied_in + here.copied_out, what) -- but for gradients, staged
      end
    end
  end)

  it("are chosen where they are predicted quicker", function()
    for _, device in ipairs(devices) do
      for _, rule in ipairs { policy.swap.optimizer { least = 1 },
        policy.swap.all { least = 1 } } do
        local seconds = {}
        for i, choice in ipairs { true, false, "none" } do
          local _, plan = train(device, { swap = rule,
            update_on_host = choice ~= "none" and choice or nil })
          seconds[i] = plan.seconds
        end
        assert.equal(math.min(seconds[1], seconds[2]), seconds[3], device)
      end
    end
  end)

  it("meet budgets that copies cannot", function()
    for _, device in ipairs(devices) do
      local wanted = train(device, {})
      local problem = failure(train, device, { memory = 1000, update_on_host = false })
      local memory = problem.needed * 7 // 8
      problem = failure(train, device, { memory = memory, update_on_host = false })
      assert.equal("budget", problem.code)
      local got, plan = train(device, { memory = memory })
      assert(got == wanted, device)
      assert.is_true(plan.peak <= memory and in_tier(plan) > 0)
      assert.matches("variables are swapped to the host", plan:text())
    end
  end)

  it("keep the bits beside whatever else a step is told", function()
    local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 24
    local some = 0
    for seed = 1, graphs do
      local random = random_graph.generator(seed)
      local o = { optimizer = random(#optimizers), clip = random(2) == 1 and 1 or nil }
      local device = devices[random(#devices)]
      local given = { accumulate = ({ 1, 2, 4 })[random(3)],
        precision = random(3) == 1 and policy.precision.bf16() or nil,
        compress = random(4) == 1 and "int8" or nil }
      local wanted, plain = train(device, given, o)
      given.swap = ({ policy.swap.optimizer { least = 1 }, policy.swap.all { least = 1 },
        policy.swap.weights { least = 1 } })[random(4)]
      given.checkpoint = ({ policy.checkpoint.sqrt(), policy.checkpoint.all() })[random(3)]
      if not given.swap or random(2) == 1 then
        given.memory = plain.peak - random(plain.persistent // 2)
      end
      given.update_on_host, o.elastic = true, random(3) == 1
      require("mrt.core").set_poison(random(2) == 1)
      local ok, got, plan = pcall(train, device, given, o)
      require("mrt.core").set_poison(false)
      if ok then
        assert(got == wanted, "seed " .. seed)
        some = some + in_tier(plan)
      else
        assert.equal("budget", got.code, tostring(got))
        given.memory, o.elastic = got.needed, nil
        got = train(device, given, o)
        assert(got == wanted, "seed " .. seed)
      end
    end
    assert.is_true(graphs < 8 or some > graphs // 2)
  end)

  it("leave to copies what is used after its update, or written twice", function()
    mrt.device(devices[1])
    local w, mean = mrt.variable(mrt.ones(64, 64), "w"), mrt.variable(mrt.zeros(64, 64), "mean")
    local function step(host)
      return mrt.compile(function(x)
        w:assign(w + x)
        mean:assign(mean + (w - mean) * 0.5) -- reads w again
        return mean:sum()
      end, { swap = function() return "swap" end, update_on_host = host })
    end
    local x = mrt.eval(mrt.ones(64, 64))
    local here = step(true)
    local steps = here:plan(x):steps()
    for _, s in ipairs(steps) do
      if s.in_tier then assert.is_nil(tostring(s.file):match "^$") end
    end
    local sums = {}
    for i = 1, 3 do sums[i] = here(x):item() end
    mrt.device "cpu"
    w, mean = mrt.variable(mrt.ones(64, 64), "w"), mrt.variable(mrt.zeros(64, 64), "mean")
    local plain = step()
    x = mrt.eval(mrt.ones(64, 64))
    for i = 1, 3 do assert.equal(plain(x):item(), sums[i]) end
  end)

  it("are read and saved as any state, while a device queues too", function()
    local script = [[
      local mrt = require "mrt"
      local nn, optim = mrt.nn, mrt.optim
      mrt.device "toy"
      local function make(host)
        mrt.seed(1)
        local m = nn.Linear(64, 64)
        local opt = optim.adamw(m:parameters(), { lr = 0.1 })
        return mrt.compile(function(x)
          local loss = (m(x) ^ 2):mean()
          opt:step(mrt.grad(loss, m:parameters()))
          return loss
        end, { swap = mrt.policy.swap.all { least = 1 }, update_on_host = host }), m, opt
      end
      local function run(host, look)
        local step, m, opt = make(host)
        local x, seen = mrt.eval(mrt.ones(8, 64)), {}
        for i = 1, 6 do
          seen[#seen + 1] = step(x):item()
          if look then
            for name, t in pairs(opt:state()) do seen[name .. i] = t:bytes() end
            for name, t in pairs(m:state()) do seen[name .. i] = t:bytes() end
          end
        end
        return seen
      end
      local a, b, c, same = run(true, true), run(false, true), run(true), true
      for k, v in pairs(a) do same = same and b[k] == v end
      for i, v in ipairs(c) do same = same and b[i] == v end
      print(same)]]
    for _, queue in ipairs { "", "MRT_TOY_QUEUE=1" } do
      assert.equal("true\n", program.script(script, queue))
    end
  end)

  it("are the CPU's own updates on the CPU, and the option is a boolean", function()
    local swap = policy.swap.optimizer { least = 4096 }
    local wanted = train("cpu", {})
    local got, plan = train("cpu", { swap = swap, update_on_host = true })
    assert(wanted == got)
    assert.equal(0, in_tier(plan))
    assert.matches("option 'update_on_host': a boolean wanted", tostring(failure(mrt.compile,
      print, { update_on_host = "yes" })))
  end)
end)
