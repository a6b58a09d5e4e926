--- plan_ranks_spec.lua -- plans of several ranks: ZeRO's table, bytes taken
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local dkjson = require "dkjson"
local program = require "support.program"
local files = require "support.files"

local function planned(arguments)
  local code, out = program.run("plan " .. arguments)
  assert.equal(0, code, out)
  return assert(dkjson.decode(out))
end

describe("mrt plan --ranks", function()
  it("has ZeRO's table: 7.5 billion parameters on 64 ranks", function()
    local literature = { [0] = 120, 31.4, 16.6, 1.9 } -- GB, of figure 1
    local volumes = { [0] = 2, 2, 2, 3 }              -- of section 7, in elements
    for stage = 0, 3 do
      local plan = planned("--ranks 64 --json lua/mrt/bench/shard_paper.lua " .. stage)
      local parameters = tonumber(plan.name:match "%d+")
      assert.near(7.456e9, parameters, 1e6)
      local formula = ({ [0] = 16, 4 + 12 / 64, 2 + 14 / 64, 16 / 64 })[stage]
      assert.near(formula, plan.persistent / parameters, 0.01 * formula)
      local gigabytes = plan.persistent / parameters * 7.5
      assert.near(literature[stage], gigabytes, stage == 3 and 0.05 or 0.01 * literature[stage])
      local moved = plan.wire / 2 / parameters -- each rank keeps a 64th to itself
      assert.near(volumes[stage] * 63 / 64, moved, 0.01)
    end
  end)

  it("tells bytes on the wire, of as many ranks as are wanted", function()
    local path = files.write(os.tmpname(), [[
      local mrt = require "mrt"
      local comm = mrt.communicator.create()
      local step = mrt.compile(function(x) return comm:allreduce(x), comm:allgather(x) end)
      step(mrt.zeros(1024))]])
    for ranks, wire in pairs { [1] = 0, [2] = 4096 + 4096, [4] = 6144 + 3 * 4096 } do
      local plan = planned(("--json --ranks=%d %s"):format(ranks, path))
      assert.equal(2, plan.collectives)
      assert.equal(wire, plan.wire)
    end
    local _, out = program.run("plan --ranks 64 " .. path)
    assert.matches("wire .* given to other ranks, in 2 collectives", out)
    os.remove(path)
  end)

  it("refuses what is no number of ranks", function()
    for _, word in ipairs { "0", "-1", "1.5", "x", "nan", "1048577", "99999999999999999999" } do
      local code, out = program.run(("plan --ranks %s examples/mlp.lua"):format(word))
      assert.equal(1, code)
      assert.matches("mrt plan: --ranks " .. word .. ", 1 to 1048576 wanted", out, 1, true)
    end
    assert.matches("%-%-ranks wants a value", select(2, program.run "plan --ranks"))
  end)
end)

describe("a rank", function()
  -- The bytes that each rank planned, and took at most in three steps.
  local function run(n, sharding, change)
    local results, failures = mrt.communicator.ranks(n, ([[
      local mrt = ...
      local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
      local o = { shard = %s }
      %s
      local x, y = mrt.eval(mrt.randint(0, 31, 4, 16), mrt.randint(0, 31, 4, 16))
      collectgarbage()
      local before = mrt.memory().now
      local model = nn.GPT { vocab = 31, context = 16, layers = 2, heads = 2, dim = 32 }
      local opt = optim.adamw(model:parameters(), { lr = 0.01 })
      local step = mrt.compile(function(x, y)
        local loss = model:loss(x, y)
        opt:step(mrt.grad(loss, model:parameters()), { clip = 1.0 })
        return loss
      end, o)
      local plan = step:plan(x, y)
      for _ = 1, 3 do step(x, y):free() end
      local other = plan.inputs - x:nbytes() - y:nbytes() -- the learning rate
      return ("%%d %%d"):format(plan.peak + other, mrt.memory().peak - before)
    ]]):format(sharding, change or ""), { timeout = 60 })
    assert(not failures, failures and select(2, next(failures)))
    return results
  end

  -- All ranks took what they planned; how much that is.
  local function exact(n, sharding, change)
    local results = run(n, sharding, change)
    for rank, text in ipairs(results) do
      local plan, taken = text:match "(%d+) (%d+)"
      assert.equal(plan, taken, ("%s, %s: rank %d of %d"):format(sharding, change, rank - 1, n))
    end
    return tonumber(results[1]:match "%d+")
  end

  local policies = { "policy.shard.ddp()", "policy.shard.zero(1)",
    "policy.shard.ddp { gather = 'bf16', retain = true }",
    "policy.shard.zero(2, { bucket = 0 })", "policy.shard.zero(3, { bucket = 0 })" }

  for _, sharding in ipairs(policies) do
    it("takes what it plans, to the byte: " .. sharding, function()
      exact(2, sharding)
      local budget = exact(4, sharding) * 9 // 10
      assert.is_true(exact(4, sharding, "o.memory = " .. budget) <= budget)
      exact(3, sharding, "o.accumulate = 2; o.precision = policy.precision.bf16()")
    end)
  end
end)
