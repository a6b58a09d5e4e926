--- tensor_spec.lua -- tensors as a Lua program sees them
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local failure = require "support.failure"

local x = mrt.tensor { { 1.5, 2, 3 }, { 4, 5, 6 } }

-- The error object of a call that must fail.
describe("a tensor of a table", function()
  it("takes its dtype from the numbers", function()
    assert.equal("i64[2]", mrt.tensor { 1, 2 }:type())
    assert.equal("f32[2]", mrt.tensor { 1, 2.5 }:type())
    assert.equal("bool[1]", mrt.tensor { true }:type())
    assert.equal("f32[0]", mrt.tensor {}:type())
    assert.equal("f64[2,1]", mrt.tensor({ { 1 }, { 2 } }, "f64"):type())
    assert.same({ 1.5, -2 }, mrt.tensor({ 1.5, -2 }, "bf16"):totable())
  end)

  it("names the place of what does not fit", function()
    for text, f in pairs {
      ["ragged table: 1 elements instead of 2 at [2]"] = function()
        return mrt.tensor { { 1, 2 }, { 3 } }
      end,
      ["300 does not fit u8 at [1][2]"] = function()
        return mrt.tensor({ { 1, 300 } }, "u8")
      end,
      ["1.5 does not fit i32 at the top"] = function()
        return mrt.tensor(1.5, "i32")
      end,
      ["string instead of a number at [2][2]"] = function()
        return mrt.tensor { { 1, 2 }, { 3, "4" } }
      end,
      ["booleans among numbers at the top"] = function()
        return mrt.tensor { true, 1 }
      end,
    } do
      local err = failure(f)
      assert.equal("value", err.code)
      assert.equal("tensor: " .. text, err.message)
    end
  end)

  it("comes back from bytes as it was", function()
    for _, t in ipairs { mrt.tensor { 1, -2, 1 << 62 }, x, mrt.tensor { true, false },
      mrt.zeros(0, 3) } do
      local again = mrt.from_bytes(t:bytes(), t.dtype, t.shape)
      assert.equal(t:type(), again:type())
      assert.same(t:totable(), again:totable())
    end
    assert.matches("3 bytes for f32%[1%], 4 wanted",
      failure(mrt.from_bytes, "abc", "f32", { 1 }).message)
    assert.matches("byte 2 at 1", failure(mrt.from_bytes, "\2", "bool", { 1 }).message)
    assert.matches("overflows",
      failure(mrt.from_bytes, "", "u8", { 1 << 40, 1 << 40 }).message)
  end)
end)

describe("arithmetic", function()
  it("promotes dtypes", function()
    local i, u = mrt.tensor { 1, 2 }, mrt.tensor({ 1, 2 }, "u8")
    for wanted, t in pairs {
      ["i64[2]"] = i + u, ["u8[2]"] = u + 1,
      ["f64[2]"] = i + mrt.ones(2, { dtype = "f64" }),
      ["f32[2]"] = mrt.ones(2):to "i32" + mrt.ones(2),
    } do
      assert.equal(wanted, t:type())
    end
    assert.equal("f32[2]", (i * 2.5):type())
    assert.equal("f32[2]", (i / 2):type())
    assert.equal("f32[2]", (i ^ 2):type())
    assert.equal("i64[2]", (mrt.tensor { true, false } + 1):type())
    assert.matches("300 does not fit u8", failure(function() return u + 300 end).message)
    assert.equal((1 << 62) + 1, (mrt.tensor(1 << 62) + 1):item())
  end)

  it("divides integers as Lua does", function()
    local a = { 7, -7, 0, 6 }
    local t = mrt.tensor(a)
    for _, b in ipairs { 2, -2, 3 } do
      for k, v in ipairs((t // b):totable()) do assert.equal(a[k] // b, v) end
      for k, v in ipairs((t % b):totable()) do assert.equal(a[k] % b, v) end
    end
  end)

  it("broadcasts, and names both shapes when it cannot", function()
    assert.equal("f32[2,4,3]", (mrt.ones(4, 1) + mrt.ones(2, 1, 3)):type())
    assert.equal("f32[0,3]", (mrt.ones(0, 3) + mrt.ones(3)):type())
    local err = failure(function() return x + mrt.ones(4) end)
    assert.equal("shape", err.code)
    assert.equal("add", err.op)
    assert.equal("add: f32[2,3] against f32[4], shapes do not broadcast", err.message)
  end)
end)

describe("options", function()
  it("stand in place or by name", function()
    for _, y in ipairs { x:sum(2, true), x:sum({ 2 }, true), x:sum { dim = 2, keepdim = true },
      x:sum(2, { keepdim = true }), x:sum { dim = { -1 }, keepdim = true } } do
      assert.same({ { 6.5 }, { 15 } }, y:totable())
    end
    assert.equal("f32[3,2]", x:reshape { 3, -1 }:type())
    assert.equal("f32[3,2]", x:permute(2, 1):type())
    assert.equal("f64[2,3]", mrt.zeros { 2, 3, dtype = "f64" }:type())
  end)

  it("are checked by name, kind and place", function()
    for text, f in pairs {
      ["softmax: no option 'axes' (options: dim)"] = function() return x:softmax { axes = 1 } end,
      ["softmax: dim 0: dimensions count from 1 (or from the end: -1)"] =
        function() return x:softmax(0) end,
      ["softmax: option 'dim': a dimension wanted, got 'a'"] =
        function() return x:softmax "a" end,
      ["softmax: unexpected argument: 2"] = function() return x:softmax(1, 2) end,
      ["softmax: option 'dim' is given twice"] =
        function() return x:softmax(1, { dim = 1 }) end,
      ["slice: option 'dim' is missing"] = function() return x:slice() end,
      ["gelu: option 'approximate': one of none tanh wanted, got 'no'"] =
        function() return x:gelu "no" end,
      ["mean: no option 'dims' (options: dim, keepdim)"] =
        function() return x:mean { dims = 1 } end,
      ["linear: unexpected argument: f32[2,3]"] =
        function() return x:linear(x, x, "f32", "f32", x) end,
      ["matmul: argument 2: a tensor wanted, got 3"] = function() return x:matmul(3) end,
      ["cat: input 2 is 3, a tensor wanted"] = function() return mrt.cat { x, 3 } end,
    } do
      assert.equal(text, failure(f).message)
    end
  end)
end)

describe("an error", function()
  it("names the caller's line where a tail call took the place of the function", function()
    local layer = mrt.nn.Linear(3, 2)
    local function forward(input) return layer(input) end
    local here = debug.getinfo(1, "l").currentline
    local _, err = pcall(function()
      local y = forward(mrt.zeros(5, 4))
      return y
    end)
    assert.matches(("tensor_spec.lua:%d: Linear: linear: .* %%(in mrt/nn/linear.lua:%%d+%%)$")
      :format(here - 1), tostring(err))
  end)

  it("names the line of the program, through libraries and tail calls", function()
    local here = debug.getinfo(1, "l").currentline
    local function tail() return x:matmul(x) end
    local function layer() local y = mrt.nn.Linear(5, 4)(x); return y end
    local err = failure(tail)
    assert.matches(("tensor_spec.lua:%d$"):format(here + 1), err.position)
    err = failure(layer)
    assert.matches(("tensor_spec.lua:%d: Linear: linear: .* %%(in mrt/nn/linear.lua:%%d+%%)$")
      :format(here + 2), tostring(err))
    assert.matches("^oh .*linear", "oh " .. err)
  end)

  it("of a closed tensor says so", function()
    local t = mrt.ones(2)
    t:free()
    t:free()
    assert.equal("tensor (closed)", tostring(t))
    assert.equal("tensor is closed", failure(function() return t + 1 end).message)
    assert.equal("tensor is closed", failure(t.exp, t).message)
    do
      local c <close> = mrt.ones(2)
      t = c
    end
    assert.is_true(core.is_closed(t))
  end)
end)

describe("methods in Lua", function()
  local function close(wanted, t)
    local got = t:totable()
    if type(got) ~= "table" then wanted, got = { wanted }, { got } end
    for i, v in ipairs(wanted) do assert.near(v, got[i], 1e-5) end
  end

  it("reduce", function()
    close(21.5 / 6, x:mean())
    close({ 2.75, 3.5, 4.5 }, x:mean(1))
    close(2, mrt.tensor { 1, 2, 3 }:mean())
    close({ 0.5833333, 1 }, x:var(2))
    close({ 0.3888889, 2 / 3 }, x:var(2, { correction = 0 }))
    close({ 3.464369, 6.407606 }, x:logsumexp(2))
    close(math.huge, mrt.tensor { math.huge, 1 }:logsumexp())
    close(-math.huge, mrt.full({ 2 }, -math.huge):logsumexp())
    close(5, mrt.tensor { 3.0, 4.0 }:norm())
    close(7, mrt.tensor { 3.0, -4.0 }:norm(1))
    close(4, mrt.tensor { 3.0, -4.0 }:norm(math.huge))
    close({ 4, 5, 6 }, x:max(1))
    close({ 2, 2 }, mrt.ones(2):max(mrt.full({ 2 }, 2)))
  end)

  it("reshape", function()
    assert.equal("f32[2,3,1]", x:unsqueeze(-1):type())
    assert.equal("f32[1,2,3]", x:unsqueeze(1):type())
    assert.equal("f32[2,3]", x:unsqueeze(2):squeeze():type())
    assert.equal("f32[6]", x:flatten():type())
    assert.equal("f32[2,12]", mrt.ones(2, 3, 4):flatten(2):type())
    assert.same({ 4, 5, 6 }, x[2]:totable())
    assert.equal(6, x[2][3]:item())
    assert.is_nil(x[3])
    assert.same({ 3, 2 }, x.T.shape)
    assert.same({ { 3, 1.5 }, { 6, 4 } }, x:index_select(2, mrt.tensor { 2, 0 }):totable())
    assert.equal(2, select("#", mrt.ones(5):chunk(2)))
    assert.equal("f32[2,2,3]", mrt.stack({ x, x }):type())
  end)

  it("multiply vectors and matrices", function()
    close({ 6.5, 15 }, x:matmul(mrt.ones(3)))
    close({ 5.5, 7, 9 }, mrt.ones(2):matmul(x))
    close(3, mrt.ones(3):matmul(mrt.ones(3)))
    assert.equal("f32[5,2,2]", mrt.ones(5, 2, 3):matmul(mrt.ones(3, 2)):type())
  end)

  it("choose and bound", function()
    assert.same({ { 2, 2, 3 }, { 4, 4, 4 } }, x:clamp(2, 4):totable())
    assert.same({ { 1.5, 0, 0 }, { 4, 5, 0 } }, x:tril():totable())
    assert.same({ { 1.5, 2, 3 }, { 0, 5, 6 } }, x:triu():totable())
    assert.same({ { 0, 1 }, { 1, 0 } }, mrt.tensor { 1, 0 }:one_hot(2):totable())
    assert.same({ { 1, 0 }, { 0, 1 } }, mrt.eye(2):totable())
    assert.same({ 0, 0.5, 1 }, mrt.linspace(0, 1, 3):totable())
    assert.same({ 1, 3 }, mrt.arange(1, 5, 2):totable())
  end)

  it("average the loss over the rows that count", function()
    local logits = mrt.tensor { { 0.0, 0 }, { 0, 0 } }
    close(math.log(2), logits:cross_entropy(mrt.tensor { 0, 1 }))
    close(math.log(2), logits:cross_entropy(mrt.tensor { 0, -1 }, { ignore_index = -1 }))
    close(2 * math.log(2), logits:cross_entropy(mrt.tensor { 0, 1 }, { reduction = "sum" }))
  end)
end)

describe("printing", function()
  it("aligns, abbreviates and keeps integers whole", function()
    assert.equal("f32[2,3]\n[[1.5 2.0 3.0]\n [4.0 5.0 6.0]]", tostring(x))
    assert.equal("i64[2]\n[  1 -10]", tostring(mrt.tensor { 1, -10 }))
    assert.equal("f32[3]\n[nan 1.0 inf]", tostring(mrt.tensor { 0 / 0, 1, 1 / 0 }))
    assert.equal("3.5", tostring(mrt.tensor(3.5)))
    assert.equal("i64[2]\n[1234567 7654321]", tostring(mrt.tensor { 1234567, 7654321 }))
    assert.equal("f32[0,3]\n[]", tostring(mrt.zeros(0, 3)))
  end)
end)

describe("native memory", function()
  it("is bounded while garbage is made", function()
    collectgarbage()
    local before = mrt.memory { reset = true }.now
    for i = 1, 400 do mrt.eval(mrt.zeros(1 << 18) + i) end
    assert.is_true(mrt.memory().peak - before < 300 << 20)
  end)

  it("survives finalizers that use tensors", function()
    local left = 200
    local function litter()
      setmetatable({}, { __gc = function(t)
        left = left - 1
        local a, b = (mrt.ones(4) * 2):split(2)
        assert(a:dim() == b:dim() and t)
        x:free()
        if left > 0 then litter() end
      end })
    end
    litter()
    for i = 1, 3000 do
      local _, b = (x + i):split(1)
      assert.equal(2, b:dim())
      if left == 0 then break end
      if i % 10 == 0 then collectgarbage() end
    end
    assert.equal(21.5, x:sum():item())
  end)

  it("makes lists without elements, but not more than anybody means", function()
    assert.same({ {}, {}, {} }, mrt.zeros(3, 0):totable())
    assert.same({}, mrt.zeros(0, 1 << 40):totable())
    for _, shape in ipairs { { 1 << 40, 0 }, { 3, 1 << 20, 0, 5 } } do
      assert.error_matches(function() mrt.zeros(shape):totable() end,
        "tensor_spec.lua:%d+: totable: .*lists without an element")
    end
  end)
end)
