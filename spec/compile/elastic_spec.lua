-- elastic_spec.lua -- another budget between two steps changes bytes and no bit
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local nn, optim, policy, train = mrt.nn, mrt.optim, mrt.policy, mrt.train

local x = mrt.eval(mrt.randint(0, 40, 4, 33))

-- A step of a small GPT, drawn by `o`, and its parameters.
local function made(o)
  mrt.seed(3)
  local model = nn.GPT { vocab = 40, context = 32, layers = 2, heads = 2, dim = 32,
    dropout = o.dropout }
  local params = model:parameters()
  local opt = optim.adamw(params, { lr = 1e-2, state = o.state })
  mrt.seed(4)
  return mrt.compile(function(t)
    local loss = model:loss(t:slice(2, 1, 32), t:slice(2, 2, 33))
    opt:step(mrt.grad(loss, params), { clip = 1.0 })
    return loss
  end, { precision = o.precision, accumulate = o.accumulate, checkpoint = o.checkpoint,
    memory = o.memory }), params, model, opt
end

-- What six steps give and leave; `before_third` is called between two of them.
local function bits(step, params, budgets, before_third)
  local words = {}
  for i = 1, 6 do
    if i == 3 and before_third then before_third() end
    if budgets[i] ~= nil then step:budget(budgets[i]) end
    local loss = step(x)
    words[i] = ("%a"):format(loss:item())
    loss:free()
  end
  for _, p in ipairs(params) do words[#words + 1] = p:bytes() end
  return words
end

local cases = {
  { dropout = 0.1 },
  { dropout = 0.1, accumulate = 2, state = "8bit" },
  { precision = policy.precision.f16 { loss_scale = "dynamic" }, accumulate = 4, dropout = 0.2 },
  { precision = policy.precision.bf16(), checkpoint = policy.checkpoint.every(2), dropout = 0.1 },
  { precision = policy.precision.bf16_pure(), state = "bf16" },
  { precision = policy.precision.fp8 { scaling = "delayed" }, accumulate = "auto" },
}

-- Under the sanitizers, which take long, two of them.
if os.getenv "MRT_SPEC_LEAN" then cases = { cases[2], cases[3] } end

describe("step:budget", function()
  for i, o in ipairs(cases) do
    it("changes no bit of a running job: " .. i, function()
      local step, params = made(o)
      local plan = step:plan(x)
      local low = math.floor(plan.peak - 0.45 * plan.transient)
      local middle = math.floor(plan.peak - 0.2 * plan.transient)
      local wanted = bits(step, params, {})
      step, params = made(o)
      local got = bits(step, params, { [2] = low, [4] = middle, [5] = false })
      assert.same(wanted, got)
    end)
  end

  it("is kept by the next step, and what is needed no more goes back", function()
    local step = made { dropout = 0.1 }
    step(x):free()
    local plan = step:plan(x)
    local low = math.floor(plan.peak - 0.4 * plan.transient)
    collectgarbage()
    local before = mrt.memory().now
    step:budget(low)
    assert.is_true(step:plan(x).peak <= low)
    assert.is_true(mrt.memory().now <= before - plan.transient)
    assert.equal(0, mrt.memory().spare)
    mrt.memory { reset = true }
    step(x):free()
    assert.is_true(mrt.memory().peak <= before - (plan.peak - step:plan(x).peak) + 128)
    step:budget(false)
    step(x):free()
    assert.equal(plan.peak, step:plan(x).peak)
  end)

  it("gives pages back to the system #process", function()
    if not io.open "/proc/self/statm" then return end
    local function resident()
      collectgarbage()
      for line in io.lines "/proc/self/status" do
        local kib = line:match "^VmRSS:%s+(%d+)"
        if kib then return tonumber(kib) * 1024 end
      end
    end
    local w = mrt.variable(mrt.randn(512, 512))
    local rows = mrt.eval(mrt.randn(4096, 512))
    local step = mrt.compile(function(t)
      local h = t
      for _ = 1, 6 do h = h:matmul(w):tanh() end
      local loss = h:square():mean()
      w:assign(w - mrt.grad(loss, { w })[1])
      return loss
    end)
    step(rows):free()
    local plan, before = step:plan(rows), resident()
    local low = plan.peak - plan.transient // 2
    step:budget(low)
    assert.is_true(resident() <= before - 0.9 * plan.transient)
    step(rows):free()
    assert.is_true(resident() <= before - 0.4 * plan.transient)
  end)

  it("is refused below what any plan takes, and the run goes on", function()
    local step, params = made { dropout = 0.1 }
    local wanted = bits(step, params, {})
    step, params = made { dropout = 0.1 }
    local peak = step:plan(x).peak
    local got = bits(step, params, {}, function()
      assert.error_matches(function() step:budget "1000 B" end,
        "elastic_spec.lua:%d+: .*too little")
    end)
    assert.equal(peak, step:plan(x).peak)
    assert.same(wanted, got)
  end)

  it("is asked of a function between steps", function()
    local step, params = made { dropout = 0.1 }
    local wanted = bits(step, params, {})
    step, params = made { dropout = 0.1 }
    local plan, asked = step:plan(x), {}
    local low = math.floor(plan.peak - 0.4 * plan.transient)
    local said, warned = {}, warn
    _G.warn = function(text) said[#said + 1] = text end -- luacheck: ignore
    step:budget(function(n)
      asked[#asked + 1] = n
      return ({ nil, low, 1000, 1000, false })[n]
    end)
    local ok, got = pcall(bits, step, params, {})
    _G.warn = warned -- luacheck: ignore
    assert(ok, got)
    assert.same(wanted, got)
    assert.same({ 1, 2, 3, 4, 5, 6 }, asked)
    assert.equal(1, #said)
    assert.truthy(said[1]:find "goes on within the budget it had: .*too little")
  end)

  it("leaves snapshots as they are, whatever budget they are taken and read within", function()
    local function job()
      local step, params, model, opt = made { dropout = 0.1, accumulate = 2 }
      return step, params, train.snapshots { folder = files.folder(),
        parts = { model = model, optimizer = opt, step = step } }
    end
    local step, params = job()
    local plan = step:plan(x)
    local low = math.floor(plan.peak - 0.4 * plan.transient)
    local wanted = bits(step, params, {})
    local kept
    step, params, kept = job()
    assert.same(wanted, bits(step, params, { [2] = low }, function() assert(kept:save(2)) end))
    step:budget(false)
    assert.equal(2, kept:resume())
    step:budget(low + 64)
    for i = 3, 6 do
      local loss = step(x)
      assert.equal(wanted[i], ("%a"):format(loss:item()))
      loss:free()
    end
    for i, p in ipairs(params) do assert.equal(wanted[6 + i], p:bytes()) end
  end)

  it("has bytes", function()
    local step = made {}
    for _, case in ipairs { { "2 gallons", "budget: " }, { -1, "budget: " }, { {}, "budget: " },
      { true, "budget: " } } do
      assert.error_matches(function() step:budget(case[1]) end,
        "elastic_spec.lua:%d+: " .. case[2])
    end
    step:budget(function() return "much" end)
    assert.error_matches(function() step(x) end,
      "budget: the policy %(.*elastic_spec.lua:%d+%) gave \"much\": ")
  end)
end)
