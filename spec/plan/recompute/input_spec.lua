--- input_spec.lua -- policies that fail, lie or are none
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local checkpoint = mrt.policy.checkpoint

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
    assert.matches("the policy %(spec/plan/recompute/input_spec.lua:%d+%) failed on .-, "
      .. "spec/plan/recompute/input_spec.lua:%d+ %(f32", text)
    assert.matches("spec/plan/recompute/input_spec.lua:%d+: attempt to index a nil value", text)
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
      local err, text = failure(step.plan, step, x)
      assert.equal("budget", err.code)
      assert.matches("memory = 100 B is too little", text)
    end
    local least = tonumber(select(2, pcall(step.plan, step, x)).needed)
    local plan = step_with { memory = least }:plan(x)
    assert.is_true(plan.peak <= least)
    assert.equal(0, step_with { memory = least }(x):item())
  end)
end)
