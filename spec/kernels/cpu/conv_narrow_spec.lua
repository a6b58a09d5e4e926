--- conv_narrow_spec.lua -- convolutions of narrow floats
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"
local program = require "support.program"
local training = require "support.training"

local nn, op = mrt.nn, core.op
local dtypes = { "bf16", "f16", "f8_e4m3", "f8_e5m2", "f32" }

-- batch, sides, channels in and out, kernel, options: odd channels, joined and
-- copied reads, padding, several parts of a sum, columns past a strip, depthwise
local shapes = {
  { 1, 1, 1, 1, 1, 1, 1 },
  { 2, 5, 4, 3, 4, 3, 3, { padding = 1 } },
  { 7, 6, 6, 4, 70, 3, 4, { padding = 1, stride = 2 } },
  { 2, 6, 7, 64, 130, 3, 3, { padding = 1 } },
  { 1, 5, 5, 300, 20, 3, 3, { padding = 2, dilation = 2 } },
  { 2, 4, 4, 36, 54, 3, 3, { groups = 3, padding = 1 } },
  { 2, 5, 6, 27, 18, 2, 3, { groups = 9, stride = { 2, 1 } } },
  { 1, 4, 4, 601, 5, 1, 1, {} },
  { 3, 9, 8, 17, 33, 1, 1, { stride = 2 } },
  { 1, 45, 42, 150, 9, 3, 3, { padding = 1 } },
  { 1, 12, 12, 3, 2, 11, 11, { padding = 5 } },
  { 2, 6, 6, 83, 83, 3, 3, { groups = 83, padding = 1 } },
  { 1, 9, 11, 5, 5, 3, 5, { groups = 5, padding = { 1, 2 }, stride = 2 } },
  { 2, 6, 7, 64, 48, 3, 3, { padding = 1 } },
  { 2, 5, 4, 32, 144, 3, 3, { padding = { 2, 1 } } },
  { 2, 6, 5, 20, 33, 1, 1, {} },
  { 2, 7, 5, 18, 21, 1, 1, { stride = { 2, 3 } } },
  { 2, 12, 17, 70, 70, 5, 3, { groups = 70, padding = 2, dilation = { 2, 1 } } },
}

local function whole(dims, largest)
  local x = mrt.randint(0, 2 * largest + 1, dims):to "f32" - largest
  mrt.eval(x)
  return x
end

local function copied(options, more)
  local all = {}
  for name, value in pairs(options or {}) do all[name] = value end
  for name, value in pairs(more) do all[name] = value end
  return all
end

-- x, w, bias and dy of a shape, and the three operators.
local function case(s, make)
  local n, h, l, c, filters, kh, kw, o = table.unpack(s)
  o = o or {}
  local x, w = make { n, h, l, c }, make { filters, c // (o.groups or 1), kh, kw }
  local y = op.conv2d(x, w, o)
  local sized = { size = { h, l } }
  return {
    { "conv2d", copied(o, {}), x, w, make { filters } },
    { "conv2d", copied(o, {}), x, w },
    { "conv2d_dx", copied(o, sized), make(y.shape), w },
    { "conv2d_dw", copied(o, { size = { kh, kw } }), x, make(y.shape) },
  }
end

local function assert_same(a, b, ...)
  mrt.eval(a, b)
  assert.equal(b:type(), a:type())
  assert(a:bytes() == b:bytes(), table.concat({ a:type(), ... }, " ") .. ": other bits")
end

-- The result in its own dtype, and of a plan that stores it as `dtype`.
local function stored(name, list, options, dtype)
  local own
  local step = mrt.compile(function(...)
    local ins = { ... }
    ins[#ins + 1] = options
    local y = op[name](table.unpack(ins))
    own = y.dtype
    return y:to "f32":to(dtype)
  end)
  return step(table.unpack(list)), own
end

describe("convolutions of narrow floats", function()
  it("are exact where sums are, in any mixture of dtypes", function()
    local random = random_graph.generator(3)
    mrt.seed(9)
    for k, s in ipairs(shapes) do
      for _, c in ipairs(case(s, function(dims) return whole(dims, 3) end)) do
        local name, o, wide = c[1], c[2], { table.unpack(c, 3) }
        local plain = { table.unpack(wide) }
        plain[#plain + 1] = o
        local wanted = op[name](table.unpack(plain))
        for trial = 1, 6 do
          local list = {}
          for i, t in ipairs(wide) do
            list[i] = t:to(trial < 5 and dtypes[trial] or dtypes[random(#dtypes)])
          end
          mrt.eval(list)
          local compute = trial == 5 and dtypes[random(4)] or nil
          local to = dtypes[random(#dtypes)]
          local got, own = stored(name, list, copied(o, { compute = compute }), to)
          assert_same(got, wanted:to(own):to(to), "shape", k, name, "trial", trial)
        end
      end
    end
  end)

  it("are exact at any stride, padding, dilation, and for any number of images", function()
    local random = random_graph.generator(12)
    local function upto(n) return random(n) - 1 end
    local function channels() return random(2) == 1 and random(9) or random(70) end
    core.set_poison(true)
    finally(function() core.set_poison(false) end)
    for k = 1, 40 do
      mrt.seed(k)
      local kh, kw, groups = random(4), random(4), random(4) == 1 and random(3) or 1
      local o = { stride = { random(3), random(3) }, padding = { upto(4), upto(4) },
        dilation = { random(2), random(2) }, groups = groups }
      local images = ({ 1, 2, 3, 17, 33, 40 })[random(6)]
      local h, l = kh * 2 + upto(9), kw * 2 + upto(9)
      local s = { images, h, l, groups * channels(), groups * channels(), kh, kw, o }
      for _, c in ipairs(case(s, function(dims) return whole(dims, 3) end)) do
        local wide, list = { table.unpack(c, 3) }, {}
        for i, t in ipairs(wide) do list[i] = t:to "bf16" end
        mrt.eval(list)
        wide[#wide + 1] = c[2]
        local wanted = op[c[1]](table.unpack(wide))
        local got, own = stored(c[1], list, c[2], "f32")
        assert_same(got, wanted:to(own):to "f32", c[1], "case", k)
      end
    end
  end)

  it("have the bits of an image alone in any batch", function()
    mrt.seed(5)
    for _, s in ipairs { { 40, 5, 4, 48, 40, 3 }, { 33, 9, 7, 6, 20, 3, 2 },
      { 18, 12, 12, 70, 33, 5 } } do
      local n, h, l, c, filters, kernel, stride = table.unpack(s)
      local x, w = mrt.randn(n, h, l, c):to "bf16", mrt.randn(filters, c, kernel, kernel):to "bf16"
      local o = { padding = 1, stride = stride or 1 }
      local y = op.conv2d(x, w, o)
      local back = copied(o, { size = { h, l } })
      local dx = op.conv2d_dx(y, w, back)
      for _, i in ipairs { 1, n } do
        local function image(t) return t:slice(1, i, i):contiguous() end
        assert_same(op.conv2d(image(x), w, o), image(y), "image", i)
        assert_same(op.conv2d_dx(image(y), w, back), image(dx), "image", i)
      end
    end
  end)

  it("round to `compute` as casts do", function()
    mrt.seed(4)
    for k, s in ipairs(shapes) do
      for _, c in ipairs(case(s, mrt.randn)) do
        for _, d in ipairs(dtypes) do
          local list, cast = { table.unpack(c, 3) }, {}
          for i, t in ipairs(list) do cast[i] = i < 3 and t:to(d):to "f32" or t end
          mrt.eval(cast)
          list[#list + 1], cast[#cast + 1] = copied(c[2], { compute = d }), c[2]
          local got, wanted = op[c[1]](table.unpack(list)), op[c[1]](table.unpack(cast))
          local worst = (got - wanted):abs():amax():item()
          local size = wanted:abs():amax():item()
          assert(worst <= 1e-5 * size + 1e-5,
            ("shape %d, %s, %s: differs by %g of %g"):format(k, c[1], d, worst, size))
        end
      end
    end
  end)

  it("have gradients of their inputs' dtypes, with the same `compute`", function()
    local x, w = mrt.randn(2, 5, 5, 6):to "f16", mrt.randn(4, 6, 3, 3)
    local bias, o = mrt.randn(4):to "bf16", { padding = 1, compute = "bf16" }
    local y = op.conv2d(x, w, bias, o)
    local dy = mrt.randn(y.shape)
    local dx, dw, db = table.unpack(mrt.grad((y * dy):sum(), { x, w, bias }))
    assert_same(dx, op.conv2d_dx(dy, w, copied(o, { size = { 5, 5 } })):to "f16")
    assert_same(dw, op.conv2d_dw(x, dy, copied(o, { size = { 3, 3 } })))
    assert_same(db, dy:sum { 1, 2, 3 }:to "bf16")
  end)

  it("refuse other dtypes, naming them", function()
    local x, w = mrt.randn(1, 2, 2, 1), mrt.randn(1, 1, 1, 1)
    local function refused(text, ...)
      local ok, err = pcall(op.conv2d, ...)
      assert(not ok and err.message:find(text, 1, true), tostring(err.message))
      assert.equal("dtype", err.code)
    end
    refused("compute is i32 beside f32, a narrow float or f32 wanted", x, w, { compute = "i32" })
    refused("compute is f64 beside bf16", x:to "bf16", w, { compute = "f64" })
    refused("floats wanted", x, w:to "i64")
  end)

  it("have the same bits with any number of threads", function()
    local code = [[
      local mrt, op = require "mrt", require "mrt.core".op
      mrt.seed(7)
      local x, w = mrt.randn(9, 9, 9, 70):to "bf16", mrt.randn(133, 70, 3, 3)
      local dy, sum = mrt.randn(9, 9, 9, 133):to "bf16", 0
      local o, dx, dw = { padding = 1 }, { padding = 1, size = 9 }, { padding = 1, size = 3 }
      for _, d in ipairs { "bf16", "f16", "bf16" } do
        o.compute, dx.compute, dw.compute = d, d, d
        for _, t in ipairs { op.conv2d(x, w, o), op.conv2d_dx(dy, w, dx),
          op.conv2d_dw(x, dy, dw) } do
          for p in t:to "bf16":bytes():gmatch ".." do
            sum = (sum * 31 + p:byte() + p:byte(2) * 7) % 1000003
          end
        end
        x, w = mrt.randn(40, 5, 6, 70):to "bf16", mrt.randn(133, 70, 3, 3)
        dy, dx.size = mrt.randn(40, 5, 6, 133):to "bf16", { 5, 6 }
      end
      io.write(("%d"):format(sum))]]
    local one = program.script(code, "MRT_THREADS=1")
    assert(one:match "^%d+$", one)
    assert.equal(one, program.script(code, "MRT_THREADS=2"))
    assert.equal(one, program.script(code, "MRT_THREADS=5"))
  end)
end)

describe("a small ResNet in bf16", function()
  local function step_of(precision, batch, side)
    mrt.seed(2)
    local model = nn.ResNet { blocks = { 1, 1 }, width = 16, classes = 4 }
    local opt = mrt.optim.sgd(model:parameters(), { lr = 0.05, momentum = 0.9 })
    local step = training.step(model, opt, { precision = precision, spend = 0 })
    local x, t = mrt.randn(batch, 3, side, side), mrt.randint(0, 4, batch)
    mrt.eval(x, t)
    return step, x, t
  end
  local function train(precision)
    local step, x, t = step_of(precision, 16, 16)
    local first, last = step(x, t):item(), nil
    for _ = 1, 15 do last = step(x, t):item() end
    return first, last
  end
  local function transient(precision)
    local step, x, t = step_of(precision, 64, 32)
    return step:plan(x, t).transient
  end

  it("learns, with less memory", function()
    local bf16 = mrt.policy.precision.bf16()
    local first, wide = train()
    local begin, narrow = train(bf16)
    assert(math.abs(begin - first) < 0.03 * first)
    assert(narrow < 0.5 * begin and wide < 0.5 * first, narrow .. " " .. wide)
    local share = transient(bf16) / transient()
    assert(share <= 0.6, "transient memory " .. share .. " of f32")
  end)
end)
