--- precision_spec.lua -- narrow floats chosen by policies; loss scaling
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local bits = require("support.bits").of
local training = require "support.training"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function gpt(options)
  local t = training.gpt(options)
  return t.step, t.batch, t.model
end

-- The losses of some steps and the parameters after them, as bytes.
local function train(options, steps)
  local step, batch, model = gpt(options)
  local losses = {}
  for i = 1, steps do losses[i] = step(table.unpack(batch)):bytes() end
  return table.concat(losses) .. bits(model:parameters()), losses
end

local function number(bytes) return (string.unpack("<f", bytes)) end

describe("a precision policy", function()
  it("follows f32 closely, and results stay f32", function()
    local _, wide = train({}, 40)
    for _, p in ipairs { policy.precision.bf16(), policy.precision.f16 { loss_scale = 1024 },
      policy.precision.f16 { loss_scale = { init = 1024, interval = 10 } } } do
      local _, narrow = train({ precision = p }, 40)
      local a, b = number(wide[40]), number(narrow[40])
      assert(math.abs(a - b) < 0.03 * a + 0.02, tostring(p) .. ": " .. b .. ", not " .. a)
    end
    local step, batch = gpt { precision = policy.precision.bf16() }
    assert.equal("f32[]", step(table.unpack(batch)):type())
    assert.equal(train({}, 3), (train({ precision = policy.precision.f32() }, 3)))
  end)

  it("halves what is kept for the backward pass", function()
    local wide, batch = gpt { order = "program" }
    local narrow = gpt { order = "program", precision = policy.precision.bf16() }
    local function kept(step)
      local bytes = 0
      local plan = step:plan(table.unpack(batch))
      local steps = plan:steps()
      local first
      for i, s in ipairs(steps) do if s.backward then first = first or i end end
      for _, v in ipairs(plan:values()) do
        if v.kind == "activation" and v.first < first and v.last >= first then
          bytes = bytes + v.bytes
        end
      end
      return bytes
    end
    assert(kept(narrow) <= 0.6 * kept(wide), kept(narrow) .. " of " .. kept(wide))
  end)

  it("takes a constant for what it is, however large", function()
    local first, second = nn.Linear(64, 128), nn.Linear(128, 128)
    local params = nn.Sequential(first, second):parameters()
    local function arena(...)
      local size = { ... }
      local function rectify(x) return mrt.where(x:gt(0), x, mrt.zeros(size)) end
      local step = mrt.compile(function(x)
        local y = rectify(first(x))
        return table.unpack(mrt.grad(rectify(second(y) + y):square():mean(), params))
      end, { precision = policy.precision.bf16() })
      return step:plan(mrt.zeros(256, 64)).transient
    end
    assert.equal(arena(), arena(256, 128))
  end)

  it("rounds what is moved before it is moved, where that is no more", function()
    local a, b = mrt.eval(mrt.randn(4, 8)), mrt.eval(mrt.randn(4, 24))
    local w = mrt.eval(mrt.randn(16, 32))
    local step = mrt.compile(function(x, y)
      return mrt.cat({ x:exp(), y:tanh() }, 2):linear(w)
    end, { precision = policy.precision.bf16() })
    local found
    for _, v in ipairs(step:plan(a, b):values()) do found = v.op == "cat" and v.type or found end
    assert.equal("bf16[4,32]", found)
    local whole = mrt.cat({ a:exp(), b:tanh() }, 2):to "bf16"
    local wanted = mrt.eval(whole:linear(w:to "bf16"):to "f32")
    assert.is_true((step(a, b) - wanted):abs():max():item() < 0.05)
  end)

  it("gives the same bits however the step is planned", function()
    for _, p in ipairs { policy.precision.bf16(), policy.precision.f16() } do
      local wanted = train({ precision = p }, 4)
      for name, options in pairs {
        order = { order = "program" }, fuse = { fuse = false },
        inplace = { inplace = false, share = false },
        recompute = { checkpoint = policy.checkpoint.all() },
        sqrt = { checkpoint = policy.checkpoint.sqrt() },
        swap = { checkpoint = policy.checkpoint.swap(), swap = policy.swap.all() },
      } do
        options.precision = p
        assert(wanted == train(options, 4), tostring(p) .. " with " .. name)
      end
    end
  end)

  it("takes micro-batches: gradients add up in f32", function()
    local _, whole = train({ precision = policy.precision.bf16() }, 10)
    local _, parts = train({ precision = policy.precision.bf16(), accumulate = 4 }, 10)
    assert.near(number(whole[10]), number(parts[10]), 0.02)
  end)

  it("may be a function of a node", function()
    local seen = { width = {}, backward = {} }
    local step, batch = gpt { precision = function(node)
      seen.width[node.width], seen.backward[node.backward] = true, true
      if node.op == "linear" and node.layer > 1 then
        return { compute = "bf16", output = "f32", accumulate = "f32" }
      end
    end }
    local loss = step(table.unpack(batch)):item()
    assert.same({ { narrow = true, wide = true, follow = true },
      { [true] = true, [false] = true } }, { seen.width, seen.backward })
    local plain = gpt {}
    assert.near(plain(table.unpack(batch)):item(), loss, 0.05)
  end)

  it("may compute in f64 what others would lose", function()
    local x = mrt.tensor { 1e8, 1, -1e8 }
    local function sum(o)
      return mrt.compile(function(v) return (v * 1):sum() end, o)(x):item()
    end
    assert.equal(1, sum { precision = function() return "f64" end })
  end)

  it("may compute products in f64 too", function()
    local step, batch = gpt { precision = function(node)
      if node.width == "narrow" then return "f64" end
    end }
    local plain = gpt {}
    assert.near(plain(table.unpack(batch)):item(), step(table.unpack(batch)):item(), 1e-5)
  end)

  it("scales what is narrow already as its widening", function()
    local x, w, b = mrt.randn(8, 40), mrt.randn(24, 40):to "bf16", mrt.randn(24):to "bf16"
    mrt.eval { x, w, b }
    for _, p in ipairs { policy.precision.fp8(), function(node)
      if node.op == "linear" then return { compute = "f8_e4m3", scaled = true } end
    end } do
      local step = mrt.compile(function(...)
        return select(1, ...):linear(select(2, ...))
      end, { precision = p })
      assert.equal(step(x, w:to "f32", b:to "f32"):bytes(), step(x, w, b):bytes())
    end
  end)

  it("scales what the program has rounded itself", function()
    local x, w = mrt.randn(8, 40), mrt.randn(24, 40)
    local step = mrt.compile(function(a, b)
      local h = a:to "bf16"
      return h:linear(b), h:t():matmul(b:slice(1, 1, 8))
    end, { precision = policy.precision.fp8() })
    local y, z = step(x, w)
    assert(((y - x:linear(w)):abs():mean() / y:abs():mean()):item() < 0.1)
    assert.same({ "f32[8,24]", "f32[40,40]" }, { y:type(), z:type() })
  end)

  it("may round results alone", function()
    local x = mrt.tensor { 1 + 2.0 ^ -9, 3 }
    local step = mrt.compile(function(v) return (v * 1.5):neg() end, {
      precision = function(node)
        if node.op == "mul" then return { output = "bf16" } end
      end })
    assert.same({ -1.5, -4.5 }, step(x):totable())
  end)

  it("leaves what only updates read as it is", function()
    local x = mrt.ones(4, 3)
    local w = mrt.parameter(mrt.tensor { { 1 + 2.0 ^ -20 }, { 0.1 }, { 3 } }, "w")
    local opt, seen = optim.sgd({ w }, { lr = 0 }), {}
    opt.t:assign(mrt.tensor(1000.0))
    local before = w:bytes()
    local step = mrt.compile(function(v)
      local loss = v:matmul(w):mean()
      opt:step(mrt.grad(loss, { w }), { clip = 1.0 })
      return loss
    end, { precision = function(node)
      seen[node.op .. (node.backward and "'" or "")] = true
      return "bf16"
    end })
    for _ = 1, 3 do step(x) end
    assert.equal(before, w:bytes())
    assert.equal(1003, opt.t:item())
    assert.same({ true, true }, { seen.matmul, seen["matmul'"] })
    assert.is_nil(seen.sub)
    assert.is_nil(seen.global_norm)
  end)

  it("is refused with its line where it answers nonsense", function()
    local function refused(answer)
      local step, batch = gpt { precision = function(node)
        if node.op == "linear" then return answer end
      end }
      local err = failure(step, table.unpack(batch))
      assert.matches("precision_spec.lua:%d+", err.message)
      assert.matches("linear f32%[8,16", err.message)
      return err.message
    end
    assert.matches('answered "f12".*a float dtype wanted', refused "f12")
    assert.matches('"i32".*linear does not compute in i32', refused "i32")
    assert.matches("a dtype, a table or nil wanted", refused(7))
    assert.matches("a field 'width'", refused { width = "bf16" })
    assert.matches('accumulate = "i32".*f32, bf16, f16 or an f8 wanted',
      refused { accumulate = "i32" })
    assert.matches('accumulate = "f16".*what is scaled adds up in f32',
      refused { compute = "f8_e4m3", scaled = true, accumulate = "f16" })
    assert.matches('accumulate = "f16".*adds up in f64', refused { compute = "f64",
      accumulate = "f16" })
    assert.matches('output = "f64".*f32 or narrower wanted', refused { output = "f64" })
    for _, dtype in ipairs { "f64", "f32", "bf16" } do
      assert.matches('scaled with compute = "' .. dtype .. '".*f8_e5m2 or f16 wanted',
        refused { compute = dtype, scaled = true })
      assert.matches('scaled with gradient = "' .. dtype,
        refused { compute = "f16", gradient = dtype, scaled = true })
    end
    assert.matches("scaled with compute = nil", refused { scaled = true })
    assert.matches("option 'precision': a policy or a function wanted",
      failure(gpt, { precision = "bf16" }).message)
    assert.matches("must be called: policy.precision.bf16%(%)",
      failure(gpt, { precision = policy.precision.bf16 }).message)
  end)
end)

-- ---- loss scaling ----------------------------------------------------------

local function rounded(x) return (string.unpack("<f", string.pack("<f", x))) end

-- GradScaler's state by its definition.
local function reference(o)
  local scale, good = o.init, 0
  return function(finite)
    if not finite then
      scale, good = rounded(scale * o.backoff), 0
    else
      good = good + 1
      if good == o.interval then
        local grown = rounded(scale * o.growth)
        scale, good = grown < math.huge and grown or scale, 0
      end
    end
    return scale, good
  end
end

-- A step whose gradient is x, and what it changes.
local function scaled(loss_scale, options)
  local w = mrt.parameter(mrt.zeros(4), "w")
  local opt = optim.adamw({ w }, { lr = 0.5 })
  local ema = optim.ema({ w }, { decay = 0.5 })
  options = options or {}
  options.precision = policy.precision.f16 { loss_scale = loss_scale }
  local step = mrt.compile(function(x)
    local loss = (w * x):sum()
    opt:step(mrt.grad(loss, { w }), { clip = 100 })
    ema:update()
    return loss
  end, options)
  local function state()
    local list = { w, ema.averages[1], ema.t }
    for _, t in pairs(opt:state()) do list[#list + 1] = t end
    return bits(list)
  end
  return step, state, opt
end

local fine, bad = mrt.tensor { 1.0, 2, -3, 0.5 }, mrt.tensor { 1.0, 1e38 * 10, 0, 0 }

describe("a loss scale", function()
  it("goes as PyTorch's GradScaler does, step by step", function()
    local random = 12345
    for _, o in ipairs { { init = 65536, growth = 2, backoff = 0.5, interval = 3 },
      { init = 2.0 ^ 126, growth = 4, backoff = 0.25, interval = 1 },
      { init = 1000, growth = 1.5, backoff = 0.3, interval = 2 } } do
      local step, state, opt = scaled(o)
      local expect, updates = reference(o), 0
      for i = 1, 60 do
        random = random * 48271 % 2147483647
        local finite = random % 3 > 0
        local before = i > 1 and state()
        local overflows = step:loss_scale() * 3 >= 3.4e38
        step(finite and fine or bad)
        finite = finite and not overflows
        local scale, good = expect(finite)
        assert.equal(string.pack("<f", scale), string.pack("<f", step:loss_scale()))
        assert.equal(good, step.scaler.good:item())
        if not finite and before then assert.equal(before, state()) end
        updates = updates + (finite and 1 or 0)
        assert.equal(updates, opt.t:item())
      end
    end
  end)

  it("changes no update where it is a power of two", function()
    local plain, after = scaled(false)
    local with, also = scaled(1024)
    for _ = 1, 5 do plain(fine) with(fine) end
    assert.equal(after(), also())
    assert.equal(1024, with:loss_scale())
  end)

  -- Of an optimizer whose first parameter is pruned: its step, and its state.
  local function pruned(kind, o, loss_scale)
    mrt.seed(5)
    local model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    mrt.prune.magnitude(model.layers[1], { share = 0.5 })
    local params = model:parameters()
    local opt, ema = optim[kind](params, o), optim.ema(params)
    local step = mrt.compile(function(x)
      local loss = model(x):square():sum()
      opt:step(mrt.grad(loss, params), { clip = 1000 })
      ema:update()
      return loss
    end, { precision = policy.precision.f16 { loss_scale = loss_scale } })
    return step, function()
      local list = table.move(params, 1, #params, 1, {})
      for _, part in ipairs { opt:state(), ema:state(), model:state() } do
        local names = {}
        for name in pairs(part) do names[#names + 1] = name end
        table.sort(names)
        for _, name in ipairs(names) do list[#list + 1] = part[name] end
      end
      return bits(list)
    end, model.layers[1].weight
  end

  it("is the same to every optimizer and to masks, and leaves all as it was", function()
    local x, broken = mrt.randn(4, 8), mrt.full({ 4, 8 }, 90000.0)
    for kind, o in pairs { sgd = {}, adam = {}, adamw = {}, rmsprop = {}, adagrad = {},
      lion = {}, lamb = {}, muon = {}, momentum = { momentum = 0.9 } } do
      if o.momentum then kind = "sgd" end
      local plain, after = pruned(kind, o, false)
      local step, also, weight = pruned(kind, o, { init = 1024 })
      for _ = 1, 3 do plain(x) step(x) end
      assert.equal(after(), also(), kind)
      local before = also()
      step(broken)
      assert.equal(before, also(), kind)
      assert.equal(512, step:loss_scale())
      assert.equal(32, weight:eq(0):to "i64":sum():item())
    end
  end)

  it("sees what overflows in any micro-batch, and skips for all", function()
    local step, state, opt = scaled("dynamic", { accumulate = 2 })
    local x = mrt.ones(4, 4)
    step(x)
    local before = state()
    step(mrt.cat({ mrt.ones(3, 4), mrt.full({ 1, 4 }, math.huge) }, 1))
    assert.equal(before, state())
    assert.equal(32768, step:loss_scale())
    step(x)
    assert.equal(2, opt.t:item())
  end)

  it("takes gradients of several dtypes", function()
    local list = {}
    for i, dtype in ipairs { "f32", "bf16", "f64", "f16" } do
      list[i] = mrt.parameter(mrt.ones(2, { dtype = dtype }))
    end
    local step = mrt.compile(function(x)
      local loss = mrt.zeros {}
      for _, w in ipairs(list) do loss = loss + (w * x):to "f32":sum() end
      optim.sgd(list, { lr = 0.5 }):step(mrt.grad(loss, list))
    end, { precision = policy.precision.f16 { loss_scale = { init = 256, interval = 9 } } })
    step(mrt.tensor { 1.0, math.huge })
    for _, w in ipairs(list) do assert.same({ 1, 1 }, w:totable()) end
    step(mrt.tensor { 1.0, 2 })
    for _, w in ipairs(list) do assert.same({ 0.5, 0 }, w:totable()) end
    assert.equal(128, step:loss_scale())
  end)

  it("skips what a program assigns after its gradients", function()
    local w, seen = mrt.parameter(mrt.ones(4), "w"), mrt.parameter(mrt.zeros {}, "seen")
    local step = mrt.compile(function(x)
      seen:assign(seen + 1)
      local g = mrt.grad((w * x):sum(), w)
      w:assign(w - g * 0.5)
    end, { precision = policy.precision.f16() })
    step(bad)
    assert.same({ 1, 1, 1, 1 }, w:totable())
    step(fine)
    assert.same({ 0.5, 0, 2.5, 0.75 }, w:totable())
    assert.same({ 2, 32768 }, { seen:item(), step:loss_scale() })
  end)

  it("keeps running statistics from a step that does not count", function()
    local model = nn.BatchNorm(3)
    local step = mrt.compile(function(x)
      local loss = (model(x) * x):sum()
      optim.sgd(model:parameters(), { lr = 0.1 }):step(
        mrt.grad(loss, model:parameters()))
      return loss
    end, { precision = policy.precision.f16() })
    step(mrt.randn(8, 3))
    local before = bits { model.running_mean, model.running_var }
    step(mrt.full({ 8, 3 }, 0 / 0))
    assert.equal(before, bits { model.running_mean, model.running_var })
  end)

  it("stops where it has shrunk to nothing", function()
    local step = scaled { init = 2.0 ^ -120, backoff = 2.0 ^ -40 }
    step(bad)
    local err = failure(step, fine)
    assert.equal("data", err.code)
    assert.matches("loss_scale: the scale has shrunk to 0", err.message)
    local tiny, state = scaled { init = 2.0 ^ -120, backoff = 2.0 ^ -20 }
    tiny(bad)
    local before = state()
    assert.matches("shrunk to 7.17465e%-43", failure(tiny, fine).message) -- no inverse
    assert.equal(before, state())
  end)

  it("is part of a function's state", function()
    local step = scaled { init = 64, interval = 2 }
    for _ = 1, 3 do step(fine) end
    local state = step:state()
    local other = scaled { init = 64, interval = 2 }
    other:load_state(state)
    assert.equal(128, other:loss_scale())
    assert.equal(1, other.scaler.good:item())
  end)

  it("is refused where it makes no sense", function()
    local function refused(loss_scale)
      return failure(policy.precision.f16, { loss_scale = loss_scale }).message
    end
    assert.matches('"dynamic", a number or a table', refused "static")
    assert.matches("positive number wanted", refused(-1))
    assert.matches("backoff = 2", refused { backoff = 2.0 })
    assert.matches("growth = 1", refused { growth = 1.0 })
    assert.matches("init = 1e%+39, 5.87747e%-39 to 3.40282e%+38", refused { init = 1e39 })
    assert.matches("loss_scale = 1e%-40", refused(1e-40))
    assert.matches("interval = 1.5, an integer from 1", refused { interval = 1.5 })
    assert.matches("interval = 1.84467440", refused { interval = 2.0 ^ 64 })
    assert.matches("no option 'grow'", refused { grow = 1 })
  end)
end)
