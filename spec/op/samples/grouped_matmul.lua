-- grouped_matmul.lua -- samples of products of rows in groups
--
-- Sizes cross the edges of tiles and of blocks of k; groups are empty, one row, many.

-- Call f(row, group) for each row that is in a group.
local function each_row(counts, f)
  local r = 0
  for g, n in ipairs(counts.data) do
    for _ = 1, n do
      f(r, g - 1)
      r = r + 1
    end
  end
end

local function zeros(...)
  local dims, n = { ... }, 1
  for _, d in ipairs(dims) do n = n * d end
  local data = {}
  for i = 1, n do data[i] = 0.0 end
  return { dims = dims, data = data }
end

local function matmul(ins)
  local x, w, counts = ins[1], ins[2], ins[3]
  local K, N = x.dims[2], w.dims[3]
  local y = zeros(x.dims[1], N)
  each_row(counts, function(r, g)
    for n = 1, N do
      local s = 0.0
      for k = 1, K do s = s + x.data[r * K + k] * w.data[(g * K + k - 1) * N + n] end
      y.data[r * N + n] = s
    end
  end)
  return { y }
end

local function dw(ins)
  local x, dy, counts = ins[1], ins[2], ins[3]
  local K, N = x.dims[2], dy.dims[2]
  local out = zeros(counts.dims[1], K, N)
  each_row(counts, function(r, g)
    for k = 1, K do
      for n = 1, N do
        local at = (g * K + k - 1) * N + n
        out.data[at] = out.data[at] + x.data[r * K + k] * dy.data[r * N + n]
      end
    end
  end)
  return { out }
end

local function counts(...)
  return { dims = { select("#", ...) }, values = { ... }, dtype = "i64" }
end

-- M rows, K wide, N wide, groups; of the product, and of its gradient.
local function forward(M, K, N, ...)
  return { { dims = { M, K } }, { dims = { select("#", ...), K, N } }, counts(...) }
end
local function backward(M, K, N, ...)
  return { { dims = { M, K } }, { dims = { M, N } }, counts(...) }
end

local function cases(make)
  local narrow = make(12, 40, 24, 5, 0, 7)
  narrow[1].dtype, narrow[2].dtype = "bf16", "bf16"
  return {
    { inputs = make(7, 3, 5, 2, 0, 1, 4) },
    { inputs = make(7, 3, 5, 3, 2) },
    { inputs = make(1, 4, 2, 0, 1) },
    { inputs = make(3, 4, 2, 0, 0) },
    { inputs = make(0, 4, 2, 0) },
    { inputs = make(4, 0, 3, 1, 3) },
    { inputs = make(100, 70, 65, 60, 1, 38) },
    { inputs = make(800, 9, 10, 385, 415) },
    { inputs = narrow },
  }
end

local function bad(make)
  local other = make(7, 3, 5, 3, 4)
  other[3] = { dims = { 2 } }
  return {
    { inputs = make(7, 3, 5, 3, 5), code = "data", match = "a group of 5 rows" },
    { inputs = make(7, 3, 5, -1, 5), code = "data", match = "a group of %-1 rows" },
    { inputs = other, code = "dtype" },
  }
end

local bad_forward = bad(forward)
bad_forward[#bad_forward + 1] = { inputs = { { dims = { 4, 3 } }, { dims = { 2, 4, 5 } },
  counts(1, 1) }, code = "shape", match = "inner sizes" }
bad_forward[#bad_forward + 1] = { inputs = { { dims = { 4, 3 } }, { dims = { 3, 5 } },
  counts(1, 1) }, code = "shape", match = "3 dimensions" }
bad_forward[#bad_forward + 1] = { inputs = { { dims = { 4, 3 } }, { dims = { 2, 3, 5 } },
  counts(1) }, code = "shape", match = "one for each matrix" }

return {
  { op = "grouped_matmul", cases = cases(forward), bad = bad_forward, oracle = matmul,
    grad = true },
  { op = "grouped_matmul_dw", cases = cases(backward), bad = bad(backward), oracle = dw,
    grad = true },
}
