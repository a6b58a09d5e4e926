--- narrow_spec.lua -- floats of 16 and 8 bits: patterns, rounding, operators
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local rows = require "op.rows"

local names = { "f16", "bf16", "f8_e4m3", "f8_e5m2" }

local function from_patterns(dtype, patterns)
  local format = mrt.dtype_info(dtype).bytes == 2 and "<I2" or "B"
  local bytes = {}
  for i, p in ipairs(patterns) do bytes[i] = format:pack(p) end
  return mrt.from_bytes(table.concat(bytes), dtype, { #patterns })
end

local function patterns_of(t)
  local size, list = mrt.dtype_info(t.dtype).bytes, {}
  local bytes, format = t:bytes(), size == 2 and "<I2" or "B"
  for i = 1, #bytes // size do list[i] = format:unpack(bytes, 1 + (i - 1) * size) end
  return list
end

-- The number a pattern stands for, from the format's definition.
local function number_of(d, pattern)
  local fraction = pattern & (1 << d.fraction) - 1
  local exponent = pattern >> d.fraction & (1 << d.exponent) - 1
  local sign = pattern >> (d.fraction + d.exponent) == 1 and -1 or 1
  local top, bias = (1 << d.exponent) - 1, (1 << d.exponent - 1) - 1
  if d.name == "f8_e4m3" and exponent == top and fraction == 7 then return 0 / 0 end
  if d.name ~= "f8_e4m3" and exponent == top then
    return fraction == 0 and sign * math.huge or 0 / 0
  end
  local leading = exponent > 0 and 1 or 0
  return sign * (leading + fraction / (1 << d.fraction))
    * 2.0 ^ (math.max(exponent, 1) - bias)
end

local function all_patterns(d)
  local list = {}
  for p = 0, (1 << 8 * d.bytes) - 1 do list[p + 1] = p end
  return list
end

describe("a narrow float", function()
  it("is read as its format says, every pattern", function()
    for _, name in ipairs(names) do
      local d = mrt.dtype_info(name)
      local patterns = all_patterns(d)
      local t = from_patterns(name, patterns)
      for _, as in ipairs { "f32", "f64" } do
        for i, x in ipairs(rows.data(t:to(as))) do
          local wanted = number_of(d, patterns[i])
          assert(x == wanted or x ~= x and wanted ~= wanted,
            ("%s pattern %x is %s, not %s"):format(name, patterns[i], x, wanted))
        end
      end
    end
  end)

  it("comes back as the same pattern", function()
    for _, name in ipairs(names) do
      local d, kept = mrt.dtype_info(name), {}
      for _, p in ipairs(all_patterns(d)) do
        if math.abs(number_of(d, p)) <= d.largest then kept[#kept + 1] = p end
      end
      local t = from_patterns(name, kept)
      assert.same(kept, patterns_of(t:to "f32":to(name)))
      assert.same(kept, patterns_of(t:to "f64":to(name)))
    end
  end)

  it("is the nearest there is, ties to even, on both sides of every tie", function()
    for _, name in ipairs(names) do
      local d, numbers, wanted = mrt.dtype_info(name), {}, {}
      local function expect(x, pattern)
        numbers[#numbers + 1], wanted[#wanted + 1] = x, pattern
      end
      for p = 0, (1 << 8 * d.bytes - 1) - 2, d.bytes == 2 and 37 or 1 do
        local low, high = number_of(d, p), number_of(d, p + 1)
        if high <= d.largest then
          local middle = (low + high) / 2 -- exact in f64
          expect(middle, p % 2 == 0 and p or p + 1)
          expect(middle * (1 + 2.0 ^ -50), p + 1)
          expect(middle * (1 - 2.0 ^ -50), p)
        end
      end
      local t = mrt.tensor(numbers, "f64")
      assert.same(wanted, patterns_of(t:to(name)))
      local sign = 1 << 8 * d.bytes - 1
      for i, p in ipairs(patterns_of((-t):to(name))) do
        assert.equal(wanted[i] | sign, p)
      end
    end
  end)

  it("overflows to infinity, or of 8 bits stays at the largest; NaN stays", function()
    local x = mrt.tensor { 1e38 * 10, -1e38 * 10, 70000, -70000, 460, 0 / 0 }
    local inf = math.huge
    local function check(name, wanted)
      local got = rows.data(x:to(name))
      assert(got[6] ~= got[6])
      got[6] = nil
      assert.same(wanted, got)
    end
    check("f16", { inf, -inf, inf, -inf, 460.0 })
    check("f8_e4m3", { 448.0, -448.0, 448.0, -448.0, 448.0 })
    check("f8_e5m2", { 57344.0, -57344.0, 57344.0, -57344.0, 448.0 })
  end)

  it("is made of numbers by one rounding", function()
    for _, name in ipairs { "f16", "bf16", "f8_e4m3", "f8_e5m2" } do
      local step = mrt.dtype_info(name).epsilon
      local above = 1 + step / 2 + 2.0 ^ -40 -- in f32 a tie
      assert.same({ 1 + step, 1 }, mrt.tensor({ above, 1 + step / 2 }, name):totable())
      assert.equal(1 + step, mrt.full({}, above, { dtype = name }):item())
      assert.same({ 0, 1.5, 3 }, mrt.arange(0, 4, 1.5, { dtype = name }):totable())
      for _, make in ipairs { mrt.rand, mrt.randn } do
        local x = make(64, { dtype = name })
        assert.equal(name .. "[64]", x:type())
        assert(x:to "f32":var():item() > 0.04)
      end
    end
  end)

  it("has facts, and unknown names are refused", function()
    local d = mrt.dtype_info "bf16"
    assert.same({ 2, 8, 7, 2.0 ^ -7, 2.0 ^ -126, 0x1.fep127 },
      { d.bytes, d.exponent, d.fraction, d.epsilon, d.smallest, d.largest })
    assert.equal(2.0 ^ -6, mrt.dtype_info "f8_e4m3".smallest)
    local ok, err = pcall(mrt.dtype_info, "f12")
    assert.is_false(ok)
    assert.equal("dtype_info: no dtype 'f12'", err.message)
  end)
end)

-- The sample's tensors, floats rounded to `dtype`.
local function narrowed(ins, dtype)
  local list, any = {}, false
  for i, flat in ipairs(ins) do
    list[i] = rows.tensor(flat)
    if flat.dtype == "f32" then list[i], any = list[i]:to(dtype), true end
  end
  return list, any
end

local function widened(list)
  local wide = {}
  for i, t in ipairs(list) do
    wide[i] = mrt.dtype_info(t.dtype).narrow and t:to "f32" or t
  end
  mrt.eval(wide) -- casts of their own
  return wide
end

local function close(a, b, tolerance)
  if a == b or a ~= a and b ~= b then return true end
  return math.abs(a - b) <= tolerance * math.max(1, math.abs(a), math.abs(b))
end

-- Each call draws anew.
local draws = { dropout = true, poisson = true, binomial = true, standard_gamma = true }

describe("an operator on narrow floats", function()
  it("computes in f32 and rounds, every row", function()
    local checked = 0
    for _, row in ipairs(rows.all()) do
      local apart = row.updates or draws[row.op]
      for k, case in ipairs(apart and {} or row.cases) do
        local ins = rows.inputs(case, "f32")
        for _, dtype in ipairs { "bf16", "f16", "f8_e4m3" } do
          local list, any = narrowed(ins, dtype)
          local ok, got = pcall(rows.apply, row, list, case.options)
          if any and ok then
            local wanted = rows.apply(row, widened(list), case.options)
            for i, t in ipairs(got) do
              local tolerance = mrt.dtype_info(t.dtype).narrow
                and rows.tolerance[t.dtype] or rows.tolerance.f32
              local x, y = rows.data(t), rows.data(wanted[i]:to(t.dtype))
              for n = 1, #y do
                if not close(x[n], y[n], tolerance) then
                  error(("%s, case %d, %s: output %d at %d is %s, not %s"):format(
                    row.op, k, dtype, i, n, x[n], y[n]))
                end
              end
              checked = checked + 1
            end
          elseif any then
            error(("%s, case %d, %s: %s"):format(row.op, k, dtype, got.message))
          end
        end
      end
    end
    assert(checked > 500, checked)
  end)

  it("gives the widest dtype of its inputs, and leaves statistics in f32", function()
    local x = mrt.randn(3, 4):to "bf16"
    assert.equal("bf16[3,4]", (x + x:to "f8_e4m3"):type())
    assert.equal("f32[3,4]", (x * x:to "f16"):type())
    assert.equal("bf16[3,3]", x:matmul(x:t()):type())
    assert.equal("f32[3,3]", x:matmul(mrt.randn(4, 3)):type())
    assert.equal("bf16[3,4]", x:softmax(2):type())
    assert.equal("f32[]", mrt.nn.cross_entropy(x, mrt.tensor { 0, 1, 2 }):type())
  end)

  it("keeps range where sums and exponentials need it", function()
    local big = mrt.tensor({ 60000, -60000 }, "f16")
    assert.same({ 1, 0 }, big:softmax(1):totable())
    local x = mrt.zeros(10000):to "f16" + 1000
    assert.near(1e5, core.op.global_norm { x }:item(), 1)
  end)

  it("has gradients, rounded like values", function()
    local x = mrt.tensor({ 0.5, -1, 2 }, "bf16")
    local g = mrt.grad((x:tanh() * x):sum(), x)
    assert.equal("bf16[3]", g:type())
    local wide = x:to "f32"
    local exact = mrt.grad((wide:tanh() * wide):sum(), wide):totable()
    for i, y in ipairs(g:totable()) do assert.near(exact[i], y, 0.02) end
  end)
end)
