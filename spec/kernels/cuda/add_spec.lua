-- add_spec.lua -- a CUDA device adds products, and rows of tables, to sums where these lie
--
-- MRT_CUDA names the plug-in.
local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

local device = "cuda:0"
local ways = { {}, { inplace = false, share = false }, { order = "program" } }

local count = require("support.steps").count

local function close(a, b, tolerance)
  local most = b:abs():max():item()
  assert.is_true(most > 0)
  assert.is_true((a - b):abs():max():item() <= tolerance * most)
end

-- The emulated library tells that products are added, and where.
local function asks_the_library()
  local path = files.temporary [[
    local mrt = require "mrt"
    mrt.device "cuda:0"
    local a, b = mrt.randn(96, 400), mrt.randn(400, 128)
    local c, d = mrt.randn(96, 80), mrt.randn(80, 128)
    local function f() return (a:matmul(b) + c:matmul(d)):sum(1) end
    mrt.eval(mrt.compile(f)())
    print "not in place"
    mrt.eval(mrt.compile(f, { inplace = false })())
  ]]
  local _, out = program.shell(("MRT_CUDA_LT=first MRT_EMULATE_PRODUCTS=1 MRT_EMULATE_COUNT=1 "
    .. "'%s' '%s' 2>&1"):format(program.path, path))
  local _, adds = out:gsub("beta 1", "")
  local _, there = out:gsub("beta 1 in place, epilogue 1\n", "")
  local _, all = out:gsub("cublasLtMatmul:", "")
  assert.are.same({ 4, 2, 1 }, { all, adds, there }, out)
  assert.falsy(out:find("plainly", 1, true), out)
end

describe("a CUDA device", function()
  if not os.getenv "MRT_CUDA" then
    pending "MRT_CUDA names no plug-in"
    return
  end
  setup(function() mrt.device(device) end)
  teardown(function() mrt.device "cpu" end)

  it("adds products to sums of products, of any number of terms", function()
    mrt.seed(3)
    local a, b = {}, {}
    for i, terms in ipairs { 100, 385, 700 } do
      a[i], b[i] = mrt.eval(mrt.randn(80, terms)), mrt.eval(mrt.randn(terms, 96))
    end
    local function sum()
      return (a[1]:matmul(b[1]) + a[2]:matmul(b[2]) + a[3]:matmul(b[3])):abs()
    end
    local apart = mrt.compile(sum, { add_products = false })
    local wanted = apart()
    assert.equal(0, count(apart:plan(), "matmul_add"))
    local bytes
    for _, way in ipairs(ways) do
      local step = mrt.compile(sum, way)
      local got = step()
      assert.equal(2, count(step:plan(), "matmul_add"))
      close(got, wanted, 1e-5)
      bytes = bytes or got:bytes()
      assert.is_true(bytes == got:bytes())
    end
  end)

  it("adds gradients of a weight that is used again, of narrow factors too", function()
    for dtype, precision in pairs { f32 = mrt.policy.precision.f32(),
      bf16 = mrt.policy.precision.bf16() } do
      mrt.seed(5)
      local w, v = mrt.parameter(mrt.randn(96, 96) * 0.1), mrt.eval(mrt.randn(500, 96))
      local function gradient(x)
        local y = x
        for _ = 1, 4 do y = y:linear(w):tanh() end
        return mrt.grad((y * v):sum(), { w })[1]
      end
      local x = mrt.eval(mrt.randn(500, 96))
      local inside = mrt.compile(gradient, { precision = precision })
      local apart = mrt.compile(gradient, { precision = precision, add_products = false })
      close(inside(x), apart(x), 1e-5)
      -- not the product that rounds the step's f32 argument itself
      assert.equal(dtype == "f32" and 3 or 2, count(inside:plan(x), "matmul_add"), dtype)
      assert.equal(0, count(apart:plan(x), "matmul_add"), dtype)
    end
  end)

  it("adds none where lines are evaluated one by one", function()
    local a, b = mrt.eval(mrt.randn(80, 500)), mrt.eval(mrt.randn(500, 96))
    local together = mrt.eval(a:matmul(b) + (a * 2):matmul(b)):bytes()
    local one, two = mrt.eval(a:matmul(b)), mrt.eval(mrt.eval(a * 2):matmul(b))
    assert.is_true(together == mrt.eval(one + two):bytes())
  end)

  it("adds the rows of a table's gradient, with the bits of both", function()
    for _, narrow in ipairs { false, true } do
      mrt.seed(4)
      local rows = mrt.parameter(mrt.randn(300, 70), "rows")
      local ids = mrt.eval(mrt.randint(0, 300, 50, { dtype = "i64" }))
      local x = mrt.eval(mrt.randn(50, 70))
      local function gradient()
        local y = rows:embedding(ids)
        return mrt.grad(((y * x):linear(rows):tanh() ^ 2):sum(), { rows })[1]
      end
      local precision = narrow and mrt.policy.precision.bf16() or nil
      local apart = mrt.compile(gradient, { add_products = false, precision = precision })
      local wanted = apart():bytes()
      assert.equal(1, count(apart:plan(), "embedding_grad"))
      for _, way in ipairs(ways) do
        way.precision = precision
        local step = mrt.compile(gradient, way)
        assert.is_true(wanted == step():bytes())
        assert.equal(1, count(step:plan(), "embedding_add"))
        assert.equal(0, count(step:plan(), "embedding_grad"))
      end
    end
  end)

  it("leaves rows that nobody looked up as they are", function()
    local c = mrt.eval(mrt.randn(9, 200))
    local ids = mrt.eval(mrt.tensor({ 7, 2, 7, 2 }, { dtype = "i64" }))
    local dy = mrt.eval(mrt.randn(4, 200))
    local y = mrt.eval(core.op.embedding_add(ids, dy, c))
    for row = 1, 9 do
      local same = y:slice(1, row, row):copy():bytes() == c:slice(1, row, row):copy():bytes()
      assert.equal(row ~= 3 and row ~= 8, same, "row " .. row)
    end
  end)

  if os.getenv "MRT_CUDA":find "emulated" then
    it("has cuBLASLt add them, in place", asks_the_library)
  end
end)
