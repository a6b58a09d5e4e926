-- matmul.lua -- samples of matmul and linear, with GELU too
--
-- The sizes cross the edges of tiles (8 rows, 3 vectors) and of blocks of k.

local function count(dims, from, to)
  local n = 1
  for i = from, to do
    n = n * dims[i]
  end
  return n
end

-- y[i][j] = sum over p of a[i][p] * b[p][j], for matrices that start at `ao`,
-- `bo` in the flat lists and have the strides given.
local function product(y, m, n, k, a, ao, ar, ac, b, bo, br, bc)
  for i = 0, m - 1 do
    for j = 0, n - 1 do
      local s = 0.0
      for p = 0, k - 1 do
        s = s + a[ao + i * ar + p * ac + 1] * b[bo + p * br + j * bc + 1]
      end
      y[#y + 1] = s
    end
  end
end

-- Leading dimensions of `dims` seen as `rank` right-aligned ones.
local function lead(dims, rank)
  local d = {}
  for i = 1, rank do
    d[i] = dims[i - rank + #dims - 2] or 1
  end
  return d
end

-- Number of the matrix that output matrix `index` reads, with leading sizes
-- `own` broadcast to `all`.
local function matrix_of(index, own, all)
  local at, step = 0, 1
  for i = #all, 1, -1 do
    if own[i] ~= 1 then
      at = at + index % all[i] * step
    end
    index, step = index // all[i], step * own[i]
  end
  return at
end

local function matmul(ins)
  local a, b = ins[1], ins[2]
  local m, k, n = a.dims[#a.dims - 1], a.dims[#a.dims], b.dims[#b.dims]
  local rank = math.max(#a.dims, #b.dims) - 2
  local la, lb, dims = lead(a.dims, rank), lead(b.dims, rank), {}
  for i = 1, rank do
    dims[i] = la[i] == 1 and lb[i] or la[i]
  end
  local y, batch = {}, count(dims, 1, rank)
  for index = 0, batch - 1 do
    local ao = matrix_of(index, la, dims) * m * k
    local bo = matrix_of(index, lb, dims) * k * n
    product(y, m, n, k, a.data, ao, k, 1, b.data, bo, n, 1)
  end
  dims[rank + 1], dims[rank + 2] = m, n
  return { { dims = dims, data = y } }
end

local function linear(ins)
  local x, w, bias = ins[1], ins[2], ins[3]
  local n, k = w.dims[1], w.dims[2]
  local y, dims = {}, { table.unpack(x.dims) }
  dims[#dims] = n
  product(y, count(x.dims, 1, #x.dims - 1), n, k, x.data, 0, k, 1, w.data, 0, 1, k)
  for i = 1, bias and #y or 0 do
    y[i] = y[i] + bias.data[(i - 1) % n + 1]
  end
  return { { dims = dims, data = y } }
end

-- x P(x) by tanh, and its slope.
local function gelu(x)
  local k = math.sqrt(2 / math.pi)
  local p = 1 / (1 + math.exp(-2 * k * (x + 0.044715 * x ^ 3)))
  return x * p, p + x * 2 * p * (1 - p) * k * (1 + 3 * 0.044715 * x * x)
end

local function linear_gelu(ins, options)
  local y = linear(ins)[1]
  local h = { dims = y.dims, data = {} }
  for i, v in ipairs(y.data) do h.data[i] = gelu(v) end
  return { h, options.keep ~= false and y or nil }
end

local function matmul_gelu_grad(ins)
  local y = matmul(ins)[1]
  for i, v in ipairs(y.data) do y.data[i] = v * select(2, gelu(ins[3].data[i])) end
  return { y }
end

local function matmul_sums(ins)
  local a, s = ins[1], { dims = { ins[1].dims[1] }, data = {} }
  for i = 1, a.dims[1] do
    local sum = 0
    for k = 1, a.dims[2] do sum = sum + a.data[(i - 1) * a.dims[2] + k] end
    s.data[i] = sum
  end
  return { matmul(ins)[1], s }
end

local function matmul_add(ins)
  local y = matmul(ins)[1]
  for i, v in ipairs(y.data) do y.data[i] = ins[3].data[i] + v end
  return { y }
end

local function of(...)
  local inputs = {}
  for i, dims in ipairs { ... } do
    inputs[i] = { dims = dims }
  end
  return { inputs = inputs }
end

local function bad(case, code, match)
  case.code, case.match = code, match
  return case
end

local function alone(case)
  case.options = { keep = false }
  return case
end

local i32 = { dims = { 2, 2 }, dtype = "i32", integer = 3 }
local f32, f64 = { dims = { 2, 2 }, dtype = "f32" }, { dims = { 2, 2 }, dtype = "f64" }

return {
  {
    op = "matmul",
    cases = {
      of({ 2, 3 }, { 3, 4 }),
      of({ 1, 1 }, { 1, 1 }),
      of({ 1, 5 }, { 5, 7 }),
      of({ 7, 5 }, { 5, 1 }),
      of({ 9, 17 }, { 17, 49 }),
      of({ 3, 400 }, { 400, 2 }),
      of({ 2, 3, 4 }, { 2, 4, 5 }),
      of({ 2, 3, 4 }, { 4, 5 }),
      of({ 3, 4 }, { 2, 4, 5 }),
      of({ 2, 1, 3, 4 }, { 3, 4, 2 }),
      of({ 1, 3, 4 }, { 5, 4, 2 }),
      of({ 2, 3, 1, 4 }, { 4, 3 }),
      of({ 0, 3 }, { 3, 4 }),
      of({ 2, 0 }, { 0, 3 }),
      of({ 2, 3 }, { 3, 0 }),
      of({ 0, 2, 3 }, { 3, 4 }),
    },
    bad = {
      bad(of({ 2, 3 }, { 4, 5 }), "shape", "%[2,3%] against .*%[4,5%], inner sizes 3 and 4"),
      bad(of({ 3 }, { 3, 2 }), "shape", "input 1 is .*, at least 2 dimensions wanted"),
      bad(of({ 2, 3 }, { 3 }), "shape", "input 2 is .*, at least 2 dimensions wanted"),
      bad(of({ 2, 3, 4 }, { 5, 4, 3 }), "shape", "leading sizes 2 and 5"),
      { inputs = { i32, i32 }, code = "dtype", match = "input 1 is i32" },
      { inputs = { f32, f64 }, code = "dtype", match = "equal dtypes wanted" },
    },
    oracle = matmul,
    grad = true,
  },
  {
    op = "linear",
    cases = {
      of({ 2, 3 }, { 4, 3 }),
      of({ 2, 3 }, { 4, 3 }, { 4 }),
      of({ 3 }, { 5, 3 }, { 5 }),
      of({ 3 }, { 1, 3 }),
      of({ 2, 2, 3 }, { 4, 3 }, { 4 }),
      of({ 9, 17 }, { 49, 17 }, { 49 }),
      of({ 2, 400 }, { 3, 400 }, { 3 }),
      of({ 0, 3 }, { 4, 3 }, { 4 }),
      of({ 2, 0 }, { 3, 0 }, { 3 }),
      of({ 2, 3 }, { 0, 3 }, { 0 }),
    },
    bad = {
      bad(of({ 2, 3 }, { 3, 4 }), "shape", "inner sizes 3 and 4"),
      bad(of({}, { 3, 4 }), "shape", "at least 1 dimension wanted"),
      bad(of({ 2, 3 }, { 2, 4, 3 }), "shape", "input 2 is .*, 2 dimensions wanted"),
      bad(of({ 2, 3 }, { 4, 3 }, { 3 }), "shape", "input 3 is .*%[4%] wanted"),
      { inputs = { i32, i32 }, code = "dtype", match = "input 1 is i32" },
      { inputs = { f32, f32, { dims = { 2 }, dtype = "f64" } }, code = "dtype",
        match = "equal dtypes" },
    },
    oracle = linear,
    grad = true,
  },
  {
    op = "linear_gelu",
    cases = {
      of({ 2, 3 }, { 4, 3 }),
      of({ 2, 3 }, { 4, 3 }, { 4 }),
      alone(of({ 2, 3 }, { 4, 3 }, { 4 })),
      alone(of({ 3 }, { 8, 3 })),
      of({ 3 }, { 5, 3 }, { 5 }),
      of({ 2, 2, 3 }, { 8, 3 }, { 8 }),
      of({ 9, 17 }, { 48, 17 }, { 48 }),
      of({ 11, 40 }, { 60, 40 }, { 60 }),
      of({ 0, 3 }, { 4, 3 }, { 4 }),
      of({ 2, 0 }, { 3, 0 }, { 3 }),
      of({ 2, 3 }, { 0, 3 }, { 0 }),
    },
    bad = {
      bad(of({ 2, 3 }, { 3, 4 }), "shape", "inner sizes 3 and 4"),
      bad(of({ 2, 3 }, { 4, 3 }, { 3 }), "shape", "input 3 is .*%[4%] wanted"),
      { inputs = { i32, i32 }, code = "dtype", match = "input 1 is i32" },
    },
    oracle = linear_gelu,
    grad = true,
  },
  {
    op = "matmul_add",
    cases = {
      of({ 2, 3 }, { 3, 4 }, { 2, 4 }),
      of({ 1, 5 }, { 5, 8 }, { 1, 8 }),
      of({ 9, 17 }, { 17, 48 }, { 9, 48 }),
      of({ 2, 3, 5 }, { 5, 4 }, { 2, 3, 4 }),
      of({ 3, 2, 5 }, { 3, 5, 4 }, { 3, 2, 4 }),
      of({ 0, 3 }, { 3, 4 }, { 0, 4 }),
      of({ 2, 0 }, { 0, 3 }, { 2, 3 }),
    },
    bad = {
      bad(of({ 2, 3 }, { 4, 5 }, { 2, 5 }), "shape", "inner sizes 3 and 4"),
      bad(of({ 2, 3 }, { 3, 5 }, { 2, 4 }), "shape", "input 3 is .*%[2,5%] wanted"),
      { inputs = { f32, f32, f64 }, code = "dtype", match = "equal dtypes" },
    },
    oracle = matmul_add,
    grad = true,
  },
  {
    op = "matmul_sums",
    cases = {
      of({ 2, 3 }, { 3, 4 }),
      of({ 1, 5 }, { 5, 8 }),
      of({ 9, 17 }, { 17, 48 }),
      of({ 40, 60 }, { 60, 11 }),
      of({ 0, 3 }, { 3, 4 }),
      of({ 2, 0 }, { 0, 3 }),
      of({ 2, 3 }, { 3, 0 }),
    },
    bad = {
      bad(of({ 2, 3 }, { 4, 5 }), "shape", "inner sizes 3 and 4"),
      bad(of({ 1, 2, 3 }, { 3, 5 }), "shape", "input 1 is .*, 2 dimensions wanted"),
      { inputs = { f32, f64 }, code = "dtype", match = "equal dtypes" },
    },
    oracle = matmul_sums,
    grad = true,
  },
  {
    op = "matmul_gelu_grad",
    cases = {
      of({ 2, 3 }, { 3, 4 }, { 2, 4 }),
      of({ 1, 5 }, { 5, 8 }, { 1, 8 }),
      of({ 9, 17 }, { 17, 48 }, { 9, 48 }),
      of({ 11, 40 }, { 40, 60 }, { 11, 60 }),
      of({ 0, 3 }, { 3, 4 }, { 0, 4 }),
      of({ 2, 0 }, { 0, 3 }, { 2, 3 }),
      of({ 2, 3 }, { 3, 0 }, { 2, 0 }),
    },
    bad = {
      bad(of({ 2, 3 }, { 4, 5 }, { 2, 5 }), "shape", "inner sizes 3 and 4"),
      bad(of({ 2, 3 }, { 3, 5 }, { 2, 4 }), "shape", "input 3 is .*%[2,5%] wanted"),
      bad(of({ 1, 2, 3 }, { 3, 5 }, { 2, 5 }), "shape", "input 1 is .*, 2 dimensions wanted"),
      { inputs = { f32, f32, f64 }, code = "dtype", match = "equal dtypes" },
    },
    oracle = matmul_gelu_grad,
    grad = true,
  },
}
