--- ranks_spec.lua -- plans of several ranks: ZeRO's table, bytes taken
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local json = require "mrt.util.json"
local program = require "support.program"
local files = require "support.files"

local function planned(arguments)
  local code, out = program.run("plan " .. arguments)
  assert.equal(0, code, out)
  return assert(json.decode(out:match "{.*")) -- what a script prints comes before
end

describe("mrt plan --ranks", function()
  it("has ZeRO's table: 7.5 billion parameters on 64 ranks #long", function()
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
    local path = files.temporary([[
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
    assert.matches("ranks .* given to other ranks, in 2 collectives", out)
  end)

  it("refuses what is no number of ranks", function()
    for _, word in ipairs { "0", "-1", "1.5", "x", "nan", "1048577", "99999999999999999999" } do
      local code, out = program.run(("plan --ranks %s examples/mlp.lua"):format(word))
      assert.equal(2, code)
      assert.matches("mrt plan: --ranks: '" .. word .. "', 1 to 1048576 wanted", out, 1, true)
    end
    assert.matches("%-%-ranks wants a value", select(2, program.run "plan --ranks"))
  end)
end)

describe("mrt plan --shard", function()
  local path
  setup(function()
    path = files.temporary([[
      local mrt = require "mrt"
      local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy
      local model = nn.GPT { vocab = 512, context = 8, layers = 2, heads = 2, dim = 64 }
      local opt = optim.adamw(model:parameters(), { lr = 0.01 })
      local x = mrt.zeros({ 1, 8 }, { dtype = "i64" })
      print "hello"
      local step = mrt.compile(function(x)
        local loss = model:loss(x, x)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { shard = policy.shard.zero(1), precision = policy.precision[arg[1] or "bf16_pure"](),
        accumulate = arg[2] and 2 or nil })
      step(arg[2] and mrt.zeros({ 4, 8 }, { dtype = "i64" }) or x)]])
  end)

  -- The rows by name, each {peak, weights, optimizer, other, wire} as text.
  local function rows_of(out)
    local rows = {}
    for line in out:gmatch "[^\n]+" do
      local words = {}
      for number, unit in line:gmatch "([%d.]+) ([KMG]?i?B)" do
        words[#words + 1] = number .. " " .. unit
      end
      if #words == 5 then rows[line:match "^%S+"] = words end
    end
    return rows
  end

  it("compares the stages, each planned as if alone #long", function()
    local code, out = program.run("plan --ranks 16 --shard all " .. path)
    assert.equal(0, code, out)
    assert.equal(1, select(2, out:gsub("hello", "")), out)
    local rows = rows_of(out)
    assert.same(rows.script, rows.zero1)
    assert.same(rows.zero3, rows.fsdp)
    local format = require "mrt.util.format"
    for _, name in ipairs { "ddp", "zero1", "zero2", "zero3" } do
      local plan = planned(("--json --ranks 16 --shard %s %s"):format(name, path))
      assert.same({ format.bytes(plan.peak), format.bytes(plan.at_peak.weight),
        format.bytes(plan.at_peak.optimizer) }, table.move(rows[name], 1, 3, 1, {}))
      assert.equal(format.bytes(plan.wire), rows[name][5])
    end
    local parameters = 512 * 64 + 8 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64
    local kib = parameters * 2 / 1024
    local lists = {}
    for i, words in ipairs { " bf16", " bf16 split" } do
      lists[i] = rows_of(select(2, program.run("plan --ranks 16 --shard all " .. path .. words)))
      for name, row in pairs(lists[i]) do lists[i][name] = { row[2], row[3] } end
    end
    assert.same(lists[1], lists[2])
    assert.near(kib, tonumber(rows.ddp[2]:match "%S+"), 0.02 * kib)
    assert.near(kib / 16, tonumber(rows.zero3[2]:match "%S+"), 0.1 * kib / 16)
  end)

  it("stands beside policies, and a script from standard input", function()
    local own = files.temporary "return { shard = require 'mrt'.policy.shard.zero(2) }"
    local bad = files.temporary "return { shard = function() return 7 end }"
    local code, out = program.run(("plan --ranks 16 --policy %s --shard zero2 --policy %s - < %s")
      :format(own, bad, path))
    assert.equal(1, code)
    local rows = rows_of(out)
    assert.same(rows.zero2, rows[own])
    assert.matches("\n" .. bad .. " +%S*.*answered 7 for [^\n]*a stage from 0 to 3 wanted", out)
  end)

  it("marks what is over the budget, and fails where everything is", function()
    local function over(budget)
      local code, out = program.run(("plan --ranks 16 --budget %s --shard all %s")
        :format(budget, path))
      local names = {}
      for name in out:gmatch "\n(%w+) [^\n]+x  over %d[^\n]*" do names[#names + 1] = name end
      return code, table.concat(names, " "), out
    end
    local budget = planned("--json --ranks 16 --shard zero1 " .. path).peak
    local code, names, out = over(budget)
    assert.equal(0, code, out)
    assert.matches("^ddp", names)
    assert.is_nil(names:find "zero1")
    code, names, out = over "10KiB"
    assert.equal(1, code)
    assert.equal("script ddp zero1 zero2 zero3 fsdp", names)
    assert.matches("mrt plan: no step is within 10.0 KiB", out)
  end)

  it("is not disturbed by what else is printed, and reads no standard input", function()
    local own = files.temporary(([[
      os.execute "echo noise"
      io.stdout:write "written\n"
      assert(not io.read())
      dofile "%s"]]):format(path))
    local code, out = program.shell(("echo line | '%s' plan --ranks 16 --shard all %s")
      :format(program.path, own))
    assert.equal(0, code, out)
    assert.same(rows_of(select(2, program.run("plan --ranks 16 --shard all " .. path))),
      rows_of(out))
    for _, word in ipairs { "noise", "written", "hello" } do
      assert.equal(1, select(2, out:gsub(word, "")), out)
    end
    files.write(own, "io.stderr:write 'no more of this\\n' os.exit(0)")
    code, out = program.run("plan --ranks 16 --shard all " .. own)
    assert.equal(1, code)
    assert.matches("\nzero3 +the process ended without a plan: no more of this\n", out)
  end)

  it("says what is wrong", function()
    for words, message in pairs {
      ["--shard zero2"] = "--ranks N wanted, 2 or more",
      ["--ranks 1 --shard all"] = "--ranks N wanted, 2 or more",
      ["--ranks 4 --shard zero4"] = "--shard: 'zero4', ddp, zero1, zero2, zero3, fsdp or all "
        .. "wanted",
      ["--ranks 4 --shard="] = "--shard wants a value",
      ["--ranks 4 --json --shard all"] = "--json prints one plan",
    } do
      local code, out = program.run(("plan %s %s"):format(words, path))
      assert.equal(message:find "^%-%-shard" and 2 or 1, code)
      assert.truthy(out:find(message, 1, true), out)
    end
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
      return ("%%d %%d %%d"):format(plan.peak + other, mrt.memory().peak - before, plan.peak)
    ]]):format(sharding, change or ""), { timeout = 60 })
    assert(not failures, failures and select(2, next(failures)))
    return results
  end

  -- All ranks took what they planned; the peak of the plan.
  local function exact(n, sharding, change)
    local results = run(n, sharding, change)
    for rank, text in ipairs(results) do
      local plan, taken = text:match "(%d+) (%d+)"
      assert.equal(plan, taken, ("%s, %s: rank %d of %d"):format(sharding, change, rank - 1, n))
    end
    return tonumber(results[1]:match "%d+$")
  end

  local policies = { "policy.shard.ddp()", "policy.shard.zero(1)",
    "policy.shard.ddp { gather = 'bf16', retain = true }",
    "policy.shard.zero(2, { bucket = 0 })", "policy.shard.zero(3, { bucket = 0 })" }

  for _, sharding in ipairs(policies) do
    it("takes what it plans, to the byte: " .. sharding .. " #long", function()
      exact(4, sharding)
      local budget = exact(2, sharding) * 9 // 10
      assert.is_true(exact(2, sharding, "o.memory = " .. budget) <= budget)
      exact(3, sharding, "o.accumulate = 2; o.precision = policy.precision.bf16()")
    end)
  end
end)
