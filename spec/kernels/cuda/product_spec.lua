-- product_spec.lua -- products on a CUDA device give what the CPU's do
--
-- Random sizes, dtypes and layouts; on the emulated device these go through
-- descriptors of an emulated cuBLASLt, which refuses what the real one does.
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"
local core = require "mrt.core"
local rows = require "op.rows"

local device = "cuda:0"
local eight = { "f8_e4m3", "f8_e5m2" }
local floats = { "f32", "bf16", "f16", table.unpack(eight) }

-- Lehmer's generator.
local state = 4711
local function draw(n)
  state = state * 48271 % 2147483647
  return state % n + 1
end
local function one_of(list) return list[draw(#list)] end

-- Hopper's matrix units keep some 13 bits of each sum of products of 8-bit floats.
local function tolerance_of(a, b)
  return a:find "^f8" and b:find "^f8" and 2 ^ -9 or rows.tolerance.f32 * 10
end

local function product(list)
  local n = 1
  for _, d in ipairs(list) do n = n * d end
  return n
end

-- A tensor on the CPU and the same on the device, both seen through `view`.
local function pair(dims, dtype, view)
  local list = {}
  for i = 1, product(dims) do list[i] = (draw(2001) - 1001) / 1000 end
  local t = rows.tensor { dims = dims, dtype = dtype, data = list }
  mrt.eval(t)
  return view(t), view(mrt.eval(t:to(device)))
end

-- A matrix of a batch, laid out in one of several ways.
local layouts = {
  function(batch, r, c) return { batch, r, c }, function(t) return t end end,
  function(batch, r, c)
    return { batch, c, r }, function(t) return t:transpose(2, 3) end
  end,
  function(batch, r, c) -- rows apart, addresses off
    return { batch, r + 1, c + 3 }, function(t) return t:slice(2, 2, r + 1):slice(3, 2, c + 1) end
  end,
  function(batch, r, c) -- no stride is 1
    return { batch, r, c, 2 }, function(t) return t:slice(4, 1, 1):reshape(batch, r, c) end
  end,
  function(_, r, c) return { 1, r, c }, function(t) return t end end,
  function(batch, r, c)
    return { r, batch, c }, function(t) return t:transpose(1, 2) end
  end,
}

local function check(got, wanted, loose, what)
  mrt.eval(got)
  mrt.eval(wanted)
  assert.are.equal(wanted.dtype, got.dtype, what)
  local off = rows.differs(rows.data(got:to "cpu"), rows.data(wanted), loose)
  assert(not off, what .. ": " .. tostring(off))
end

local function name(...) return table.concat({ ... }, " ") end

describe("a CUDA device", function()
  if not os.getenv "MRT_CUDA" then
    pending "MRT_CUDA names no plug-in"
    return
  end
  local chosen = rows.device
  setup(function() mrt.device "cpu" end)
  teardown(function() mrt.device(chosen) end)

  local function sizes() return one_of { 1, 3, 16, 33, 64 }, one_of { 1, 8, 16, 70 } end

  it("multiplies matrices of any dtype and layout as the CPU does", function()
    for n = 1, 150 do
      local m, k = sizes()
      local width, batch = sizes()
      local a_type, b_type = one_of(floats), one_of(floats)
      if n % 5 == 0 then a_type, b_type = "f64", "f64" end
      if n % 5 == 1 then b_type = a_type end
      local compute = n % 3 == 0 and a_type ~= "f64" and one_of(floats) or nil
      if n % 10 == 2 then m, k, width = 192, 160, 176 end
      batch = math.min(batch, 3)
      local ia, ib = draw(#layouts), draw(#layouts)
      local da, va = layouts[ia](batch, m, k)
      local db, vb = layouts[ib](batch, k, width)
      local a, a_there = pair(da, a_type, va)
      local b, b_there = pair(db, b_type, vb)
      local wanted = core.op.matmul(a, b, { compute = compute })
      local loose = math.max(rows.tolerance[wanted.dtype], tolerance_of(a_type, b_type))
      check(core.op.matmul(a_there, b_there, { compute = compute }), wanted, loose,
        name(n, m, k, width, batch, a_type, b_type, compute or "-", ia, ib))
    end
  end)

  it("multiplies batches whose dimensions do not go together", function()
    for n = 1, 24 do
      local m, k = sizes()
      local width = sizes()
      local dtype = one_of { "f32", "bf16", "f64" }
      local function turned(t) return t:transpose(2, 3) end
      local a, a_there = pair({ 2, m, 3, k }, dtype, turned)
      local view = n % 3 == 0 and function(t) return t:transpose(2, 3):transpose(3, 4) end or turned
      local dims = n % 3 == 0 and { 2, width, 3, k } or { n % 2 + 1, k, 3, width }
      local b, b_there = pair(dims, dtype, view)
      local wanted = core.op.matmul(a, b, {})
      check(core.op.matmul(a_there, b_there, {}), wanted, rows.tolerance[dtype] * 10,
        name(n, m, k, width, dtype))
    end
  end)

  it("does so for linear, with a bias of any dtype", function()
    for n = 1, 100 do
      local m, k = sizes()
      local width = sizes()
      local types = { one_of(floats), one_of(floats), one_of(floats) }
      if n % 5 == 0 then types = { "f64", "f64", "f64" } end
      if n % 5 == 1 then types[2] = types[1] end
      if n % 5 == 2 then types[2], types[3] = types[1], types[1] end
      if n % 10 == 3 then m, k, width = 192, 176, 160 end
      local compute = n % 3 == 0 and types[1] ~= "f64" and one_of(floats) or nil
      local x, x_there = pair({ 2, m, k }, types[1], function(t) return t end)
      local w, w_there = pair({ width, k }, types[2], function(t) return t end)
      local bias, bias_there = pair({ width }, types[3], function(t) return t end)
      if n % 4 == 0 then bias, bias_there = nil, nil end
      local function linear(...)
        local list = { ... }
        list[#list + 1] = { compute = compute }
        return core.op.linear(table.unpack(list))
      end
      local wanted = linear(x, w, bias)
      local loose = math.max(rows.tolerance[wanted.dtype], tolerance_of(types[1], types[2]))
      check(linear(x_there, w_there, bias_there), wanted, loose,
        name(n, m, k, width, types[1], types[2], bias and types[3] or "-", compute or "-"))
    end
  end)

  -- So large that factors are turned for the library, which wants them one way: words
  -- of four, and what is none of such.
  it("multiplies matrices of 8-bit floats, however they lie", function()
    for n = 1, 36 do
      local m, k = one_of { 64, 144, 272 }, one_of { 128, 160 }
      local width, batch = one_of { 80, 192 }, n % 5 == 0 and 2 or 1
      local a_type, b_type, compute = one_of(eight), "f8_e4m3", nil
      if a_type == b_type then b_type = one_of(eight) end
      if n % 3 == 0 then a_type, b_type, compute = "bf16", one_of { "bf16", "f32" }, "f8_e4m3" end
      local da, va = layouts[n % #layouts + 1](batch, m, k)
      local db, vb = layouts[draw(#layouts)](batch, k, width)
      local a, a_there = pair(da, a_type, va)
      local b, b_there = pair(db, b_type, vb)
      local wanted = core.op.matmul(a, b, { compute = compute })
      check(core.op.matmul(a_there, b_there, { compute = compute }), wanted,
        math.max(rows.tolerance[wanted.dtype], tolerance_of("f8", "f8")),
        name(n, batch, m, k, width, a_type, b_type, compute or "-"))
    end
  end)

  it("adds biases to them, and takes GELU", function()
    for n = 1, 36 do
      local m, k, width = 64, 160, one_of { 128, 192 }
      local bias_type = one_of { "bf16", "f16", "f32", "f8_e4m3" }
      local o = {}
      local same = function(t) return t end
      local x, x_there = pair({ m, k }, "f8_e4m3", same)
      local w, w_there = pair({ width, k }, one_of(eight), same)
      local bias, bias_there = pair({ width }, bias_type, same)
      local what = name(n, width, bias_type, w.dtype)
      local wanted = core.op.linear(x, w, bias, o)
      local loose = math.max(rows.tolerance[wanted.dtype], tolerance_of("f8", "f8"))
      check(core.op.linear(x_there, w_there, bias_there, o), wanted, loose, what)
      o.keep = n % 3 == 0
      local h, y = core.op.linear_gelu(x, w, bias, o)
      local h_there, y_there = core.op.linear_gelu(x_there, w_there, bias_there, o)
      check(h_there, h, loose, what .. " gelu")
      if y then check(y_there, y, loose, what .. " gelu, what it is of") end
    end
  end)

  it("does so for products with GELU, or its slope, of any dtype", function()
    for n = 1, 80 do
      local m, k = sizes()
      local width = n % 2 == 0 and 8 * draw(9) or sizes()
      local types = { one_of(floats), one_of(floats), one_of(floats) }
      if n % 5 == 0 then types = { "f64", "f64", "f64" } end
      if n % 5 >= 2 then types[2], types[3] = types[1], types[1] end
      local o = { compute = n % 7 == 0 and types[1] ~= "f64" and one_of(floats) or nil }
      local same = function(t) return t end
      local x, x_there = pair({ m, k }, types[1], same)
      local w, w_there = pair({ width, k }, types[2], same)
      local bias, bias_there = pair({ width }, types[3], same)
      local at, at_there = pair({ m, width }, types[3], same)
      local what = name(n, m, k, width, types[1], types[2], types[3], o.compute or "-")
      local slope = core.op.matmul_gelu_grad(x, w:t(), at, o)
      local loose = math.max(rows.tolerance[slope.dtype], tolerance_of(types[1], types[2]))
      check(core.op.matmul_gelu_grad(x_there, w_there:t(), at_there, o), slope, loose, what)
      o.keep = n % 4 ~= 0
      local h, y = core.op.linear_gelu(x, w, bias, o)
      local h_there, y_there = core.op.linear_gelu(x_there, w_there, bias_there, o)
      check(h_there, h, loose, what)
      if y then check(y_there, y, loose, what) end
    end
  end)

  it("adds products to sums, of any layout", function()
    for n = 1, 60 do
      local m, k = sizes()
      local width = sizes()
      if n % 6 == 3 then m, k, width = 192, 176, 160 end
      local dtype = n % 5 == 0 and "f64" or "f32"
      local batch = n % 4 == 0 and 3 or 1
      local da, va = layouts[draw(#layouts)](batch, m, k)
      local db, vb = layouts[draw(#layouts)](batch, k, width)
      local a, a_there = pair(da, dtype, va)
      local b, b_there = pair(db, dtype, vb)
      local c, c_there = pair({ batch, m, width }, dtype, function(t) return t end)
      a, a_there = a:expand(batch, m, k), a_there:expand(batch, m, k)
      check(core.op.matmul_add(a_there, b_there, c_there), core.op.matmul_add(a, b, c),
        rows.tolerance[dtype] * 10, name(n, batch, m, k, width, dtype))
    end
  end)

  it("sums the rows of what it multiplies, of any dtype and layout", function()
    for n = 1, 90 do
      local m, k = sizes()
      local width = sizes()
      local types = { one_of(floats), one_of(floats) }
      if n % 5 == 0 then types = { "f64", "f64" } end
      if n % 5 >= 2 then types[2] = types[1] end
      if n % 10 == 3 then m, k, width = 192, 176, 160 end -- worth to be turned, or timed
      local o = { compute = n % 7 == 0 and types[1] ~= "f64" and one_of(floats) or nil }
      local same = function(t) return t end
      local a, a_there
      if n % 3 == 0 then
        a, a_there = pair({ m, k }, types[1], same)
      elseif n % 3 == 1 then
        a, a_there = pair({ k, m }, types[1], function(t) return t:t() end)
      else
        a, a_there = pair({ k, m + 3 }, types[1], function(t) return t:slice(2, 2, m + 1):t() end)
      end
      local b, b_there = pair({ k, width }, types[2], same)
      local y, s = core.op.matmul_sums(a, b, o)
      local y_there, s_there = core.op.matmul_sums(a_there, b_there, o)
      local what = name(n, m, k, width, types[1], types[2], o.compute or "-")
      check(y_there, y, math.max(rows.tolerance[y.dtype], tolerance_of(types[1], types[2])), what)
      check(s_there, s, math.max(rows.tolerance[s.dtype], rows.tolerance.f32 * 10), what)
    end
  end)

  it("quantises to the same bits, and multiplies with codes as the CPU does", function()
    for n = 1, 60 do
      local m, k, width = one_of { 1, 5, 8, 9, 40 }, one_of { 2, 31, 64, 200 }, one_of { 1, 7, 130 }
      local real = n % 4 == 0 and "f64" or "f32"
      local options = { kind = one_of { "int8", "nf4", "fp4", "q4_0", "q8_0" },
        block = one_of { 2, 16, 64, 256 } }
      if options.kind:find "^q" then options.block = 32 end
      local same = function(t) return t end
      local w, w_there = pair({ width, k }, real, same)
      local x, x_there = pair({ m, k }, real, same)
      local codes, scales = core.op.quantize(w, options)
      local codes_there, scales_there = core.op.quantize(w_there, options)
      mrt.eval { codes, scales }
      mrt.eval { codes_there, scales_there }
      local what = name(n, m, k, width, real, options.kind, options.block)
      assert.are.equal(codes:bytes(), codes_there:to "cpu":bytes(), what)
      assert.are.equal(scales:bytes(), scales_there:to "cpu":bytes(), what)
      options.columns = k
      local back = mrt.eval(core.op.dequantize(codes, scales, options))
      local back_there = mrt.eval(core.op.dequantize(codes_there, scales_there, options))
      assert.are.equal(back:bytes(), back_there:to "cpu":bytes(), what)
      check(core.op.quantized_linear(x_there, codes_there, scales_there, options),
        core.op.quantized_linear(x, codes, scales, options), rows.tolerance[real] * 10, what)
      options.transposed = true
      local dy, dy_there = pair({ m, width }, real, same)
      check(core.op.quantized_linear(dy_there, codes_there, scales_there, options),
        core.op.quantized_linear(dy, codes, scales, options), rows.tolerance[real] * 10,
        what .. " transposed")
    end
  end)
end)
