-- linalg_spec.lua -- mrt.linalg: what factors promise, gradients, what is refused
local mrt = require "mrt"
local bits = require("support.bits").of
local linalg = mrt.linalg

local function numbers(...)
  mrt.seed(3)
  return mrt.eval(mrt.randn(...))
end

local function farthest(a, b)
  if a:numel() == 0 then return 0 end
  return (a - b):abs():amax():item()
end

local function near(a, b, tolerance)
  assert.are.same(b.shape, a.shape)
  local far = farthest(a, b)
  assert(far <= (tolerance or 1e-10), ("%g apart"):format(far))
end

local function t(x) return x:transpose(-2, -1) end
local function eye(n) return mrt.eye(n, { dtype = "f64" }) end

local function random(...)
  local dims = { ... }
  dims[#dims + 1] = { dtype = "f64" }
  return numbers(table.unpack(dims))
end

-- Symmetric, positive definite, well conditioned.
local function definite(...)
  local x = random(...)
  return mrt.eval(x:matmul(t(x)) + eye(x:size(-1)) * 2)
end

local shapes = { { 4, 4 }, { 5, 3 }, { 3, 5 }, { 1, 1 }, { 2, 3, 6, 2 }, { 0, 3, 2 }, { 2, 3, 0 },
  { 2, 0, 3 } }

describe("factors", function()
  it("give the matrix back, of any shape", function()
    for _, shape in ipairs(shapes) do
      local x = random(table.unpack(shape))
      for _, mode in ipairs { "reduced", "complete" } do
        local q, r = linalg.qr(x, mode)
        near(q:matmul(r), x)
        near(t(q):matmul(q), eye(q:size(-1)):expand(t(q):matmul(q).shape))
        near(r, r * (mrt.arange(r:size(-2)):unsqueeze(2):le(mrt.arange(r:size(-1)))):to "f64")
      end
      local p, l, u = linalg.lu(x)
      near(p:matmul(l):matmul(u), x)
      local a, s, b = linalg.svd(x, { full_matrices = false })
      near((a * s:unsqueeze(-2)):matmul(b), x)
      near(linalg.svdvals(x), s)
      a, _, b = linalg.svd(x)
      near(t(a):matmul(a), eye(a:size(-1)):expand(a.shape))
      near(b:matmul(t(b)), eye(b:size(-1)):expand(b.shape))
      near(x:matmul(linalg.pinv(x)):matmul(x), x)
    end
  end)

  it("of symmetric matrices read one triangle", function()
    for _, n in ipairs { 0, 1, 2, 7 } do
      local a = definite(3, n, n)
      local rows = mrt.arange(n):unsqueeze(2)
      local below = rows:ge(mrt.arange(n)):expand(3, n, n)
      local lower, upper = mrt.where(below, a, 7.0), mrt.where(t(below), a, 7.0)
      local l, u = linalg.cholesky(lower), linalg.cholesky(upper, { upper = true })
      near(l:matmul(t(l)), a)
      near(t(u):matmul(u), a)
      for uplo, x in pairs { L = lower, U = upper } do
        local values, v = linalg.eigh(x, uplo)
        near((v * values:unsqueeze(-2)):matmul(t(v)), a, 1e-9)
        near(linalg.eigvalsh(x, uplo), values, 1e-9)
      end
      local b = random(3, n, 2)
      near(a:matmul(b:cholesky_solve(l)), b)
      near(a:matmul(b:cholesky_solve(u, true)), b)
      near(a:matmul(l:cholesky_inverse()), eye(n):expand(3, n, n))
    end
  end)

  it("have LAPACK's numbers whatever the threads and the strides", function()
    local a = random(6, 30, 30)
    local function all(x)
      local list = { linalg.solve(x, x), linalg.inv(x), linalg.det(x), linalg.svd(x) }
      return bits(list)
    end
    local turned = mrt.eval(t(a):copy())
    assert.equal(all(a), all(t(turned)))
    local one = mrt.eval(a:select(1, 4):copy())
    assert.equal(bits { linalg.inv(a):select(1, 4):copy() }, bits { linalg.inv(one) })
  end)
end)

describe("equations", function()
  it("are solved from the left and the right, of vectors and batches", function()
    local a, b = random(2, 4, 4), random(2, 4, 3)
    near(a:matmul(linalg.solve(a, b)), b)
    near(linalg.solve(a, t(b), { left = false }):matmul(a), t(b))
    local v = random(2, 4)
    near(a:matmul(linalg.solve(a, v):unsqueeze(3)):squeeze(3), v)
    local one = random(4)
    near(a:matmul(linalg.solve(a, one):unsqueeze(-1)):squeeze(-1), one:expand(2, 4))
    near(a:matmul(linalg.solve(a, b:select(1, 1))), b:select(1, 1):expand(2, 4, 3))
    local lu, order = linalg.lu_factor(a)
    near(linalg.lu_solve(lu, order, b), linalg.solve(a, b))
    near(linalg.lu_solve(lu, order, b, { adjoint = true }), linalg.solve(t(a), b))
    near(linalg.lu_solve(lu, order, t(b), { left = false }):matmul(a), t(b))
  end)

  it("that have no answer have the nearest", function()
    local a, b = random(7, 3), random(7, 2)
    local x, left, rank, values = linalg.lstsq(a, b)
    near(t(a):matmul(a:matmul(x) - b), mrt.zeros(3, 2, { dtype = "f64" }))
    near(left, (a:matmul(x) - b):square():sum(1))
    assert.equal(3, rank:item())
    near(values, linalg.svdvals(a))
    local flat = mrt.cat({ a, a:slice(2, 1, 1) }, 2)
    local spread
    spread, left, rank = linalg.lstsq(flat, b)
    assert.are.same({ 2 }, left.shape)
    assert.equal(3, rank:item())
    near(spread:slice(1, 1, 1), spread:slice(1, 4, 4)) -- the shortest shares alike
  end)

  it("of tensors are those of matrices", function()
    local a, b = random(2, 3, 6), random(2, 3)
    near(a:reshape(6, 6):matmul(linalg.tensorsolve(a, b):unsqueeze(2)):reshape(2, 3), b)
    near(linalg.tensorinv(a, { ind = 2 }):reshape(6, 6), linalg.inv(a:reshape(6, 6)))
  end)
end)

describe("a matrix without an answer", function()
  local regular, singular = { { 1., 2 }, { 3, 4 } }, { { 1., 2 }, { 2, 4 } }

  -- The error of f, whose position is the line that called.
  local function failure(f)
    local line = debug.getinfo(f, "S").linedefined
    local ok, err = pcall(f)
    assert.is_false(ok)
    assert.matches("linalg_spec.lua:" .. line, tostring(err), 1, true)
    return err
  end

  it("is an error that says which, at the line that asked", function()
    local x = mrt.tensor { regular, singular, regular }
    local err = failure(function() linalg.solve(x, mrt.ones(3, 2, 1)):totable() end)
    assert.equal("data", err.code)
    assert.matches("matrix 2 of 3 is singular", tostring(err), 1, true)
    err = failure(function() x:inverse():totable() end)
    assert.matches("inverse", tostring(err), 1, true)
    err = failure(function() linalg.cholesky(mrt.tensor(singular)):totable() end)
    assert.matches("matrix 1 of 1 is not positive definite", tostring(err), 1, true)
    err = failure(function() mrt.grad(linalg.slogdet(x):sum(), x) end) -- as x is here
    assert.is_truthy(err)
  end)

  it("is one in a compiled function", function()
    local step = mrt.compile(function(x) return linalg.inv(x):sum() end)
    assert.equal(0, math.floor(step(mrt.tensor(regular)):item() + 0.5))
    local ok, err = pcall(function() return step(mrt.tensor(singular)):item() end)
    assert.is_false(ok)
    assert.matches("matrix 1 of 1 is singular", tostring(err), 1, true)
    assert.equal(0, math.floor(step(mrt.tensor(regular)):item() + 0.5))
  end)

  it("that is not finite ends: NaN, or an error", function()
    for _, bad in ipairs { 0 / 0, math.huge, -math.huge } do
      local x = mrt.tensor({ { 1, bad }, { 2, 3 } }, "f64")
      for _, name in ipairs { "svd", "svdvals", "eigh", "eigvalsh" } do
        local spoilt = name:find "eig" and t(x) or x
        local ok, err = pcall(function() return (linalg[name](spoilt)):totable() end)
        assert.is_false(ok, name)
        assert.matches("infinity or a NaN", tostring(err), 1, true)
      end
      local d = linalg.det(x):item()
      assert.is_true(d ~= d or d == math.huge or d == -math.huge)
      assert.is_false((pcall(function() return linalg.cholesky(t(x)):totable() end)))
      local e = linalg.matrix_exp(x):sum():item()
      assert.is_true(e ~= e)
    end
    for n = 1, 9 do
      local one, all = mrt.eye(n), mrt.full({ n, n }, 0 / 0)
      one[{ n, 1 }] = 0 / 0
      assert.is_true(linalg.inv(mrt.stack { one, all }):isnan():all():item())
    end
  end)

  it("has a determinant and a gradient of it", function()
    local x = mrt.tensor({ { 1, 2, 3 }, { 2, 4, 6 }, { 1, 0, 1 } }, "f64")
    assert.equal(0, x:det():item())
    near(mrt.grad(x:det(), x), mrt.tensor({ { 4, 4, -4 }, { -2, -2, 2 }, { 0, 0, 0 } }, "f64"))
    local sign, size = linalg.slogdet(mrt.tensor(singular))
    assert.equal(0, sign:item())
    assert.equal(-math.huge, size:item())
    local minus = mrt.tensor({ { 0., 1 }, { 1, 0 } }):logdet():item()
    assert.is_true(minus ~= minus)
  end)
end)

describe("norms", function()
  it("are sums of powers, singular values, largest sums", function()
    local x = mrt.tensor({ { 3, -4 }, { 0, 0 } }, "f64")
    local function is(wanted, y) assert(math.abs(y:item() - wanted) < 1e-12, y:item()) end
    is(5, linalg.norm(x)) is(5, linalg.matrix_norm(x)) is(5, linalg.vector_norm(x))
    is(7, linalg.vector_norm(x, 1)) is(4, linalg.vector_norm(x, math.huge))
    is(0, linalg.vector_norm(x, -math.huge)) is(2, linalg.vector_norm(x, 0))
    is((27 + 64) ^ (1 / 3), linalg.vector_norm(x, 3))
    is(5, linalg.matrix_norm(x, "nuc")) is(5, linalg.matrix_norm(x, 2))
    is(0, linalg.matrix_norm(x, -2)) is(7, linalg.matrix_norm(x, math.huge))
    is(4, linalg.matrix_norm(x, 1)) is(3, linalg.matrix_norm(x, -1))
    is(7, linalg.norm(x, math.huge)) is(7, linalg.norm(x, math.huge, { 1, 2 }))
    assert.are.same({ 5, 0 }, linalg.norm(x, { dim = 2 }):totable())
    assert.are.same({ { 5 }, { 0 } }, linalg.vector_norm(x, 2, 2, true):totable())
    assert.are.same({ 1, 1 }, linalg.matrix_norm(x, { keepdim = true }).shape)
    assert.equal(math.huge, linalg.cond(x):item())
    is(1, linalg.cond(eye(3))) is(9, linalg.cond(eye(3), "nuc")) is(3, linalg.cond(eye(3), "fro"))
    assert.equal(1, linalg.matrix_rank(x):item())
    assert.equal(2, linalg.matrix_rank(eye(4) * mrt.tensor({ 1, 2, 1e-9, 0 }, "f64"),
      { atol = 1e-6 }):item())
    assert.equal(3, linalg.matrix_rank(-eye(3), { hermitian = true }):item())
  end)

  it("of what is 0 have gradient 0", function()
    local zero = mrt.zeros(3, { dtype = "f64" })
    for _, ord in ipairs { 1, 2, 3, 1.5 } do
      assert.are.same({ 0, 0, 0 }, mrt.grad(linalg.vector_norm(zero, ord), zero):totable())
    end
  end)
end)

describe("products", function()
  it("are what their names say", function()
    local a = random(2, 3, 3)
    near(linalg.matrix_power(a, 5), a:matmul(a):matmul(a):matmul(a):matmul(a))
    near(linalg.matrix_power(a, -2):matmul(a):matmul(a), eye(3):expand(2, 3, 3), 1e-9)
    near(a:matrix_power(0), eye(3):expand(2, 3, 3))
    local list = { random(3, 8), random(8, 2), random(2, 5), random(5) }
    near(linalg.multi_dot(list), list[1]:matmul(list[2]):matmul(list[3]):matmul(list[4]))
    local x, y = random(2, 3), random(2, 3)
    near((linalg.cross(x, y) * x):sum(-1), mrt.zeros(2, { dtype = "f64" }))
    near(linalg.cross(t(x), t(y), { dim = 1 }), t(linalg.cross(x, y)))
    near(linalg.vecdot(x, y), (x * y):sum(2))
    near(linalg.diagonal(a, 1), mrt.stack({ a:select(2, 1):select(2, 2),
      a:select(2, 2):select(2, 3) }, 2))
    assert.are.same({ 2, 0 }, linalg.diagonal(a, 7).shape)
    assert.are.same({ { 1, 2, 4 }, { 1, 3, 9 } }, linalg.vander(mrt.tensor({ 2, 3 }), 3):totable())
    near(linalg.matrix_exp(a):matmul(linalg.matrix_exp(-a)), eye(3):expand(2, 3, 3), 1e-9)
    near(linalg.matrix_exp(mrt.zeros(0, 2, 2)), mrt.zeros(0, 2, 2))
  end)
end)

-- ---- gradients -------------------------------------------------------------

-- The gradient of f at x along v, and by differences.
local function check(f, x, tolerance)
  local v = mrt.eval(mrt.randn(x.shape, { dtype = "f64" }))
  local h = 1e-5
  local along = (mrt.grad(f(x), x) * v):sum():item()
  local wanted = (f(mrt.eval(x + h * v)):item() - f(mrt.eval(x - h * v)):item()) / (2 * h)
  assert(math.abs(along - wanted) <= (tolerance or 1e-6) * math.max(1, math.abs(wanted)),
    ("%.9g, %.9g by differences"):format(along, wanted))
end

-- f's gradient, and that of a function of its gradient.
local function twice(f, x)
  check(f, x)
  local w = mrt.eval(mrt.randn(x.shape, { dtype = "f64" }))
  check(function(y) return (mrt.grad(f(y), y) * w):sum() end, x, 1e-5)
end

describe("gradients", function()
  local function weigh(y)
    local w = (mrt.arange(y:numel(), { dtype = "f64" }) * 0.7 + 0.3):sin()
    return (y * w:reshape(y.shape)):sum()
  end
  local function symmetric(x) return (x + t(x)) * 0.5 end

  it("of symmetric matrices are symmetric, and have gradients", function()
    local a = definite(2, 3, 3)
    for _, upper in ipairs { false, true } do
      twice(function(x) return weigh(linalg.cholesky(symmetric(x), upper)) end, a)
    end
    for _, uplo in ipairs { "L", "U" } do
      twice(function(x)
        local l, v = linalg.eigh(symmetric(x), uplo)
        return weigh(l) + weigh(v * v)
      end, a)
      twice(function(x) return weigh(linalg.eigvalsh(symmetric(x), uplo)) end, a)
    end
    local g = mrt.grad(weigh(linalg.cholesky(a)), a)
    near(g, t(g))
  end)

  it("of solutions are those of differences", function()
    local b = random(2, 3, 2)
    local a = mrt.eval(random(2, 3, 3) + eye(3) * 2)
    twice(function(x) return weigh(linalg.solve(x, b)) end, a)
    check(function(x) return weigh(linalg.solve(a, x)) end, b)
    twice(function(x) return weigh(linalg.solve(x, t(b), { left = false })) end, a)
    twice(function(x)
      local lu, order = linalg.lu_factor(x)
      return weigh(linalg.lu_solve(lu, order, b, { adjoint = true }))
    end, a)
    twice(function(x) return weigh((linalg.lstsq(x, b))) end,
      mrt.eval(a:slice(3, 1, 2):copy()))
    twice(function(x) return weigh(linalg.pinv(x)) end, random(4, 2))
    twice(function(x) return weigh(linalg.pinv(x)) end, mrt.eval(eye(3):copy()))
    twice(function(x) return x:det() end, mrt.eval(random(3, 3) + eye(3)))
    check(function(x) return x:det() end, mrt.tensor({ { 1, 2 }, { 2, 4 } }, "f64"))
    twice(function(x) return weigh(linalg.matrix_norm(x, "nuc")) end, random(4, 3))
    twice(function(x) return weigh(linalg.cond(x)) end, random(3, 3))
  end)
end)

-- ---- in compiled functions -------------------------------------------------

describe("in a compiled function", function()
  local function loss(x, b)
    local a = x:matmul(t(x)) + mrt.eye(x:size(-1)) * 4
    local l = linalg.cholesky(a)
    local y = linalg.solve(a, b):tanh()
    local u, s, vh = linalg.svd(a + y:matmul(t(y)), { full_matrices = false })
    local same = ((u * s:unsqueeze(-2)):matmul(vh) * a):sum()
    return same + l:sum() + y:square():sum() + a:logdet():sum()
  end

  local function trained(options)
    mrt.seed(5)
    local w = mrt.eval(mrt.parameter(mrt.randn(4, 12, 12), "w"))
    local b = mrt.eval(mrt.randn(4, 12, 6))
    local step = mrt.compile(function(input)
      local y = loss(w, input)
      w:assign(w - mrt.grad(y, w) * 1e-3)
      return y
    end, options)
    local values = {}
    for i = 1, 3 do values[i] = step(b) end
    return bits { w, table.unpack(values) }, step:plan(b)
  end

  it("has the same bits with a budget, computed again or not", function()
    local plain, plan = trained()
    local lean
    for _, share in ipairs { 0.9, 0.8, 0.7 } do
      local ok, got, tight = pcall(trained, { memory = math.floor(plan.peak * share) })
      if ok then
        lean = tight
        assert.equal(plain, got)
      end
    end
    assert.is_true(lean.peak < plan.peak)
    assert.equal(plain, (trained { fuse = false, share = false, inplace = false }))
  end)

  it("gives micro-batches the sum of their gradients", function()
    mrt.seed(6)
    local w = mrt.eval(mrt.parameter(mrt.randn(3, 3), "w"))
    local x = mrt.eval(mrt.randn(8, 3, 3))
    local function gradient(options)
      return mrt.compile(function(input)
        local a = input:matmul(w) + mrt.eye(3) * 5
        local y = linalg.inv(a):square():mean()
        return y, mrt.grad(y, w)
      end, options)(x)
    end
    local y, g = gradient {}
    local y4, g4 = gradient { accumulate = 4 }
    near(y4, y, 1e-6)
    near(g4, g, 1e-6)
  end)

  it("computes narrow floats in f32", function()
    local x = mrt.eval(numbers(3, 3) + mrt.eye(3) * 4)
    local y = linalg.inv(x:to "bf16")
    near(y:to "f32", linalg.inv(x:to("bf16"):to "f32"), 5e-3)
    local step = mrt.compile(function(z)
      return linalg.det(z:matmul(z)), mrt.grad(linalg.solve(z, z):sum(), z)
    end, { precision = mrt.policy.precision.bf16() })
    local exact = linalg.det(x):square():item()
    local d, g = step(x)
    assert.is_true(math.abs(d:item() / exact - 1) < 0.05)
    assert.is_true(g:abs():amax():item() < 0.1)
  end)
end)

describe("without LAPACK", function()
  it("is an error that names the package; all else works", function()
    local program = os.getenv "MRT" or "build/mrt"
    local script = [[
      local mrt = require "mrt"
      local ok, err = pcall(mrt.linalg.inv, mrt.ones(2, 2))
      assert(not ok and err.code == "device", tostring(err))
      assert(tostring(err):find("libopenblas0-pthread", 1, true), tostring(err))
      assert(mrt.fft.rfft(mrt.ones(4)):sum():item() == 4)
      print "fine"]]
    for _, name in ipairs { "off", "/nowhere/liblapack.so", "libm.so.6" } do
      local line = ("MRT_LAPACK=%s '%s' -e '%s' 2>&1"):format(name, program, script)
      local pipe = assert(io.popen(line))
      local out = pipe:read "a"
      pipe:close()
      assert.equal("fine\n", out)
    end
  end)
end)
