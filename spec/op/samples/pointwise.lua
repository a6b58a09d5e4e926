-- pointwise.lua -- samples of operators that work element by element
--
-- Sizes are below, at and above a vector and a block of the kernels; values
-- include what IEEE 754 makes special and the ends of the integers.

local inf, nan = math.huge, 0 / 0

-- An oracle from a function of one element of each input.
local function each(f)
  return function(ins, options)
    local data, all = {}, ins[#ins]
    for i = 1, #all.data do
      local x, y, z = ins[1].data[i], ins[2] and ins[2].data[i], ins[3] and ins[3].data[i]
      data[i] = f(x, y, z, all.dtype, options)
    end
    return { { dims = all.dims, data = data } }
  end
end

local shapes = { {}, { 1 }, { 7 }, { 3, 5 }, { 2, 3, 67 }, { 1, 4, 1 }, { 0, 3 }, { 3, 0 } }
local longest = { 5000 }
local deepest = { 2, 1, 2, 1, 3, 1, 2, 2 }

-- The shapes above with `n` inputs each, in [low, high); `more` cases follow.
local function cases(n, low, high, more)
  local list = {}
  local function add(dims)
    local inputs = {}
    for i = 1, n do
      inputs[i] = { dims = dims, low = low, high = high }
    end
    list[#list + 1] = { inputs = inputs }
  end
  for _, dims in ipairs(shapes) do
    add(dims)
  end
  add(longest)
  add(deepest)
  for _, case in ipairs(more or {}) do
    list[#list + 1] = case
  end
  return list
end

-- A case of given values, which are not for finite differences.
local function given(dtype, ...)
  local inputs = {}
  for i, values in ipairs { ... } do
    inputs[i] = { dims = { #values }, values = values, dtype = dtype }
  end
  return { inputs = inputs, grad = false }
end

local ids = { dims = { 3 }, dtype = "i64", integer = 5 }
local bytes = { dims = { 3 }, dtype = "u8", integer = 5 }
local truth = { dims = { 3 }, dtype = "bool" }
local three, four = { dims = { 3 } }, { dims = { 4 } }

-- ---- one input --------------------------------------------------------------

local reals_only = {
  { inputs = { ids }, code = "dtype", match = "i64" },
  { inputs = { truth }, code = "dtype", match = "cast first" },
}
local signed_only = { { inputs = { bytes }, code = "dtype", match = "u8" } }

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

local function whole(f)
  return function(x)
    return (x ~= x or math.abs(x) == inf) and x or f(x)
  end
end

local extremes = { math.mininteger, math.maxinteger, -1, 0, 1, 77 }
local function negated(x, _, _, dtype)
  return dtype == "i32" and -x & 0xffffffff == 0x80000000 and -2 ^ 31 or -x
end

local rows = {
  { op = "neg", grad = true, bad = signed_only,
    cases = cases(1, -9, 9, {
      given("i64", extremes), given("i32", { -2 ^ 31 // 1 | 0, 5, 0, -7 }),
      given(nil, { inf, nan, -0.0 }),
    }),
    oracle = each(negated) },
  { op = "abs", grad = true, bad = signed_only,
    cases = cases(1, -9, 9, {
      given("i64", extremes), given("i32", { -8, 5, 0 }), given(nil, { -inf, nan, -0.0, 0 }),
    }),
    oracle = each(function(x)
      return x < 0 and -x or x
    end) },
  { op = "sign", grad = true, bad = signed_only,
    cases = cases(1, -9, 9, {
      given("i64", extremes), given("i32", { -8, 5, 0 }), given(nil, { -inf, inf, 0, -0.0 }),
    }),
    oracle = each(sign) },
  { op = "relu", grad = true, bad = signed_only,
    cases = cases(1, -9, 9, {
      given("i64", extremes), given("i32", { -8, 5, 0 }), given(nil, { -inf, inf, 0, nan }),
    }),
    oracle = each(function(x)
      return x < 0 and 0 or x
    end) },
  { op = "exp", grad = true, bad = reals_only,
    cases = cases(1, -5, 5, { given(nil, { -inf, inf, nan, 0, -800, -87.5, -100, 800, 88.5 }) }),
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
    cases = cases(1, 0.1, 9, { given(nil, { 0, -1, inf, nan, 1, 1e-40, 1e38, 0.999, 1.001 }) }),
    oracle = each(function(x)
      return math.log(x)
    end) },
  { op = "sqrt", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 9, { given(nil, { 0, -1, inf, nan, 4 }) }),
    oracle = each(math.sqrt) },
  { op = "rsqrt", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 9, { given(nil, { 0, -1, inf, nan, 4 }) }),
    oracle = each(function(x)
      return 1 / math.sqrt(x)
    end) },
  { op = "reciprocal", grad = true, bad = reals_only,
    cases = cases(1, 0.5, 3, { given(nil, { 0, -0.0, inf, -inf, nan, -4 }) }),
    oracle = each(function(x)
      return 1 / x
    end) },
  { op = "sin", grad = true, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { 0, 99999, 123456.5, -1e7, 3e20, inf, nan, 22 }) }),
    oracle = each(math.sin) },
  { op = "cos", grad = true, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { 0, 99999, 123456.5, -1e7, 3e20, inf, nan, 11 }) }),
    oracle = each(math.cos) },
  { op = "tanh", grad = true, bad = reals_only,
    cases = cases(1, -3, 3, { given(nil, { 0, inf, -inf, nan, 1e-3, -20, 9.5 }) }),
    oracle = each(function(x)
      local e = math.exp(-2 * math.abs(x))
      local y = (1 - e) / (1 + e)
      return x < 0 and -y or y
    end) },
  { op = "sigmoid", grad = true, bad = reals_only,
    cases = cases(1, -5, 5, { given(nil, { 0, inf, -inf, nan, 50, -50 }) }),
    oracle = each(sigmoid) },
  { op = "erf", grad = true, bad = reals_only,
    cases = cases(1, -3.5, 3.5, { given(nil, { 0, inf, -inf, nan, 0.99, 1, 1.01, 6, -4.5 }) }),
    oracle = each(erf) },
  { op = "floor", grad = true, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { 0, inf, -inf, nan, 2, -2, 1e18, -0.5 }) }),
    oracle = each(whole(math.floor)) },
  { op = "ceil", grad = true, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { 0, inf, -inf, nan, 2, -2, 1e18, -0.5 }) }),
    oracle = each(whole(math.ceil)) },
  { op = "round", grad = true, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { 0.5, 1.5, 2.5, -0.5, -1.5, inf, nan, 1e18, 7.499 }) }),
    oracle = each(whole(round)) },
  { op = "isnan", grad = false, bad = reals_only,
    cases = cases(1, -9, 9, { given(nil, { nan, inf, -inf, 0, -nan }) }),
    oracle = each(function(x)
      return x ~= x
    end) },
  { op = "logical_not", grad = false,
    cases = { { inputs = { { dims = { 3, 67 }, dtype = "bool" } } }, given("bool", { 0, 1 }) },
    bad = { { inputs = { three }, code = "dtype", match = "bool" } },
    oracle = each(function(x)
      return x == 0
    end) },
}

-- ---- two inputs -------------------------------------------------------------

-- An integer result as its dtype holds it.
local function held(z, dtype)
  if dtype == "u8" then
    return z & 0xff
  elseif dtype == "i32" then
    return (z + 0x80000000 & 0xffffffff) - 0x80000000
  end
  return z
end

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
local no_bool = { { inputs = { truth, truth }, code = "dtype", match = "bool" } }

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
    bad = {
      { inputs = { three, four }, code = "shape" },
      { inputs = { ids, ids }, code = "dtype", match = "cast first" },
    },
    cases = cases(2, 0.5, 3, { given(nil, special, others) }),
    oracle = each(function(x, y)
      return x / y
    end) },
  { op = "pow", grad = true,
    bad = { { inputs = { three, four }, code = "shape" },
            { inputs = { ids, ids }, code = "dtype", match = "cast first" } },
    cases = cases(2, 0.3, 3, {
      given(nil, { 0, 0, 0, -2, -2, -2, 1, nan, 5, -1, inf, 4, 9, 10, 2 },
                 { 0, 2, -1, 3, 2, 0.5, nan, 0, -2, inf, -1, 0.5, 0.5, -3, 30 }),
    }),
    oracle = each(function(x, y)
      return x ^ y
    end) },
  { op = "maximum", grad = true, bad = unequal,
    cases = cases(2, -9, 9, both), oracle = each(larger) },
  { op = "minimum", grad = true, bad = unequal,
    cases = cases(2, -9, 9, both), oracle = each(smaller) },
  { op = "remainder", grad = true, bad = unequal,
    cases = cases(2, 1, 9, with(whole_numbers,
      given(nil, { 5, -5, 5, -5, 0, 6, 1, -1, 1 }, { 3, 3, -3, -3, 3, 3, inf, inf, 0 }))),
    oracle = each(integers(remainder)) },
  { op = "eq", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x == y end) },
  { op = "ne", bad = { unequal[1] }, cases = cases(2, -1, 1, with(both, truths)),
    oracle = compared(function(x, y) return x ~= y end) },
  { op = "lt", bad = no_bool, cases = cases(2, -1, 1, both),
    oracle = compared(function(x, y) return x < y end) },
  { op = "le", bad = no_bool, cases = cases(2, -1, 1, both),
    oracle = compared(function(x, y) return x <= y end) },
  { op = "gt", bad = no_bool, cases = cases(2, -1, 1, both),
    oracle = compared(function(x, y) return x > y end) },
  { op = "ge", bad = no_bool, cases = cases(2, -1, 1, both),
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
