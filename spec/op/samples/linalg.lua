-- linalg.lua -- samples of linear algebra: equations, determinants, factors, values

local arrays = require "op.arrays"
local float = arrays.float

-- ---- matrices as lists of rows ---------------------------------------------

-- Matrix b (from 0) of an array.
local function matrix(x, b)
  local m, n, rows = x.dims[#x.dims - 1], x.dims[#x.dims], {}
  for i = 1, m do
    rows[i] = { table.unpack(x.data, b * m * n + (i - 1) * n + 1, b * m * n + i * n) }
  end
  return rows, m, n
end

local function batch(x)
  local n = 1
  for i = 1, #x.dims - 2 do n = n * x.dims[i] end
  return n
end

-- Call f(matrix, m, n, b) for each, which returns lists of rows or of numbers, and
-- gather these: arrays of the dims that `shapes` says after those of the batch.
local function each(x, shapes, f)
  local outs = {}
  for k, shape in ipairs(shapes) do
    local dims = { table.unpack(x.dims, 1, #x.dims - 2) }
    for _, d in ipairs(shape) do dims[#dims + 1] = d end
    outs[k] = { dims = dims, data = {} }
  end
  local function put(data, value)
    if type(value) ~= "table" then
      data[#data + 1] = value
      return
    end
    for _, v in ipairs(value) do put(data, v) end
  end
  for b = 0, batch(x) - 1 do
    local a, m, n = matrix(x, b)
    local values = { f(a, m, n, b) }
    for k, out in ipairs(outs) do put(out.data, values[k]) end
  end
  return outs
end

local function transposed(a, m, n)
  local t = {}
  for j = 1, n do
    t[j] = {}
    for i = 1, m do t[j][i] = a[i][j] end
  end
  return t
end

local function product(a, b, m, k, n)
  local c = {}
  for i = 1, m do
    c[i] = {}
    for j = 1, n do
      local sum = 0
      for l = 1, k do sum = sum + a[i][l] * b[l][j] end
      c[i][j] = sum
    end
  end
  return c
end

local function identity(n)
  local a = {}
  for i = 1, n do
    a[i] = {}
    for j = 1, n do a[i][j] = i == j and 1 or 0 end
  end
  return a
end

-- Packed factors of a copy, the rows' order from 0, and whether they were swapped oddly.
local function lu(a, m, n)
  local order, odd, rows = {}, false, {}
  for i = 1, m do order[i], rows[i] = i - 1, { table.unpack(a[i]) } end
  for c = 1, math.min(m, n) do
    local best = c
    for i = c + 1, m do
      if math.abs(rows[i][c]) > math.abs(rows[best][c]) then best = i end
    end
    if best ~= c then
      rows[c], rows[best], odd = rows[best], rows[c], not odd
      order[c], order[best] = order[best], order[c]
    end
    for i = c + 1, rows[c][c] ~= 0 and m or 0 do
      rows[i][c] = rows[i][c] / rows[c][c]
      for j = c + 1, n do rows[i][j] = rows[i][j] - rows[i][c] * rows[c][j] end
    end
  end
  return rows, order, odd
end

local function solve(a, b, n, k)
  local rows, order = lu(a, n, n)
  local x = {}
  for i = 1, n do
    x[i] = { table.unpack(b[order[i] + 1]) }
    for j = 1, i - 1 do
      for c = 1, k do x[i][c] = x[i][c] - rows[i][j] * x[j][c] end
    end
  end
  for i = n, 1, -1 do
    for c = 1, k do
      for j = i + 1, n do x[i][c] = x[i][c] - rows[i][j] * x[j][c] end
      x[i][c] = x[i][c] / rows[i][i]
    end
  end
  return x
end

local function det(a, n)
  local rows, _, odd = lu(a, n, n)
  local d = odd and -1 or 1
  for i = 1, n do d = d * rows[i][i] end
  return d
end

-- Eigenvalues of a symmetric matrix by Jacobi's rotations, rising.
local function eigenvalues(a, n)
  for _ = 1, 60 do
    for p = 1, n do
      for q = p + 1, n do
        if a[p][q] ~= 0 then
          local theta = (a[q][q] - a[p][p]) / (2 * a[p][q])
          local t = (theta >= 0 and 1 or -1) / (math.abs(theta) + math.sqrt(theta * theta + 1))
          local c = 1 / math.sqrt(t * t + 1)
          local s = t * c
          for i = 1, n do
            a[i][p], a[i][q] = c * a[i][p] - s * a[i][q], s * a[i][p] + c * a[i][q]
          end
          for i = 1, n do
            a[p][i], a[q][i] = c * a[p][i] - s * a[q][i], s * a[p][i] + c * a[q][i]
          end
        end
      end
    end
  end
  local list = {}
  for i = 1, n do list[i] = a[i][i] end
  table.sort(list)
  return list
end

-- ---- inputs ----------------------------------------------------------------

-- Square matrices with a strong diagonal that is not the largest of each column, so
-- that rows are swapped; `symmetric`: positive definite.
local function square(n, count, symmetric)
  local values = {}
  for b = 1, count or 1 do
    for i = 1, n do
      for j = 1, n do
        local p, q = i, j
        if symmetric and i > j then p, q = j, i end
        local v = math.sin(7.3 * p * b + 3.1 * q + p * q)
        local strong = symmetric and p == q or (not symmetric and (p % n) + 1 == q)
        values[#values + 1] = v + (strong and (symmetric and n + p / 2 or 2.5) or 0)
      end
    end
  end
  return { dims = count and { count, n, n } or { n, n }, values = values }
end

local function copy_of(sample, extra)
  local copy = {}
  for k, v in pairs(sample) do copy[k] = v end
  for k, v in pairs(extra) do copy[k] = v end
  return copy
end

-- ---- oracles ---------------------------------------------------------------

local function solve_oracle(ins)
  local b = ins[2]
  return each(ins[1], { { b.dims[#b.dims - 1], b.dims[#b.dims] } }, function(a, _, n, i)
    return solve(a, (matrix(b, i)), n, b.dims[#b.dims])
  end)
end

-- a^T = P L U, which lies by columns in the second input.
local function lu_solve_oracle(ins, options)
  local b, swaps = ins[4], ins[3].data
  return each(ins[2], { { b.dims[#b.dims - 1], b.dims[#b.dims] } }, function(packed, _, n, i)
    local m, l, u = transposed(packed, n, n), identity(n), identity(n)
    for r = 1, n do
      for c = 1, n do
        if c < r then l[r][c] = m[r][c] else u[r][c] = m[r][c] end
      end
    end
    local at = product(l, u, n, n, n)
    for r = n, 1, -1 do
      local s = swaps[i * n + r]
      at[r], at[s] = at[s], at[r]
    end
    local a = options.adjoint and at or transposed(at, n, n)
    return solve(a, (matrix(b, i)), n, b.dims[#b.dims])
  end)
end

local function inverse_oracle(ins)
  local n = ins[1].dims[#ins[1].dims]
  return each(ins[1], { { n, n } }, function(a) return solve(a, identity(n), n, n) end)
end

local function triangular_oracle(ins, o)
  local b = ins[2]
  local rows, cols = b.dims[#b.dims - 1], b.dims[#b.dims]
  return each(ins[1], { { rows, cols } }, function(a, _, n, i)
    for r = 1, n do
      for c = 1, n do
        if (o.upper and c < r) or (not o.upper and c > r) then a[r][c] = 0 end
        if o.unitriangular and r == c then a[r][c] = 1 end
      end
    end
    if o.transposed then a = transposed(a, n, n) end
    local y = (matrix(b, i))
    if o.left ~= false then return solve(a, y, n, cols) end
    return transposed(solve(transposed(a, n, n), transposed(y, rows, n), n, rows), n, rows)
  end)
end

local function cofactors(a, n)
  local c = {}
  for i = 1, n do
    c[i] = {}
    for j = 1, n do
      local minor = {}
      for p = 1, n do
        if p ~= i then
          local row = {}
          for q = 1, n do
            if q ~= j then row[#row + 1] = a[p][q] end
          end
          minor[#minor + 1] = row
        end
      end
      c[i][j] = ((i + j) % 2 == 0 and 1 or -1) * det(minor, n - 1)
    end
  end
  return c
end

local function cholesky_oracle(ins, o)
  local n = ins[1].dims[#ins[1].dims]
  return each(ins[1], { { n, n } }, function(a)
    local l = identity(n)
    for i = 1, n do
      for j = 1, i do
        local sum = o.upper and a[j][i] or a[i][j]
        for k = 1, j - 1 do sum = sum - l[i][k] * l[j][k] end
        l[i][j] = i == j and math.sqrt(sum) or sum / l[j][j]
      end
    end
    return o.upper and transposed(l, n, n) or l
  end)
end

-- Householder's reflections, with LAPACK's signs.
local function qr_oracle(ins, o)
  local x = ins[1]
  local m, n = x.dims[#x.dims - 1], x.dims[#x.dims]
  local k = (o.complete or m < n) and m or n
  return each(x, { { m, k }, { k, n } }, function(a)
    local q = identity(m)
    for c = 1, math.min(m, n) do
      local below, v = 0, {}
      for i = c + 1, m do below = below + a[i][c] ^ 2 end
      if below > 0 then
        local size = math.sqrt(below + a[c][c] ^ 2)
        local beta = a[c][c] >= 0 and -size or size
        for i = 1, m do v[i] = i < c and 0 or i == c and a[c][c] - beta or a[i][c] end
        local norm = 0
        for i = c, m do norm = norm + v[i] ^ 2 end
        local function reflect(t, columns)
          for j = 1, columns do
            local sum = 0
            for i = c, m do sum = sum + v[i] * t[i][j] end
            for i = c, m do t[i][j] = t[i][j] - 2 * sum / norm * v[i] end
          end
        end
        reflect(a, n)
        reflect(q, m) -- transposed
      end
    end
    local r, left = {}, {}
    for i = 1, k do
      r[i] = {}
      for j = 1, n do r[i][j] = j >= i and a[i][j] or 0 end
    end
    for i = 1, m do
      left[i] = {}
      for j = 1, k do left[i][j] = q[j][i] end
    end
    return left, r
  end)
end

local function svdvals_oracle(ins)
  local x = ins[1]
  local m, n = x.dims[#x.dims - 1], x.dims[#x.dims]
  local k = math.min(m, n)
  return each(x, { { k } }, function(a)
    local t, values = transposed(a, m, n), {}
    local squares = m < n and product(a, t, m, n, m) or product(t, a, n, m, n)
    for i, v in ipairs(eigenvalues(squares, k)) do
      values[k + 1 - i] = math.sqrt(math.max(v, 0))
    end
    return values
  end)
end

local function eigvalsh_oracle(ins, o)
  local n = ins[1].dims[#ins[1].dims]
  return each(ins[1], { { n } }, function(a)
    for i = 1, n do
      for j = i + 1, n do
        if o.upper then a[j][i] = a[i][j] else a[i][j] = a[j][i] end
      end
    end
    return eigenvalues(a, n)
  end)
end

local function exp_oracle(ins)
  local n = ins[1].dims[#ins[1].dims]
  return each(ins[1], { { n, n } }, function(a)
    for i = 1, n do
      for j = 1, n do a[i][j] = a[i][j] / 1024 end
    end
    local y, term = identity(n), identity(n)
    for k = 1, 20 do
      term = product(term, a, n, n, n)
      for i = 1, n do
        for j = 1, n do
          term[i][j] = term[i][j] / k
          y[i][j] = y[i][j] + term[i][j]
        end
      end
    end
    for _ = 1, 10 do y = product(y, y, n, n, n) end
    return y
  end)
end

local vector = { inputs = { float(3) }, code = "shape" }
local wide = { inputs = { float(2, 3) }, code = "shape", match = "square" }
local integers = { inputs = { { dims = { 2, 2 }, integer = 5 } }, code = "dtype" }
local singular = { dims = { 2, 2, 2 }, values = { 1, 2, 3, 4, 1, 2, 2, 4 } }
local packed = { dims = { 2, 3, 3 }, constant = true,
  values = { 2, 0.5, -0.25, 1, 3, 0.5, -1, 0.5, 1.5, 1, 0.25, 0.75, 2, 2, -0.5, 0.5, 1, 4 } }
local swaps = { dims = { 2, 3 }, dtype = "i32", values = { 2, 3, 3, 1, 2, 3 }, constant = true }
local unread = { dims = { 2, 3, 3 }, constant = true }

return {
  {
    op = "solve",
    cases = {
      { inputs = { square(3), float(3, 2) } },
      { inputs = { square(5, 3), float(3, 5, 1) } },
      { inputs = { { dims = { 1, 1 }, values = { -2 } }, float(1, 4) } },
      { inputs = { float(0, 3, 3), float(0, 3, 2) } },
      { inputs = { float(2, 0, 0), float(2, 0, 3) } },
    },
    bad = {
      { inputs = { float(2, 3), float(2, 1) }, code = "shape", match = "square" },
      { inputs = { float(3, 3), float(2, 1) }, code = "shape", match = "3 rows" },
      { inputs = { float(2, 3, 3), float(3, 3, 1) }, code = "shape", match = "before" },
      { inputs = { float(3, 3), float(3) }, code = "shape" },
      { inputs = { singular, float(2, 2, 1) }, code = "data", match = "matrix 2 of 2" },
      { inputs = { { dims = { 2, 2 }, integer = 5 }, float(2, 2) }, code = "dtype" },
    },
    oracle = solve_oracle,
  },
  {
    op = "lu_solve",
    cases = {
      { inputs = { unread, packed, swaps, float(2, 3, 2) } },
      { inputs = { unread, packed, swaps, float(2, 3, 2) }, options = { adjoint = true } },
    },
    bad = {
      { inputs = { unread, packed, float(2, 3), float(2, 3, 2) }, code = "dtype" },
      { inputs = { unread, packed, { dims = { 2, 2 }, dtype = "i32", values = { 1, 1, 1, 1 } },
        float(2, 3, 2) }, code = "shape" },
      { inputs = { unread, packed, { dims = { 2, 3 }, dtype = "i32",
        values = { 1, 2, 3, 1, 2, 9 } }, float(2, 3, 2) }, code = "data", match = "2 of 2" },
    },
    oracle = lu_solve_oracle,
    grad = true,
  },
  {
    op = "inverse",
    cases = {
      { inputs = { square(4, 2) } },
      { inputs = { square(1) } },
      { inputs = { float(2, 0, 0) } },
    },
    bad = {
      vector,
      wide,
      integers,
      { inputs = { singular }, code = "data", match = "matrix 2 of 2 is singular" },
    },
    oracle = inverse_oracle,
    grad = true,
  },
  {
    op = "solve_triangular",
    cases = {
      { inputs = { square(3, 2, true), float(2, 3, 2) }, options = { upper = true } },
      { inputs = { square(3, 2, true), float(2, 3, 2) }, options = { upper = false } },
      { inputs = { square(4, nil, true), float(2, 4) },
        options = { upper = true, left = false, transposed = true } },
      { inputs = { square(4, nil, true), float(2, 4) }, options = { upper = false, left = false } },
      { inputs = { square(4), float(4, 3) },
        options = { upper = false, unitriangular = true, transposed = true } },
      { inputs = { float(0, 0), float(0, 3) }, options = { upper = true } },
    },
    bad = {
      { inputs = { float(3, 3), float(2, 1) }, options = { upper = true }, code = "shape" },
      { inputs = { float(3, 3), float(3, 2) }, options = { upper = true, left = false },
        code = "shape", match = "columns" },
      { inputs = { { dims = { 2, 2 }, values = { 1, 2, 3, 0 } }, float(2, 1) },
        options = { upper = true }, code = "data", match = "a 0 on its diagonal" },
    },
    oracle = triangular_oracle,
    grad = true,
  },
  {
    op = "lu",
    cases = {
      { inputs = { square(4, 2) } },
      { inputs = { float(3, 5) } },
      { inputs = { float(2, 5, 3) } },
      { inputs = { float(3, 0) } },
    },
    bad = { vector, integers },
    oracle = function(ins)
      local m, n = ins[1].dims[#ins[1].dims - 1], ins[1].dims[#ins[1].dims]
      return each(ins[1], { { m, n }, { m } }, lu)
    end,
    grad = true,
  },
  {
    op = "det",
    cases = {
      { inputs = { square(3, 2) } },
      { inputs = { square(5) } },
      { inputs = { { dims = { 2, 2 }, values = { 1, 2, 2, 4 } } }, grad = false },
      { inputs = { float(2, 0, 0) } },
    },
    bad = { vector, wide, integers },
    oracle = function(ins)
      return each(ins[1], { {} }, function(a, _, n) return det(a, n) end)
    end,
    grad = true,
  },
  {
    op = "cofactor",
    cases = {
      { inputs = { square(3, 2) } },
      { inputs = { { dims = { 2, 3, 3 }, values = { 1, 2, 3, 2, 4, 6, 1, 0, 1,
        1, 2, 3, 2, 4, 6, 3, 6, 9 } } }, grad = false, tolerance = 1e-5 },
      { inputs = { { dims = { 2, 2 }, values = { 0, 0, 0, 0 } } }, grad = false },
      { inputs = { square(1) }, grad = false },
    },
    bad = { vector, wide },
    oracle = function(ins)
      local n = ins[1].dims[#ins[1].dims]
      return each(ins[1], { { n, n } }, cofactors)
    end,
    grad = true,
  },
  {
    op = "slogdet",
    cases = {
      { inputs = { square(3, 2) } },
      { inputs = { square(5) } },
      { inputs = { { dims = { 2, 2 }, values = { 1, 2, 2, 4 } } }, grad = false },
      { inputs = { float(2, 0, 0) } },
    },
    bad = { vector, wide, integers },
    oracle = function(ins)
      return each(ins[1], { {}, {} }, function(a, _, n)
        local d = det(a, n)
        return d > 0 and 1 or d < 0 and -1 or 0, math.log(math.abs(d))
      end)
    end,
    grad = true,
  },
  {
    op = "cholesky", -- the gradient is that of symmetric matrices: linalg_spec.lua
    cases = {
      { inputs = { square(4, 2, true) } },
      { inputs = { square(4, nil, true) }, options = { upper = true } },
      { inputs = { square(1, 3, true) } },
      { inputs = { float(0, 0) } },
    },
    bad = {
      vector,
      wide,
      { inputs = { { dims = { 2, 2 }, values = { 1, 2, 2, 1 } } }, code = "data",
        match = "matrix 1 of 1 is not positive definite" },
    },
    oracle = cholesky_oracle,
  },
  {
    op = "qr",
    cases = {
      { inputs = { square(4, 2) } },
      { inputs = { float(5, 3) } },
      { inputs = { float(2, 3, 5) } },
      { inputs = { float(5, 3) }, options = { complete = true }, grad = false },
      { inputs = { float(3, 0) }, options = { complete = true } },
      { inputs = { float(0, 3) } },
    },
    bad = { vector, integers },
    oracle = qr_oracle,
    grad = true,
  },
  {
    op = "svd",
    cases = {
      { inputs = { square(3, 2) }, options = { full_matrices = false } },
      { inputs = { float(5, 3) }, options = { full_matrices = false } },
      { inputs = { float(3, 5) }, options = { full_matrices = false } },
      { inputs = { float(3, 5) }, grad = false },
      { inputs = { float(3, 0) } },
    },
    bad = {
      vector,
      integers,
      { inputs = { { dims = { 1, 2 }, values = { 1, 0 / 0 } } }, code = "data" },
      { inputs = { { dims = { 1, 2 }, values = { 1, math.huge } } }, code = "data" },
    },
    grad = true,
  },
  {
    op = "svdvals",
    cases = {
      { inputs = { square(3, 2) } },
      { inputs = { float(5, 3) } },
      { inputs = { float(2, 3, 5) } },
      { inputs = { float(3, 0) } },
    },
    bad = { vector, integers,
      { inputs = { { dims = { 1, 2 }, values = { 1, 0 / 0 } } }, code = "data" } },
    oracle = svdvals_oracle,
    grad = true,
  },
  {
    op = "eigh", -- as cholesky
    cases = {
      { inputs = { square(4, 2, true) } },
      { inputs = { square(3, nil, true) }, options = { upper = true } },
      { inputs = { float(0, 0) } },
    },
    bad = { vector, wide,
      { inputs = { { dims = { 2, 2 }, values = { 1, 0, 0 / 0, 1 } } }, code = "data",
        match = "matrix 1 of 1" } },
  },
  {
    op = "eigvalsh",
    cases = {
      { inputs = { square(4, 2, true) } },
      { inputs = { square(4, 2) } },
      { inputs = { square(4, 2) }, options = { upper = true } },
      { inputs = { float(2, 0, 0) } },
    },
    bad = { vector, wide,
      { inputs = { { dims = { 2, 2 }, values = { 1, 0, 0 / 0, 1 } } }, code = "data" } },
    oracle = eigvalsh_oracle,
  },
  {
    op = "matrix_exp",
    cases = {
      { inputs = { square(3, 2) } },
      { inputs = { copy_of(float(2, 2), { low = -20, high = 20 }) }, grad = false,
        tolerance = 1e-4 },
      { inputs = { { dims = { 2, 2 }, values = { 0, 1, 0, 0 } } } },
      { inputs = { float(0, 0) } },
    },
    bad = { vector, wide, integers },
    oracle = exp_oracle,
    grad = true,
  },
}
