-- elementary.lua -- samples of logarithms, exponentials, angles, hyperbolic functions

local elements = require "op.elements"
local each, cases, given, as_f32 = elements.each, elements.cases, elements.given, elements.as_f32
local inf, nan = math.huge, 0 / 0

-- Beyond f32 it is infinite there.
local function fits(f)
  return each(function(x, y, z, dtype)
    local v = f(x, y, z)
    if dtype == "f32" and math.abs(v) > 3.4028235677973366e38 then
      return v > 0 and inf or -inf
    end
    return v
  end)
end

-- ln(1 + x) and e^x - 1 by their series where the plain formula loses digits.
local function log1p(x)
  if not (math.abs(x) < 0.05) then return math.log(1 + x) end
  local sum = 0
  for n = 20, 1, -1 do sum = sum - (-x) ^ n / n end
  return sum
end
local function expm1(x)
  if not (math.abs(x) < 0.5) then return math.exp(x) - 1 end
  local term, sum = 1, 0
  for n = 1, 20 do
    term = term * x / n
    sum = sum + term
  end
  return sum
end
local function odd(f)
  return function(x)
    if x ~= x or x == 0 then return x end
    return x < 0 and -f(-x) or f(x)
  end
end
local function asinh(x)
  return x > 1e10 and math.log(x) + math.log(2) or log1p(x + x * x / (1 + math.sqrt(1 + x * x)))
end
local function acosh(x)
  if x < 1 then return nan end
  local t = x - 1
  return x > 1e10 and math.log(x) + math.log(2) or log1p(t + math.sqrt(t * (t + 2)))
end
local function sinh(x)
  local e = expm1(x)
  return x > 20 and math.exp(x - math.log(2)) or (e + e / (e + 1)) / 2
end
local function cosh(x)
  x = math.abs(x)
  return x > 20 and math.exp(x - math.log(2)) or (math.exp(x) + math.exp(-x)) / 2
end

-- Integers are taken as f32.
local whole = { as_f32("i64", { 1, 1, 1 }), as_f32("i32", { 1, 1 }), as_f32("u8", { 1, 1 }),
                as_f32("bool", { 1, 1 }) }

local function row(op, low, high, oracle, special)
  return { op = op, grad = true, bad = elements.no_tensor, oracle = fits(oracle),
    cases = cases(1, low, high, { given(nil, special), table.unpack(whole) }) }
end

return {
  row("log1p", -0.9, 4, log1p,
    { 0, -1, -2, inf, -inf, nan, 1e-7, -1e-7, 1e30, 1e-40, 2 ^ 24, 0.3 }),
  row("expm1", -4, 4, expm1, { 0, inf, -inf, nan, 1e-7, -1e-7, -50, 88.5, 89, 800, 1e-40 }),
  row("exp2", -5, 5, function(x) return 2 ^ x end,
    { 0, 1, -1, 10, 127, -126, -140, 128, 1e9, -1e9, inf, -inf, nan, 0.5 }),
  row("log2", 0.1, 9, function(x) return math.log(x, 2) end,
    { 0, -1, 1, 2, 1024, 1e-40, 1e38, inf, nan, 0.999, 1.001 }),
  row("log10", 0.1, 9, function(x) return math.log(x, 10) end,
    { 0, -1, 1, 10, 1000, 1e-40, 1e38, inf, nan, 0.999, 1.001 }),
  row("tan", -1.4, 1.4, math.tan, { 0, 3, -3, 100, 99999, 123456.5, -1e7, inf, nan, 1.5707 }),
  row("asin", -0.9, 0.9, math.asin, { 0, 1, -1, 0.5, 0.50001, 1.0001, inf, nan, 1e-30 }),
  row("acos", -0.9, 0.9, math.acos, { 0, 1, -1, 0.5, -0.50001, 1.0001, inf, nan, 0.99999 }),
  row("atan", -4, 4, math.atan, { 0, 1, -1, inf, -inf, nan, 1e30, 1e-30, 0.4142 }),
  row("sinh", -4, 4, odd(sinh), { 0, inf, -inf, nan, 1e-7, 0.999, 1, 89.2, -89.2, 90, 800 }),
  row("cosh", -4, 4, cosh, { 0, inf, -inf, nan, 1e-7, 89.2, -89.2, 90, 800 }),
  row("asinh", -4, 4, odd(asinh), { 0, inf, -inf, nan, 1e-7, -1e-3, 1e30, 3e38 }),
  row("acosh", 1.1, 6, acosh, { 1, 0.5, inf, -inf, nan, 1.0000001, 1e30, 3e38 }),
  row("atanh", -0.9, 0.9, odd(function(x)
    return x > 1 and nan or x == 1 and inf or log1p(2 * x / (1 - x)) / 2
  end), { 0, 1, -1, 1.5, inf, nan, 1e-7, -1e-3, 0.99999 }),
}
