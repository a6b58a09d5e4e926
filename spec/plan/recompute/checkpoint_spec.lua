--- checkpoint_spec.lua -- what is not kept is computed again: the same bits, in
--- the memory and with the work that each policy promises
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"
local random_program = require "support.random_program"
local recomputing = require "plan.recompute.recomputing"
local training = require "support.training"
local nn, checkpoint = mrt.nn, mrt.policy.checkpoint
local cases, train = recomputing.cases, recomputing.train

local graphs = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 40
local searched = graphs < 20 and 2 or 6 -- of those graphs, with a budget

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

local function now() return training.memory().now end

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
        { checkpoint = at_random(seed) }, seed <= searched and { memory = memory } or nil } do
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
      local step = recomputing.training(cases[2].model(), { checkpoint = policy })
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
