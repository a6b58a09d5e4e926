--- silent_spec.lua -- what once gave nil or nothing works, or raises
local mrt = require "mrt"
local nn = mrt.nn

describe("a program that slips", function()
  local x = mrt.tensor({ { 0, 1, 2 }, { 3, 4, 5 } }, "f32")

  it("reads positions from the end, and is told of others", function()
    assert.same({ 3, 4, 5 }, x[-1]:totable())
    assert.is_nil(x[3]) -- where ipairs ends
    assert.error_matches(function() return x[0] end, "count from 1")
    assert.error_matches(function() return x[-3] end, "slice")
    for _, key in ipairs { 1.5, true, print } do
      assert.error_matches(function() return x[key] end, "indexed by a position, a list")
    end
    assert.error_matches(function() return x[x] end, "integers or bool wanted")
  end)

  it("gathers and scatters with the dimension first", function()
    local index = mrt.tensor({ { 2, 0, 0 }, { 1, 1, 0 } }, "i64")
    assert.same({ { 2, 0, 0 }, { 4, 4, 3 } }, x:gather(2, index):totable())
    assert.same({ { 2, 0, 0 }, { 4, 4, 3 } }, x:gather(-1, index):totable())
    assert.same({ { 2, 1, 3 }, { 4, 6, 5 } },
      x:scatter_add(2, index, mrt.ones(2, 3)):totable())
    assert.error_matches(function() return x:gather(index, 2) end, "dimension first")
    assert.error_matches(function() return x:scatter_add(index, x, 1) end, "dimension first")
    assert.error_matches(function() return x:gather(3, index) end, "dim 3")
  end)

  it("asks a module for its parameters with a dot", function()
    local m = nn.Linear(3, 2)
    for _, name in ipairs { "parameters", "buffers", "train", "state", "named_parameters" } do
      assert.error_matches(function() m[name]() end, "colon")
    end
  end)

  it("takes gradients by name", function()
    local m = nn.Linear(3, 2)
    local y = m(x):sum()
    local by_name = mrt.grad(y, m:state())
    local list = mrt.grad(y, { m.weight, m.bias })
    assert.same(list[1]:totable(), by_name.weight:totable())
    assert.same(list[2]:totable(), by_name.bias:totable())
    assert.same({}, mrt.grad(y, {}))
    assert.has_error(function() mrt.grad(y, { a = 1 }) end)
  end)
end)
