-- quantize.lua -- samples of quantize, dequantize and quantized_linear
--
-- The sizes cross the edges of bytes, blocks and vectors.

-- What codes stand for: precision.md, section 7.
local nf4 = { -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
  -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
  0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
  0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1 }
local fp4, int8 = {}, {}
for i, x in ipairs { 0, 0.0625, 8, 12, 4, 6, 2, 3 } do
  fp4[i], fp4[i + 8] = x / 12, -x / 12
end
for code = 0, 255 do int8[code + 1] = (code - 128) / 127 end
local q4_0, q8_0 = {}, {}
for code = 0, 15 do q4_0[code + 1] = code - 8 end
for code = 0, 255 do q8_0[code + 1] = code < 128 and code or code - 256 end
local values = { nf4 = nf4, fp4 = fp4, int8 = int8, q4_0 = q4_0, q8_0 = q8_0 }
local gguf = { q4_0 = true, q8_0 = true }

local function sizes(o, columns)
  local pack = (o.kind == "int8" or o.kind == "q8_0") and 1 or 2
  local block = gguf[o.kind] and 32 or o.block
    or (o.kind == "int8" and math.max(columns, 1) or 64)
  local bytes = o.kind == "q4_0" and (columns + 31) // 32 * 16 or (columns + pack - 1) // pack
  return pack, bytes, block, (columns + block - 1) // block
end

-- The byte in which number i of a row has its code, and whether that is the upper half.
local function place(kind, i)
  if kind == "q4_0" then return i // 32 * 16 + i % 16, i % 32 >= 16 end
  if kind == "int8" or kind == "q8_0" then return i, false end
  return i // 2, i % 2 == 1
end

-- x as f16 holds it, to the nearest, ties to even.
local function to_half(x)
  if x == 0 or x ~= x then return x end
  local step = 2.0 ^ (math.max(math.floor(math.log(math.abs(x), 2)), -14) - 10)
  local n = x / step
  local low = math.floor(n)
  local up = n - low > 0.5 or (n - low == 0.5 and low % 2 == 1)
  return (up and low + 1 or low) * step
end

-- The scale of a block and its codes, as ggml makes them.
local function gguf_block(kind, w)
  local most = 0.0
  for _, x in ipairs(w) do
    if math.abs(x) > math.abs(most) then most = x end
  end
  local scale = kind == "q4_0" and most / -8 or math.abs(most) / 127
  local codes = {}
  for i, x in ipairs(w) do
    local y = scale ~= 0 and x / scale or 0.0
    if kind == "q4_0" then
      codes[i] = math.min(15, math.floor(y + 8.5))
    else
      codes[i] = (y < 0 and -math.floor(0.5 - y) or math.floor(y + 0.5)) % 256
    end
  end
  return to_half(scale), codes
end

-- The code whose value is nearest; 128 and 8 are not used for zero.
local function nearest(list, x)
  local best, least = 0, math.huge
  for code = 1, #list do
    local off = math.abs(list[code] - x)
    if off < least then best, least = code - 1, off end
  end
  return best
end

local function with_last(dims, n)
  local out = { table.unpack(dims) }
  out[#out] = n
  return out
end

local function count(dims)
  local n = 1
  for _, d in ipairs(dims) do n = n * d end
  return n
end

local function coded(kind, w)
  if gguf[kind] then return gguf_block(kind, w) end
  local most, codes = 0.0, {}
  for _, x in ipairs(w) do most = math.max(most, math.abs(x)) end
  for i, x in ipairs(w) do codes[i] = nearest(values[kind], x / (most > 0 and most or 1)) end
  return most, codes
end

local function quantize(ins, o)
  local w = ins[1]
  local K = w.dims[#w.dims]
  local _, bytes, block, blocks = sizes(o, K)
  local rows = K > 0 and count(w.dims) // K or 0
  local codes, scales = {}, {}
  for i = 1, rows * bytes do codes[i] = 0 end
  for r = 0, rows - 1 do
    for b = 0, blocks - 1 do
      local first, last = b * block, math.min((b + 1) * block, K) - 1
      local part = table.move(w.data, r * K + first + 1, r * K + last + 1, 1, {})
      local scale, list = coded(o.kind, part)
      scales[r * blocks + b + 1] = scale
      for i = first, last do
        local byte, upper = place(o.kind, i)
        local at = r * bytes + byte + 1
        codes[at] = codes[at] + list[i - first + 1] * (upper and 16 or 1)
      end
    end
  end
  return { { dims = with_last(w.dims, bytes), data = codes },
    { dims = with_last(w.dims, blocks), data = scales } }
end

-- The matrix that codes and scales stand for, flat, and its columns.
local function matrix(codes, scales, o, columns)
  local bytes = codes.dims[#codes.dims]
  local pack = sizes(o, 0)
  columns = columns or o.columns or bytes * pack
  local _, _, block, blocks = sizes(o, columns)
  local w = {}
  for r = 0, (bytes > 0 and count(codes.dims) // bytes or 0) - 1 do
    for i = 0, columns - 1 do
      local byte, upper = place(o.kind, i)
      local code = codes.data[r * bytes + byte + 1]
      if pack == 2 then code = upper and code // 16 or code % 16 end
      w[#w + 1] = values[o.kind][code + 1] * scales.data[r * blocks + i // block + 1]
    end
  end
  return w, columns
end

local function dequantize(ins, o)
  local w, columns = matrix(ins[1], ins[2], o)
  return { { dims = with_last(ins[1].dims, columns), data = w } }
end

local linear_in_int8

local function quantized_linear(ins, o)
  if o.activations == "int8" then return linear_in_int8(ins, o) end
  local x, bias = ins[1], ins[4]
  local K, N = x.dims[#x.dims], ins[2].dims[1]
  local w, columns = matrix(ins[2], ins[3], o, not o.transposed and K or nil)
  local outer, along, across = N, 1, columns
  if o.transposed then outer, along, across = columns, columns, 1 end
  local y = {}
  for r = 0, count(with_last(x.dims, 1)) - 1 do
    for j = 0, outer - 1 do
      local sum = 0.0
      for k = 0, K - 1 do
        sum = sum + x.data[r * K + k + 1] * w[j * across + k * along + 1]
      end
      y[#y + 1] = sum + (bias and bias.data[j + 1] or 0)
    end
  end
  return { { dims = with_last(x.dims, outer), data = y } }
end

-- ---- activations in int8 -------------------------------------------------------

local function f32(x) return (string.unpack("f", string.pack("f", x))) end

-- To the nearest, ties to even.
local function nearest_even(x)
  local low = math.floor(x)
  local up = x - low > 0.5 or (x - low == 0.5 and low % 2 == 1)
  return up and low + 1 or low
end

-- Row r of x: codes, and scales of blocks of 32.
local function in_int8(x, r, K)
  local numbers, scales = {}, {}
  for first = 0, K - 1, 32 do
    local most, last = 0.0, math.min(first + 32, K) - 1
    for i = first, last do most = math.max(most, math.abs(x[r * K + i + 1])) end
    scales[#scales + 1] = most > 0 and f32(most / 127) or 0.0
    local by = most > 0 and f32(127 / most) or 0.0
    for i = first, last do numbers[i] = nearest_even(f32(x[r * K + i + 1] * by)) end
  end
  return numbers, scales
end

-- The whole number that a code is multiplied as, and what its scale is divided by.
local function whole(kind, code)
  if gguf[kind] then return values[kind][code + 1], 1 end
  local x = 127 * values[kind][code + 1]
  return math.tointeger(x < 0 and -math.floor(0.5 - x) or math.floor(x + 0.5)), 127
end

function linear_in_int8(ins, o)
  local x, codes, scales, bias = table.unpack(ins)
  local K, N = x.dims[#x.dims], codes.dims[1]
  local pack, bytes, block, blocks = sizes(o, K)
  local y = {}
  for r = 0, count(with_last(x.dims, 1)) - 1 do
    local numbers, own = in_int8(x.data, r, K)
    for j = 0, N - 1 do
      local sum = 0.0
      for b, scale in ipairs(own) do
        local dot, parts = 0, 1
        for i = 32 * b - 32, math.min(32 * b, K) - 1 do
          local byte, upper = place(o.kind, i)
          local code, number = codes.data[j * bytes + byte + 1]
          if pack == 2 then code = upper and code // 16 or code % 16 end
          number, parts = whole(o.kind, code)
          dot = dot + numbers[i] * number
        end
        local sw = f32(scales.data[j * blocks + (32 * b - 32) // block + 1] / parts)
        sum = f32(sum + f32(dot * f32(scale * sw)))
      end
      y[#y + 1] = bias and f32(sum + bias.data[j + 1]) or sum
    end
  end
  return { { dims = with_last(x.dims, N), data = y } }
end

-- ---- the rows --------------------------------------------------------------------

local function codes(...) return { dims = { ... }, dtype = "u8", integer = 256 } end
local function real(...) return { dims = { ... } } end
-- An input without a gradient.
local function constant(...) return { dims = { ... }, constant = true } end

local forward, back, linear = {}, {}, {}
for _, kind in ipairs { "int8", "nf4", "fp4", "q4_0", "q8_0" } do
  for _, case in ipairs { { { 3, 64 } }, { { 2, 3, 150 } }, { { 7 }, 4 }, { { 5, 33 }, 16 },
    { { 2, 1 } }, { { 0, 8 } } } do
    local dims, block = case[1], not gguf[kind] and case[2] or nil
    local K = dims[#dims]
    local _, bytes, _, blocks = sizes({ kind = kind, block = block }, K)
    forward[#forward + 1] = { inputs = { real(table.unpack(dims)) },
      options = { kind = kind, block = block } }
    back[#back + 1] = { inputs = { codes(table.unpack(with_last(dims, bytes))),
      real(table.unpack(with_last(dims, blocks))) },
      options = { kind = kind, block = block, columns = K } }
  end
  forward[#forward + 1] = { inputs = { { dims = { 2, 2 }, values = { 0, 0, 0, 0 } } },
    options = { kind = kind } }
  for _, case in ipairs { { 3, 5, 6 }, { 9, 67, 130, 64 }, { 1, 20, 33, 16 }, { 4, 0, 8 },
    { 0, 5, 6 } } do
    local m, n, K, block = table.unpack(case)
    block = not gguf[kind] and block or nil
    local _, bytes, _, blocks = sizes({ kind = kind, block = block }, K)
    local w, s = codes(n, bytes), constant(n, blocks)
    if kind == "q8_0" then s.low, s.high = -1 / 64, 1 / 64 end
    linear[#linear + 1] = { inputs = { real(m, K), w, s },
      options = { kind = kind, block = block } }
    linear[#linear + 1] = { inputs = { real(2, m, K), w, s, real(n) },
      options = { kind = kind, block = block } }
    linear[#linear + 1] = { inputs = { real(m, n), w, s, real(K) },
      options = { kind = kind, block = block, transposed = true, columns = K } }
  end
  -- Rows one by one and by two and four, chunks of blocks, panels that are not whole.
  for _, case in ipairs { { 1, 17, 96 }, { 7, 8, 70, 64 }, { 2, 25, 33, 34 }, { 3, 3, 1 },
    { 2, 9, 2120, 96 }, { 1, 8, 2048, 4096 }, { 2, 0, 8 }, { 0, 5, 6 } } do
    local m, n, K, block = table.unpack(case)
    block = not gguf[kind] and block or nil
    local _, bytes, _, blocks = sizes({ kind = kind, block = block }, K)
    local s = { dims = { n, blocks }, dtype = gguf[kind] and n % 2 == 0 and "f16" or "f32",
      values = {} }
    for i = 1, n * blocks do s.values[i] = (i * 7 % 31 - 15) / 1024 end
    local x, bias = { dims = { m, K }, dtype = "f32" }, { dims = { n }, dtype = "f32" }
    linear[#linear + 1] = { inputs = { x, codes(n, bytes), s, n % 3 > 0 and bias or nil },
      options = { kind = kind, block = block, columns = K, activations = "int8" },
      tolerance = 0 }
  end
  local _, bytes = sizes({ kind = kind }, 6)
  linear[#linear + 1] = { inputs = { real(6), codes(5, bytes), constant(5, 1), real(5) },
    options = { kind = kind } }
  if gguf[kind] then
    _, bytes = sizes({ kind = kind }, 70)
    local w, s = codes(9, bytes), { dims = { 9, 3 }, dtype = "f16", values = {} }
    for i = 1, 27 do s.values[i] = (i - 13) / 64 end
    for _, m in ipairs { 1, 3, 17 } do
      linear[#linear + 1] = { inputs = { { dims = { m, 70 }, dtype = "f32" }, w, s },
        options = { kind = kind, columns = 70 } }
    end
    back[#back + 1] = { inputs = { w, s }, options = { kind = kind, columns = 70 } }
  end
end

local small = { dims = { 2, 8 }, dtype = "f32" }

return {
  { op = "quantize", cases = forward, oracle = quantize,
    bad = {
      { inputs = { real() }, code = "shape", match = "at least one dimension" },
      { inputs = { codes(4) }, code = "dtype", match = "f32 or f64" },
      { inputs = { real(4) }, options = { block = -1 }, code = "value", match = "block -1" },
      { inputs = { real(4) }, options = { kind = "nf4", block = 3 }, code = "value",
        match = "block 3, a positive, even number" },
      { inputs = { real(4) }, options = { kind = "int4" }, code = "value",
        match = "one of int8 nf4 fp4 q4_0 q8_0" },
      { inputs = { real(4) }, options = { kind = "q4_0", block = 16 }, code = "value",
        match = "block 16, 32 wanted" },
    } },
  { op = "dequantize", cases = back, oracle = dequantize,
    bad = {
      { inputs = { real(2, 8), real(2, 1) }, code = "dtype", match = "u8 wanted" },
      { inputs = { codes(2, 8), real(2, 2) }, code = "shape", match = "one scale for each" },
      { inputs = { codes(2, 8), real(2, 1) }, options = { kind = "nf4", columns = 17 },
        code = "shape", match = "17 columns, 2 to a byte" },
      { inputs = { codes(2, 8), real(2, 1) }, options = { kind = "q4_0" },
        code = "shape", match = "codes u8[2,8] for 16 columns" },
      { inputs = { codes(), real() }, code = "shape", match = "at least one dimension" },
    } },
  { op = "quantized_linear", cases = linear, oracle = quantized_linear, grad = true,
    bad = {
      { inputs = { small, codes(3, 7), { dims = { 3, 1 }, dtype = "f32" } }, code = "shape",
        match = "8 columns, 1 to a byte" },
      { inputs = { small, codes(3, 8), { dims = { 3, 1 }, dtype = "f64" } }, code = "dtype",
        match = "equal dtypes" },
      { inputs = { small, codes(8), { dims = { 1 }, dtype = "f32" } }, code = "shape",
        match = "at least one dimension and two" },
      { inputs = { small, codes(3, 8), { dims = { 3, 1 }, dtype = "f32" } },
        options = { transposed = true }, code = "shape", match = "3 columns wanted" },
      { inputs = { small, codes(3, 8), { dims = { 3, 1 }, dtype = "f32" }, small },
        code = "shape", match = "one bias for each result" },
      { inputs = { small, codes(3, 8), { dims = { 3, 1 }, dtype = "f32" } },
        options = { compute = "i32" }, code = "dtype", match = "compute is i32 beside f32" },
      { inputs = { codes(2, 8), codes(3, 8), { dims = { 3, 1 }, dtype = "f32" } },
        code = "dtype", match = "floats wanted" },
      { inputs = { { dims = { 2, 8 }, dtype = "f64" }, codes(3, 8),
        { dims = { 3, 1 }, dtype = "f64" } }, options = { activations = "int8" },
        code = "dtype", match = "activations int8 of x f64[2,8]" },
      { inputs = { small, codes(8, 3), { dims = { 8, 1 }, dtype = "f32" } },
        options = { activations = "int8", transposed = true }, code = "value",
        match = "activations int8 with transposed" },
      { inputs = { { dims = { 2, 64 }, dtype = "f32" }, codes(3, 64),
        { dims = { 3, 2 }, dtype = "f32" } }, options = { activations = "int8", block = 48 },
        code = "value", match = "block 48, a multiple of 32 wanted" },
    } },
}
