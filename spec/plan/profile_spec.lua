--- profile_spec.lua -- what a step took beside what its roofs allow
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local bound = require "mrt.plan.report.bound"
local training = require "support.training"
local nn, optim, device = mrt.nn, mrt.optim, mrt.device

before_each(function() device.use "declared" end)
teardown(function() device.use "declared" end)

-- A product with work for its flops, and a sum of large vectors with bytes alone.
local function product_and_sum()
  local step = mrt.compile(function(a, b, x, y) return a:matmul(b), x + y end)
  local a, x, y = mrt.randn(256, 256), mrt.randn(1 << 20), mrt.randn(1 << 20)
  mrt.eval(a, x, y)
  return step, a, a, x, y
end

local function by_op(profile)
  local found = {}
  for _, s in ipairs(profile.steps) do found[s.op] = s end
  return found
end

describe("the bound of a node", function()
  it("is the larger of its flops at the roof and its bytes at the rates", function()
    local here = core.device()
    local step, a, b, x, y = product_and_sum()
    local found = by_op(step:profile(a, b, x, y))
    local product, sum = found.matmul, found.add
    assert.equal("flops", product.bound_by)
    assert.near(2 * 256 ^ 3 / here.matrix.f32, product.bound, 1e-12)
    assert.equal("bytes", sum.bound_by)
    assert.equal(12 << 20, sum.bytes)
    assert.near(here.cache / here.cache_bandwidth
      + (sum.bytes - here.cache) / here.bandwidth, sum.bound, 1e-12)
  end)

  it("is 0 of views, of copies beside the steps and of what others compute", function()
    local roofs = bound.of_device(core.device())
    local none = { speed = 0, flops = 1e9, bytes = 1e9 }
    assert.same({ 0 }, { bound.of(none, roofs) })
    local step = mrt.compile(function(x) return x:t() * 2 end)
    for _, s in ipairs(step:plan(mrt.ones(8, 4)):steps()) do
      assert.equal(s.class == "view" and 0 or 1, s.speed)
    end
    local model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    local swapping = training.step(model, optim.adamw(model:parameters(), {}),
      { swap = mrt.policy.swap.all { least = 1 } })
    local swaps = 0
    for _, s in ipairs(swapping:plan(mrt.randn(32, 64), mrt.randint(0, 8, 32)):steps()) do
      if s.op:find "^swap" then
        swaps = swaps + 1
        assert.equal(0, s.speed)
      end
    end
    assert.is_true(swaps > 0)
  end)

  it("is half where the device multiplies a dtype twice as fast, twice in f64", function()
    local figures = core.device()
    figures.matrix.bf16 = 2 * figures.matrix.f32
    core.set_device(figures)
    local function speed(dtype)
      local a = mrt.ones(64, 64):to(dtype)
      for _, s in ipairs(mrt.compile(function(x) return x:matmul(x) end):plan(a):steps()) do
        if s.class == "matmul" then return s.speed end
      end
    end
    assert.equal(1, speed "f32")
    assert.equal(2, speed "bf16")
    assert.equal(figures.matrix.f64 / figures.matrix.f32, speed "f64")
    local roofs, node = bound.of_device(core.device()), { speed = 2, flops = 1e12, bytes = 8 }
    assert.near(0.5e12 / roofs.flops, bound.of(node, roofs), 1e-9)
  end)

  it("counts the multiplications that convolutions save", function()
    local function speed(kernel)
      local x, w = mrt.ones(1, 32, 16, 16), mrt.ones(32, 32, kernel, kernel)
      local step = mrt.compile(function(a, b) return a:conv2d(b) end)
      for _, s in ipairs(step:plan(x, w):steps()) do
        if s.class == "convolution" then return s.speed end
      end
    end
    local figures = core.device()
    for _, winograd in ipairs { 0, 1.5 } do
      figures.winograd = winograd
      core.set_device(figures)
      assert.equal(1, speed(1))
      assert.equal(winograd > 0 and 2.25 or 1, speed(3))
    end
  end)
end)

describe("a profile", function()
  it("sums bounds by group and as a whole, micro-batches as often as they run", function()
    mrt.seed(7)
    local model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    local step = training.step(model, optim.adamw(model:parameters(), {}), { accumulate = 4 })
    local profile = step:profile(mrt.randn(32, 64), mrt.randint(0, 8, 32))
    local sum = 0
    for _, s in ipairs(profile.steps) do sum = sum + s.runs * s.bound end
    assert.near(sum, profile.bound, 1e-15)
    for _, groups in ipairs { profile:by_operator(), profile:by_class(), profile:by_line(),
      profile:by_module() } do
      local all = 0
      for _, g in ipairs(groups) do
        assert.near(g.bound, g.by.flops + g.by.bytes, 1e-15)
        local most = g.by.flops >= g.by.bytes and "flops" or "bytes"
        assert.equal(g.bound > 0 and most or nil, g.bound_by)
        all = all + g.bound
      end
      assert.near(profile.bound, all, 1e-12)
    end
  end)

  it("takes other roofs", function()
    local step, a, b, x, y = product_and_sum()
    local profile = step:profile(a, b, x, y)
    assert.equal(core.device().name, profile.roofs.name)
    assert.equal(profile, profile:against { flops = 1e9, bytes = 1e9 })
    local found = by_op(profile)
    assert.near(2 * 256 ^ 3 / 1e9, found.matmul.bound, 1e-12)
    assert.near((12 << 20) / 1e9, found.add.bound, 1e-12)
    assert.near(found.matmul.bound + found.add.bound, profile.bound, 1e-9)
    profile:against { flops = 1e15, bytes = 1e9 }
    assert.equal("bytes", by_op(profile).matmul.bound_by)
    for _, wrong in ipairs { { flops = 1e9 }, { bytes = 1 }, { flops = 0, bytes = 1 },
      { flops = 1, bytes = 1, cache_bytes = "much" } } do
      assert.has_error(function() profile:against(wrong) end)
    end
    assert.has_error(function() profile:against(7) end)
  end)

  it("says in its text what each row could take, and which roof says so", function()
    local step, a, b, x, y = product_and_sum()
    local profile = step:profile(a, b, x, y):against { flops = 1e9, bytes = 1e9 }
    local text = profile:text()
    assert.matches("its bound is 46.137 ms", text, 1, true)
    assert.matches("33.554 by flops and 12.583 by bytes", text, 1, true)
    assert.matches("roofs: 1.0 Gflop/s in f32, 1.0 GB/s\n", text, 1, true)
    assert.matches("bound by    reach", text, 1, true)
    assert.matches("33%.554 flops +[%d.]+ +[%d.]+ +[%d.]+  matmul\n", text)
    assert.matches("12%.583 bytes +[%d.]+ +[%d.]+ +[%d.]+  add\n", text)
  end)
end)
