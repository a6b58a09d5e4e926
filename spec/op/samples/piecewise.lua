-- piecewise.lua -- samples of functions that are another formula on each side of a bound

local elements = require "op.elements"
local each, cases, given, with = elements.each, elements.cases, elements.given, elements.with
local inf, nan = math.huge, 0 / 0

local ids = { dims = { 3 }, dtype = "i64", integer = 5 }
local one = { dims = { 3 } }
local whole = { { inputs = { ids }, code = "dtype", match = "i64" } }
local special = { 0, -0.0, nan, inf, 1, -1, 3, -3, 0.5, -0.5, 30, -30, -90, 1e-7, -1e-7 }

-- The same cases with each of the options.
local function row(op, all, oracle, bad)
  local list = {}
  for _, o in ipairs(all) do
    for _, case in ipairs(cases(1, -4, 4, { given(nil, special) }, o)) do
      list[#list + 1] = with(o, case)
    end
  end
  return { op = op, grad = true, cases = list, bad = bad or whole, oracle = each(oracle) }
end

local function expm1(x)
  if x < -0.5 then return math.exp(x) - 1 end
  local term, sum = 1, 0
  for n = 1, 20 do
    term = term * x / n
    sum = sum + term
  end
  return sum
end

local function clamped(x, low, high)
  if x < low then x = low end
  return x > high and high or x
end

local clamp = row("clamp", { {}, { min = -1 }, { max = 0.75 }, { min = -1, max = 2 },
  { min = 2, max = -1 } }, function(x, _, _, dtype, o)
    if math.type(x) ~= "integer" then return clamped(x, o.min or -inf, o.max or inf) end
    local least, most = -2 ^ 63, 2 ^ 63
    if dtype == "u8" then least, most = 0, 255 end
    return clamped(x, math.max(o.min or least, least), math.min(o.max or most, most))
  end,
  { { inputs = { ids }, options = { min = 0.5 }, code = "value", match = "whole numbers wanted" },
    { inputs = { one }, options = { max = nan }, code = "value", match = "numbers wanted" },
    { inputs = { { dims = { 3 }, dtype = "bool" } }, code = "dtype", match = "bool" } })
for _, o in ipairs { {}, { min = -1 }, { max = 3 }, { min = 2, max = 200 }, { min = -1e30 },
  { min = 5, max = 2 } } do
  clamp.cases[#clamp.cases + 1] = with(o,
    given("i64", { -5, 0, 3, math.mininteger, math.maxinteger }))
  clamp.cases[#clamp.cases + 1] = with(o, given("i32", { -5, 0, 3, 300 }))
  clamp.cases[#clamp.cases + 1] = with(o, given("u8", { 0, 3, 250 }))
end

return {
  clamp,
  row("hardtanh", { {}, { min_val = -2, max_val = 0.5 } }, function(x, _, _, _, o)
    return clamped(x, o.min_val or -1, o.max_val or 1)
  end, { whole[1], { inputs = { one }, options = { min_val = 2 }, code = "value",
    match = "must not exceed" } }),
  row("leaky_relu", { {}, { negative_slope = 0.3 }, { negative_slope = -1 } },
    function(x, _, _, _, o)
      return x > 0 and x or x * (o.negative_slope or 0.01)
    end),
  row("elu", { {}, { alpha = 0.5 }, { alpha = 1.5, scale = 2, input_scale = 0.5 } },
    function(x, _, _, _, o)
      local scale = o.scale or 1
      if x ~= x then return x end
      return x > 0 and scale * x or scale * (o.alpha or 1) * expm1(x * (o.input_scale or 1))
    end),
  row("softshrink", { {}, { lambd = 0 }, { lambd = 1.25 } }, function(x, _, _, _, o)
    local k = o.lambd or 0.5
    return x ~= x and x or x > k and x - k or x < -k and x + k or 0
  end, { whole[1], { inputs = { one }, options = { lambd = -1 }, code = "value",
    match = "0 or more" } }),
  row("hardshrink", { {}, { lambd = 1.25 } }, function(x, _, _, _, o)
    local k = o.lambd or 0.5
    return x >= -k and x <= k and 0 or x
  end),
  row("threshold", { { threshold = 0.1, value = 7 }, { threshold = -1, value = 0 } },
    function(x, _, _, _, o)
      return x <= o.threshold and o.value or x
    end, { { inputs = { ids }, options = { threshold = 1, value = 2 }, code = "dtype" },
      { inputs = { one }, options = { threshold = 1 }, code = "value", match = "value" } }),
  row("hardswish", { {} }, function(x) return x * clamped(x + 3, 0, 6) / 6 end),
  row("hardsigmoid", { {} }, function(x) return clamped(x + 3, 0, 6) / 6 end),
  { op = "prelu", grad = true, bad = elements.unequal,
    cases = cases(2, -4, 4, { given(nil, special, special) }),
    oracle = each(function(x, y)
      return x > 0 and x or x * y
    end) },
}
