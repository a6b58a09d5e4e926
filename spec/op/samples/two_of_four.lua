-- two_of_four.lua -- samples of matrices of which two of each four numbers are kept
--
-- The sizes cross the edges of fours, bytes and strips.

local function count(dims)
  local n = 1
  for _, d in ipairs(dims) do n = n * d end
  return n
end

local function with_last(dims, n)
  local out = { table.unpack(dims) }
  out[#out] = n
  return out
end

-- Rows and columns of a tensor.
local function matrix(x)
  local columns = x.dims[#x.dims]
  return columns > 0 and count(x.dims) // columns or 0, columns
end

-- Where value i (from 0) of row r is in its four.
local function place(codes, r, i)
  local byte = codes.data[r * codes.dims[#codes.dims] + i // 4 + 1]
  return byte >> (i % 4 * 2) & 3
end

local function pack(ins)
  local w, values, codes = ins[1], {}, {}
  local rows, columns = matrix(w)
  local bytes = (columns // 2 + 3) // 4
  for i = 1, rows * bytes do codes[i] = 0 end
  for r = 0, rows - 1 do
    for four = 0, columns - 1, 4 do
      local order = { 0, 1, 2, 3 }
      local function size(i) return math.abs(w.data[r * columns + four + i + 1]) end
      table.sort(order, function(a, b) return size(a) > size(b) or size(a) == size(b) and a < b end)
      local kept = { math.min(order[1], order[2]), math.max(order[1], order[2]) }
      for k, at in ipairs(kept) do
        local i = four // 2 + k - 1
        values[#values + 1] = w.data[r * columns + four + at + 1]
        local byte = r * bytes + i // 4 + 1
        codes[byte] = codes[byte] | at << (i % 4 * 2)
      end
    end
  end
  return { { dims = with_last(w.dims, columns // 2), data = values },
    { dims = with_last(w.dims, bytes), data = codes } }
end

local function dense(ins)
  local values, w = ins[1], {}
  local rows, half = matrix(values)
  for i = 1, rows * half * 2 do w[i] = 0.0 end
  for r = 0, rows - 1 do
    for i = 0, half - 1 do
      local at = r * 2 * half + i // 2 * 4 + place(ins[2], r, i) + 1
      w[at] = w[at] + values.data[r * half + i + 1]
    end
  end
  return { { dims = with_last(values.dims, 2 * half), data = w } }
end

local function pick(ins)
  local w, values = ins[1], {}
  local rows, columns = matrix(w)
  for r = 0, rows - 1 do
    for i = 0, columns // 2 - 1 do
      values[#values + 1] = w.data[r * columns + i // 2 * 4 + place(ins[2], r, i) + 1]
    end
  end
  return { { dims = with_last(w.dims, columns // 2), data = values } }
end

local function linear(ins, o)
  local x, bias = ins[1], ins[4]
  local w = dense { ins[2], ins[3] }[1]
  local N, K = table.unpack(w.dims)
  local outer, along, across = N, 1, K
  if o.transposed then outer, along, across = K, K, 1 end
  local inner, y = x.dims[#x.dims], {}
  for r = 0, count(with_last(x.dims, 1)) - 1 do
    for j = 0, outer - 1 do
      local sum = 0.0
      for k = 0, inner - 1 do
        sum = sum + x.data[r * inner + k + 1] * w.data[j * across + k * along + 1]
      end
      y[#y + 1] = sum + (bias and bias.data[j + 1] or 0)
    end
  end
  return { { dims = with_last(x.dims, outer), data = y } }
end

local function codes(...) return { dims = { ... }, dtype = "u8", integer = 256 } end
local function real(...) return { dims = { ... } } end

local packs, denses, picks, linears = {}, {}, {}, {}
for _, dims in ipairs { { 3, 8 }, { 4 }, { 2, 3, 20 }, { 1, 1028 }, { 0, 8 }, { 2, 0 } } do
  local K = dims[#dims]
  local bytes = codes(table.unpack(with_last(dims, (K // 2 + 3) // 4)))
  packs[#packs + 1] = { inputs = { real(table.unpack(dims)) } }
  denses[#denses + 1] = { inputs = { real(table.unpack(with_last(dims, K // 2))), bytes } }
  picks[#picks + 1] = { inputs = { real(table.unpack(dims)), bytes } }
end
for _, case in ipairs { { 3, 5, 8 }, { 9, 100, 132 }, { 1, 20, 36 }, { 4, 0, 8 }, { 0, 5, 4 },
  { 2, 3, 0 } } do
  local m, n, K = table.unpack(case)
  local w, c = real(n, K // 2), codes(n, (K // 2 + 3) // 4)
  linears[#linears + 1] = { inputs = { real(m, K), w, c } }
  linears[#linears + 1] = { inputs = { real(2, m, K), w, c, real(n) } }
  linears[#linears + 1] = { inputs = { real(m, n), w, c, real(K) },
    options = { transposed = true } }
end
linears[#linears + 1] = { inputs = { real(8), real(5, 4), codes(5, 1), real(5) } }

local f32 = { dims = { 2, 8 }, dtype = "f32" }
local half = { dims = { 3, 4 }, dtype = "f32" }

return {
  { op = "two_of_four", cases = packs, oracle = pack, grad = true,
    bad = {
      { inputs = { real() }, code = "shape", match = "rows of a multiple of 4" },
      { inputs = { real(2, 6) }, code = "shape", match = "rows of a multiple of 4" },
      { inputs = { codes(4) }, code = "dtype", match = "floats wanted" },
    } },
  { op = "two_of_four_dense", cases = denses, oracle = dense, grad = true,
    bad = {
      { inputs = { real(2, 3), codes(2, 1) }, code = "shape", match = "an even number" },
      { inputs = { real(2, 8), codes(2, 1) }, code = "shape", match = "two bits for each value" },
      { inputs = { real(2, 4), real(2, 1) }, code = "dtype", match = "u8 wanted" },
    } },
  { op = "two_of_four_pick", cases = picks, oracle = pick, grad = true,
    bad = {
      { inputs = { real(2, 6), codes(2, 1) }, code = "shape", match = "rows of a multiple of 4" },
      { inputs = { real(2, 16), codes(2, 1) }, code = "shape", match = "two bits for each value" },
      { inputs = { real(2, 8), real(2, 1) }, code = "dtype", match = "u8 wanted" },
    } },
  { op = "two_of_four_linear", cases = linears, oracle = linear, grad = true,
    bad = {
      { inputs = { f32, { dims = { 3, 6 }, dtype = "f32" }, codes(3, 2) }, code = "shape",
        match = "x f32%[2,8%], 12 columns wanted" },
      { inputs = { f32, { dims = { 3, 4 }, dtype = "f64" }, codes(3, 1) }, code = "dtype",
        match = "equal dtypes" },
      { inputs = { f32, { dims = { 4 }, dtype = "f32" }, codes(1) }, code = "shape",
        match = "at least one dimension and two" },
      { inputs = { f32, half, codes(3, 2) }, code = "shape", match = "two bits for each value" },
      { inputs = { f32, half, codes(3, 1), f32 }, code = "shape",
        match = "one bias for each result" },
      { inputs = { f32, half, codes(3, 1) }, options = { compute = "i32" }, code = "dtype",
        match = "compute is i32 beside f32" },
    } },
}
