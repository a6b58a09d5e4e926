--- narrow_sums_spec.lua -- products that add up in a narrow float, as they are asked to
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random = require "mrt.data.random"
local bits = require("support.bits").of
local failure = require "support.failure"
local training = require "support.training"

local precision = mrt.policy.precision

local function f32(x) return (string.unpack("<f", string.pack("<f", x))) end

-- Bits of fraction, and the exponent of the least normal number.
local floats = { f16 = { 10, -14 }, bf16 = { 7, -126 }, f8_e4m3 = { 3, -6 },
  f8_e5m2 = { 2, -14 } }

-- x rounded to nearest, ties to even; small enough not to overflow.
local function rounded(dtype, x)
  if x == 0 or dtype == "f32" then return f32(x) end
  local fraction, least = table.unpack(floats[dtype])

  local exponent = math.floor(math.log(math.abs(x), 2) + 1e-12)
  if 2.0 ^ exponent > math.abs(x) then exponent = exponent - 1 end
  local unit = 2.0 ^ (math.max(exponent, least) - fraction)
  local n = x / unit
  local low = math.floor(n)
  local rest = n - low
  if rest > 0.5 or rest == 0.5 and low % 2 == 1 then low = low + 1 end
  return low * unit
end

-- Rows of numbers of a dtype, as a tensor and as a table.
local function matrix(draw, rows, columns, dtype, turned)
  local t = {}
  for i = 1, rows do
    t[i] = {}
    for j = 1, columns do t[i][j] = rounded(dtype, (draw:integer(257) - 128) / 64) end
  end
  local x = mrt.tensor(t, "f32"):to(dtype)
  if turned then x = mrt.eval(x:t():copy()):t() end
  return x, t
end

local function product(a, b, n, k, compute, sums, bias)
  local y = {}
  for i, row in ipairs(a) do
    y[i] = {}
    for j = 1, n do
      local s = 0
      for p = 1, k do
        local term = f32(rounded(compute or "f32", row[p]) * rounded(compute or "f32", b[p][j]))
        s = rounded(sums, f32(s + term))
      end
      y[i][j] = bias and rounded(sums, f32(s + bias[j])) or s
    end
  end
  return y
end

describe("sums in few bits", function()
  it("are rounded after each term, in the order of the terms", function()
    local draw = random.new(11)
    local dtypes, narrow = { "f32", "bf16", "f16" }, { "bf16", "f16", "f8_e4m3", "f8_e5m2" }
    for _ = 1, 40 do
      local m, n, k = draw:integer(19) + 1, draw:integer(30) + 1, draw:integer(60) + 1
      local of, sums = dtypes[draw:integer(3) + 1], narrow[draw:integer(4) + 1]
      local compute = draw:integer(2) == 0 and dtypes[draw:integer(2) + 2] or nil
      local x, a = matrix(draw, m, k, of, draw:integer(2) == 0)
      local w, b = matrix(draw, k, n, of, draw:integer(2) == 0)
      local wanted = product(a, b, n, k, compute, sums)
      local o = { accumulate = sums, compute = compute }
      local got = x:to "f32":matmul(w:to "f32", o)
      assert.same(wanted, mrt.eval(got):totable())
      local bias, c = matrix(draw, 1, n, "f32")
      wanted = product(a, b, n, k, compute, sums, c[1])
      got = x:to "f32":linear(w:to "f32":t(), bias:reshape(n), o)
      assert.same(wanted, mrt.eval(got):totable())
      got = x:matmul(w, o) -- of these dtypes, and rounded to them
      assert.same(mrt.eval(x:to "f32":matmul(w:to "f32", o):to(of)):bytes(),
        mrt.eval(got):bytes())
    end
  end)

  it("stop growing where a term is half of the last bit, by policy", function()
    local function total(p, n)
      local step = mrt.compile(function(x, w) return x:matmul(w) end, { precision = p })
      return step(mrt.ones(1, n), mrt.ones(n, 1)):item()
    end
    for sums, wanted in pairs { f32 = 4096, f16 = 2048, bf16 = 256, f8_e4m3 = 16,
      f8_e5m2 = 8 } do
      assert.equal(wanted, total(function(node)
        if node.op == "matmul" then return { accumulate = sums } end
      end, 4096), sums)
    end
    assert.equal(2048, total(precision.f16 { accumulate = "f16" }, 4096))
    assert.equal(256, total(precision.bf16 { accumulate = "bf16" }, 4096))
    assert.equal(4096, total(precision.bf16 { accumulate = "f32" }, 4096))
    assert.equal(100000, total(precision.bf16(), 100000))
  end)

  it("are those of convolutions, in the order of the kernel", function()
    local op = require "mrt.core".op
    local draw = random.new(12)
    for _ = 1, 12 do
      local groups, sums = draw:integer(2) + 1, draw:integer(2) == 0 and "bf16" or "f16"
      local n, c, o = draw:integer(2) + 1, draw:integer(3) + 1, draw:integer(4) + 1
      local kh, kw = draw:integer(3) + 1, draw:integer(3) + 1
      local options = { stride = { draw:integer(2) + 1, draw:integer(2) + 1 },
        padding = { draw:integer(2), draw:integer(2) }, dilation = { 1, draw:integer(2) + 1 },
        groups = groups, accumulate = sums }
      local h, w = 5 + draw:integer(3), 5 + draw:integer(3)
      local _, x = matrix(draw, n * h * w, c * groups, "f32")
      local _, k = matrix(draw, o * groups, c * kh * kw, "f32")
      local bias, d = matrix(draw, 1, o * groups, "f32")
      local image = mrt.tensor(x, "f32"):reshape(n, h, w, c * groups)
      local kernel = mrt.tensor(k, "f32"):reshape(o * groups, c, kh, kw)
      local y = op.conv2d(image, kernel, bias:reshape(-1), options)
      local got, size = mrt.eval(y):totable(), y:size()
      for b = 1, size[1] do for i = 1, size[2] do for j = 1, size[3] do for f = 1, size[4] do
        local s = 0
        for p = 0, kh - 1 do for q = 0, kw - 1 do for e = 1, c do
          local u = (i - 1) * options.stride[1] + p - options.padding[1]
          local v = (j - 1) * options.stride[2] + q * options.dilation[2] - options.padding[2]
          if u >= 0 and u < h and v >= 0 and v < w then
            local pixel = x[((b - 1) * h + u) * w + v + 1][(f - 1) // o * c + e]
            s = rounded(sums, f32(s + f32(pixel * k[f][(e - 1) * kh * kw + p * kw + q + 1])))
          end
        end end end
        assert.equal(rounded(sums, f32(s + d[1][f])), got[b][i][j][f])
      end end end end
    end
  end)

  -- Integers that are small enough are added up exactly in any dtype.
  it("are exact in gradients of convolutions where nothing is lost", function()
    local op = require "mrt.core".op
    local draw = random.new(13)
    for _ = 1, 12 do
      local groups = draw:integer(2) + 1
      local o = { stride = { 1 + draw:integer(2), 1 }, padding = { draw:integer(2), 1 },
        dilation = { 1, 1 + draw:integer(2) }, groups = groups }
      local function integers(...)
        return mrt.eval(mrt.randint(-1, 2, { ... }, { dtype = "i32" }):to "f32")
      end
      local x = integers(2, 6, 7, 3 * groups)
      local w = integers(300 // groups * groups, 3, 2, 3)
      local function gradients(sums)
        o.accumulate = sums
        return mrt.eval(mrt.grad((op.conv2d(x, w, o):square() * 0.5):sum(), { x, w }))
      end
      local wanted = gradients "f32"
      for i, got in ipairs(gradients "f16") do
        if wanted[i]:abs():amax():item() <= 2048 then
          assert.equal(wanted[i]:bytes(), got:bytes())
        end
      end
    end
    local ones = mrt.ones(2, 64, 64, 1)
    local dw = mrt.grad(op.conv2d(ones, mrt.ones(1, 1, 1, 1), { accumulate = "bf16" }):sum(), ones)
    assert.equal(1, dw:amin():item())
    local k = mrt.ones(1, 1, 1, 1)
    assert.equal(256, mrt.grad(op.conv2d(ones, k, { accumulate = "bf16" }):sum(), k):item())
    assert.equal(2048, mrt.grad(op.conv2d(ones, k, { accumulate = "f16" }):sum(), k):item())
    local net = mrt.nn.Conv2d(1, 1, 1, { bias = false })
    net.weight:assign(mrt.ones(1, 1, 1, 1))
    local step = mrt.compile(function(a)
      return mrt.grad(net(a):sum(), net.weight)
    end, { precision = precision.f16 { loss_scale = false, accumulate = "f16" } })
    assert.equal(2048, step(mrt.ones(2, 1, 64, 64)):item())
  end)

  it("are those of gradients too", function()
    local x, w = mrt.ones(4096, 2), mrt.ones(2, 3)
    local dw = mrt.grad(x:matmul(w, { accumulate = "f16" }):sum(), w)
    assert.same({ { 2048, 2048, 2048 }, { 2048, 2048, 2048 } }, dw:totable())
    local dl = mrt.grad(x:linear(w:t(), { accumulate = "f16" }):sum(), w)
    assert.same({ { 2048, 2048, 2048 }, { 2048, 2048, 2048 } }, dl:totable())
    assert.equal(4096, mrt.grad(x:matmul(w):sum(), w):amax():item())
  end)
end)

describe("a policy that says what sums are in", function()
  local function train(options, steps)
    local t = training.gpt(options)
    local out = {}
    for i = 1, steps do out[i] = t.step(table.unpack(t.batch)):bytes() end
    return table.concat(out) .. bits(t.model:parameters()), t
  end

  it("changes no bit where it says f32", function()
    assert.equal(train({ precision = precision.bf16() }, 2),
      (train({ precision = precision.bf16 { accumulate = "f32" } }, 2)))
    assert.equal(train({}, 2), (train({ precision = function(node)
      if node.op == "linear" then return { accumulate = "f32" } end
    end }, 2)))
  end)

  it("gives the same bits however the step is planned", function()
    local p = precision.bf16 { accumulate = "bf16" }
    local wanted, t = train({ precision = p }, 2)
    assert.not_equal(wanted, (train({ precision = precision.bf16() }, 2)))
    local plan = t.step:plan(table.unpack(t.batch))
    for name, options in pairs { fuse = { fuse = false },
      share = { inplace = false, share = false, order = "program" },
      recompute = { checkpoint = mrt.policy.checkpoint.all() },
      swap = { checkpoint = mrt.policy.checkpoint.swap(), swap = mrt.policy.swap.all() },
      budget = { memory = plan.peak - plan.transient // 5 } } do
      options.precision = p
      assert(wanted == train(options, 2), name)
    end
  end)

  it("takes micro-batches: rows of a product are the same, their gradients add up", function()
    local function run(accumulate)
      mrt.seed(3)
      local layer = mrt.nn.Linear(300, 7)
      local x = mrt.eval(mrt.randn(12, 300))
      local step = mrt.compile(function(a)
        local y = layer(a)
        return y, mrt.grad(y:square():mean(), layer.weight)
      end, { accumulate = accumulate, precision = precision.bf16 { accumulate = "bf16" } })
      return step(x)
    end
    local y, g = run(1)
    local parts, sums = run(4)
    assert.equal(y:bytes(), parts:bytes())
    assert.not_equal(g:bytes(), sums:bytes())
    assert.is_true(((g - sums):norm() / g:norm()):item() < 0.05)
  end)

  it("shows in the report and costs what it costs", function()
    local x = mrt.eval(mrt.randn(256, 256))
    local function plan(sums)
      return mrt.compile(function(a) return a:matmul(a, { accumulate = sums }) end):plan(x)
    end
    local narrow, wide = plan "bf16", plan "f32"
    assert.matches("1 products? adds? up in bf16, rounded after each term", tostring(narrow:text()))
    assert.is_nil(wide:text():find("add up", 1, true))
    assert.equal("bf16", narrow:steps()[1].accumulate)
    assert.is_true(narrow.seconds > 3 * wide.seconds)
  end)

  it("is refused where sums are something else", function()
    local x = mrt.ones(1, 4, 2, 4)
    local step = mrt.compile(function(w)
      return x:attention(w, w)
    end, { precision = function() return { accumulate = "bf16" } end })
    local err = failure(step, mrt.ones(1, 4, 2, 4))
    assert.matches("narrow_sums_spec.lua:%d+", err.message)
    assert.matches("attention adds up in f32, only matmul, linear and conv2d", err.message)
    assert.error_matches(function() precision.bf16 { accumulate = "f16" } end,
      "option 'accumulate': \"bf16\" or \"f32\" wanted, got \"f16\"")
    local m = mrt.ones(2, 2)
    assert.error_matches(function() return m:matmul(m, { accumulate = "i32" }) end,
      "accumulate is i32 beside f32, a narrow float or f32 wanted")
    local d = m:to "f64"
    assert.error_matches(function() return d:matmul(d, { accumulate = "f16" }) end,
      "accumulate is f16 beside f64, f64 wanted")
  end)
end)
