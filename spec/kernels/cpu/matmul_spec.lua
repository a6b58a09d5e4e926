--- matmul_spec.lua -- products of matrices of narrow floats
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local run = require("support.program").script

local op = core.op
local narrow = { "f16", "bf16", "f8_e4m3", "f8_e5m2" }
-- m, k, n: edges of tiles, odd k, one and several blocks of k, few columns
local shapes = {
  { 1, 1, 1 }, { 3, 2, 5 }, { 5, 3, 49 }, { 8, 0, 3 }, { 9, 17, 50 }, { 1, 33, 70 },
  { 13, 401, 96 }, { 40, 37, 2 }, { 11, 1603, 3 }, { 21, 1602, 100 }, { 400, 770, 7 },
}

local function bits(t)
  mrt.eval(t)
  return t:bytes()
end

local function assert_same(a, b, ...)
  assert.equal(a:type(), b:type())
  assert(bits(a) == bits(b), table.concat({ a:type(), ... }, " ") .. ": other bits")
end

-- The same numbers in storage of their own, and in other storage.
local function copied(x)
  local y = x:to "f64":to(x.dtype)
  mrt.eval(y)
  return y
end

local function turned(x) return copied(x:t()):t() end

local function inside(x) -- rows of an odd stride, at an odd place
  local m, n = table.unpack(x.shape)
  local wide = mrt.zeros(m, 1):to(x.dtype)
  local all = mrt.cat({ wide, x, wide, wide }, 2)
  if m * n % 2 == 0 then all = mrt.cat({ all, wide }, 2) end
  mrt.eval(all)
  return all:slice(2, 2, n + 1)
end

local function spaced(x) -- every other element
  local pair = mrt.stack({ x, x }, 3)
  mrt.eval(pair)
  return pair:select(3, 1)
end

-- Whole numbers: every sum is exact, in any order, in f32.
local function whole(largest, ...)
  return mrt.randint(-largest, largest + 1, ...):to "f32"
end

describe("a product of narrow floats", function()
  it("with `compute` is that of its inputs cast, bit for bit", function()
    for _, s in ipairs(shapes) do
      local m, k, n = table.unpack(s)
      local a, b, w = mrt.randn(m, k), mrt.randn(k, n), mrt.randn(n, k)
      local bias = mrt.randn(n)
      for _, d in ipairs(narrow) do
        assert_same(a:matmul(b, { compute = d }):to(d), a:to(d):matmul(b:to(d)), k)
        local y = op.linear(a, w, bias, { compute = d })
        assert_same(y, op.linear(a:to(d), w:to(d), bias), k)
        assert_same(y:to(d), op.linear(a:to(d), w:to(d), bias, { compute = d }):to(d), k)
      end
    end
  end)

  it("of f16 is the f32 product rounded", function()
    for _, s in ipairs(shapes) do
      local m, k, n = table.unpack(s)
      local a, b = mrt.randn(m, k):to "f16", mrt.randn(k, n):to "f16"
      local wide = a:to "f32":matmul(b:to "f32")
      assert_same(a:matmul(b), wide:to "f16", k)
      assert_same(a:matmul(b:to "f32"), wide, k)
      assert_same(a:to "f32":matmul(b), wide, k)
      assert_same(a:to "f32":matmul(b, "f32"), wide, k)
    end
  end)

  it("is exact where sums are, in any mixture, bias included", function()
    local types = { "f32", table.unpack(narrow) }
    for i, s in ipairs(shapes) do
      local m, k, n = table.unpack(s)
      local a, b, bias = whole(4, m, k), whole(4, k, n), whole(8, n)
      local exact = a:matmul(b)
      for _, p in ipairs(types) do
        for j, q in ipairs(types) do
          local y = a:to(p):matmul(b:to(q))
          assert_same(y, exact:to(y.dtype), k, p, q)
          local r = types[(i + j) % 5 + 1]
          y = op.linear(a:to(p), b:t():to(q), bias:to(r))
          assert_same(y, (exact + bias):to(y.dtype), k, p, q, r)
        end
      end
    end
  end)

  it("has bits that do not depend on strides", function()
    for _, s in ipairs(shapes) do
      local m, k, n = table.unpack(s)
      for _, d in ipairs { "bf16", "f16", "f8_e5m2", "f32" } do
        local a, b = mrt.randn(m, k):to(d), mrt.randn(k, n):to(d)
        for _, compute in ipairs { "f32", "bf16" } do
          local o = { compute = compute }
          local y = a:matmul(b, o)
          for _, other in ipairs { turned, inside, spaced } do
            assert_same(y, other(a):matmul(b, o), k, d)
            assert_same(y, a:matmul(other(b), o), k, d)
          end
          assert_same(y, copied(b:t():matmul(a:t(), o):t()), k, d)
          assert_same(y, op.linear(a, b:t(), o), k, d)
        end
      end
    end
  end)

  -- Products of 1 to 16 rows go panel by panel, those of one row in registers.
  it("has rows whose bits do not depend on how many there are", function()
    for _, s in ipairs { { 40, 7 }, { 65, 33 }, { 770, 100 }, { 385, 16 } } do
      local k, n = table.unpack(s)
      for _, types in ipairs { { "bf16", "bf16" }, { "f32", "bf16" }, { "f16", "f16" },
        { "bf16", "f32" }, { "f32", "f8_e4m3" }, { "f32", "f32", "bf16" } } do
        local x, w = mrt.randn(40, k):to(types[1]), mrt.randn(n, k):to(types[2])
        local bias = mrt.randn(n)
        mrt.eval(x, w, bias)
        local o = { compute = types[3] }
        local all = op.linear(x, w, bias, o)
        for _, m in ipairs { 1, 2, 3, 5, 16, 17 } do
          assert_same(all:slice(1, 1, m), op.linear(x:slice(1, 1, m), w, bias, o), m, k, types[1])
        end
        local y = op.linear(x, w, bias, o):to "bf16"
        assert_same(y:slice(1, 1, 1), op.linear(x:slice(1, 1, 1), w, bias, o):to "bf16", k)
      end
    end
  end)

  it("broadcasts batches", function()
    local a, b = whole(3, 2, 1, 9, 5), whole(3, 4, 5, 33)
    local exact = a:matmul(b)
    assert_same(a:to "bf16":matmul(b:to "f8_e4m3"), exact:to "bf16")
    assert_same(a:to "f16":matmul(b:to "bf16"), exact)
    assert_same(a:to "bf16":matmul(b:select(1, 2):to "bf16"),
      a:matmul(b:select(1, 2)):to "bf16")
    local w = whole(3, 7, 5)
    assert_same(op.linear(a:to "bf16", w:to "bf16"), op.linear(a, w):to "bf16")
  end)

  it("keeps subnormals of f16, infinities and NaN", function()
    local tiny, one = mrt.tensor({ { 2 ^ -24, 3 * 2 ^ -20 } }, "f16"), mrt.ones(2, 1)
    assert.equal(2 ^ -24 + 3 * 2 ^ -20, tiny:matmul(one):item())
    assert.equal(2.0 ^ -24, tiny:matmul(mrt.tensor({ { 1 }, { 0 } }, "f16")):item())
    for _, d in ipairs { "f16", "bf16", "f8_e5m2" } do
      local x = mrt.tensor({ { 1 / 0, 1, 0 }, { -1 / 0, 0, 1 }, { 0 / 0, 1, 1 }, { 1, 2, 3 } })
      local y = x:to(d):matmul(mrt.ones(3, 1):to(d)):totable()
      if d ~= "f8_e5m2" then -- its casts saturate
        assert.same({ { 1 / 0 }, { -1 / 0 } }, { y[1], y[2] })
      end
      assert(y[3][1] ~= y[3][1])
      assert.equal(6, y[4][1])
    end
    assert.equal(1 / 0, mrt.tensor { { 60000.0 } }:to "f16"
      :matmul(mrt.tensor { { 2.0 } }:to "f16"):item())
    assert.equal(448, mrt.tensor { { 448.0 } }:to "f8_e4m3"
      :matmul(mrt.tensor { { 2.0 } }:to "f8_e4m3"):item())
  end)

  it("sums in f32", function()
    local ones = mrt.ones(1, 5000):to "bf16"
    assert.equal(4992, ones:matmul(ones:t()):item()) -- 5000 rounded
    assert.equal(5000, ones:matmul(ones:t():to "f32"):item())
  end)

  it("has gradients of its inputs' dtypes, with the same `compute`", function()
    local x, w = mrt.randn(6, 40):to "f16", mrt.randn(9, 40)
    local bias, dy = mrt.randn(9):to "bf16", mrt.randn(6, 9)
    local y = op.linear(x, w, bias, { compute = "bf16" })
    local dx, dw, db = table.unpack(mrt.grad((y * dy):sum(), { x, w, bias }))
    assert_same(dx, dy:matmul(w, "bf16"):to "f16")
    assert_same(dw, dy:t():matmul(x, "bf16"))
    assert_same(db, dy:sum(1):to "bf16")
    local a, b = mrt.randn(2, 3, 4):to "bf16", mrt.randn(4, 5)
    local da, dc = table.unpack(mrt.grad(a:matmul(b):sum(), { a, b }))
    assert.equal("bf16[2,3,4] f32[4,5]", da:type() .. " " .. dc:type())
  end)

  it("refuses other dtypes, naming them", function()
    local x = mrt.randn(2, 2)
    local function refused(text, ...)
      local ok, err = pcall(op.matmul, ...)
      assert(not ok and err.message:find(text, 1, true), tostring(err.message))
      assert.equal("dtype", err.code)
    end
    refused("compute is i32 beside f32, a narrow float or f32 wanted", x, x, "i32")
    refused("compute is f64 beside bf16", x:to "bf16", x, "f64")
    local d = x:to "f64"
    refused("compute is bf16 beside f64, f64 wanted", d, d, "bf16")
    refused("equal dtypes wanted", d, x)
    refused("floats wanted", x, x:to "i64")
    assert.equal("f64[2,2]", op.matmul(d, d, "f64"):type())
    assert.equal("f64[2,2]", op.matmul(d, x:to "bf16"):type())
  end)
end)

describe("the bits of a product of narrow floats", function()
  local code = [[
    local mrt = require "mrt"
    mrt.seed(7)
    local a, b = mrt.randn(300, 1603), mrt.randn(1603, 250)
    local sum = 0
    for _, d in ipairs { "bf16", "f16", "f8_e4m3" } do
      for _, t in ipairs { a:to(d):matmul(b:to(d)), a:matmul(b, d), a:to(d):t():matmul(b:to(d)
        :slice(1, 1, 300)) } do
        mrt.eval(t)
        for p in t:bytes():gmatch "..?" do sum = (sum * 31 + p:byte() + (p:byte(2) or 0) * 7)
          % 1000003 end
      end
    end
    print(require "mrt.core".info().isa, sum)]]

  it("do not depend on the number of threads", function()
    local one = run(code, "MRT_THREADS=1")
    assert(one:match "^%S+\t%d+\n$", one)
    assert.equal(one, run(code, "MRT_THREADS=2"))
    assert.equal(one, run(code, "MRT_THREADS=5"))
  end)

  it("can be had without dot products of bf16", function()
    local isa = core.info().isa
    if not isa:find "+bf16" then return pending "no such dot products" end
    local plain = isa:gsub("%+.*", "")
    assert.equal(plain, run([[
      local mrt = require "mrt"
      local a, b = mrt.randn(20, 900):to "bf16", mrt.randn(900, 30):to "bf16"
      local y, wide = a:matmul(b), a:to "f32":matmul(b:to "f32"):to "bf16"
      mrt.eval(y, wide)
      assert(y:bytes() == wide:bytes())
      io.write(require "mrt.core".info().isa)]], "MRT_ISA=" .. plain))
  end)
end)

describe("a tiny product", function()
  it("has the bits of the same elements of a large one", function()
    mrt.seed(11)
    for trial = 1, 300 do
      local m, n, k = 1 + trial % 9, 1 + trial // 9 % 9, 1 + trial // 7 % 11
      local dtype = trial % 3 == 0 and "f64" or "f32"
      local a, b = mrt.randn(70, k):to(dtype), mrt.randn(k, 70):to(dtype)
      if trial % 2 == 0 then a = mrt.where(mrt.randn(70, k):gt(0), a, a * 0) end
      local large = mrt.eval(a:matmul(b))
      local x, y = mrt.eval(a:slice(1, 1, m) + 0, b:slice(2, 1, n) + 0)
      local small, wanted = mrt.eval(x:matmul(y), large:slice(1, 1, m):slice(2, 1, n) + 0)
      assert(small:bytes() == wanted:bytes(), ("%d x %d x %d, %s"):format(m, n, k, dtype))
      local other = mrt.eval(mrt.eval(y:t() + 0):t())
      assert(mrt.eval(x:matmul(other)):bytes() == wanted:bytes())
    end
  end)
end)

describe("a product of real numbers", function()
  -- Few rows beside many columns, and the reverse: whole tiles, parts of them,
  -- one block of k, several.
  local few = { { 1, 512, 300 }, { 2, 40, 96 }, { 8, 401, 129 }, { 16, 385, 200 },
    { 31, 64, 2047 }, { 32, 512, 256 }, { 33, 1, 800 }, { 48, 800, 777 }, { 100, 33, 500 } }

  local lean = os.getenv "MRT_SPEC_LEAN" == "1"

  it("has the same bits however its operands lie, and when it is turned", function()
    for _, dtype in ipairs { "f32", "f64" } do
      for _, s in ipairs(few) do
        local m, k, n = table.unpack(s)
        if lean and dtype == "f64" and m > 16 then break end
        local a, w = mrt.randn(m, k, { dtype = dtype }), mrt.randn(n, k, { dtype = dtype })
        local bias = mrt.randn(n, { dtype = dtype })
        mrt.eval(a, w, bias)
        local b = copied(w:t())
        local wanted, more = a:matmul(b), a:linear(copied(b):t(), bias)
        for _, x in ipairs { a, turned(a), inside(a), spaced(a) } do
          for _, y in ipairs { b, w:t(), inside(b), inside(w):t(), spaced(b), spaced(w):t() } do
            assert_same(wanted, x:matmul(y), dtype, m, k, n)
            assert_same(wanted, copied(y:t():matmul(x:t()):t()), dtype, m, k, n)
          end
          for _, y in ipairs { w, turned(w), inside(w), spaced(w) } do
            assert_same(more, x:linear(y, bias), dtype, m, k, n)
          end
        end
        -- Each row is that of a product of its own.
        local rows = {}
        for i = 1, math.min(m, 9) do rows[i] = a:slice(1, i, i):matmul(b) end
        assert_same(mrt.cat(rows, 1), copied(wanted:slice(1, 1, #rows)), dtype, m, k, n)
      end
    end
  end)

  -- The last strip of rows is whole or a half, lies where it is or is packed; up to
  -- 192 rows are one block.
  it("has rows whose bits do not depend on how many there are", function()
    for _, dtype in ipairs { "f32", "f64" } do
      local a, w = mrt.randn(204, 390, { dtype = dtype }), mrt.randn(40, 390, { dtype = dtype })
      mrt.eval(a, w)
      local b = copied(w:t())
      local all = a:matmul(b)
      for _, from in ipairs { 17, 95, 191 } do
        for m = from, from + 12 do
          local some = a:slice(1, 1, m)
          local wanted = copied(all:slice(1, 1, m))
          assert_same(wanted, some:matmul(b), dtype, m)
          assert_same(wanted, some:matmul(w:t()), dtype, m)
        end
      end
    end
  end)

  it("has the same bits where rows lie apart, as those of a part of each sequence", function()
    -- batches, rows of each, k, n: copied side by side in one piece, in several, or not at all
    for _, s in ipairs { { { 4 }, 64, 40, 100 }, { { 7 }, 150, 33, 64 }, { { 3 }, 300, 8, 70 },
      { { 2, 3 }, 5, 21, 64 }, { { 5 }, 20, 30, 9 }, { { 600 }, 2, 3, 65 }, { { 3 }, 1, 9, 80 } } do
      local outer, rows, k, n = table.unpack(s)
      for _, dtype in ipairs { "f32", "f64", "bf16", "f8_e4m3" } do
        local shape = { table.unpack(outer) }
        shape[#shape + 1], shape[#shape + 2] = rows + 3, k + 1
        local w, bias = mrt.randn(n, k):to(dtype), mrt.randn(n):to(dtype)
        local whole_rows = mrt.randn(shape):to(dtype)
        mrt.eval(whole_rows, w, bias)
        local part = whole_rows:slice(#shape - 1, 3, rows + 2):slice(#shape, 2, k + 1)
        local own = copied(part)
        assert_same(own:linear(w, bias), part:linear(w, bias), dtype, rows, k, n)
        assert_same(own:matmul(w:t()), part:matmul(w:t()), dtype, rows, k, n)
        if dtype == "f32" then
          local most = { compute = "bf16" }
          assert_same(own:matmul(w:t(), most), part:matmul(w:t(), most), rows, k, n)
        end
      end
    end
  end)
end)
