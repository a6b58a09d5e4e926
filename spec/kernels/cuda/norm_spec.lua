-- norm_spec.lua -- norms whose operands are f32 on one side and bf16 on the
-- other, as steps in bf16 have them, agree with the processor's
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"

-- y rounded to bf16, and the gradients of x, w and b from one that is bf16; where
-- `narrow` is true x is bf16, too.
local function step(kind, narrow)
  return mrt.compile(function(x, w, b, scale)
    if narrow then x = x:to "bf16" end
    local y = (kind == "rms" and x:rms_norm(w) or x:layer_norm(w, b)):to "bf16"
    local loss = (y:to "f32" * scale):to("bf16"):sum()
    return y, table.unpack(mrt.grad(loss, kind == "rms" and { x, w } or { x, w, b }))
  end)
end

local function results(device, kind, narrow, inputs)
  mrt.device(device)
  local here = {}
  for i, t in ipairs(inputs) do here[i] = t:to(device) end
  local list = { step(kind, narrow)(table.unpack(here)) }
  for i, t in ipairs(list) do list[i] = t:to("f32"):to "cpu" end
  mrt.device "cpu"
  return list
end

-- Rows that a warp, a block, and no block's registers hold, backward or at all; in
-- packs of 16 bytes, of 8, or of none.
local shapes = { { 1, 8 }, { 5, 7 }, { 600, 40 }, { 130, 768 }, { 70, 1600 }, { 33, 1028 },
  { 9, 4500 }, { 3, 8200 } }

describe("norms between f32 and bf16", function()
  for _, case in ipairs { { "layer" }, { "rms" }, { "layer", true }, { "rms", true } } do
    local kind, narrow = case[1], case[2]
    it(kind .. (narrow and ", of bf16" or ""), function()
      for _, s in ipairs(shapes) do
        mrt.device "cpu"
        mrt.seed(3)
        local inputs = { mrt.randn(s[1], s[2]) + 0.3, mrt.randn(s[2]) }
        inputs[3], inputs[4] = mrt.randn(s[2]), mrt.randn(s[1], s[2])
        local a = results("cpu", kind, narrow, inputs)
        local b = results("cuda:0", kind, narrow, inputs)
        for i = 1, #a do
          local most = a[i]:abs():max():item()
          local far = (a[i] - b[i]):abs():max():item()
          -- y may be rounded to its other neighbour
          local text = ("%d x %d, result %d: %g of %g"):format(s[1], s[2], i, far, most)
          assert(far <= most * ((i == 1 or i == 2 and narrow) and 2 ^ -8 or 1e-5), text)
        end
      end
    end)
  end
end)

-- Of y = linear(x), z = y + norm(y): gradients, as a plan with these options makes them.
local function past(kind, dtype, options, x, w, scale)
  options.precision = dtype ~= "f32" and mrt.policy.precision[dtype]() or nil
  if dtype == "bf16_pure" then x, w, scale = x:to "bf16", w:to "bf16", scale:to "bf16" end
  local run = mrt.compile(function(a, v, s)
    local y = a:linear(v)
    local loss = ((y + (kind == "rms" and y:rms_norm(s) or y:layer_norm(s, s))) * s):sum()
    return table.unpack(mrt.grad(loss, { a, v, s }))
  end, options)
  local list = { run(x, w, scale) }
  local added = 0
  for _, s in ipairs(run:plan(x, w, scale):steps()) do
    if s.op == kind .. "_norm_grad_add" then added = added + 1 end
  end
  return require("support.bits").of(list), added
end

describe("the gradient of a norm added to another", function()
  for _, case in ipairs { { "layer", "f32" }, { "rms", "bf16" }, { "layer", "bf16" },
    { "rms", "f16" }, { "layer", "bf16_pure" } } do
    it(("%s in %s"):format(case[1], case[2]), function()
      for _, s in ipairs(shapes) do
        mrt.device "cuda:0"
        mrt.seed(4)
        local x, w, scale = mrt.eval(mrt.randn(s[1], 3)), mrt.eval(mrt.randn(s[2], 3)),
          mrt.eval(mrt.randn(s[2]))
        local apart = past(case[1], case[2], { add_norm_grads = false }, x, w, scale)
        local added, count = past(case[1], case[2], {}, x, w, scale)
        mrt.device "cpu"
        assert.are.equal(1, count)
        assert(apart == added, ("other bits at %d x %d"):format(s[1], s[2]))
      end
    end)
  end

  it("in f64, which readers round", function()
    local function rounded(device, options)
      mrt.device(device)
      mrt.seed(5)
      local x, s = mrt.randn(40, 70), mrt.randn(70)
      x, s = mrt.eval(x:to "f64"), mrt.eval(s:to "f64")
      local y = mrt.compile(function(a, v)
        local g = mrt.grad((a + a:rms_norm(v)):tanh():sum(), { a })[1]
        return g:to "bf16"
      end, options)(x, s):to("f32"):to "cpu"
      mrt.device "cpu"
      return y:bytes()
    end
    local apart = rounded("cuda:0", { add_norm_grads = false })
    assert.is_true(apart == rounded("cuda:0", {}))
  end)
end)
