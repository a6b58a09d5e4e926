-- pointwise.lua -- samples of operators that work element by element
--
-- Values include what IEEE 754 makes special and the ends of the integers.

local inf, nan = math.huge, 0 / 0

local elements = require "op.elements"
local each, cases, given, held = elements.each, elements.cases, elements.given, elements.held
local as_f32 = elements.as_f32

local truth = { dims = { 3 }, dtype = "bool" }
local three, four = { dims = { 3 } }, { dims = { 4 } }

-- ---- one input --------------------------------------------------------------

local reals_only = elements.no_tensor -- integers become f32
local no_truth = { { inputs = { truth }, code = "dtype", match = "bool" } }

local function sigmoid(x)
  return 1 / (1 + math.exp(-x))
end

local function sign(x)
  return x > 0 and 1 or x < 0 and -1 or 0
end

-- erf by its Taylor series, beyond 3 by the continued fraction of erfc.
local function erf(x)
  if x ~= x or x < 0 then
    return x ~= x and x or -erf(-x)
  end
  if x > 3 then
    local f = 0.0
    for k = 60, 1, -1 do
      f = k / 2 / (x + f)
    end
    return 1 - math.exp(-x * x) / math.sqrt(math.pi) / (x + f)
  end
  local term, sum = x, x
  for n = 1, 80 do
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(math.pi) * sum
end

local function round(x)
  if x ~= x or math.abs(x) >= 2 ^ 52 then
    return x
  end
  local below = math.floor(x)
  local rest = x - below
  if rest == 0.5 then
    return below % 2 == 0 and below or below + 1
  end
  return rest < 0.5 and below or below + 1
end

local function finite(f)
  return function(x)
    return (x ~= x or math.abs(x) == inf) and x or f(x)
  end
end

local extremes = { math.mininteger, math.maxinteger, -1, 0, 1, 77 }
local function negated(x, _, _, dtype)
  return dtype == "i32" and -x & 0xffffffff == 0x80000000 and -2 ^ 31
    or dtype == "u8" and -x & 0xff or -x
end

-- Integers are f32 to functions of real numbers.
local whole = { as_f32("i64", { -3, 0, 1, 2, 7 }), as_f32("i32", { 1, 2, 3 }),
                as_f32("u8", { 0, 1, 7 }), as_f32("bool", { 0, 1, 1 }) }
local function and_whole(case)
  return { case, table.unpack(whole) }
end
local bytes = given("u8", { 0, 1, 7, 255 })

local rows = {
  { op = "neg", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, {
      given("i64", extremes), bytes, given("i32", { -2 ^ 31 // 1 | 0, 5, 0, -7 }),
      given(nil, { inf, nan, -0.0 }),
    }),
    oracle = each(negated) },
  { op = "abs", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, {
      given("i64", extremes), bytes, given("i32", { -8, 5, 0 }), given(nil, { -inf, nan, -0.0, 0 }),
    }),
    oracle = each(function(x)
      return x < 0 and -x or x
    end) },
  { op = "sign", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, {
      given("i64", extremes), bytes, given("i32", { -8, 5, 0 }), given(nil, { -inf, inf, 0, -0.0 }),
    }),
    oracle = each(sign) },
  { op = "relu", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, {
      given("i64", extremes), bytes, given("i32", { -8, 5, 0 }), given(nil, { -inf, inf, 0, nan }),
    }),
    oracle = each(function(x)
      return x < 0 and 0 or x
    end) },
  { op = "exp", grad = true, bad = reals_only,
    cases = cases(1, -5, 5,
      and_whole(given(nil, { -inf, inf, nan, 0, -800, -87.5, -100, 800, 88.5 }))),
    oracle = function(ins)
      local outs = each(math.exp)(ins)
      for i, y in ipairs(outs[1].data) do
        if ins[1].dtype == "f32" and y > 3.4028235e38 then
          outs[1].data[i] = inf
        end
      end
      return outs
    end },
  { op = "log", grad = true, bad = reals_only,
    cases = cases(1, 0.1, 9,
      and_whole(given(nil, { 0, -1, inf, nan, 1, 1e-40, 1e38, 0.999, 1.001 }))),
    oracle = each(function(x)
      return math.log(x)
    end) },
  { op = "sqrt", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 9, and_whole(given(nil, { 0, -1, inf, nan, 4 }))),
    oracle = each(math.sqrt) },
  { op = "root", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 9, and_whole(given(nil, { 0, -1, inf, nan, 4 }))),
    oracle = each(math.sqrt) },
  { op = "rsqrt", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 9, and_whole(given(nil, { 0, -1, inf, nan, 4 }))),
    oracle = each(function(x)
      return 1 / math.sqrt(x)
    end) },
  { op = "reciprocal", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 3,
      and_whole(given(nil, { 0, -0.0, inf, -inf, nan, -4 }))),
    oracle = each(function(x)
      return 1 / x
    end) },
  { op = "sin", grad = true, bad = reals_only,
    cases = cases(1, -9, 9,
      and_whole(given(nil, { 0, 99999, 123456.5, -1e7, 3e20, inf, nan, 22 }))),
    oracle = each(math.sin) },
  { op = "cos", grad = true, bad = reals_only,
    cases = cases(1, -9, 9,
      and_whole(given(nil, { 0, 99999, 123456.5, -1e7, 3e20, inf, nan, 11 }))),
    oracle = each(math.cos) },
  { op = "tanh", grad = true, bad = reals_only,
    cases = cases(1, -3, 3,
      and_whole(given(nil, { 0, inf, -inf, nan, 1e-3, -20, 9.5 }))),
    oracle = each(function(x)
      local e = math.exp(-2 * math.abs(x))
      local y = (1 - e) / (1 + e)
      return x < 0 and -y or y
    end) },
  { op = "sigmoid", grad = true, bad = reals_only,
    cases = cases(1, -5, 5,
      and_whole(given(nil, { 0, inf, -inf, nan, 50, -50 }))),
    oracle = each(sigmoid) },
  { op = "erf", grad = true, bad = reals_only,
    cases = cases(1, -3.5, 3.5,
      and_whole(given(nil, { 0, inf, -inf, nan, 0.99, 1, 1.01, 6, -4.5 }))),
    oracle = each(erf) },
  { op = "floor", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, { given(nil, { 0, inf, -inf, nan, 2, -2, 1e18, -0.5 }),
      given("i64", extremes), given("i32", { -7, 7 }), bytes }),
    oracle = each(finite(math.floor)) },
  { op = "ceil", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, { given(nil, { 0, inf, -inf, nan, 2, -2, 1e18, -0.5 }),
      given("i64", extremes), given("i32", { -7, 7 }), bytes }),
    oracle = each(finite(math.ceil)) },
  { op = "round", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, { given(nil, { 0.5, 1.5, 2.5, -0.5, -1.5, inf, nan, 1e18, 7.499 }),
      given("i64", extremes), given("i32", { -7, 7 }), bytes }),
    oracle = each(finite(round)) },
  { op = "trunc", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, { given(nil, { 0.5, 1.5, -0.5, -1.5, inf, -inf, nan, 1e18, -7.499 }),
      given("i64", extremes), given("i32", { -7, 7 }), bytes }),
    oracle = each(finite(function(x)
      return x < 0 and math.ceil(x) or math.floor(x)
    end)) },
  { op = "isnan", grad = false, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { nan, inf, -inf, 0, -nan }), table.unpack(whole) }),
    oracle = each(function(x)
      return x ~= x
    end) },
  { op = "isinf", grad = false, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { nan, inf, -inf, 0, 3e38 }), table.unpack(whole) }),
    oracle = each(function(x)
      return x == inf or x == -inf
    end) },
  { op = "isfinite", grad = false, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { nan, inf, -inf, 0, 3e38 }), table.unpack(whole) }),
    oracle = each(function(x)
      return x == x and x ~= inf and x ~= -inf
    end) },
  { op = "signbit", grad = false, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { 0, -0.0, inf, -inf, -1e-40, 1e-40 }),
      table.unpack(whole) }),
    oracle = each(function(x)
      return x < 0 or (math.type(x) == "float" and 1 / x == -inf)
    end) },
  { op = "nan_to_num", grad = true, bad = no_truth,
    cases = cases(1, -9, 9, { given(nil, { nan, inf, -inf, 0, 3e38 }), given("i64", extremes),
      elements.with({ nan = 7, posinf = 5, neginf = -2 }, given(nil, { nan, inf, -inf, 2 })) }),
    oracle = each(function(x, _, _, dtype, o)
      local most = dtype == "f32" and 3.4028234663852886e38 or 1.7976931348623157e308
      if x ~= x then
        return o.nan or 0
      elseif x == inf or x == -inf then
        return x > 0 and (o.posinf or most) or x < 0 and (o.neginf or -most)
      end
      return x
    end) },
  { op = "logical_not", grad = false,
    cases = { { inputs = { { dims = { 3, 67 }, dtype = "bool" } } }, given("bool", { 0, 1 }) },
    bad = { { inputs = { three }, code = "dtype", match = "bool" } },
    oracle = each(function(x)
      return x == 0
    end) },
}

-- ---- two inputs -------------------------------------------------------------

local function integers(f)
  return function(x, y, _, dtype)
    if dtype == "f32" or dtype == "f64" then
      return f(x, y)
    end
    return held(f(math.tointeger(x), math.tointeger(y)), dtype)
  end
end

local low, high = math.mininteger, math.maxinteger
local whole_numbers = {
  given("i64", { low, high, low, 5, -5, 7, 0, high }, { -1, 1, 0, -3, 3, 7, 4, high }),
  given("i32", { -2147483648, 2147483647, 5, -5, 7 }, { -1, 2, -3, 3, 0 }),
  given("u8", { 255, 0, 200, 7, 13 }, { 1, 1, 200, 0, 5 }),
}
local special = { nan, 1, inf, inf, -inf, 0, 0, 3 }
local others = { 1, nan, 2, -inf, -inf, 0, 5, 3 }

local function with(list, more)
  local all = table.move(list, 1, #list, 1, {})
  all[#all + 1] = more
  return all
end

local function larger(x, y)
  return (x ~= x or y ~= y) and nan or math.max(x, y)
end
local function smaller(x, y)
  return (x ~= x or y ~= y) and nan or math.min(x, y)
end

local function remainder(x, y)
  if math.type(y) == "integer" then
    return y == 0 and 0 or x % y
  end
  return x % y
end

local unequal = {
  { inputs = { three, four }, code = "shape" },
  { inputs = { truth, truth }, code = "dtype", match = "bool" },
}

local function compared(f)
  return each(function(x, y)
    return f(x, y)
  end)
end
local both = with(whole_numbers, given(nil, special, others))
local truths = given("bool", { 0, 0, 1, 1 }, { 0, 1, 0, 1 })

for _, row in ipairs {
  { op = "add", grad = true, bad = unequal,
    cases = cases(2, -9, 9, with(whole_numbers, given(nil, special, others))),
    oracle = each(integers(function(x, y)
      return x + y
    end)) },
  { op = "sub", grad = true, bad = unequal,
    cases = cases(2, -9, 9, with(whole_numbers, given(nil, special, others))),
    oracle = each(integers(function(x, y)
      return x - y
    end)) },
  { op = "mul", grad = true, bad = unequal,
    cases = cases(2, -9, 9, with(whole_numbers, given(nil, special, others))),
    oracle = each(integers(function(x, y)
      return x * y
    end)) },
  { op = "div", grad = true,
    bad = { unequal[1] },
    cases = cases(2, 0.5, 3, { given(nil, special, others),
      as_f32("i64", { 1, -7, 0 }, { 3, 2, 5 }) }),
    oracle = each(function(x, y)
      return x / y
    end) },
  { op = "pow", grad = true,
    bad = { unequal[1] },
    cases = cases(2, 0.3, 3, {
      as_f32("i64", { 2, 3, -2 }, { 3, -1, 2 }),
      given(nil, { 0, 0, 0, -2, -2, -2, 1, nan, 5, -1, inf, 4, 9, 10, 2 },
                 { 0, 2, -1, 3, 2, 0.5, nan, 0, -2, inf, -1, 0.5, 0.5, -3, 30 }),
    }),
    oracle = each(function(x, y)
      return x ^ y
    end) },
  { op = "maximum", grad = true, bad = { unequal[1] },
    cases = cases(2, -9, 9, with(both, truths)), oracle = each(larger) },
  { op = "minimum", grad = true, bad = { unequal[1] },
    cases = cases(2, -9, 9, with(both, truths)), oracle = each(smaller) },
  { op = "remainder", grad = true, bad = unequal,
    cases = cases(2, 1, 9, with(whole_numbers,
      given(nil, { 5, -5, 5, -5, 0, 6, 1, -1, 1 }, { 3, 3, -3, -3, 3, 3, inf, inf, 0 }))),
    oracle = each(integers(remainder)) },
  { op = "fmod", grad = true, bad = unequal,
    cases = cases(2, 1, 9, with(whole_numbers, given(nil,
      { 5, -5, 5, -5, 0, 6, 1, -1, 1, 1e30, 3e20, 1e-40, 0.3, -7.5, 2.9999998, inf },
      { 3, 3, -3, -3, 3, 3, inf, inf, 0, 3, 1e-7, 7e-42, 0.1, 2.5, 3, 2 }))),
    oracle = each(integers(function(x, y)
      if y == 0 and math.type(y) == "integer" then
        return 0
      end
      return math.fmod(x, y)
    end)) },
  { op = "atan2", grad = true, bad = { unequal[1] },
    cases = cases(2, -9, 9, with({ given(nil, { -1, 1, -3, 2, -0.5 }, { -1, -1, 2, -8, 0.25 }),
      given(nil, { 0, -0.0, 0, -0.0, 1, -1, inf, inf, -inf, 3e38, 1e-40, nan },
                 { 1, 1, -1, -1, 0, 0, inf, -inf, 1, 3e38, -1e-40, 1 }) },
      as_f32("i64", { 1, -1 }, { -1, 0 }))),
    oracle = each(function(x, y)
      return math.atan(x, y)
    end) },
  { op = "hypot", grad = true, bad = { unequal[1] },
    cases = cases(2, -9, 9, { given(nil, { 3, -3, 0, 1e30, 1e-30, inf, nan, nan },
                                          { 4, -4, 0, 1e30, 1e-30, 1, -inf, 1 }) }),
    oracle = each(function(x, y)
      local a, b = math.max(math.abs(x), math.abs(y)), math.min(math.abs(x), math.abs(y))
      if x == inf or y == inf or x == -inf or y == -inf then
        return inf
      end
      return (x ~= x or y ~= y) and nan or a == 0 and 0 or a * math.sqrt(1 + (b / a) ^ 2)
    end) },
  { op = "copysign", grad = true, bad = { unequal[1] },
    cases = cases(2, -9, 9, { given(nil, { 3, -3, 0, inf, -2, 5 }, { -4, 4, -1, -2, -0.0, 0 }) }),
    oracle = each(function(x, y)
      local below = y < 0 or y == 0 and 1 / y < 0
      return below and -math.abs(x) or math.abs(x)
    end) },
  { op = "nextafter", grad = false, bad = { unequal[1] }, tolerance = 0,
    cases = { given("f32", { 1, 1, -1, -1, 0, 0, 2, inf, nan, 3.4028234663852886e38 },
                           { 2, 0, 0, -2, 1, -1, 2, 0, 1, inf }),
              given("f64", { 1, 1, -1, 0, 0 }, { 2, 0, 0, 1, -1 }),
              { inputs = { { dims = { 0, 3 } }, { dims = { 0, 3 } } } } },
    oracle = each(function(x, y, _, dtype)
      local format, int = dtype == "f32" and "<f" or "<d", dtype == "f32" and "<i4" or "<i8"
      if x ~= x or y ~= y then
        return nan
      elseif x == y then
        return y
      end
      local bits = x == 0 and 0 or (string.unpack(int, string.pack(format, math.abs(x))))
      if x == 0 then
        return (y > 0 and 1 or -1) * (string.unpack(format, string.pack(int, 1)))
      end
      local z = string.unpack(format, string.pack(int, bits + ((y > x) == (x > 0) and 1 or -1)))
      return x > 0 and z or -z
    end) },
  { op = "lerp", grad = true,
    bad = { { inputs = unequal[1].inputs, options = { weight = 0.5 }, code = "shape" },
            { inputs = { three, three }, code = "value", match = "weight" } },
    cases = (function()
      local list = {}
      for _, w in ipairs { 0, 0.3, 0.5, 1, 1.5, -1 } do
        list[#list + 1] = { inputs = { { dims = { 3, 67 } }, { dims = { 3, 67 } } },
                            options = { weight = w } }
      end
      return list
    end)(),
    oracle = each(function(x, y, _, _, o)
      return x + o.weight * (y - x)
    end) },
  { op = "eq", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x == y end) },
  { op = "ne", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x ~= y end) },
  { op = "lt", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x < y end) },
  { op = "le", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x <= y end) },
  { op = "gt", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x > y end) },
  { op = "ge", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x >= y end) },
  { op = "logical_and", cases = { truths },
    bad = { { inputs = { three, three }, code = "dtype", match = "bool" } },
    oracle = compared(function(x, y) return x ~= 0 and y ~= 0 end) },
  { op = "logical_or", cases = { truths },
    bad = { { inputs = { three, three }, code = "dtype", match = "bool" } },
    oracle = compared(function(x, y) return x ~= 0 or y ~= 0 end) },
} do
  row.grad = row.grad or false
  rows[#rows + 1] = row
end

-- ---- where and cast ---------------------------------------------------------

local choices = {}
for i, dims in ipairs { {}, { 7 }, { 3, 67 }, { 0, 3 }, { 2000 } } do
  choices[i] = { inputs = { { dims = dims, dtype = "bool" }, { dims = dims }, { dims = dims } } }
end
for _, dtype in ipairs { "i64", "i32", "u8", "bool", "f16" } do
  local x = { dims = { 33 }, dtype = dtype, low = 0, high = 2 }
  choices[#choices + 1] = { inputs = { { dims = { 33 }, dtype = "bool" }, x, x } }
end
rows[#rows + 1] = {
  op = "standardize", grad = true,
  cases = {
    { inputs = { { dims = { 3, 67 } }, { dims = { 3, 67 } }, { dims = { 3, 67 } } } },
    { inputs = { { dims = {} }, { dims = {} }, { dims = {} } } },
    { inputs = { { dims = { 0, 2 } }, { dims = { 0, 2 } }, { dims = { 0, 2 } } } },
  },
  bad = {
    { inputs = { truth, truth, truth }, code = "dtype", match = "bool" },
    { inputs = { three, three, four }, code = "shape" },
  },
  oracle = each(function(x, mean, scale) return (x - mean) * scale end),
}
rows[#rows + 1] = {
  op = "where", grad = true, cases = choices,
  bad = {
    { inputs = { three, three, three }, code = "dtype", match = "bool" },
    { inputs = { truth, three, four }, code = "shape" },
    { inputs = { truth, four, four }, code = "shape" },
  },
  oracle = each(function(c, x, y)
    return c ~= 0 and x or y
  end),
}

-- x to the nearest float of `bits` significant ones, ties to even; what is too
-- large becomes infinite, or the largest.
local function narrow(x, bits, smallest, largest, saturates)
  local beyond = saturates and largest or inf
  if x ~= x or x == 0 then
    return x
  elseif math.abs(x) == inf then
    return x > 0 and beyond or -beyond
  end
  local unit = 2.0 ^ smallest
  while math.abs(x) / unit >= 2.0 ^ bits do
    unit = unit * 2
  end
  local y = round(x / unit) * unit
  return y > largest and beyond or y < -largest and -beyond or y
end

local function saturated(bottom, top)
  return function(x)
    if x ~= x then
      return 0
    end
    return x <= bottom and bottom or x >= top and top
      or math.tointeger(x < 0 and math.ceil(x) or math.floor(x))
  end
end

local targets = {
  f32 = function(x) return narrow(x, 24, -149, 3.4028234663852886e38) end,
  f64 = function(x) return x end,
  f16 = function(x) return narrow(x, 11, -24, 65504) end,
  bf16 = function(x) return narrow(x, 8, -133, 3.3895313892515355e38) end,
  f8_e4m3 = function(x) return narrow(x, 4, -9, 448, true) end,
  f8_e5m2 = function(x) return narrow(x, 3, -16, 57344, true) end,
  i64 = saturated(math.mininteger, math.maxinteger),
  i32 = saturated(-2 ^ 31, 2 ^ 31 - 1),
  u8 = saturated(0, 255),
  bool = function(x) return x ~= 0 end,
}

local function cast(x, _, _, from, options)
  if math.type(x) == "integer" and (from == "i64" or from == "i32") then
    if options.dtype == "i32" or options.dtype == "u8" then
      return held(x, options.dtype)
    elseif options.dtype == "i64" then
      return x
    end
  end
  return targets[options.dtype](x)
end

local numbers = { 0, 1, -1, 0.5, -0.75, 2.5, 254.7, 256, -300, 65519, 65520, 1e5, 3e9, -3e9,
                  1e-6, 6e-8, 2 ^ -25, 1 + 2 ^ -11, 1 + 3 * 2 ^ -11, 1 + 2 ^ -8, 1 + 3 * 2 ^ -8,
                  1e30, -1e30, inf, -inf, nan }
local castings = {}
for _, to in ipairs { "f32", "f64", "f16", "bf16", "f8_e4m3", "f8_e5m2", "i64", "i32", "u8",
  "bool" } do
  local function add(case)
    case.options, case.tolerance = { dtype = to }, 0
    castings[#castings + 1] = case
  end
  add(given(nil, numbers))
  add { inputs = { { dims = { 3, 67 }, low = -300, high = 300 } }, grad = to == "f64" }
  add { inputs = { { dims = { 0, 3 } } }, grad = false }
  add(given("i64", { 0, 1, -1, 255, 256, -2, 70000, 1 << 31, (1 << 40) + 3, 16777217 }))
  add(given("i32", { 0, 1, -1, 255, 256, -2147483648, 16777217 }))
  add(given("u8", { 0, 1, 255, 128 }))
  add(given("bool", { 0, 1, 1 }))
  add(given("f16", { 0, 1, -2, 0.5, 65504, 255 }))
  add(given("bf16", { 0, 1, -2, 0.5, 256, 255 }))
  add(given("f8_e4m3", { 0, 1, -2, 0.5, 448, 2 ^ -9 }))
  add(given("f8_e5m2", { 0, 1, -2, 0.5, 57344, 2 ^ -16 }))
end
rows[#rows + 1] = {
  op = "cast", grad = true, cases = castings, oracle = each(cast),
  bad = {},
}

return rows
