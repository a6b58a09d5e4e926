--- attention_spec.lua -- attention on narrow floats, beside that on f32
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local rows = require "op.rows"

local attention = core.op.attention

-- B, T, S, H, Hk, D, Dv and how large scores become.
local shapes = {
  { 1, 70, 90, 4, 2, 20, 33, 1 },
  { 2, 65, 65, 2, 1, 64, 64, 1 },
  { 1, 3, 131, 3, 3, 7, 1, 1 },
  { 1, 200, 129, 1, 1, 32, 64, 30 },
}

-- q, k, v and the gradient of o, in f32 of which the narrow ones are roundings.
local function inputs(s, dtypes)
  local B, T, S, H, Hk, D, Dv, large = table.unpack(s)
  local x = { mrt.randn(B, T, H, D) * large, mrt.randn(B, S, Hk, D),
    mrt.randn(B, S, Hk, Dv), mrt.randn(B, T, H, Dv) }
  local narrow, wide = {}, {}
  for i = 1, 4 do
    narrow[i] = x[i]:to(dtypes[i])
    wide[i] = narrow[i]:to "f32"
  end
  mrt.eval(narrow, wide)
  return narrow, wide
end

-- o, lse, dq, dk, dv.
local function results(x, options)
  local o, lse = attention(x[1], x[2], x[3], options)
  local d = mrt.grad(o, { x[1], x[2], x[3] }, { grad_outputs = x[4]:to(o.dtype) })
  return { o, lse, table.unpack(d) }
end

-- The largest difference as a share of the largest number.
local function apart(a, b)
  local most, scale = 0, 0
  local x, y = rows.data(a), rows.data(b)
  for i = 1, #y do
    if x[i] ~= y[i] then most = math.max(most, math.abs(x[i] - y[i])) end
    if math.abs(y[i]) < math.huge then scale = math.max(scale, math.abs(y[i])) end
    assert(x[i] == x[i], "NaN")
  end
  return most / math.max(scale, 1e-30)
end

local mixes = {
  { { "bf16", "bf16", "bf16", "bf16" }, "bf16" },
  { { "f16", "f16", "f16", "f16" }, "f16" },
  { { "bf16", "f16", "bf16", "f32" }, "f32" },
  { { "f8_e4m3", "bf16", "f8_e5m2", "bf16" }, "bf16" },
  { { "f32", "bf16", "bf16", "f32" }, "f32" },
  { { "f8_e4m3", "f8_e4m3", "bf16", "bf16" }, "bf16" },
}

describe("attention on narrow floats", function()
  it("is that on f32, to their precision; gradients have their inputs' dtypes", function()
    mrt.seed(11)
    for _, s in ipairs(shapes) do
      for _, mix in ipairs(mixes) do
        for _, causal in ipairs { true, false } do
          local narrow, wide = inputs(s, mix[1])
          local got = results(narrow, { causal = causal })
          local wanted = results(wide, { causal = causal })
          assert.equal(mix[2], got[1].dtype)
          assert.equal("f32", got[2].dtype)
          for i = 1, 3 do assert.equal(mix[1][i], got[i + 2].dtype) end
          for i, t in ipairs(got) do
            local rounds = mix[1][1] ~= "f16" and "bf16" or "f16"
            local loosest = math.max(mrt.dtype_info(t.dtype).epsilon,
              mrt.dtype_info(rounds).epsilon)
            local most, name = i == 2 and 2e-5 or 1.5 * loosest, t.dtype
            local error = apart(t, wanted[i])
            assert(error <= most, ("%s %s, causal %s: result %d is %g apart"):format(
              table.concat(s, ","), name, causal, i, error))
          end
        end
      end
    end
  end)

  it("gives the same bits whatever the strides", function()
    mrt.seed(12)
    for _, dtype in ipairs { "bf16", "f16" } do
      for _, D in ipairs { 32, 20 } do
        local all = mrt.randn(2, 70, 3, 4 * D + 1):to(dtype)
        mrt.eval(all)
        for first = 1, 2 do -- the second is not aligned for pairs
          local views, copies = {}, {}
          for i = 1, 4 do
            local at = first + (i - 1) * D
            views[i] = all:slice(4, at, at + D - 1)
            copies[i] = mrt.from_bytes(views[i]:bytes(), dtype, { 2, 70, 3, D })
          end
          local a = results(views, { causal = true })
          local b = results(copies, { causal = true })
          for i = 1, 5 do assert(a[i]:bytes() == b[i]:bytes(), dtype .. D .. i) end
        end
      end
    end
  end)

  -- Rows of 16 heads are 4 KiB apart, where tiles are copied.
  it("gives the same bits where rows share places in the cache", function()
    mrt.seed(13)
    for _, dtype in ipairs { "f32", "f64" } do
      local all, views, copies = mrt.randn(1, 130, 16, 64, { dtype = dtype }), {}, {}
      mrt.eval(all)
      for i = 1, 4 do
        views[i] = all:slice(3, 4 * i - 3, 4 * i - 2)
        copies[i] = mrt.from_bytes(views[i]:bytes(), dtype, { 1, 130, 2, 64 })
      end
      local a, b = results(views, { causal = true }), results(copies, { causal = true })
      for i = 1, 5 do assert(a[i]:bytes() == b[i]:bytes(), dtype .. i) end
    end
  end)

  it("has second derivatives, by plain operators", function()
    mrt.seed(13)
    local narrow, wide = inputs({ 1, 5, 5, 2, 1, 4, 4, 1 }, mixes[1][1])
    local function twice(x)
      local o = attention(x[1], x[2], x[3], { causal = true })
      local g = mrt.grad((o * x[4]):sum(), x[1])
      return mrt.grad((g * g):sum(), x[2])
    end
    local a = twice(narrow)
    assert.equal("bf16", a.dtype)
    assert(apart(a, twice(wide)) < 0.1)
  end)

  it("refuses f64 beside others", function()
    local q = mrt.randn(1, 2, 1, 4)
    local ok, err = pcall(attention, q:to "f64", q, q)
    assert.is_false(ok)
    assert.equal("dtype", err.code)
  end)
end)
