-- special.lua -- samples of gamma, error integrals, Bessel functions, sums of exponentials

local elements = require "op.elements"
local each, cases, given, with = elements.each, elements.cases, elements.given, elements.with
local as_f32 = elements.as_f32
local inf, nan, pi = math.huge, 0 / 0, math.pi

-- erf and erfc by the Taylor series and the continued fraction.
local function erf_near(x)
  local term, sum = x, x
  for n = 1, 120 do
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(pi) * sum
end
local function erfc(x)
  if x ~= x then return x end
  if x < 0 then return 2 - erfc(-x) end
  if x < 2 then return 1 - erf_near(x) end
  local f = 0.0
  for k = 200, 1, -1 do f = k / 2 / (x + f) end
  return math.exp(-x * x) / math.sqrt(pi) / (x + f)
end
-- By Newton's iteration on the tail.
local function erfinv(x)
  if x ~= x or math.abs(x) > 1 then return nan end
  if math.abs(x) == 1 then return x * inf end
  local y = 0.0
  for _ = 1, 200 do
    local rest = (1 - math.abs(x)) - erfc(y)
    y = y - rest * math.sqrt(pi) / 2 * math.exp(y * y) / (1 + math.abs(rest) * y)
  end
  return x < 0 and -y or y
end

-- ln gamma and its derivatives: shifted up by 30, then the first terms of Stirling's.
local bernoulli = { 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66 }
local function lgamma(x)
  if x ~= x then return x end
  if math.abs(x) == inf then return inf end
  if x <= 0 then
    if x == math.floor(x) then return inf end
    return math.log(pi / math.abs(math.sin(pi * x))) - lgamma(1 - x)
  end
  local y, z = 0.0, x
  while z < 30 do
    y = y - math.log(z)
    z = z + 1
  end
  y = y + (z - 0.5) * math.log(z) - z + math.log(2 * pi) / 2
  for k, b in ipairs(bernoulli) do y = y + b / (2 * k * (2 * k - 1) * z ^ (2 * k - 1)) end
  return y
end
-- The n-th derivative of digamma where x > 0, of a table's n.
local function above(n, x)
  local y, z, factorial = 0.0, x, 1.0
  for k = 2, n do factorial = factorial * k end
  local sign = n % 2 == 1 and 1 or -1
  while z < 30 do
    y = y + factorial / z ^ (n + 1)
    z = z + 1
  end
  if n == 0 then
    y = y - math.log(z) + 1 / (2 * z)
    for k, b in ipairs(bernoulli) do y = y + b / (2 * k * z ^ (2 * k)) end
    return -y
  end
  y = y + factorial / n / z ^ n + factorial / 2 / z ^ (n + 1)
  local rise = factorial * (n + 1) -- (2k + n - 1)! / (2k)! at k = 1, times 2
  for k, b in ipairs(bernoulli) do
    y = y + b * rise / 2 / z ^ (2 * k + n)
    rise = rise * (2 * k + n) * (2 * k + n + 1) / ((2 * k + 1) * (2 * k + 2))
  end
  return sign * y
end
-- Below 0 by recurrence.
local function polygamma(n, x)
  if x ~= x or x == -inf then return nan end
  if x == inf then return n == 0 and inf or 0 end
  if x <= 0 and x == math.floor(x) then
    if n > 0 then return n % 2 == 1 and inf or -inf end
    return x < 0 and nan or -1 / x
  end
  local y, factorial = 0.0, 1.0
  for k = 2, n do factorial = factorial * k end
  local sign = n % 2 == 1 and 1 or -1
  while x < 0 do
    y = y + sign * factorial / x ^ (n + 1)
    x = x + 1
  end
  return y + above(n, x)
end

-- I_v by its power series.
local function bessel(v, x)
  if math.abs(x) == inf then return v == 1 and x or inf end
  local term = v == 1 and x / 2 or 1.0
  local sum = term
  for k = 1, 300 do
    term = term * (x / 2) ^ 2 / (k * (k + v))
    sum = sum + term
  end
  return sum
end

local function sinc(x) return x == 0 and 1 or math.sin(pi * x) / (pi * x) end

local function log_add(x, y)
  if x == y then return x + math.log(2) end
  local u = math.exp(-math.abs(x - y))
  local rest = u > 0.01 and math.log(1 + u) or 0
  for n = 1, u > 0.01 and 0 or 12 do rest = rest - (-u) ^ n / n end
  return math.max(x, y) + rest
end

local whole = { as_f32("i64", { 1, 2, 3 }), as_f32("i32", { 1, 2 }), as_f32("u8", { 1, 2 }),
                as_f32("bool", { 1, 1 }) }
local function row(op, low, high, oracle, special, more)
  local out = { op = op, grad = true, bad = elements.no_tensor, oracle = each(oracle),
    cases = cases(1, low, high, { given(nil, special), table.unpack(whole) }) }
  for k, v in pairs(more or {}) do out[k] = v end
  return out
end

local gammas = { op = "polygamma", grad = true, oracle = each(function(x, _, _, _, o)
    return polygamma(o.n, x)
  end),
  cases = {}, bad = {
    { inputs = { { dims = { 3 } } }, options = { n = -1 }, code = "value", match = "0 to 20" },
    { inputs = { { dims = { 3 } } }, options = { n = 21 }, code = "value", match = "0 to 20" },
    { inputs = { { dims = { 3 } } }, code = "value", match = "n" } } }
for n = 0, 4 do
  for _, dims in ipairs { {}, { 3, 67 }, { 0, 3 } } do
    gammas.cases[#gammas.cases + 1] = { options = { n = n },
      inputs = { { dims = dims, low = 0.7, high = 6 } } }
  end
  gammas.cases[#gammas.cases + 1] = with({ n = n }, given(nil,
    { 0, -1, -2, inf, nan, -0.5, -3.25, 1e-3, 40, 12.5, -0.7, 1e4 }))
  gammas.cases[#gammas.cases + 1] = with({ n = n }, as_f32("i64", { 1, 2, 3 }))
end

local near = { { inputs = { { dims = { 3, 9 }, low = -0.3, high = 0.3 } } } }

return {
  row("erfc", -3, 3, erfc, { 0, inf, -inf, nan, 0.5, 2, 5, 8, -8, 1e-7, 20 }),
  row("erfinv", -0.9, 0.9, erfinv, { 0, 1, -1, 1.5, nan, 0.99, -0.999, 1e-7, 0.9999 },
    { tolerance = 3e-5 }),
  row("lgamma", 0.3, 6, lgamma,
    { 0, -1, -2, inf, -inf, nan, 1, 2, 1.0001, 1e-7, 100, 1e10, -0.5, -3.7, -20.3 }),
  row("digamma", 0.3, 6, function(x) return polygamma(0, x) end,
    { 0, -0.0, -1, -2, inf, -inf, nan, 1, 2, 1e-3, 100, 1e10, -0.5, -3.7, -20.3 }),
  gammas,
  row("i0", -5, 5, function(x) return bessel(0, x) end,
    { 0, inf, -inf, nan, 1e-7, 7.999, 8.001, -30, 80 }),
  row("i1", -5, 5, function(x) return bessel(1, x) end,
    { 0, inf, -inf, nan, 1e-7, 7.999, 8.001, -30, 80 }),
  row("sinc", -3, 3, sinc, { 0, 0.5, 1.5, -2.5, nan, 1e-7, 100.5 },
    { cases = cases(1, -3, 3, { given(nil, { 0, 0.5, 1.5, -2.5, nan, 1e-7, 100.5 }),
      near[1] }) }),
  row("logit", 0.1, 0.9, function(x)
    return (x < 0 or x > 1) and nan or x == 0.5 and 0 or math.log(x / (1 - x))
  end, { 0, 1, 0.5, -1, 2, nan, 0.499, 0.501, 1e-7 },
    { cases = cases(1, 0.1, 0.9, { given(nil, { 0, 1, 0.5, -1, 2, nan, 0.499, 0.501, 1e-7 }),
      as_f32("bool", { 0, 1 }) }) }),
  { op = "xlogy", grad = true, bad = elements.unequal,
    cases = cases(2, 0.3, 3, { as_f32("i64", { 0, 2 }, { 0, 3 }), given(nil,
      { 0, 0, 0, 0, 1, 1, nan, 2 }, { 0, -1, nan, inf, 0, -1, 1, inf }) }),
    oracle = each(function(x, y)
      return x == 0 and y == y and 0 or x * math.log(y)
    end) },
  { op = "logaddexp", grad = true, bad = elements.unequal,
    cases = cases(2, -5, 5, { as_f32("i64", { 0, 2 }, { 0, 3 }), given(nil,
      { inf, -inf, inf, -inf, nan, 1e30, 100, 3 }, { inf, -inf, -inf, 1, 1, -1e30, 99, 3 }) }),
    oracle = each(log_add) },
  { op = "logaddexp2", grad = true, bad = elements.unequal,
    cases = cases(2, -5, 5, { as_f32("i64", { 0, 2 }, { 0, 3 }), given(nil,
      { inf, -inf, inf, -inf, nan, 1e30, 100, 3 }, { inf, -inf, -inf, 1, 1, -1e30, 99, 3 }) }),
    oracle = each(function(x, y)
      if x == y then return x + 1 end
      local u = 2 ^ -math.abs(x - y)
      return math.max(x, y) + (log_add(0, math.log(u))) / math.log(2)
    end) },
}
