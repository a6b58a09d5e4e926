--- watch_spec.lua -- where a NaN begins, and how large numbers are
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"

local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function trapped(...)
  local err = failure(...)
  assert.equal("data", err.code)
  return err.message
end

local function here() return debug.getinfo(2, "l").currentline end

describe("nan = \"trap\"", function()
  it("names the first operator and line that makes a NaN or an infinity", function()
    local line
    local step = mrt.compile(function(x)
      local y = x * 2 + 1
      line = here() + 1
      return (y:log() * 3):exp():sum()
    end, { nan = "trap" })
    assert.near(27 + 125, step(mrt.tensor { 1.0, 2 }):item(), 1e-3)
    assert.matches(("nan: log %%(.*watch_spec.lua:%d%%) made an infinity in f32%%[2%%]")
      :format(line), trapped(step, mrt.tensor { 1.0, -0.5 }))
    assert.matches("nan: log .* made a NaN", trapped(step, mrt.tensor { 1.0, -1 }))
    assert.matches("nan: exp .* made an infinity", trapped(step, mrt.tensor { 1.0, 1e30 }))
  end)

  it("takes infinities that are meant, but no NaN that is read", function()
    local step = mrt.compile(function(x, mask)
      local y = x:masked_fill(x:gt(1), -math.huge) + mask
      return y:softmax(1)
    end, { nan = "trap" })
    local mask = mrt.tensor { 0, -math.huge, 0 }
    assert.same({ 1, 0, 0 }, step(mrt.tensor { 0.0, 0, 2 }, mask):totable())
    assert.matches("reads a NaN: an argument, f32%[3%]",
      trapped(step, mrt.tensor { 0.0, 0, 0 / 0 }, mask))
  end)

  it("stops before the first update, in gradients too", function()
    local w = mrt.parameter(mrt.tensor { 1.0, 2 }, "w")
    local opt = optim.adamw({ w }, { lr = 1 })
    local step = mrt.compile(function(x)
      local loss = (w * x):sqrt():sum()
      opt:step(mrt.grad(loss, { w }))
      return loss
    end, { nan = "trap" })
    assert.matches("nan: the gradient, by div", trapped(step, mrt.tensor { 0, 1.0 }))
    assert.same({ 1, 2 }, w:totable())
    assert.equal(0, opt.t:item())
    step(mrt.tensor { 1.0, 1 })
    w:assign(mrt.tensor { 1.0, 0 / 0 })
    assert.matches("reads a NaN: variable w f32%[2%]", trapped(step, mrt.tensor { 1.0, 1 }))
  end)

  it("works in micro-batches and under a narrow policy", function()
    local w = mrt.parameter(mrt.full({ 4, 1 }, 300), "w")
    local step = mrt.compile(function(x)
      local loss = x:matmul(w):sum()
      optim.sgd({ w }, { lr = 1 }):step(mrt.grad(loss, { w }))
      return loss
    end, { nan = "trap", accumulate = 2,
      precision = policy.precision.f16 { loss_scale = false } })
    local x = mrt.ones(2, 4)
    assert.equal(2400, step(x):item())
    local before = w:totable()
    x = mrt.cat({ mrt.ones(1, 4), mrt.full({ 1, 4 }, 1e6) }, 1) -- infinite in f16
    assert.matches("nan: matmul .* made an infinity", trapped(step, x))
    assert.same(before, w:totable())
  end)

  it("lets gradients overflow under a dynamic loss scale, nothing before them", function()
    for _, o in ipairs { {}, { accumulate = 2 } } do
      local w = mrt.parameter(mrt.ones(4, 1))
      local opt = optim.sgd({ w }, { lr = 1 })
      o.nan = "trap"
      o.precision = policy.precision.f16 { loss_scale = { init = 2.0 ^ 40 } }
      local step = mrt.compile(function(x)
        local loss = x:matmul(w):sum()
        local grads = mrt.grad(loss, { w })
        opt:step((optim.clip_grad_norm(grads, 1)))
        return loss
      end, o)
      assert.equal(8, step(mrt.ones(2, 4)):item())
      assert.same({ { 1 }, { 1 }, { 1 }, { 1 } }, w:totable())
      assert.equal(2.0 ^ 39, step:loss_scale())
      assert.matches("nan: matmul", trapped(step, mrt.full({ 2, 4 }, 1e6)))
    end
  end)

  it("is refused where it is anything else", function()
    local ok, err = pcall(mrt.compile, function() end, { nan = "ignore" })
    assert.is_false(ok)
    assert.equal("compile: option 'nan': \"trap\" wanted, got \"ignore\"", err.message)
  end)
end)

describe("step:ranges", function()
  local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
  local opt = optim.adamw(model:parameters(), { lr = 0.1 })
  local step = mrt.compile(function(x)
    local loss = model(x * 1e-6):sum()
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, { precision = policy.precision.bf16() })

  it("tells how large numbers are, and changes nothing", function()
    local x = mrt.randn(32, 8)
    step(x)
    local before = opt.t:item()
    local ranges = step:ranges(x)
    assert.equal(before, opt.t:item())
    local by_op = {}
    for _, s in ipairs(ranges.steps) do
      by_op[s.op] = by_op[s.op] or s
      local seen = s.zeros + s.nans + s.infinities
      for _, n in pairs(s.exponents) do seen = seen + n end
      assert.equal(s.count, seen)
    end
    local scaled = (x * 1e-6):abs():max():item()
    assert.equal(scaled, by_op.mul.largest)
    assert.equal(32 * 8, by_op.mul.count)
    assert.is_nil(by_op.adamw)
  end)

  it("tells what a narrow dtype would lose, by line and by layer", function()
    local x = mrt.full({ 32, 8 }, 0.01) -- times 1e-6: below half the least f16
    local line
    for _, g in ipairs(step:ranges(x):by_line { dtype = "f16" }) do
      if g.name:find "^mul, .*watch_spec" then line = g end
    end
    assert.same({ 1, 0, true }, { line.under, line.over, line.wide })
    for _, g in ipairs(step:ranges(x):by_line { dtype = "bf16" }) do
      assert(not g.name:find "^mul, .*watch_spec" or not g.wide)
    end
    assert.matches("layer 2, gradient", tostring(step:ranges(x)))
    assert.matches("bf16 %-> 0", step:ranges(x):report { dtype = "bf16" })
    assert.matches("f8_e5m2 %-> 0 +%-> max", step:ranges(x):report { dtype = "f8_e5m2" })
    local ok, err = pcall(function() return step:ranges(x):by_layer { dtype = "f32" } end)
    assert.is_false(ok)
    assert.matches("a narrow float wanted", err.message)
  end)
end)
