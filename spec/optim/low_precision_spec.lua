--- low_precision_spec.lua -- parameters and optimizer state in bf16 and 8 bits
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local failure = require "support.failure"
local bits = require "support.bits"
local program = require "support.program"
local training = require "support.training"

local nn, optim, policy, train = mrt.nn, mrt.optim, mrt.policy, mrt.train
local pure = policy.precision.bf16_pure

local function variable(value, dtype, n)
  return mrt.parameter(mrt.full({ n }, value, { dtype = dtype }))
end

local function gpt(options, state, name, lr, momentum)
  return training.gpt(options, { dim = 48, dropout = 0.1, clip = 1, optimizer = name,
    settings = { lr = lr or 3e-3, state = state, momentum = momentum } })
end

local function run(t, steps)
  local loss
  for _ = 1, steps do loss = t.step(table.unpack(t.batch)):item() end
  return loss
end

local function outcome(t) return bits.trained(t.model, t.opt) end

describe("stochastic rounding", function()
  local N <const> = 200000

  -- p - lr g for p = value, once, in bf16.
  local function stepped(value, change, stochastic)
    local p, buf = variable(value, "bf16", N), variable(0, "f32", N)
    core.update("sgd", { p, buf, mrt.full({ N }, -change), 1.0 },
      { stochastic = stochastic })
    return p
  end

  it("keeps the mean", function()
    mrt.seed(11)
    for _, x in ipairs { 1.0, -1.5, 0.015625 } do
      local unit = x < 1 and x > 0 and 2 ^ -13 or 2 ^ -7 -- from one bf16 to the next
      for _, share in ipairs { 0.3, 0.9, 1 / 1024 } do
        local p = stepped(x, share * unit, true):to "f64"
        local up = ((p - x) / unit):mean():item()
        local sigma = (share * (1 - share) / N) ^ 0.5
        assert.near(share, up, 3 * sigma)
        assert.equal(x, p:amin():item())
        assert.equal(x + unit, p:amax():item())
      end
    end
    assert.equal(1, stepped(1.0, 0.4 * 2 ^ -7, false):to "f32":amax():item())
  end)

  it("leaves what needs none, and what is not finite", function()
    for _, x in ipairs { 3.3895313892515355e38, 1.5, 0.0, 2.0 ^ -130 } do
      local p = stepped(x, 0, true):to "f32"
      assert.equal(x, p:amin():item())
      assert.equal(x, p:amax():item())
    end
    for _, x in ipairs { 1 / 0, -1 / 0 } do
      local p = variable(1, "bf16", N)
      core.update("sgd", { p, variable(-x, "f32", N), mrt.zeros(N), 1.0 },
        { momentum = 1, stochastic = true })
      assert.equal(x, p:to "f32":mean():item())
    end
    assert.equal(N, stepped(1.0, 0 / 0, true):to "f32":isnan():to "f32":sum():item())
  end)

  it("keeps averages from standing still", function()
    local v, wide = variable(1, "bf16", 4096), variable(1, "f32", 4096)
    for t = 1, 300 do
      for _, slot in ipairs { v, wide } do
        core.update("adamw", { variable(0, "f32", 4096), variable(0, slot:get_dtype(), 4096),
          slot, mrt.zeros(4096), t, 0.0 })
      end
    end
    assert.near(wide:mean():item(), v:to "f32":mean():item(), 0.005)
  end)

  it("draws the same on any number of threads", function()
    local code = [[local mrt, core = require "mrt", require "mrt.core"
      mrt.seed(5)
      local N, list = 300001, {}
      for i, s in ipairs { { "bf16", 1 }, { "bf16", 0 }, { "bf16", 0.1 } } do
        list[i] = mrt.parameter(mrt.full({ N }, s[2], { dtype = s[1] }))
      end
      for t = 1, 3 do
        core.update("adamw", { list[1], list[2], list[3], mrt.randn(N), t, 0.01 },
          { stochastic = true })
      end
      local sum = 0
      for i = 1, 3 do
        local bytes = list[i]:bytes()
        for k = 1, #bytes, 2 do sum = (sum * 31 + string.unpack("<I2", bytes, k)) % 2 ^ 40 end
      end
      print(sum)]]
    local one = program.script(code, "MRT_THREADS=1")
    assert.truthy(tonumber(one), one)
    assert.equal(one, program.script(code, "MRT_THREADS=2"))
  end)
end)

describe("state in 8 bits", function()
  it("has state of at most 0.27 times f32's, counted in the plan", function()
    local function bytes(state)
      local p = mrt.parameter(mrt.randn(70, 100))
      local opt = optim.adamw({ p }, { state = state })
      local plan = mrt.compile(function()
        opt:step { p * 1 }
      end):plan()
      local sum, planned = 0, 0
      for name, t in pairs(opt:state()) do
        if name ~= "t" then sum = sum + t:nbytes() end
        planned = planned + (t:nbytes() + 63) // 64 * 64
      end
      assert.equal(planned + 28032, plan.persistent)
      return sum
    end
    assert.equal(56000, bytes "f32")
    assert.equal(28000, bytes "bf16")
    assert.equal(14000 + 8 * 28, bytes "8bit")
    assert.same({ "f32[63,65]" }, { optim.adamw({ mrt.parameter(mrt.zeros(63, 65)) },
      { state = "8bit" }):state()["1.m"]:type() })
  end)

  it("follows f32, in micro-batches too #long", function()
    local wide = run(gpt({}), 40)
    for _, o in ipairs { {}, { accumulate = 4 }, { precision = pure() } } do
      assert.near(wide, run(gpt(o, "8bit"), 40), 0.1 * wide)
    end
    assert.near(wide, run(gpt({}, "bf16"), 40), 0.1 * wide)
    for _, other in ipairs { { "adam" }, { "lion", 1e-3 }, { "sgd", 0.3, 0.9 } } do
      local function last(state, o)
        return run(gpt(o, state, table.unpack(other)), 40)
      end
      wide = last "f32"
      assert.is_true(wide < 2, wide)
      for _, o in ipairs { {}, { precision = pure() } } do
        assert.near(wide, last("8bit", o), 0.1 * wide)
      end
    end
  end)

  it("has a code and a scale for each moment, and is saved and loaded", function()
    for name, slots in pairs { sgd = { "buf" }, lion = { "m" }, adam = { "m", "v" } } do
      local o = { state = "8bit", momentum = name == "sgd" and 0.9 or nil }
      local p, q = mrt.parameter(mrt.randn(70, 100)), mrt.parameter(mrt.zeros(70, 100))
      local one, other = optim[name]({ p }, o), optim[name]({ q }, o)
      one:step { mrt.randn(70, 100) }
      for _, slot in ipairs(slots) do
        assert.equal("u8[70,100]", one:state()["1." .. slot]:type())
        assert.equal("f32[28]", one:state()["1." .. slot .. "_scale"]:type())
      end
      q:assign(p)
      other:load_state(one:state())
      local g = mrt.eval(mrt.randn(70, 100))
      one:step { g }
      other:step { g }
      assert.equal(p:bytes(), q:bytes())
    end
  end)

  it("does nothing when told so", function()
    local p = mrt.parameter(mrt.randn(5000))
    local opt = optim.adamw({ p }, { state = "8bit" })
    local step = mrt.compile(function(when) opt:step({ p * 1 }, { when = when }) end)
    local t = { model = { parameters = function() return { p } end }, opt = opt }
    step(mrt.full({}, 1, { dtype = "bool" }))
    local before = outcome(t)
    step(mrt.full({}, 0, { dtype = "bool" }))
    assert.equal(before, outcome(t))
  end)

  it("refuses what it cannot store", function()
    local p = { mrt.parameter(mrt.zeros(2)) }
    assert.match('state = "4bit", wanted f32 or bf16 or 8bit',
      failure(optim.adamw, p, { state = "4bit" }).message)
    for _, name in ipairs { "rmsprop", "adagrad", "lamb", "muon" } do
      assert.match("^" .. name .. ": .*no option 'state'",
        failure(optim[name], p, { state = "8bit" }).message)
    end
    local codes = variable(0, "u8", 2)
    local scale = variable(0, "f32", 1)
    assert.match("f64%[2%], f32 or bf16 wanted", failure(core.update, "adamw8",
      { variable(0, "f64", 2), codes, variable(0, "u8", 2), scale, variable(0, "f32", 1),
        p[1], 1, 0.1 }).message)
    assert.match("a scale for each block of 256", failure(core.update, "adamw8",
      { p[1], codes, variable(0, "u8", 2), scale, variable(0, "f32", 2), p[1] * 1, 1, 0.1 })
      .message)
  end)
end)

describe("bf16_pure", function()
  it("stores what a step updates in bf16, and trains", function()
    local wide = run(gpt({}), 60)
    for _, stochastic in ipairs { true, false } do
      local t = gpt { precision = pure { stochastic = stochastic } }
      assert.near(wide, run(t, 60), 0.15)
      for _, p in ipairs(t.model:parameters()) do assert.equal("bf16", p:get_dtype()) end
      assert.match("^f32", t.opt:state()["1.m"]:type())
    end
  end)

  it("gives the same bits however the step is planned", function()
    local function bits_of(o)
      o.precision = pure()
      local t = gpt(o, "8bit")
      run(t, 4)
      return outcome(t)
    end
    local wanted = bits_of {}
    for name, o in pairs { order = { order = "program" }, fuse = { fuse = false },
      inplace = { inplace = false, share = false },
      recompute = { checkpoint = policy.checkpoint.all() },
      swap = { checkpoint = policy.checkpoint.swap(), swap = policy.swap.all() } } do
      assert(wanted == bits_of(o), name)
    end
  end)

  it("goes on from a snapshot with the same bits", function()
    local folder = files.name()
    local function new()
      local t = gpt({ precision = pure() }, "bf16")
      t.snapshots = train.snapshots { folder = folder,
        parts = { model = t.model, optimizer = t.opt, step = t.step } }
      return t
    end
    local t = new()
    run(t, 3)
    assert(t.snapshots:save(3))
    run(t, 3)
    local other = new()
    mrt.seed(99)
    assert.equal(3, assert(other.snapshots:resume()))
    run(other, 3)
    assert.equal(outcome(t), outcome(other))
  end)

  it("leaves averages in f32", function()
    local model = nn.Linear(4, 4):to "bf16"
    local ema = optim.ema(model:parameters(), { decay = 0.999 })
    ema:update()
    for _, a in ipairs(ema.averages) do assert.equal("f32", a:get_dtype()) end
    ema:apply(function() assert.equal("bf16", model.weight:get_dtype()) end)
  end)

  it("works with every optimizer", function()
    for name, o in pairs { sgd = {}, adam = {}, rmsprop = {}, adagrad = {}, lion = {},
      lamb = {}, muon = {} } do
      local model = nn.Linear(8, 8)
      local opt = optim[name](model:parameters(), o)
      local step = mrt.compile(function(x)
        local loss = (model(x) - x):pow(2):mean()
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { precision = pure() })
      local x = mrt.randn(16, 8)
      local first = step(x):item()
      for _ = 1, 20 do step(x) end
      assert(step(x):item() < first, name)
      assert.equal("bf16", model.weight:get_dtype())
    end
  end)
end)

describe("a variable that is converted", function()
  it("is rounded once, after what reads it", function()
    local v = mrt.variable(mrt.tensor { 1.001, 2, 3 }, "v")
    local pending, lazy = v * 2, mrt.variable(mrt.ones(3) * 1.001)
    core.convert(v, "bf16")
    core.convert(lazy, "bf16")
    assert.near(2.002, pending[1]:item(), 1e-6)
    assert.same({ "bf16[3]", 1.0 }, { v:type(), v[1]:item() })
    assert.same({ "bf16[3]", 1.0 }, { lazy:type(), lazy[1]:item() })
    core.convert(v, "f64")
    v:assign(mrt.tensor({ 1, 2, 1 / 3 }, "f64"))
    assert.equal(1 / 3, v[3]:item())
  end)

  it("is read anew by functions that were compiled before", function()
    local model = nn.Linear(3, 2)
    local f = mrt.compile(function(x) return model(x) + mrt.rand(4, 2) end)
    local x = mrt.randn(4, 3)
    mrt.seed(1)
    f(x) f(x)
    local wanted = f(x):totable()
    mrt.seed(1)
    f(x) f(x)
    model:to "bf16"
    assert.equal("bf16", model.weight:get_dtype())
    local got = f(x):totable() -- draws what the third run draws
    for i = 1, 4 do assert.near(wanted[i][1], got[i][1], 0.1) end
  end)

  it("has a step traced again, once, unless it was before", function()
    for _, before in ipairs { false, true } do
      local model, traces = nn.Linear(4, 4), 0
      if before then model:to "bf16" end
      local opt = optim.adamw(model:parameters())
      local step = mrt.compile(function(x)
        traces = traces + 1
        local loss = model(x):square():mean()
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { precision = pure() })
      for _ = 1, 3 do step(mrt.zeros(2, 4)) end
      assert.equal(before and 1 or 2, traces)
    end
  end)

  it("must be a variable of floats, outside a trace", function()
    local v = mrt.variable(mrt.ones(3), "v")
    assert.match("no variable", failure(core.convert, mrt.ones(3), "bf16").message)
    assert.match("f32%[3%] to i32, floats wanted", failure(core.convert, v, "i32").message)
    assert.match("'v' cannot be converted inside", failure(mrt.compile(function()
      core.convert(v, "bf16")
    end)).message)
    assert.match("a float dtype wanted, got \"i32\"",
      failure(nn.Linear(2, 2).to, nn.Linear(2, 2), "i32").message)
  end)
end)
