-- part_spec.lua -- x[...] read and written, by position, range, ids and mask
local mrt = require "mrt"

local function numbers() return mrt.arange(24):reshape(4, 6) end
local function list(x) return x:reshape(-1):totable() end

local function fails(f, code, ...)
  local ok, err = pcall(f)
  assert.is_false(ok)
  assert.are.equal(code, err.code, tostring(err))
  for _, text in ipairs { ... } do
    assert.is_truthy(tostring(err):find(text, 1, true), tostring(err))
  end
  assert.is_truthy(tostring(err):find("part_spec.lua:%d+"), tostring(err))
end

describe("a part of a tensor", function()
  it("of nothing is nothing", function()
    local none = mrt.zeros(0, 3)
    assert.are.same({ 0 }, none[{ {}, 1 }].shape)
    assert.are.same({ 0, 2 }, none[{ { 1, 0 }, { 1, 2 } }].shape)
    none[{ {}, 1 }] = 5
    assert.are.same({ 0, 3 }, none.shape)
  end)

  it("is no place that could be written to", function()
    local x = mrt.zeros(2, 3)
    fails(function() x[1][2] = 3 end, "value", "x[{1, 2}] = v", ":clone()")
    local row = x[1]:clone()
    row[2] = 3
    assert.are.same({ 0, 3, 0 }, row:totable())
  end)

  it("is positions and ranges, each dimension its own", function()
    local x = numbers()
    assert.are.same({ 6, 7, 8 }, x[{ 2, { 1, 3 } }]:totable())
    assert.are.same({ 18, 23 }, x[{ -1, { 1, 6, 5 } }]:totable())
    assert.are.same({ 5, 3, 1 }, x[{ 1, { -1, 1, -2 } }]:totable())
    assert.are.same({ 2, 8, 14, 20 }, x[{ "all", 3 }]:totable())
    assert.are.same({ 2, 8, 14, 20 }, x[{ nil, 3 }]:totable())
    assert.are.same({ 2, 8, 14, 20 }, x[{ "...", 3 }]:totable())
    assert.are.same({ 1, 6, 1 }, x[{ "new", 1, {}, "new" }].shape)
    assert.are.same({ 2, 6 }, x[{ { 3 } }].shape)
    assert.are.same({ 0, 6 }, x[{ { 3, 2 } }].shape)
    assert.are.equal(23, x[{ -1, -1 }]:item())
    assert.are.same(list(x), list(x[{}]))
  end)

  it("is ids, which broadcast, and whose dimensions stand where they do", function()
    local x = numbers()
    assert.are.same({ 1, 17 }, x[{ mrt.tensor { 0, 2 }, mrt.tensor { 1, 5 } }]:totable())
    assert.are.same({ 2, 6 }, x[mrt.tensor { 0, 2 }].shape)
    assert.are.same({ 1, 2, 6 }, x[mrt.tensor { { 0, 2 } }].shape)
    assert.are.same({ { 1, 5 }, { 13, 17 } },
      x[{ mrt.tensor { { 0 }, { 2 } }, mrt.tensor { 1, 5 } }]:totable())
    local y = x:reshape(2, 2, 6)
    assert.are.same({ 2, 1, 3 }, y[{ "all", mrt.tensor { 1 }, { 1, 3 } }].shape)
    assert.are.same({ 5, 2 }, y[{ mrt.zeros(5):long(), "all", mrt.zeros(5):long() }].shape)
    assert.are.same({ 2, 5 }, y[{ "all", mrt.zeros(5):long(), mrt.zeros(5):long() }].shape)
  end)

  it("is written through its handle; others keep what they had", function()
    local x = numbers()
    local before, row = x:reshape(24), x[1]
    x[1] = 100
    x[{ {}, { 2, 6, 2 } }] = mrt.tensor { 7, 8, 9 }
    x[{ { -1, 1, -1 }, 1 }] = mrt.tensor { 1, 2, 3, 4 }
    assert.are.same({ 4, 7, 100, 8, 100, 9 }, x[1]:totable())
    assert.are.same({ 1, 7, 20, 8, 22, 9 }, x[4]:totable())
    assert.are.same({ 0, 1, 2, 3, 4, 5 }, row:totable())
    assert.are.equal(23, before[24]:item())
  end)

  it("is written by ids, the last of equals, and by masks", function()
    local x = numbers()
    x[{ mrt.tensor { 0, 1, 0 }, 2 }] = mrt.tensor { 1, 2, 3 }
    assert.are.same({ 0, 3, 2, 3, 4, 5 }, x[1]:totable())
    assert.are.equal(2, x[{ 2, 2 }]:item())
    x[x:gt(8)] = -1
    assert.are.same({ 6, 2, 8, -1, -1, -1 }, x[2]:totable())
    x[mrt.tensor { 3 }] = mrt.arange(6)
    assert.are.same({ 0, 1, 2, 3, 4, 5 }, x[4]:totable())
    local added = mrt.zeros(3):index_put({ mrt.tensor { 1, 1, 2 } }, mrt.ones(3), true)
    assert.are.same({ 0, 2, 1 }, added:totable())
  end)

  it("has gradients as its functional form has, compiled or not", function()
    local w, v = mrt.ones(3, 2), mrt.ones(2)
    local function f(a, b)
      local y = a * 2
      y[2] = b * 3
      y[{ mrt.tensor { 0, 0 }, 1 }] = b * 5 -- of equals the last stays
      local g = mrt.grad((y * y):sum(), { a, b })
      return g[1], g[2]
    end
    for _, run in ipairs { f, mrt.compile(f) } do
      local a, b = run(w, v)
      assert.are.same({ { 0, 8 }, { 0, 0 }, { 8, 8 } }, a:totable())
      assert.are.same({ 18, 68 }, b:totable())
    end
  end)

  it("of a variable is assigned, in a compiled function after what read it", function()
    local state = mrt.variable(mrt.zeros(4))
    local step = mrt.compile(function(a)
      local old = state:sum()
      state[1] = a
      state[{ { 3, 4 } }] = state[1] * 2
      return old, state:sum()
    end)
    step(mrt.tensor(3.0))
    local old, new = step(mrt.tensor(4.0))
    assert.are.equal(15, old:item())
    assert.are.equal(20, new:item())
    assert.are.same({ 4, 0, 8, 8 }, state:totable())
    state[mrt.tensor { 1 }] = 9
    state[state:gt(8.5)] = 1
    assert.are.same({ 4, 1, 8, 8 }, state:totable())
    assert.is_true(mrt.is_variable(state))
  end)

  it("refuses what is not there and what does not fit, at the caller's line", function()
    local x = numbers()
    fails(function() x[7] = 1 end, "value", "position 7 of dim 1 of i64[4,6], 1 to 4")
    fails(function() x[0] = 1 end, "value", "positions count from 1")
    fails(function() return x[{ 0 }] end, "value", "positions count from 1")
    fails(function() return x[{ 1, 1, 1 }] end, "value", "3 dimensions for i64[4,6]")
    fails(function() return x[{ { 2, 9 } }] end, "value", "2 to 9 of dim 1")
    fails(function() return x[{ { 1, 3, 0 } }] end, "value", "step 0")
    fails(function() return x[{ { 3, 1 } }] end, "value", "3 to 1")
    fails(function() return x[{ "...", "..." }] end, "value", "twice")
    fails(function() return x[{ first = 1 }] end, "value", "one thing for each dimension")
    fails(function() return x[{ "most" }] end, "value", "a position, a range")
    fails(function() return x[mrt.ones(2)] end, "dtype", "integers or bool")
    fails(function() return x[mrt.ones(3):bool()] end, "shape", "mask bool[3]")
    fails(function() return mrt.eval(x[mrt.tensor { 4 }]) end, "data", "index 4, 0 to 3")
    fails(function() return mrt.eval(x[{ mrt.tensor { 0 }, mrt.tensor { 6 } }]) end, "data",
      "index 6, 0 to 5")
    fails(function() x[1] = "a" end, "value", "a number or a tensor")
    fails(function() x[1] = mrt.ones(6) end, "dtype", "f32[6] into i64[4,6]")
    fails(function() x[1] = 2.5 end, "value", "cannot hold 2.5")
    fails(function() x[1] = mrt.arange(5) end, "shape", "into a part of shape [6]")
    fails(function() return x[1.5] end, "value", "not by float")
  end)

  it("says why a handle from outside is not written, and where a gradient went", function()
    local outside = mrt.ones(3)
    fails(function() mrt.compile(function() outside[1] = 2 return outside end)() end, "state",
      "outside of the compiled function")
    local y = outside:sum()
    outside[1] = 2
    fails(function() mrt.grad(y, outside) end, "gradient", "was written", "x:clone()")
    assert.are.same({ 2, 1, 1 }, outside:totable())
    assert.are.same({ 1, 1, 1 }, mrt.grad(outside:sum(), outside):totable())
  end)

  it("leaves the tensor as it was where an id is out of range", function()
    local bad = mrt.tensor({ 1, 9 }, "i64")
    for _, make in ipairs { mrt.eval, mrt.variable } do
      local x = make(mrt.arange(12):reshape(4, 3))
      local before = x:bytes()
      for _, key in ipairs { bad, { bad }, { {}, bad }, { 2, bad } } do
        local ok, err = pcall(function() x[key] = 1 end)
        assert.is_false(ok)
        assert.matches("part_spec.lua:%d+: .*index 9", tostring(err))
        assert.equal(before, x:bytes())
      end
    end
  end)
end)
