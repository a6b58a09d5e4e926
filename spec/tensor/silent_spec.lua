--- silent_spec.lua -- what once gave nil or nothing works, or raises
local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

describe("a program that slips", function()
  local x = mrt.tensor({ { 0, 1, 2 }, { 3, 4, 5 } }, "f32")

  it("reads positions from the end, and is told of others", function()
    assert.same({ 3, 4, 5 }, x[-1]:totable())
    assert.is_nil(x[3]) -- where ipairs ends
    assert.error_matches(function() return x[0] end, "count from 1")
    for _, i in ipairs { -3, 4, 9 } do
      assert.error_matches(function() return x[i] end, ("position %%%d of dim 1 of f32%%[2,3%%], "
        .. "1 to 2 %%(or from the end: %%-2 to %%-1%%) wanted"):format(i):gsub("%%(%d)", "%1"))
    end
    local rows = 0
    for i in ipairs(x) do rows = i end
    assert.equal(2, rows)
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
    for _, name in ipairs { "parameters", "buffers", "train", "state", "named_parameters", "eval",
      "freeze", "count", "modules", "to", "load_state", "register_buffer" } do
      assert.error_matches(function() m[name]() end, name .. ": a module wanted .*colon")
      assert.error_matches(function() m[name] {} end, name .. ": a module wanted .*colon")
    end
    local opt = optim.sgd(m:parameters())
    for _, name in ipairs { "parameters", "state", "rate", "load_state", "step" } do
      assert.error_matches(function() opt[name]() end, name .. ": an optimizer wanted .*colon")
      assert.error_matches(function() opt[name] {} end, name .. ": an optimizer wanted .*colon")
    end
    for _, name in ipairs { "sum", "relu", "item", "size", "to", "reshape", "totable" } do
      assert.error_matches(function() x[name]() end, "a tensor wanted.*colon")
    end
    assert.error_matches(function() opt:step() end, "opt:step%(mrt.grad%(loss")
  end)

  it("joins tensors side by side, along the dimension it says", function()
    for _, f in ipairs { "cat", "stack" } do
      for dim = 1, 2 do
        local wanted = mrt[f]({ x, x }, dim)
        for _, y in ipairs { mrt[f](x, x, dim), mrt[f]({ x, x }, { dim = dim }),
          mrt[f](x, x, { dim = dim }) } do
          assert.same(wanted:totable(), y:totable())
        end
      end
      assert.same(mrt[f]({ x, x, x }):totable(), mrt[f](x, x, x):totable())
    end
    assert.equal(2, #nn.Sequential { nn.Linear(3, 2), nn.ReLU() }.layers)
  end)

  it("compares with < and >, names dtypes as PyTorch does", function()
    for _, f in ipairs { function() return x < 1 end, function() return 1 >= x end,
      function() return x > x end } do
      assert.error_matches(f, "silent_spec.lua:%d+: .*x:lt%(y%)")
    end
    assert.error_matches(function() return x:to "float32" end, "it is 'f32' here")
    assert.error_matches(function() return nn.Linear(1, 1):to "cuda" end, "mrt.device")
    assert.error_matches(function() return x:reshape(5, -1) end, "a multiple of 5 wanted")
    assert.error_matches(function()
      return nn.cross_entropy(x, mrt.tensor { 1, 3 }):item()
    end, "index 3, 0 to 2 wanted %(ids count from 0%)")
  end)

  it("takes the largest with their places", function()
    local values, places = x:max(2)
    assert.same({ 2, 5 }, values:totable())
    assert.same({ 2, 2 }, places:totable())
    assert.error_matches(function() x[1][2] = 3 end, "x%[{1, 2}%] = v")
    local y = x:clone()
    y[{ 1, 2 }] = 9
    assert.equal(9, y[{ 1, 2 }]:item())
    assert.same({ 3, 4, 5 }, x[x:gt(2)]:totable())
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
