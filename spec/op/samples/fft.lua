-- fft.lua -- samples of Fourier transforms

local arrays = require "op.arrays"
local float = arrays.float

-- Call f(o, i) for what lies around dimension `d` of dims (the first `rank`).
local function around(dims, d, rank, f)
  local outer, inner = 1, 1
  for k = 1, rank do
    if k < d then outer = outer * dims[k] end
    if k > d then inner = inner * dims[k] end
  end
  for o = 0, outer - 1 do
    for i = 0, inner - 1 do f(o, i, inner) end
  end
end

-- Sum over j of (re(j) + i im(j)) e^(sign 2 pi i j k / n).
local function sum(n, k, sign, re, im)
  local x, y = 0, 0
  for j = 0, n - 1 do
    local angle = sign * 2 * math.pi * ((j * k) % n) / n
    local c, s = math.cos(angle), math.sin(angle)
    x, y = x + re(j) * c - im(j) * s, y + re(j) * s + im(j) * c
  end
  return x, y
end

local function along(options, rank)
  local d = options.dim
  return d < 0 and d + rank + 1 or d
end

local function fft(ins, o)
  local x = ins[1]
  local rank = #x.dims - 1
  local d, data = along(o, rank), {}
  local n = x.dims[d]
  around(x.dims, d, rank, function(a, b, inner)
    local function at(j) return 2 * ((a * n + j) * inner + b) end
    for k = 0, n - 1 do
      local re, im = sum(n, k, o.inverse and 1 or -1, function(j) return x.data[at(j) + 1] end,
        function(j) return x.data[at(j) + 2] end)
      data[at(k) + 1], data[at(k) + 2] = re * (o.scale or 1), im * (o.scale or 1)
    end
  end)
  return { { dims = x.dims, data = data } }
end

-- Does number k of the spectrum of n real ones stand for two?
local function double(k, n) return k > 0 and 2 * k ~= n end

local function rfft(ins, o)
  local x = ins[1]
  local d, data, dims = along(o, #x.dims), {}, { table.unpack(x.dims) }
  local n = x.dims[d]
  local half = n // 2 + 1
  dims[d], dims[#dims + 1] = half, 2
  around(x.dims, d, #x.dims, function(a, b, inner)
    for k = 0, half - 1 do
      local re, im = sum(n, k, -1, function(j) return x.data[(a * n + j) * inner + b + 1] end,
        function() return 0 end)
      local at = 2 * ((a * half + k) * inner + b)
      local by = (o.scale or 1) * (o.adjoint and double(k, n) and 2 or 1)
      data[at + 1], data[at + 2] = re * by, im * by
    end
  end)
  return { { dims = dims, data = data } }
end

local function irfft(ins, o)
  local x, n = ins[1], o.n
  local d, data, dims = along(o, #x.dims - 1), {}, { table.unpack(x.dims) }
  local half = n // 2 + 1
  dims[d], dims[#dims] = n, nil
  around(x.dims, d, #x.dims - 1, function(a, b, inner)
    local function part(j, c)
      local k = j < half and j or n - j
      if c == 2 and not double(k, n) then return 0 end
      local v = x.data[2 * ((a * half + k) * inner + b) + c]
      if c == 2 and j >= half then v = -v end
      return o.adjoint and double(k, n) and v / 2 or v
    end
    for k = 0, n - 1 do
      local re = sum(n, k, 1, function(j) return part(j, 1) end, function(j) return part(j, 2) end)
      data[(a * n + k) * inner + b + 1] = re * (o.scale or 1)
    end
  end)
  return { { dims = dims, data = data } }
end

local complex, real, back = {}, {}, {}
local function case(list, dims, options, grad)
  list[#list + 1] = { inputs = { float(table.unpack(dims)) }, options = options, grad = grad }
end

-- One in a lane and many, every radix, a large prime factor, and a long one alone.
for _, n in ipairs { 1, 2, 3, 4, 5, 7, 8, 12, 30, 37, 49, 131 } do
  case(complex, { 2, n, 2 }, { dim = -1 })
  case(real, { 2, n }, { dim = -1 })
  case(back, { 2, n // 2 + 1, 2 }, { dim = -1, n = n })
end
case(complex, { 3, 6, 5, 2 }, { dim = 2, inverse = true, scale = 0.5 })
case(complex, { 20, 16, 2 }, { dim = -1, inverse = true })
case(complex, { 16, 20, 2 }, { dim = 1 })
case(complex, { 1, 96, 2 }, { dim = -1 })
case(complex, { 150, 2 }, { dim = 1, inverse = true }, false)
case(complex, { 0, 4, 2 }, { dim = -1 })
case(real, { 3, 6, 5 }, { dim = 2, scale = 0.5 })
case(real, { 20, 15 }, { dim = -1 })
case(real, { 16, 20 }, { dim = 1, adjoint = true })
case(real, { 2, 9 }, { dim = -1, adjoint = true })
case(real, { 150 }, { dim = 1 })
case(real, { 2, 262 }, { dim = -1, adjoint = true }, false)
case(real, { 135 }, { dim = 1, adjoint = true })
case(back, { 3, 4, 5, 2 }, { dim = 2, n = 6, scale = 0.5 })
case(back, { 20, 8, 2 }, { dim = -1, n = 15 })
case(back, { 9, 20, 2 }, { dim = 1, n = 16, adjoint = true })
case(back, { 2, 5, 2 }, { dim = -1, n = 9, adjoint = true })
case(back, { 76, 2 }, { dim = 1, n = 150, adjoint = true })
case(back, { 2, 132, 2 }, { dim = -1, n = 262 }, false)
case(back, { 68, 2 }, { dim = 1, n = 135, adjoint = true })

return {
  {
    op = "dft",
    cases = complex,
    bad = {
      { inputs = { float(3, 4) }, options = { dim = -1 }, code = "shape", match = "complex" },
      { inputs = { float(2) }, options = { dim = -1 }, code = "shape" },
      { inputs = { float(3, 2) }, options = { dim = 2 }, code = "value" },
      { inputs = { float(0, 2) }, options = { dim = 1 }, code = "value" },
      { inputs = { { dims = { 4, 2 }, integer = 5 } }, options = { dim = 1 }, code = "dtype" },
    },
    oracle = fft,
    grad = true,
  },
  {
    op = "rdft",
    cases = real,
    bad = {
      { inputs = { float() }, options = { dim = 1 }, code = "value" },
      { inputs = { float(3, 0) }, options = { dim = 2 }, code = "value" },
      { inputs = { float(1, 1, 1, 1, 1, 1, 1, 2) }, options = { dim = 8 }, code = "shape" },
      { inputs = { { dims = { 4, 2 }, integer = 5 } }, options = { dim = 1 }, code = "dtype" },
    },
    oracle = rfft,
    grad = true,
  },
  {
    op = "irdft",
    cases = back,
    bad = {
      { inputs = { float(3, 2) }, options = { dim = 1, n = 7 }, code = "value", match = "4 along" },
      { inputs = { float(3, 2) }, options = { dim = 1, n = 0 }, code = "value" },
      { inputs = { float(3, 4) }, options = { dim = 1, n = 4 }, code = "shape" },
    },
    oracle = irfft,
    grad = true,
  },
}
