--- pointwise.lua -- PyTorch's functions that work element by element
---
--- SPDX-License-Identifier: MIT

local floats = { "f32", "f64", "bf16", "f16" }
local numbers = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8" }
local plain = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool" }
local whole = { "i64", "i32", "u8" }
local bits = { "i64", "i32", "u8", "bool" }
local inf, nan = math.huge, 0 / 0

local rows = {}

local function add(name, row)
  row.torch, row.ours = "torch." .. name, row.ours or "Tensor." .. name
  rows[#rows + 1] = row
end

local function tensor(dims, low, high, more)
  local t = { dims = dims, low = low, high = high }
  for key, value in pairs(more or {}) do t[key] = value end
  return t
end

-- ---- one input ---------------------------------------------------------------

-- Numbers in [low, high), now and then some that are special.
local function unary(name, low, high, more)
  local row = { grad = true, dtypes = plain, args = { { "input", "tensor" } },
    draw = function(r, dtype)
      local special = more and more.special
      if special and r(1, 4) == 1 and (dtype == "f32" or dtype == "f64") then
        return { input = { dims = { #special }, values = special, constant = true } }
      end
      return { input = tensor(r.dims(0, 4), low, high) }
    end,
    size = function(n) return { input = tensor({ n }, low, high) } end }
  for key, value in pairs(more or {}) do
    if key ~= "special" then row[key] = value end
  end
  if row.dtypes[1] == "i64" then
    row.size = function(n) return { input = tensor({ n }, low, high, { dtype = "i64" }) } end
  end
  add(name, row)
end

local ends = { 0, -0.0, inf, -inf, nan, 1, -1, 0.5, 1e-30, -1e30 }

for _, name in ipairs { "exp", "expm1", "exp2", "sin", "cos", "tanh", "sigmoid", "erf", "erfc",
  "sinh", "cosh", "atan", "asinh" } do
  unary(name, -3, 3, { special = ends })
end
for _, name in ipairs { "log", "log1p", "log2", "log10", "sqrt", "rsqrt" } do
  unary(name, 0.1, 6, { special = ends })
end
for _, name in ipairs { "asin", "acos", "atanh" } do unary(name, -0.9, 0.9, { special = ends }) end
unary("erfinv", -0.9, 0.9, { special = ends, tolerance = 1e-4 })
unary("tan", -1.3, 1.3, { special = { 0, -0.0, inf, nan, 1, -100 } })
unary("acosh", 1.1, 9, { special = { 1, 0, inf, -inf, nan, 1e30 } })
unary("reciprocal", 0.4, 3, { special = ends })
unary("square", -3, 3, { special = ends, dtypes = numbers })
unary("lgamma", 0.3, 6, { tolerance = 1e-4, special = { 0, -1, inf, nan, 1, 2, -0.5, 100 } })
unary("digamma", 0.3, 6, { tolerance = 1e-4, special = { 0, -1, inf, nan, 1, 2, -0.5, 100 } })
unary("i0", -5, 5, { special = { 0, 8, -8, 20, nan }, tolerance = 1e-4 })
unary("sinc", -3, 3, { special = { 0, 0.5, -1.5, nan }, tolerance = 1e-4 })
unary("deg2rad", -200, 200, { dtypes = numbers })
unary("rad2deg", -3, 3, { dtypes = numbers })
unary("frac", -5, 5, { dtypes = floats, special = { 0, inf, nan, 2.5, -2.5 },
  takes_more = true, as_given = true })

for _, name in ipairs { "abs", "absolute", "neg", "negative" } do
  unary(name, -3, 3, { dtypes = numbers, special = ends })
end
unary("sign", -3, 3, { dtypes = numbers, special = ends })
-- its gradient there is a tensor without memory, which cannot be handed over
unary("sgn", -3, 3, { dtypes = numbers, special = ends, grad = false })
for _, name in ipairs { "floor", "ceil", "trunc", "fix" } do
  unary(name, -5, 5, { dtypes = numbers, special = ends })
end
for _, name in ipairs { "isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit" } do
  unary(name, -3, 3, { special = ends, grad = false })
end
unary("logical_not", -1, 1, { grad = false, special = ends })
unary("bitwise_not", -9, 9, { grad = false, dtypes = bits })

add("round", { grad = true, dtypes = floats, as_given = true,
  args = { { "input", "tensor" }, { "decimals", "int", 0, keyword = true } },
  draw = function(r)
    return { input = tensor(r.dims(0, 3), -5, 5), decimals = r.pick { nil, 0, 1, 2, -1 } }
  end,
  size = function(n) return { input = tensor({ n }, -5, 5) } end })

add("logit", { grad = true, dtypes = floats,
  args = { { "input", "tensor" }, { "eps", "number" } },
  draw = function(r)
    return { input = tensor(r.dims(0, 3), 0.05, 0.95), eps = r.pick { nil, 0.01, 0.125 } }
  end,
  size = function(n) return { input = tensor({ n }, 0.05, 0.95) } end })

add("polygamma", { differs = "the tensor stands first: `x:polygamma(n)`",
  call = function(v, tensors) return tensors[1]:polygamma(v.n) end,
  grad = true, tolerance = 1e-4, args = { { "n", "int" }, { "input", "tensor" } },
  draw = function(r) return { n = r(0, 3), input = tensor(r.dims(0, 3), 0.7, 6) } end,
  size = function(n) return { n = 1, input = tensor({ n }, 0.7, 6) } end })

add("mvlgamma", { grad = true, tolerance = 1e-4, args = { { "input", "tensor" }, { "p", "int" } },
  draw = function(r) return { input = tensor(r.dims(0, 3), 3, 8), p = r(1, 4) } end,
  size = function(n) return { input = tensor({ n }, 3, 8), p = 2 } end })

add("nan_to_num", { grad = true, dtypes = numbers,
  args = { { "input", "tensor" }, { "nan", "number", 0 }, { "posinf", "number" },
    { "neginf", "number" } },
  as_given = true,
  draw = function(r, dtype)
    local float = dtype == "f32" or dtype == "f64"
    local o = { input = float and { dims = { 5 }, values = { 1, nan, inf, -inf, -2 } }
      or tensor(r.dims(0, 3), -3, 3) }
    if r.bool() then o.nan, o.posinf, o.neginf = 2, 7, -5 end
    return o
  end,
  size = function(n) return { input = tensor({ n }, -3, 3) } end })

local function bounds(r, dtype)
  local low, high = r(-3, 1), r(0, 3)
  if dtype == "f32" or dtype == "f64" then low, high = low + 0.25, high + 0.5 end
  return low, high
end
for _, name in ipairs { "clamp", "clip" } do
  add(name, { grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "min", "number" }, { "max", "number" } },
    draw = function(r, dtype)
      local low, high = bounds(r, dtype)
      if dtype == "u8" then low, high = math.abs(low), math.abs(high) end
      local which = r(1, 3)
      return { input = tensor(r.dims(0, 3), -3, 3), min = which ~= 2 and low or nil,
        max = which ~= 1 and high or nil }
    end,
    size = function(n) return { input = tensor({ n }, -3, 3), min = -1.0, max = 1.0 } end })
end

-- ---- two inputs --------------------------------------------------------------

-- Two shapes that broadcast.
local function both(r)
  local dims, other = r.dims(0, 4), {}
  local from = r(1, 4) == 1 and #dims > 0 and r(1, #dims) or 1
  for d = from, #dims do
    other[#other + 1] = r(1, 4) == 1 and 1 or dims[d]
  end
  if r.bool() then return dims, other end
  return other, dims
end

-- Numbers in [low, high) and [low2, high2).
local function binary(name, low, high, more)
  more = more or {}
  local low2, high2 = more.low2 or low, more.high2 or high
  local row = { grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "other", "tensor" } },
    draw = function(r, dtype)
      local special = more.special
      if special and r(1, 4) == 1 and (dtype == "f32" or dtype == "f64") then
        local n = #special
        local turned = table.move(special, 1, n - 1, 2, { special[n] })
        return { input = { dims = { n, 1 }, values = special, constant = true },
          other = { dims = { n }, values = turned, constant = true } }
      end
      local a, b = both(r)
      return { input = tensor(a, low, high), other = tensor(b, low2, high2) }
    end,
    size = function(n)
      return { input = tensor({ n }, low, high), other = tensor({ n }, low2, high2) }
    end }
  for key, value in pairs(more) do
    if key ~= "special" and key ~= "low2" and key ~= "high2" then row[key] = value end
  end
  if row.dtypes[1] == "i64" and row.size then
    local ids = { dtype = "i64" }
    row.size = function(n)
      return { input = tensor({ n }, low, high, ids), other = tensor({ n }, low2, high2, ids) }
    end
  end
  add(name, row)
end

for _, name in ipairs { "mul", "multiply" } do binary(name, -3, 3, { special = ends }) end

for _, name in ipairs { "add", "sub", "subtract" } do
  binary(name, -3, 3, {
    args = { { "input", "tensor" }, { "other", "tensor" },
      { "alpha", "number", 1, keyword = true } },
    draw = function(r, dtype)
      local a, b = both(r)
      local narrow, float = dtype == "bf16" or dtype == "f16", dtype == "f32" or dtype == "f64"
      -- powers of two for narrow floats: the product with another is rounded here, not there
      return { input = tensor(a, -3, 3), other = tensor(b, -3, 3),
        alpha = r.pick { nil, 2, float and 0.5 or narrow and 4 or 3 } }
    end })
end

for _, name in ipairs { "div", "divide" } do
  binary(name, 0.4, 3, { special = ends, as_given = true,
    args = { { "input", "tensor" }, { "other", "tensor" },
      { "rounding_mode", "string", keyword = true } },
    dtypes = { "f32", "f64", "i64", "i32" },
    draw = function(r, dtype)
      local a, b = both(r)
      local o = { input = tensor(a, 0.4, 3), other = tensor(b, 0.4, 3) }
      if dtype:find "i" then o.input, o.other = tensor(a, -9, 9), tensor(b, 1, 5) end
      o.rounding_mode = r.pick { nil, "trunc", "floor" }
      return o
    end })
end
binary("true_divide", 0.4, 3, { special = ends, dtypes = floats })
binary("floor_divide", 1, 9, { low2 = 1, high2 = 4, as_given = true, grad = false,
  dtypes = { "f32", "f64", "i64", "i32" } })
for _, name in ipairs { "fmod", "remainder" } do
  binary(name, -9, 9, { low2 = 1, high2 = 4, as_given = true,
    dtypes = { "f32", "f64", "i64", "i32" } })
end
binary("pow", 0.3, 3, { args = { { "input", "tensor" }, { "exponent", "tensor" } },
  dtypes = floats,
  draw = function(r)
    local a, b = both(r)
    return { input = tensor(a, 0.3, 3), exponent = tensor(b, -3, 3) }
  end,
  size = function(n)
    return { input = tensor({ n }, 0.3, 3), exponent = tensor({ n }, -3, 3) }
  end,
  differs = "integers give f32" })
binary("float_power", 0.3, 3, { args = { { "input", "tensor" }, { "exponent", "tensor" } },
  dtypes = { "f32", "f64" },
  draw = function(r)
    local a, b = both(r)
    return { input = tensor(a, 0.3, 3), exponent = tensor(b, -3, 3) }
  end, size = false })

for _, name in ipairs { "maximum", "minimum", "fmax", "fmin" } do
  binary(name, -3, 3, { special = ends, dtypes = { "f32", "f64", "i64", "i32", "u8", "bool" } })
end
for _, name in ipairs { "eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal",
  "greater", "greater_equal" } do
  binary(name, -2, 2, { special = ends, dtypes = plain, grad = false, as_given = true })
end
for _, name in ipairs { "logical_and", "logical_or", "logical_xor" } do
  binary(name, -1, 1, { special = ends, dtypes = plain, grad = false })
end
for _, name in ipairs { "bitwise_and", "bitwise_or", "bitwise_xor" } do
  binary(name, -99, 99, { grad = false, dtypes = bits })
end
for _, name in ipairs { "bitwise_left_shift", "bitwise_right_shift" } do
  binary(name, -99, 99, { grad = false, dtypes = whole, low2 = 0, high2 = 9 })
end
for _, name in ipairs { "gcd", "lcm" } do
  binary(name, -50, 50, { grad = false, dtypes = whole })
end

for _, name in ipairs { "atan2", "arctan2" } do
  binary(name, 0.2, 3, { special = ends, low2 = -3, high2 = 3, dtypes = { "f32", "f64", "i64" } })
end
binary("hypot", 0.2, 3, { special = ends, dtypes = floats })
binary("copysign", 0.2, 3, { special = { 0, -0.0, 1, -1, inf, -inf }, low2 = -3, high2 = 3,
  dtypes = floats })
binary("nextafter", -3, 3, { special = ends, grad = false, dtypes = { "f32", "f64" },
  as_given = true })
binary("logaddexp", -5, 5, { special = ends, dtypes = { "f32", "f64" } })
binary("logaddexp2", -5, 5, { special = ends, dtypes = { "f32", "f64" } })
binary("xlogy", 0.2, 3, { special = ends, dtypes = { "f32", "f64" } })
binary("ldexp", -3, 3, { dtypes = { "f32", "f64" }, grad = false,
  draw = function(r)
    local a, b = both(r)
    return { input = tensor(a, -3, 3), other = tensor(b, -5, 5, { dtype = "i64" }) }
  end, size = false })
add("heaviside", { args = { { "input", "tensor" }, { "values", "tensor" } },
  draw = function(r)
    local dims = r.dims(0, 3)
    return { input = { dims = dims, values = { 0, 1, -1, nan, 0, -0.0 } }, values = tensor(dims) }
  end,
  size = function(n) return { input = tensor({ n }), values = tensor({ n }) } end })
add("rsub", { grad = true, dtypes = { "f32", "f64", "i64" },
  args = { { "input", "tensor" }, { "other", "tensor" }, { "alpha", "number", 1, keyword = true } },
  draw = function(r)
    local a, b = both(r)
    return { input = tensor(a, -3, 3), other = tensor(b, -3, 3), alpha = r.pick { nil, 2 } }
  end,
  size = function(n) return { input = tensor { n }, other = tensor { n } } end })

local near = { { "input", "tensor" }, { "other", "tensor" }, { "rtol", "number", 1e-5 },
  { "atol", "number", 1e-8 }, { "equal_nan", "bool", false } }
for _, name in ipairs { "isclose", "allclose" } do
  add(name, { args = near, as_given = true,
    draw = function(r)
      local values, others = {}, {}
      for i = 1, 8 do
        values[i] = r.pick { 1, 2, -3, inf, nan, 0 }
        others[i] = r(1, 5) == 1 and 5 or values[i] * r.pick { 1, 1, 1 + 1e-6, 1 + 1e-4 }
      end
      return { input = { dims = { 8 }, values = values }, other = { dims = { 8 }, values = others },
        rtol = r.pick { nil, 1e-3 }, atol = r.pick { nil, 1e-5 }, equal_nan = r.bool() }
    end,
    size = function(n) return { input = tensor { n }, other = tensor { n } } end })
end
add("equal", { args = { { "input", "tensor" }, { "other", "tensor" } },
  draw = function(r)
    local values = r.pick { { 1, 2, 3 }, { 1, 2, nan }, { 1, 2, 4 } }
    return { input = { dims = { 3 }, values = { 1, 2, 3 } },
      other = { dims = r.pick { { 3 }, { 1, 3 } }, values = values } }
  end,
  size = function(n) return { input = tensor { n }, other = tensor { n } } end })

-- ---- three inputs ------------------------------------------------------------

add("lerp", { grad = true, dtypes = { "f32", "f64", "bf16" },
  args = { { "input", "tensor" }, { "end", "tensor" }, { "weight", "number" } },
  draw = function(r)
    local a, b = both(r)
    return { input = tensor(a), ["end"] = tensor(b), weight = r.pick { 0, 0.25, 0.5, 1, 1.5 } }
  end,
  size = function(n) return { input = tensor { n }, ["end"] = tensor { n }, weight = 0.25 } end })

for _, name in ipairs { "addcmul", "addcdiv" } do
  add(name, { grad = true,
    args = { { "input", "tensor" }, { "tensor1", "tensor" }, { "tensor2", "tensor" },
      { "value", "number", 1, keyword = true } },
    draw = function(r)
      local a, b = both(r)
      return { input = tensor(a), tensor1 = tensor(b), tensor2 = tensor(a, 0.4, 3),
        value = r.pick { nil, 0.5, -2 } }
    end,
    size = function(n)
      return { input = tensor { n }, tensor1 = tensor { n }, tensor2 = tensor({ n }, 0.4, 3),
        value = 0.5 }
    end })
end

-- ---- absent ------------------------------------------------------------------

for name, why in pairs { igamma = "no incomplete gamma function yet",
  igammac = "no incomplete gamma function yet", angle = "no complex numbers",
  conj = "no complex numbers", real = "no complex numbers", imag = "no complex numbers",
  polar = "no complex numbers", frexp = "two results of one element each; log2 and exp2 are there",
  isreal = "no complex numbers" } do
  rows[#rows + 1] = { torch = "torch." .. name, absent = why }
end
table.sort(rows, function(a, b) return a.torch < b.torch end)

return rows
