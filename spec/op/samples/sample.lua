-- sample.lua -- samples of operators that draw from a distribution; what they draw is
-- looked at in spec/distributions

local function lgamma(x)
  local shift = 0
  while x < 12 do
    shift = shift + math.log(x)
    x = x + 1
  end
  local i = 1 / x
  return (x - 0.5) * math.log(x) - x + 0.91893853320467274178
    + i * (1 / 12 - i * i * (1 / 360 - i * i * (1 / 1260 - i * i / 1680))) - shift
end

-- P(a, y), the regularised incomplete gamma function, by its series.
local function gamma_share(a, y)
  local term, sum = 1, 1
  for k = 1, 500 do
    term = term * y / (a + k)
    sum = sum + term
  end
  return sum * math.exp(a * math.log(y) - y - lgamma(a + 1))
end

local function standard_gamma_grad(ins)
  local out = {}
  for i, a in ipairs(ins[1].data) do
    local y, h = ins[2].data[i], 1e-4 * a
    local function at(k) return gamma_share(a + k * h, y) end
    local slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    out[i] = -slope / math.exp((a - 1) * math.log(y) - y - lgamma(a))
  end
  return { { dims = ins[1].dims, data = out } }
end

local function x(low, high) return { dims = { 3, 67 }, low = low, high = high } end
local whole = { dims = { 2 }, dtype = "i64" }

-- The library's own operators draw in specs of their own.
local function drawn(op, inputs)
  local bad = {}
  for i = 1, #inputs do bad[i] = whole end
  return { op = op, grad = false, oracle = false,
    cases = { { inputs = inputs }, { inputs = { inputs[2] and x(0, 0) or x(2, 50), inputs[2] } } },
    bad = { { inputs = bad, code = "dtype", match = "i64" } } }
end

return {
  drawn("poisson", { x(0, 20) }),
  drawn("binomial", { { dims = { 3, 67 }, values = (function()
    local list = {}
    for i = 1, 201 do list[i] = i % 60 end
    return list
  end)() }, x(0, 1) }),
  drawn("standard_gamma", { x(0.1, 5) }),
  { op = "standard_gamma_grad", grad = false, oracle = standard_gamma_grad, tolerance = 1e-5,
    cases = {
      { inputs = { x(0.1, 3), x(0.05, 8) } },
      { inputs = { { dims = { 6 }, values = { 20, 20, 20, 150, 150, 3 } },
        { dims = { 6 }, values = { 12, 21, 30, 130, 165, 9 } } } },
      { inputs = { { dims = { 3 }, values = { 1, 1, 0.5 } }, { dims = { 3 },
        values = { 1, 2, 1e-10 } } } },
    },
    bad = { { inputs = { { dims = { 2 } }, { dims = { 3 } } }, code = "shape" },
      { inputs = { whole, whole }, code = "dtype" } } },
}
