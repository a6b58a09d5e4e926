--- conv_spec.lua -- convolutions by Winograd's way, and as products of matrices
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local program = require "support.program"
local training = require "support.training"

local nn, op = mrt.nn, core.op

-- images, sides, channels in and out, padding: what fills tiles and what does not, sums of
-- several blocks of tiles, several blocks of channels
local shapes = {
  { 1, 4, 4, 32, 32, { 1, 1 } },
  { 2, 7, 9, 48, 32, { 0, 2 } },
  { 3, 11, 8, 32, 80, { 2, 1 } },
  { 4, 24, 22, 32, 32, { 1, 1 } },
  { 1, 6, 6, 144, 272, { 1, 1 } },
}

local function drawn()
  local n, h, w = math.random(1, 3), math.random(4, 20), math.random(4, 20)
  return { n, h, w, 16 * math.random(2, 6), 16 * math.random(2, 6),
    { math.random(0, 2), math.random(0, 2) } }
end

-- y, dx and dw of a shape, of values that `dtype` holds.
local function ways(s, dtype, seed)
  mrt.seed(seed)
  local n, h, w, c, o, padding = table.unpack(s)
  local x, k, b = mrt.randn(n, h, w, c), mrt.randn(o, c, 3, 3), mrt.randn(o)
  local y = op.conv2d(x:to(dtype), k:to(dtype), b:to(dtype), { padding = padding })
  local g = mrt.randn(y:size()):to(dtype)
  local dx = op.conv2d_dx(g, k:to(dtype), { padding = padding, size = { h, w } })
  local dw = op.conv2d_dw(x:to(dtype), g, { padding = padding, size = 3 })
  return { y = y, dx = dx, dw = dw }
end

-- The largest error, in units of the root mean square of what is right.
local function error_of(found, right)
  local scale = (right * right):mean():sqrt()
  return ((found:to "f64" - right):abs():max() / scale):item()
end

-- A program that prints of these shapes sums that every bit goes into: images, sides, channels
-- in and out, stride, kernel.
local bits = [[
  local mrt, op = require "mrt", require "mrt.core".op
  mrt.seed(5)
  for _, s in ipairs { %s } do
    local n, h, w, c, o, stride, kernel = table.unpack(s)
    local x, k = mrt.randn(n, h, w, c), mrt.randn(o, c, kernel or 3, kernel or 3)
    local function with(size)
      return { padding = kernel and 0 or 1, stride = stride or 1, size = size }
    end
    local y = op.conv2d(x, k, with())
    local g = mrt.randn(y:size())
    for _, t in ipairs { y, op.conv2d_dx(g, k, with { h, w }),
        op.conv2d_dw(x, g, with(kernel or 3)) } do
      local sum = 0
      for word in t:bytes():gmatch "...." do
        sum = (sum * 31 + string.unpack("<I4", word)) %% 1000003
      end
      print(sum)
    end
  end
]]
local taken = "{ 2, 8, 8, 32, 48 }, { 3, 21, 20, 48, 32 }"
local plain = "{ 2, 8, 8, 31, 48 }, { 2, 2, 2, 32, 32 }, { 2, 8, 8, 32, 32, 2 }"
local products = "{ 2, 21, 20, 48, 32, 1, 1 }, { 3, 31, 20, 40, 270, 2, 1 }, "
  .. "{ 3, 31, 30, 32, 280, 2 }, { 1, 33, 9, 30, 70, 3, 4 }"

describe("Winograd's convolutions", function()
  it("are as exact as a plain sum", function()
    math.randomseed(11)
    for i = 1, 14 do
      local s = shapes[i] or drawn()
      local found, right = ways(s, "f32", i), ways(s, "f64", i)
      for way, t in pairs(found) do
        assert.is_true(error_of(t, right[way]) < 1e-5, way .. " of " .. table.concat(s, " ", 1, 5))
      end
    end
  end)

  it("give each image of a batch the bits it has alone", function()
    for _, s in ipairs(shapes) do
      local n, h, w, c, o, padding = table.unpack(s)
      local x, k = mrt.randn(n + 1, h, w, c), mrt.randn(o, c, 3, 3)
      local all = op.conv2d(x, k, { padding = padding })
      local last = op.conv2d(x:slice(1, n + 1, n + 1), k, { padding = padding })
      assert.equal(last:bytes(), all:slice(1, n + 1, n + 1):contiguous():bytes())
    end
  end)

  it("do not depend on the number of threads", function()
    local code = bits:format(taken)
    local one = program.script(code, "MRT_THREADS=1")
    assert.is_true(#one > 20)
    assert.equal(one, program.script(code, "MRT_THREADS=2"))
    assert.equal(one, program.script(code, "MRT_THREADS=23"))
  end)

  it("are left out where the environment says so, and where they do not pay", function()
    local on = program.script(bits:format(taken), "MRT_WINOGRAD=on")
    assert.not_equal(on, program.script(bits:format(taken), "MRT_WINOGRAD=off"))
    assert.equal(program.script(bits:format(plain), "MRT_WINOGRAD=on"),
      program.script(bits:format(plain), "MRT_WINOGRAD=off"))
  end)

  it("are predicted to be as much quicker as the device says", function()
    mrt.device.use "declared"
    local before = core.device()
    finally(function() mrt.device.use "declared" end)
    local function seconds(winograd, channels)
      local p = {}
      for name, value in pairs(before) do p[name] = value end
      p.winograd = winograd
      core.set_device(p)
      local step = mrt.compile(function(x, k) return op.conv2d(x, k, { padding = 1 }) end)
      local plan = step:plan(mrt.zeros(8, 32, 32, channels), mrt.zeros(64, channels, 3, 3))
      for _, n in ipairs(plan:steps()) do
        if n.op == "conv2d" then return n.time end
      end
    end
    assert.near(2, seconds(0, 64) / seconds(2, 64), 0.01)
    assert.equal(seconds(0, 65), seconds(2, 65))
  end)
end)

describe("convolutions that are products", function()
  it("do not depend on the number of threads", function()
    local code = bits:format(products)
    local one = program.script(code, "MRT_THREADS=1")
    assert.is_true(#one > 60)
    assert.equal(one, program.script(code, "MRT_THREADS=2"))
    assert.equal(one, program.script(code, "MRT_THREADS=23"))
  end)
end)

describe("a small ResNet of such convolutions", function()
  -- The losses of three steps with these options, what the step was said to take, and took.
  local function train(options)
    mrt.seed(2)
    local model = nn.ResNet { blocks = { 1, 1 }, width = 32, classes = 4 }
    local opt = mrt.optim.sgd(model:parameters(), { lr = 0.05, momentum = 0.9 })
    local step = training.step(model, opt, options)
    local x, t = mrt.randn(8, 3, 16, 16), mrt.randint(0, 4, 8)
    mrt.eval(x, t)
    local plan, losses = step:plan(x, t), {}
    for i = 1, 3 do losses[i] = step(x, t):item() end
    return losses, plan
  end

  it("has the same bits in a budget", function()
    for _, name in ipairs { "f32", "bf16" } do
      local precision = mrt.policy.precision[name]
      local losses, plan = train { precision = precision() }
      assert.is_true(losses[3] < losses[1])
      local budget = plan.persistent + plan.transient * 3 // 4
      local bounded, smaller = train { precision = precision(), memory = budget }
      assert.same(losses, bounded)
      assert.is_true(smaller.peak <= budget and budget < plan.peak)
      assert.same(losses, (train { precision = precision(),
        swap = mrt.policy.swap.all { least = 1 } }))
    end
  end)

  it("takes micro-batches", function()
    local function gradient(options)
      mrt.seed(4)
      local conv, head = nn.Conv2d(32, 48, 3, { padding = 1 }), nn.Conv2d(48, 32, 1)
      local x, w = mrt.randn(8, 32, 9, 10), conv:parameters()[1]
      mrt.eval(x)
      return mrt.compile(function(batch)
        return mrt.grad((head(conv(batch)) ^ 2):mean(), w)
      end, options)(x)
    end
    local whole, parts = gradient(), gradient { accumulate = 4 }
    assert.is_true(error_of(parts, whole:to "f64") < 1e-4)
  end)
end)
