--- linalg.lua -- linear algebra: equations, factors, norms, products of matrices
---
--- SPDX-License-Identifier: MIT

local linalg = require("mrt").linalg

local rows = {}
local function add(row) rows[#rows + 1] = row end

-- ---- draws -----------------------------------------------------------------

-- A batch of matrices m by n with a strong diagonal, so that rounding stays small.
local function strong(r, batch, m, n, symmetric)
  local dims, count, values = { table.unpack(batch) }, 1, {}
  for _, d in ipairs(batch) do count = count * d end
  dims[#dims + 1], dims[#dims + 2] = m, n
  for b = 1, count do
    for i = 1, m do
      for j = 1, n do
        local v = r.real(-1, 1)
        if i == j then v = v + (symmetric and 2 * n or n) * (0.7 + 0.1 * i) end
        local mirrored = symmetric and j < i
          and values[((b - 1) * m + j - 1) * n + i]
        values[#values + 1] = mirrored or v
      end
    end
  end
  if #values == 0 then values = nil end
  return { dims = dims, values = values }
end

local function batch_of(r) return r.pick { {}, {}, { 2 }, { 3, 2 }, { 1 } } end

local function square(symmetric)
  return function(r)
    local n = r(1, 6)
    return strong(r, batch_of(r), n, n, symmetric)
  end
end
local regular, definite = square(false), square(true)

local function any(r)
  return strong(r, batch_of(r), r(1, 6), r(1, 6))
end

-- Square matrices of n elements in all, as many as there are of 64 rows.
local function many(n)
  local side = n < 4096 and 16 or 64
  return { n // (side * side) + 1, side, side }
end
local function sized(name)
  return function(n)
    return { [name or "A"] = { dims = many(n) } }
  end
end

local input_A = { { "A", "tensor" } }

-- ---- one matrix in ---------------------------------------------------------

local function simple(name, args, draw, extra)
  local row = { torch = "torch.linalg." .. name, ours = "mrt.linalg." .. name, args = args,
    draw = draw, grad = true, tolerance = 1e-4 }
  for k, v in pairs(extra or {}) do row[k] = v end
  add(row)
end

simple("inv", input_A, function(r) return { A = regular(r) } end, { size = sized() })
simple("det", input_A, function(r) return { A = regular(r) } end, { size = sized() })
simple("slogdet", input_A, function(r) return { A = regular(r) } end,
  { results = 2, grad = false, size = sized() })
simple("matrix_exp", input_A, function(r)
  local n = r(1, 6)
  return { A = { dims = { 2, n, n } } }
end, { size = sized() })
simple("svdvals", input_A, function(r) return { A = any(r) } end, { size = sized() })
simple("cholesky", { { "input", "tensor" },
  { "upper", "bool", false, keyword = true } }, function(r)
  return { input = definite(r), upper = r.bool() or nil }
end, { size = nil })
simple("eigvalsh", { { "input", "tensor" }, { "UPLO", "string", "L" } }, function(r)
  return { input = definite(r), UPLO = r.bool() and r.pick { "L", "U" } or nil }
end, { size = sized "input" })
simple("pinv", { { "input", "tensor" }, { "atol", "number" }, { "rtol", "number" },
  { "hermitian", "bool", false } }, function(r)
  local hermitian = r.bool()
  return { input = hermitian and definite(r) or any(r), rtol = r.bool() and 1e-6 or nil,
    hermitian = hermitian }
end, { expression = function(v)
  return ("torch.linalg.pinv(a%s, hermitian=%s)"):format(v.rtol and ", rtol=1e-6" or "",
    v.hermitian and "True" or "False")
end, grad = false })
simple("matrix_rank", { { "input", "tensor" }, { "atol", "number" }, { "rtol", "number" },
  { "hermitian", "bool", false } }, function(r)
  return { input = r.bool() and { dims = { 3, r(1, 4), 1 } } or any(r) }
end, { grad = false, dtypes = { "f64" } })
simple("cond", { { "input", "tensor" }, { "p", "number" } }, function(r)
  return { input = regular(r), p = r.pick { 2, -2, 1, -1, math.huge, -math.huge } }
end, { grad = false })
simple("matrix_power", { { "input", "tensor" }, { "n", "int" } }, function(r)
  return { input = regular(r), n = r(-3, 4) }
end)

-- What has signs of its own: what is made of the factors is compared.
local function made(name, args, draw, expression, call, extra)
  local row = { torch = "torch.linalg." .. name, ours = "mrt.linalg." .. name, args = args,
    draw = draw, grad = true, tolerance = 1e-4, expression = expression, call = call }
  for k, v in pairs(extra or {}) do row[k] = v end
  add(row)
end

local signs = "vectors have the signs of the LAPACK here"

made("svd", { { "A", "tensor" }, { "full_matrices", "bool", true } }, function(r)
  return { A = any(r), full_matrices = false }
end, function()
  return "(lambda u, s, v: ((u * s.unsqueeze(-2)) @ v, s, u * u))"
    .. "(*torch.linalg.svd(a, full_matrices=False))"
end, function(v)
  local u, s, vh = linalg.svd(v.A, false)
  return (u * s:unsqueeze(-2)):matmul(vh), s, u * u
end, { results = 3, differs = signs })
made("eigh", { { "A", "tensor" }, { "UPLO", "string", "L" } }, function(r)
  return { A = definite(r) }
end, function()
  return "(lambda l, v: (l, v * v))(*torch.linalg.eigh((a + a.mT) / 2))"
end, function(v)
  local l, w = linalg.eigh((v.A + v.A:transpose(-2, -1)) / 2)
  return l, w * w
end, { results = 2, differs = signs })
made("qr", { { "A", "tensor" }, { "mode", "string", "reduced" } }, function(r)
  return { A = any(r) }
end, function()
  return "(lambda q, r: (q @ r, q * q, r * r))(*torch.linalg.qr(a))"
end, function(v)
  local q, r = linalg.qr(v.A)
  return q:matmul(r), q * q, r * r
end, { results = 3, differs = "mode 'complete' of tall matrices has no gradient; " .. signs })
made("lu", { { "A", "tensor" }, { "pivot", "bool", true } }, function(r)
  return { A = any(r) }
end, function() return "torch.linalg.lu(a)" end, function(v) return linalg.lu(v.A) end,
  { results = 3, grad = false, differs = "pivot = false is refused" })
made("lu_factor", { { "A", "tensor" }, { "pivot", "bool", true } }, function(r)
  return { A = any(r) }
end, function() return "torch.linalg.lu_factor(a)[0]" end,
  function(v) return (linalg.lu_factor(v.A)) end,
  { differs = "the second result is the order of the rows, from 0, and not swaps" })

-- ---- equations -------------------------------------------------------------

simple("solve", { { "A", "tensor" }, { "B", "tensor" },
  { "left", "bool", true, keyword = true } }, function(r)
  local a = regular(r)
  local n = a.dims[#a.dims]
  local b = { table.unpack(a.dims) }
  if r.bool() then b = { n, r(1, 4) } else b[#b] = r(1, 4) end
  return { A = a, B = { dims = b } }
end, { size = function(n) return { A = { dims = many(n) }, B = { dims = many(n) } } end })
simple("solve_triangular", { { "A", "tensor" }, { "B", "tensor" }, { "upper", "bool" },
  { "left", "bool", true }, { "unitriangular", "bool", false } }, function(r)
  local a, left = regular(r), r.bool()
  local n, b = a.dims[#a.dims], { table.unpack(a.dims) }
  b[#b - (left and 0 or 1)] = r(1, 4)
  -- with ones on its diagonal a strong triangle is not: of few rows
  return { A = a, B = { dims = b }, upper = r.bool(), left = left,
    unitriangular = n <= 3 and r.bool() or nil }
end, { expression = function(v)
  return ("torch.linalg.solve_triangular(a, b, upper=%s, left=%s, unitriangular=%s)"):format(
    v.upper and "True" or "False", v.left and "True" or "False",
    v.unitriangular and "True" or "False")
end, differs = "a 0 on the diagonal is an error" })
made("lu_solve", { { "LU", "tensor" }, { "pivots", "tensor" }, { "B", "tensor" },
  { "left", "bool", true }, { "adjoint", "bool", false } }, function(r)
  local a = regular(r)
  local b = { table.unpack(a.dims) }
  b[#b] = r(1, 4)
  return { LU = a, pivots = { dims = { 1 }, constant = true }, B = { dims = b },
    adjoint = r.bool() }
end, function(v)
  return ("torch.linalg.lu_solve(*torch.linalg.lu_factor(a), c, adjoint=%s)"):format(
    v.adjoint and "True" or "False")
end, function(v)
  local lu, order = linalg.lu_factor(v.LU)
  return linalg.lu_solve(lu, order, v.B, { adjoint = v.adjoint })
end, { differs = "pivots are what lu_factor returns here; a singular matrix is an error" })
made("lstsq", { { "A", "tensor" }, { "B", "tensor" }, { "rcond", "number" } }, function(r)
  local a = any(r)
  local b = { table.unpack(a.dims) }
  b[#b] = r(1, 4)
  return { A = a, B = { dims = b } }
end, function() return "torch.linalg.lstsq(a, b)[0]" end,
  function(v) return (linalg.lstsq(v.A, v.B)) end,
  { differs = "always by singular values (gelsd): no driver; residuals wherever m > n" })
simple("tensorinv", { { "A", "tensor" }, { "ind", "int", 2 } }, function(r)
  return { A = { dims = { 2, 3, 6 }, values = strong(r, {}, 6, 6).values } }
end)
simple("tensorsolve", { { "A", "tensor" }, { "B", "tensor" }, { "dims", "dims" } }, function(r)
  return { A = { dims = { 2, 3, 6 }, values = strong(r, {}, 6, 6).values },
    B = { dims = { 2, 3 } } }
end)

-- ---- norms, products -------------------------------------------------------

local orders = { 2, 1, 3, 0.5, math.huge, -math.huge, 0, -1 }
simple("vector_norm", { { "x", "tensor" }, { "ord", "number", 2 }, { "dim", "dims" },
  { "keepdim", "bool", false } }, function(r)
  local dims = { r(1, 5), r(1, 6), r(1, 4) }
  return { x = { dims = dims }, ord = r.pick(orders),
    dim = r.pick { { 1 }, { -1, 1 }, { 1, 2, 3 } }, keepdim = r.bool() }
end, { size = function(n) return { x = { dims = { n // 100, 100 } }, ord = 2, dim = { 2 } } end })
simple("matrix_norm", { { "A", "tensor" }, { "ord", "number" }, { "dim", "dims" },
  { "keepdim", "bool", false } }, function(r)
  local dims = { r(2, 5), r(2, 6), r(2, 4) }
  return { A = { dims = dims }, ord = r.pick { "fro", "nuc", 2, -2, 1, -1, math.huge, -math.huge },
    dim = r.pick { { 1, 2 }, { -1, 1 }, { 2, 3 } }, keepdim = r.bool() }
end)
simple("norm", { { "A", "tensor" }, { "ord", "number" }, { "dim", "dims" },
  { "keepdim", "bool", false } }, function(r)
  local dims = { r(2, 5), r(2, 6) }
  local two = r.bool()
  return { A = { dims = dims }, ord = r.pick { 2, 1, math.huge }, dim = two and { 1, 2 } or { 2 },
    keepdim = r.bool() }
end)
simple("cross", { { "input", "tensor" }, { "other", "tensor" },
  { "dim", "dim", -1, keyword = true } }, function(r)
  local dim = r(1, 3)
  local dims = { r(1, 4), r(1, 4), r(1, 4) }
  dims[dim] = 3
  return { input = { dims = dims }, other = { dims = dims }, dim = r.bool() and dim or dim - 4 }
end, { size = function(n)
  return { input = { dims = { n // 3, 3 } }, other = { dims = { n // 3, 3 } } }
end })
simple("vecdot", { { "x", "tensor" }, { "y", "tensor" },
  { "dim", "dim", -1, keyword = true } }, function(r)
  local dims = { r(1, 4), r(1, 5) }
  return { x = { dims = dims }, y = { dims = dims }, dim = r.dim(dims) }
end)
simple("diagonal", { { "A", "tensor" }, { "offset", "int", 0, keyword = true },
  { "dim1", "dim", -2, keyword = true }, { "dim2", "dim", -1, keyword = true } }, function(r)
  return { A = { dims = { r(1, 5), r(1, 5), r(1, 5) } }, offset = r(-3, 3),
    dim1 = 1, dim2 = r.pick { 2, 3, -1 } }
end)
simple("matmul", { { "input", "tensor" }, { "other", "tensor" } }, function(r)
  local k = r(1, 5)
  return { input = { dims = { 2, r(1, 4), k } }, other = { dims = { k, r(1, 4) } } }
end)
simple("vander", { { "x", "tensor" }, { "N", "int", keyword = true } }, function(r)
  return { x = { dims = { r(1, 3), r(2, 5) } }, N = r.bool() and r(2, 5) or nil }
end)

-- ---- the same elsewhere ----------------------------------------------------

local function method(torch, ours, args, draw, extra)
  local row = { torch = torch, ours = ours, args = args, draw = draw, grad = true,
    tolerance = 1e-4 }
  for k, v in pairs(extra or {}) do row[k] = v end
  add(row)
end

local input = { { "input", "tensor" } }
method("torch.inverse", "Tensor.inverse", input, function(r) return { input = regular(r) } end)
method("torch.det", "Tensor.det", input, function(r) return { input = regular(r) } end)
method("torch.logdet", "Tensor.logdet", input, function(r) return { input = definite(r) } end)
method("torch.slogdet", "Tensor.slogdet", input, function(r) return { input = regular(r) } end,
  { results = 2, grad = false })
method("torch.cholesky", "Tensor.cholesky", { { "input", "tensor" }, { "upper", "bool", false } },
  function(r) return { input = definite(r), upper = r.bool() or nil } end)
method("torch.pinverse", "Tensor.pinverse", { { "input", "tensor" }, { "rcond", "number", 1e-15 } },
  function(r) return { input = any(r) } end, { grad = false })
method("torch.matrix_exp", "Tensor.matrix_exp", input, function(r)
  local n = r(1, 5)
  return { input = { dims = { n, n } } }
end)
method("torch.cholesky_solve", "Tensor.cholesky_solve", { { "B", "tensor" }, { "L", "tensor" },
  { "upper", "bool", false } }, function(r)
  local l = regular(r)
  l.constant = true -- PyTorch's gradient is of the whole, not of the triangle that is read
  local b = { table.unpack(l.dims) }
  b[#b] = r(1, 4)
  return { B = { dims = b }, L = l, upper = r.bool() or nil }
end)
method("torch.cholesky_inverse", "Tensor.cholesky_inverse", { { "input", "tensor" },
  { "upper", "bool", false } }, function(r)
  return { input = regular(r), upper = r.bool() or nil }
end, { grad = false })

for torch, ours in pairs { qr = "qr", svd = "svd", lu = "lu_factor", lstsq = "lstsq",
  triangular_solve = "solve_triangular", lu_solve = "lu_solve" } do
  rows[#rows + 1] = { torch = "torch." .. torch, absent = "deprecated there: mrt.linalg." .. ours }
end
table.sort(rows, function(a, b) return a.torch < b.torch end)
for _, name in ipairs { "torch.linalg.eig", "torch.linalg.eigvals" } do
  add { torch = name, absent = "their results are complex, and there is no complex dtype" }
end
for _, name in ipairs { "cholesky_ex", "inv_ex", "solve_ex", "lu_factor_ex" } do
  add { torch = "torch.linalg." .. name, absent = "a matrix without an answer is an error here" }
end
add { torch = "torch.linalg.householder_product", absent = "qr gives Q" }
add { torch = "torch.linalg.ldl_factor", absent = "of little use beside cholesky and lu" }

return rows
