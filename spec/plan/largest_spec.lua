-- largest_spec.lua -- the largest size whose step fits a budget
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local program = require "support.program"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function planned(layers, o)
  local model = nn.GPT { vocab = 40, context = 40, layers = layers, heads = 2, dim = 32 }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-3 })
  local step = mrt.compile(function(x, y)
    local loss = model:loss(x, y)
    opt:step(mrt.grad(loss, params))
    return loss
  end, o)
  return function(rows, context)
    local x = mrt.zeros({ rows, context }, { dtype = "i32" })
    return step:plan(x, x)
  end
end

local function check(found, plan_of, budget, step)
  assert.is_true(found.best.peak <= budget)
  assert.is_true(found.next.size == found.best.size + (step or 1))
  assert.is_true(not found.next.peak or found.next.peak > budget)
  for _, trial in ipairs { found.best, found.next } do
    local ok, plan = pcall(plan_of, trial.size)
    assert.equal(trial.peak, ok and plan.peak or nil)
  end
end

describe("plan:largest", function()
  local cases = { {}, { precision = policy.precision.bf16() }, { accumulate = 2 },
    { checkpoint = policy.checkpoint.every(1), compress = "int8" },
    { accumulate = 2, precision = policy.precision.f16(), checkpoint = policy.checkpoint.sqrt() } }

  it("is exact for rows and context, however the step is planned", function()
    for _, o in ipairs(cases) do
      local plan_of = planned(2, o)
      local step, budget = o.accumulate or 1, 4 << 20
      local found = plan_of(4, 16):largest("batch", { memory = budget, step = step })
      check(found, function(n) return plan_of(n, 16) end, budget, step)
      found = plan_of(4, 16):largest("context", { memory = "1400 KiB" })
      check(found, function(n) return plan_of(4, n) end, 1400 << 10)
      assert.is_true(found.best.size > 16 and found.tried < 20)
    end
  end)

  it("takes a function for what no argument has", function()
    local made = function(n) return planned(n)(2, 16) end
    local found = made(1):largest("layers", { memory = "2 MiB", plan = made })
    check(found, made, 2 << 20)
    assert.truthy(tostring(found):find "^the largest layers within 2.00 MiB .*\n  layers %d+ takes")
  end)

  it("steps over sizes that are refused between others", function()
    local tried = 0
    local function of_heads(heads, limit)
      return function(n)
        tried = tried + 1
        if n % heads ~= 0 then error(n .. " is not a multiple of the heads") end
        if limit and n > limit then error "too wide" end
        return planned(1)(n // heads, 16)
      end
    end
    local plan = planned(1)(2, 16)
    for _, heads in ipairs { 3, 6, 25 } do
      for _, from in ipairs { 1, heads * 7 } do
        tried = 0
        local make = of_heads(heads)
        local found = plan:largest("dim", { memory = "600KiB", plan = make, from = from })
        assert.equal(found.tried, tried)
        assert.equal(heads, found.step)
        check(found, make, 600 << 10, heads)
        assert.truthy(found.next.peak)
      end
    end
    -- what is refused from a size on is no step
    local found = plan:largest("dim", { memory = "1GiB", plan = of_heads(1, 13), from = 4 })
    assert.equal(13, found.best.size)
    assert.equal(1, found.step)
    assert.truthy(found.next.message:find "too wide")
  end)

  it("says what a larger size fails by, and when none fits", function()
    local plan = planned(1)(2, 16)
    local found = plan:largest("context", { memory = "1GiB" })
    assert.equal(40, found.best.size)
    assert.truthy(found.next.message:find "wanted at most context = 40")
    found = plan:largest("batch", { memory = 1000 })
    assert.equal(nil, found.best)
    assert.equal(1, found.next.size)
    assert.truthy(tostring(found):find "none fits")
  end)

  it("may recompute", function()
    local budget = 400 << 10
    local plan = planned(3)(2, 8)
    local more = plan:largest("batch", { memory = budget, recompute = true, step = 4 })
    local plain = plan:largest("batch", { memory = budget, step = 4 })
    assert.is_true(not plain.best or more.best.size >= plain.best.size)
    assert.is_true(more.best.peak <= budget)
  end)

  it("refuses what makes no sense, by line", function()
    local plan = planned(1)(2, 16)
    for _, case in ipairs { { { "layers", { memory = 1000 } }, "option 'plan', a function" },
      { { nil }, "a name wanted" }, { { "batch", { memory = "x" } }, "not a number of bytes" },
      { { "batch", { memory = 1000, step = 0 } }, "1 or more" },
      { { "batch", { memory = 1000, rows = 0 } }, "no option 'rows'" },
      { { "batch", 3 }, "a table of options" } } do
      assert.error_matches(function() plan:largest(table.unpack(case[1], 1, 2)) end,
        "largest_spec.lua:%d+: largest: .*" .. case[2])
    end
  end)
end)

describe("mrt plan --largest", function()
  local function run(words)
    local code, out = program.shell(("%s plan %s 2>&1"):format(program.path, words))
    return code, out
  end

  it("plans a script for each value of its flag, ranks and shards too", function()
    local script = files.folder() .. "/step.lua"
    local file <close> = assert(io.open(script, "w"))
    file:write [[
      local mrt = require "mrt"
      local n = 1
      for i, word in ipairs(arg) do
        if word == "--width" then n = math.tointeger(tonumber(arg[i + 1])) end
      end
      if n % 8 ~= 0 then error "multiples of 8" end
      local w = mrt.variable(mrt.randn(n, n), "w")
      local opt = mrt.optim.adamw({ w }, {})
      mrt.compile(function(x)
        local loss = x:matmul(w):tanh():square():mean()
        opt:step(mrt.grad(loss, { w }))
        return loss
      end)(mrt.ones(4, n))
    ]]
    file:close()
    for _, more in ipairs { "", "--ranks 4 --shard fsdp " } do
      local code, out = run(more .. "--largest width:8 --budget 1MiB " .. script .. " --width 64")
      assert.equal(0, code, out)
      local n = tonumber(out:match "\n  width (%d+) takes")
      local function peak(size)
        local _, json = run(("%s--json %s --width %d"):format(more, script, size))
        return tonumber(json:match '"peak": *(%d+)')
      end
      assert.is_true(peak(n) <= 1 << 20 and peak(n + 8) > 1 << 20)
    end
    local code, out = run("--largest depth --budget 1MiB " .. script .. " --width 8")
    assert.equal(1, code)
    assert.truthy(out:find "the script does not read it")
    code, out = run("--largest width --budget 1MiB " .. script)
    assert.equal(0, code, out)
    assert.truthy(out:find "\n  in steps of 8\n")
    code, out = run("--largest width:3 --budget 1MiB " .. script)
    assert.equal(1, code)
    assert.truthy(out:find "multiples of 8")
    for _, more in ipairs { "--json", "--html x.html", "--lock x.json", "--check x.json" } do
      code, out = run("--largest width --budget 1MiB " .. more .. " " .. script)
      assert.equal(2, code)
      assert.truthy(out:find "one of them wanted")
    end
    code, out = run("--largest width --budget 1MiB --ranks 2 --shard all " .. script)
    assert.equal(2, code)
    assert.truthy(out:find "%-%-largest wants one plan")
    code, out = run("--largest width:8 " .. script .. " --width 8")
    assert.equal(1, code)
    assert.truthy(out:find "wants a %-%-budget")
  end)
end)
