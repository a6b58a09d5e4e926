-- activation.lua -- samples of smooth activations

local nan = 0 / 0

-- erf by its Taylor series; |x| stays below 3.6 here, or is beyond 6.
local function erf(x)
  if math.abs(x) > 6 then
    return x > 0 and 1 or -1
  end
  local term, sum = x, x
  for n = 1, 120 do
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(math.pi) * sum
end

local function sigmoid(x)
  return 1 / (1 + math.exp(-x))
end

-- P(x) and P'(x) for both ways of gelu.
local function normal(x)
  return (1 + erf(x / math.sqrt(2))) / 2, math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
end
local function nearly_normal(x)
  local k = math.sqrt(2 / math.pi)
  local p = sigmoid(2 * k * (x + 0.044715 * x ^ 3))
  return p, 2 * p * (1 - p) * k * (1 + 3 * 0.044715 * x * x)
end
local function way(options)
  return options.approximate == "tanh" and nearly_normal or normal
end

local function each(f)
  return function(ins, options)
    local data = {}
    for i, x in ipairs(ins[1].data) do
      data[i] = f(x, ins[2] and ins[2].data[i], options)
    end
    return { { dims = ins[1].dims, data = data } }
  end
end

local function cases(n, all_options)
  local list = {}
  for _, options in ipairs(all_options) do
    for _, dims in ipairs { {}, { 5 }, { 3, 67 }, { 2, 1, 4 }, { 0, 3 }, { 2000 } } do
      local inputs = { { dims = dims, low = -4, high = 4 }, { dims = dims } }
      inputs[n + 1] = nil
      list[#list + 1] = { inputs = inputs, options = options }
    end
    local far = { { dims = { 4 }, values = { 40, -40, 0, nan } },
                  { dims = { 4 }, values = { 1, 1, 2, 1 } } }
    far[n + 1] = nil
    list[#list + 1] = { inputs = far, options = options, grad = false }
  end
  return list
end

local both = { {}, { approximate = "none" }, { approximate = "tanh" } }
local ids = { dims = { 3 }, dtype = "i64", integer = 5 }
local one = { { inputs = { ids }, code = "dtype", match = "i64" } }
local two = { { inputs = { { dims = { 3 } }, { dims = { 4 } } }, code = "shape", match = "4" } }

-- log(1 + e^x), where both parts are large and where they are small.
local function softplus(x)
  if x ~= x then return x end
  local u, sum = math.exp(-math.abs(x)), 0
  if u > 0.01 then return math.max(x, 0) + math.log(1 + u) end
  for n = 1, 12 do sum = sum - (-u) ^ n / n end
  return math.max(x, 0) + sum
end

return {
  { op = "softplus", grad = true, cases = cases(1, { {} }), bad = one, oracle = each(softplus) },
  { op = "logsigmoid", grad = true, cases = cases(1, { {} }), bad = one,
    oracle = each(function(x)
      return -softplus(-x)
    end) },
  { op = "softsign", grad = true, cases = cases(1, { {} }), bad = one,
    oracle = each(function(x)
      return x / (1 + math.abs(x))
    end) },
  { op = "mish", grad = true, cases = cases(1, { {} }), bad = one,
    oracle = each(function(x)
      local n = math.exp(math.min(x, 40)) * (math.exp(math.min(x, 40)) + 2)
      return x ~= x and x or x * n / (n + 2)
    end) },
  { op = "gelu", grad = true, cases = cases(1, both), bad = one,
    oracle = each(function(x, _, options)
      return x * way(options)(x)
    end) },
  { op = "gelu_grad", grad = true, cases = cases(2, both), bad = two,
    oracle = each(function(x, dy, options)
      local p, slope = way(options)(x)
      return dy * (p + x * slope)
    end) },
  { op = "silu", grad = true, cases = cases(1, { {} }), bad = one,
    oracle = each(function(x)
      return x * sigmoid(x)
    end) },
  { op = "silu_grad", grad = true, cases = cases(2, { {} }), bad = two,
    oracle = each(function(x, dy)
      local s = sigmoid(x)
      return dy * s * (1 + x * (1 - s))
    end) },
}
