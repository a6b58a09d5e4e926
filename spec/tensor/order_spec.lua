-- order_spec.lua -- sorted, chosen, counted: what the operators' samples do not show
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local nan, inf = 0 / 0, math.huge

local function list(t)
  local values = mrt.eval(t):totable()
  return type(values) == "table" and values or { values }
end

local function same(wanted, t)
  local got = list(t)
  assert.equal(#wanted, #got)
  for i, w in ipairs(wanted) do
    assert(w == got[i] or w ~= w and got[i] ~= got[i],
      ("element %d: %s, %s wanted"):format(i, got[i], w))
  end
end

local function refuses(code, pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.equal(code, err.code, tostring(err))
  assert.matches(pattern, tostring(err), 1, true)
end

describe("order", function()
  it("puts NaN last, leaves equal ones and zeros of both signs where they stood", function()
    local x = mrt.tensor { 2, nan, -0.0, 0.0, -inf, nan, inf, -0.0 }
    local values, positions = x:sort()
    same({ -inf, 0, 0, 0, 2, inf, nan, nan }, values)
    same({ 4, 2, 3, 7, 0, 6, 1, 5 }, positions)
    assert.equal(-inf, 1 / list(values)[2])
    assert.equal(inf, 1 / list(values)[3])
    same({ 1, 5, 6, 0, 2, 3, 7, 4 }, (x:argsort { descending = true }))
  end)

  it("does not depend on the length: short, merged, by bytes, shared", function()
    for _, n in ipairs { 5, 31, 33, 192, 193, 5000, 70001 } do
      for _, dtype in ipairs { "f32", "f64", "i64", "i32", "u8" } do
        mrt.seed(n)
        local x = mrt.eval((mrt.rand(n) * 200):to(dtype))
        local values, positions = mrt.eval(x:sort())
        local sorted = values:to "f64"
        assert.is_true((sorted:slice { dim = 1, first = 2 } - sorted:slice { dim = 1, last = -2 })
          :ge(0):all():item(), n .. dtype)
        assert.is_true(x:gather(1, positions):eq(values):all():item())
        -- equal neighbours stand in the order of their positions
        local function ahead(t)
          return t:slice { dim = 1, first = 2 }:gt(t:slice { dim = 1, last = -2 })
        end
        assert.is_true(ahead(values):logical_or(ahead(positions)):all():item(), n .. dtype)
        local k = n // 3 + 1
        local best, at = x:topk { k = k, largest = false }
        assert.is_true(best:eq(values:slice { dim = 1, last = k }):all():item())
        assert.is_true(at:eq(positions:slice { dim = 1, last = k }):all():item())
        assert.equal(list(values)[k], (x:kthvalue(k)):item())
        assert.equal(list(values)[(n + 1) // 2], x:median():item())
      end
    end
  end)

  it("of several results has the second only where a dimension is named", function()
    local x = mrt.tensor { { 1, 5, 3 }, { 7, 7, 2 } }
    local values, positions = x:max(2)
    same({ 5, 7 }, values)
    same({ 1, 0 }, positions)
    values, positions = x:min { dim = 1, keepdim = true }
    assert.same({ 1, 3 }, values.shape)
    assert.same({ 1, 3 }, positions.shape)
    same({ 0, 0, 1 }, positions:reshape { -1 })
    assert.equal(1, select("#", x:max()))
    assert.equal(1, select("#", x:max { 1, 2 }))
    assert.equal(1, select("#", x:max(x)))
    assert.equal(1, select("#", x:median()))
    assert.equal(2, select("#", x:median(1)))
  end)

  it("finds medians and quantiles beside NaN, and of nothing", function()
    local x = mrt.tensor { 4, nan, 1, 2 }
    same({ nan }, x:median())
    same({ 2 }, x:nanmedian())
    same({ nan, nan }, x:quantile { 0, 1 })
    same({ 1, 2, 4 }, x:nanquantile { 0, 0.5, 1 })
    same({ nan }, mrt.tensor({ nan, nan }):nanquantile(0.5))
    same({ nan }, mrt.zeros(0):median())
    refuses("value", "over no elements", function() mrt.zeros(0):quantile(0.5) end)
    refuses("value", "0 to 1", function() x:quantile(1.5) end)
    refuses("value", "interpolation", function()
      x:quantile { q = 0.5, interpolation = "cubic" }
    end)
  end)
end)

describe("what has a size that depends on the data", function()
  local x = mrt.tensor { 3.0, 0.0, -1.0, 3.0 }

  it("is refused in a compiled function, which is told what to use", function()
    local function compiled(f) return function() mrt.compile(f)(x) end end
    refuses("state", "nonzero_static", compiled(function(v) return v:nonzero() end))
    refuses("state", "nonzero_static", compiled(function(v) return v:argwhere() end))
    refuses("state", "where(x, 0)", compiled(function(v) return v:masked_select(v:gt(0)) end))
    refuses("state", "sort", compiled(function(v) return v:unique() end))
    refuses("state", "sort", compiled(function(v) return v:unique_consecutive() end))
    refuses("state", "size", compiled(function(v) return v:to("i64"):abs():bincount() end))
    same({ 1, 1, 0, 2, 0 }, mrt.compile(function(v)
      return v:to("i64"):abs():bincount { size = 5 }
    end)(x))
    same({ 0, 3, -1 }, mrt.compile(function(v)
      return v:gt(0):nonzero_static { size = 3 }:reshape { -1 }
    end)(x))
  end)

  it("keeps the gradient of what is selected", function()
    local y = x:masked_select(x:gt(0))
    same({ 3, 3 }, y)
    same({ 6, 0, 0, 6 }, mrt.grad((y * y):sum(), x))
    same({ 1, 0, 1, 0 }, mrt.grad(mrt.tensor { { 1.0, 2.0 } }:expand { 2, 2 }
      :masked_select(mrt.tensor { { true, false }, { true, false } }):sum() * 0 +
      x:masked_select(mrt.tensor { true, false, true, false }):sum(), x))
  end)

  it("is empty where there is nothing", function()
    local none = mrt.zeros(0)
    assert.same({ 0, 1 }, none:nonzero().shape)
    assert.same({ 0 }, none:masked_select(none:gt(0)).shape)
    local values, inverse, counts = none:unique { return_inverse = true, return_counts = true }
    assert.same({ 0 }, values.shape)
    assert.same({ 0 }, inverse.shape)
    assert.same({ 0 }, counts.shape)
    assert.same({ 0 }, none:to("i64"):bincount().shape)
    assert.same({ 4 }, none:to("i64"):bincount { minlength = 4 }.shape)
  end)

  it("counts ids, of which none is negative or beyond the size", function()
    refuses("value", "id -1", function() mrt.tensor({ 2, -1 }, "i64"):bincount() end)
    refuses("data", "bincount", function()
      mrt.eval(mrt.tensor({ 2, 7 }, "i64"):bincount { size = 3 })
    end)
  end)
end)

describe("logcumsumexp", function()
  it("overflows nowhere and keeps infinities", function()
    same({ 1000, 1000 + math.log(2), 1000 + math.log(3) },
      mrt.tensor({ 1000, 1000, 1000 }, "f64"):logcumsumexp(1))
    same({ -inf, -200, inf, inf }, mrt.tensor({ -inf, -200, inf, 3 }, "f64"):logcumsumexp(1))
    same({ 1, nan, nan }, mrt.tensor({ 1, nan, 2 }, "f64"):logcumsumexp(1))
  end)
end)
