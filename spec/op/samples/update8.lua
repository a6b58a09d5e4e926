-- update8.lua -- samples of updates with moments in 8 bits, and their codebook by
-- definition

local BLOCK = 256

-- bitsandbytes' dynamic map of 8 bits: means of neighbours of n + 1 numbers spaced
-- evenly from 0.1 to 1, times powers of ten; 0 and 1; sorted.
local function codebook(signed)
  local list = { 0, 1 }
  for i = 0, 6 do
    local n = 2 ^ (signed and i or i + 1)
    for j = 0, n - 1 do
      local mean = (0.1 + 0.9 * j / n + 0.1 + 0.9 * (j + 1) / n) / 2 * 10 ^ (i - 6)
      list[#list + 1] = mean
      if signed then list[#list + 1] = -mean end
    end
  end
  table.sort(list)
  return list
end

local signed, unsigned = codebook(true), codebook(false)

-- The code, from 0, of the number nearest to x.
local function nearest(book, x)
  local best = 1
  for i = 2, #book do
    if math.abs(book[i] - x) < math.abs(book[best] - x) then best = i end
  end
  return best - 1
end

local function code_of_m(x)
  local code = nearest(signed, x)
  return x < 0 and signed[code + 1] >= 0 and code - 1 or code
end

local function is_finite(x) return x - x == 0 end

local function most(list)
  local top = 0
  for _, x in ipairs(list) do top = math.max(top, math.abs(x)) end
  return top
end

local function step_of(ins, o)
  local t, lr, scale = ins[7].data[1], ins[8].data[1], ins[9] and ins[9].data[1] or 1
  local beta1, beta2 = o.beta1 or 0.9, o.beta2 or 0.999
  local c1, c2 = 1 - beta1 ^ t, (1 - beta2 ^ t) ^ 0.5
  local decay = o.weight_decay or 0
  return function(p, m, v, g)
    g = g * scale + (o.coupled and decay * p or 0)
    if not is_finite(g) then return p, 0, 0 end
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    p = p - lr * c2 / c1 * m / (v ^ 0.5 + (o.eps or 1e-8) * c2)
    return o.coupled and p or p * (1 - lr * decay), m, v
  end
end

local function adamw8(ins, o)
  local outs, step = {}, step_of(ins, o)
  for k = 1, 5 do
    outs[k] = { dims = ins[k].dims, data = { table.unpack(ins[k].data) } }
  end
  if ins[10] and ins[10].data[1] == 0 then return outs end
  local p, m8, v8, a, b = outs[1].data, outs[2].data, outs[3].data, outs[4].data, outs[5].data
  for block = 1, #a do
    local first, last = (block - 1) * BLOCK + 1, math.min(block * BLOCK, #p)
    local m, v = {}, {}
    for i = first, last do
      p[i], m[i - first + 1], v[i - first + 1] = step(p[i], signed[m8[i] + 1] * a[block],
        unsigned[v8[i] + 1] * b[block], ins[6].data[i])
    end
    a[block], b[block] = most(m), most(v)
    for i = first, last do
      m8[i] = code_of_m(a[block] > 0 and m[i - first + 1] / a[block] or 0)
      v8[i] = nearest(unsigned, b[block] > 0 and v[i - first + 1] / b[block] or 0)
    end
  end
  return outs
end

-- p, m, a, g, lr[, scale[, when]]; `rule` gives p and m of one element.
local function momentum(rule)
  return function(ins, o)
    local outs, lr = {}, ins[5].data[1]
    local scale = ins[6] and ins[6].data[1] or 1
    for k = 1, 3 do
      outs[k] = { dims = ins[k].dims, data = { table.unpack(ins[k].data) } }
    end
    if ins[7] and ins[7].data[1] == 0 then return outs end
    local p, m8, a = outs[1].data, outs[2].data, outs[3].data
    for block = 1, #a do
      local first, last, m = (block - 1) * BLOCK + 1, math.min(block * BLOCK, #p), {}
      for i = first, last do
        local g = ins[4].data[i] * scale
        m[i - first + 1] = 0
        if is_finite(g) then
          p[i], m[i - first + 1] = rule(p[i], signed[m8[i] + 1] * a[block], g, lr, o)
        end
      end
      a[block] = most(m)
      for i = first, last do
        m8[i] = code_of_m(a[block] > 0 and m[i - first + 1] / a[block] or 0)
      end
    end
    return outs
  end
end

local sgd8 = momentum(function(p, m, g, lr, o)
  g = g + (o.weight_decay or 0) * p
  m = (o.momentum or 0) * m + (1 - (o.dampening or 0)) * g
  return p - lr * (o.nesterov and g + o.momentum * m or m), m
end)

local lion8 = momentum(function(p, m, g, lr, o)
  local beta1, beta2 = o.beta1 or 0.9, o.beta2 or 0.99
  local c = beta1 * m + (1 - beta1) * g
  local sign = c > 0 and 1 or c < 0 and -1 or 0
  return p - lr * (sign + (o.weight_decay or 0) * p), beta2 * m + (1 - beta2) * g
end)

local function number(x, dtype) return { dims = {}, dtype = dtype or "f32", values = { x } } end

-- Inputs for n elements, of gradients that are given or random.
local function inputs(n, gradients, ...)
  local codes = { dims = { n }, dtype = "u8", integer = 256 }
  local scales = { dims = { (n + BLOCK - 1) // BLOCK }, low = 0.1, high = 1 }
  return { { dims = { n } }, codes, codes, scales, scales, { dims = { n }, values = gradients },
    number(3), number(0.01), ... }
end

local function of_one(n, gradients, ...)
  local ins = inputs(n, gradients, ...)
  table.remove(ins, 7)
  table.remove(ins, 5)
  table.remove(ins, 3)
  return ins
end

local odd = {} -- not finite, tiny and large ones
for i = 1, 300 do
  odd[i] = ({ 0 / 0, 1 / 0, -1 / 0, 1e-12, -1e-12, 0, 0.3, -0.3 })[i % 8 + 1] * (1 + i / 3000)
end
local none = {} -- a block of gradients none of which is finite
for i = 1, 256 do none[i] = 0 / 0 end
local x, codes, wrong = { dims = { 300 } }, { dims = { 300 }, dtype = "u8", integer = 256 },
  { dims = { 3 } }

return {
  { op = "adamw8", updates = true, dtypes = { "f32" },
    cases = {
      { inputs = inputs(1037) },
      { inputs = inputs(300, odd) },
      { inputs = inputs(256, none) },
      { inputs = inputs(600, nil, number(0.5), number(true, "bool")),
        options = { beta1 = 0.5, beta2 = 0.9, eps = 1e-3, weight_decay = 0.1 } },
      { inputs = inputs(600), options = { weight_decay = 0.1, coupled = true } },
      { inputs = inputs(600, nil, number(0.5), number(false, "bool")) },
      { inputs = inputs(0) },
    },
    bad = {
      { inputs = { x, x, codes, wrong, wrong, x, number(1), number(1) }, code = "dtype",
        match = "u8" },
      { inputs = { x, codes, codes, wrong, wrong, x, number(1), number(1) }, code = "shape",
        match = "f32%[2%] wanted %(a scale for each block" },
    },
    oracle = adamw8, grad = false },
  { op = "sgd8", updates = true, dtypes = { "f32" },
    cases = {
      { inputs = of_one(1037), options = { momentum = 0.9 } },
      { inputs = of_one(300, odd), options = { momentum = 0.9 } },
      { inputs = of_one(600, nil, number(0.5), number(true, "bool")),
        options = { momentum = 0.8, dampening = 0.1, weight_decay = 0.1, nesterov = true } },
      { inputs = of_one(600, nil, number(0.5), number(false, "bool")) },
      { inputs = of_one(0) },
    },
    bad = {
      { inputs = { x, codes, wrong, x, number(1) }, code = "shape",
        match = "f32%[2%] wanted %(a scale for each block" },
      { inputs = { x, x, wrong, x, number(1) }, code = "dtype", match = "u8" },
    },
    oracle = sgd8, grad = false },
  { op = "lion8", updates = true, dtypes = { "f32" },
    cases = {
      { inputs = of_one(1037) },
      { inputs = of_one(300, odd) },
      { inputs = of_one(256, none) },
      { inputs = of_one(600, nil, number(0.5), number(true, "bool")),
        options = { beta1 = 0.5, beta2 = 0.9, weight_decay = 0.1 } },
      { inputs = of_one(600, nil, number(0.5), number(false, "bool")) },
    },
    oracle = lion8, grad = false },
}
