--- numbers_spec.lua -- values and gradients at the edges of what numbers can be;
--- on MRT_SPEC_DEVICE too
local mrt = require "mrt"

if os.getenv "MRT_SPEC_DEVICE" then
  setup(function() mrt.device(os.getenv "MRT_SPEC_DEVICE") end)
  teardown(function() mrt.device "cpu" end)
end

local function close(wanted, got)
  assert.is_true(math.abs(wanted - got) <= 1e-6 * math.max(1, math.abs(wanted)),
    wanted .. ", " .. got)
end

describe("at the edges", function()
  it("norms of zeros and deviations of constants have gradient 0", function()
    for _, p in ipairs { 1, 2, 3, 2.5, math.huge } do
      local x = mrt.zeros(3)
      assert.equal(0, x:norm(p):item())
      assert.same({ 0, 0, 0 }, mrt.grad(x:norm(p), x):totable())
      local rows = mrt.tensor { { 0., 0. }, { 3., 4. } }
      local dx = mrt.grad(rows:norm(p, 2):sum(), rows):totable()
      assert.same({ 0, 0 }, dx[1])
      local wanted = p == math.huge and { 0, 1 } or { (3 ^ p + 4 ^ p) ^ (1 / p - 1) * 3 ^ (p - 1),
        (3 ^ p + 4 ^ p) ^ (1 / p - 1) * 4 ^ (p - 1) }
      for i = 1, 2 do close(wanted[i], dx[2][i]) end
    end
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      local c = mrt.full({ 2, 4 }, 2.5, { dtype = dtype })
      assert.same({ { 0, 0, 0, 0 }, { 0, 0, 0, 0 } },
        mrt.grad(c:std(2):sum(), c):totable(), dtype)
      local d = mrt.grad(c:std(2):sum(), c)
      assert.same({ { 0, 0, 0, 0 }, { 0, 0, 0, 0 } }, mrt.grad(d:sum(), c):totable(), dtype)
      assert.equal(dtype, c:std(2).dtype)
    end
  end)

  it("a NaN stays one through norm and std", function()
    local x = mrt.tensor { 0 / 0, 1 }
    for _, y in ipairs { x:norm(), x:std(), x:norm(3) } do
      local v = y:item()
      assert.is_true(v ~= v)
      local dx = mrt.grad(y, x):totable()
      assert.is_true(dx[1] ~= dx[1])
    end
  end)

  it("what is constant is normalised to exactly 0", function()
    for _, n in ipairs { 5, 33, 189, 1000 } do
      for _, value in ipairs { 100.7, 1e4 / 3 } do
        local function largest(y) return y:abs():amax():item() end
        assert.equal(0, largest(mrt.full({ 2, n }, value):layer_norm()))
        assert.equal(0, largest(mrt.full({ 2, 6, n, 2 }, value):group_norm(2)))
        assert.equal(0, largest((mrt.full({ n, 3 }, value):batch_norm(mrt.ones(3), mrt.zeros(3)))))
        local x = mrt.full({ 2, n }, value)
        local y = x:layer_norm { eps = 1e-12 }
        assert.equal(0, largest(mrt.grad((y * mrt.ones(2, n)):sum(), x)))
      end
    end
  end)

  it("rows whose squares overflow are normalised, or NaN, never 0", function()
    local big, x = 1e20, mrt.tensor { { 1., -1., 3., 0. }, { 2., -2., 5., 1. } }
    for _, name in ipairs { "layer_norm", "rms_norm" } do
      local large = x * big
      local y, wanted = (large[name](large)), (x[name](x, { eps = 0 }))
      assert.is_true((y - wanted):abs():amax():item() < 1e-5, name)
      local dy = mrt.tensor { { 1., 2., 3., 5. }, { 0., 1., 0., 0. } }
      local dx = mrt.grad((y * dy):sum(), large) * big
      assert.is_true((dx - mrt.grad((wanted * dy):sum(), x)):abs():amax():item() < 1e-4, name)
    end
    for _, y in ipairs { (x * big):batch_norm(mrt.ones(4), mrt.zeros(4)),
      (x * big):reshape(2, 4, 1):group_norm(2) } do
      assert.is_true(y:isnan():all():item())
    end
    local infinite = mrt.tensor { { 1., math.huge, 2. } }
    assert.is_true(infinite:layer_norm():isnan():all():item())
    assert.is_true(infinite:rms_norm()[1][2]:isnan():item())
  end)

  it("a class of probability 0 makes the loss inf, and its gradient finite", function()
    local none, inf = -math.huge, math.huge
    local x = mrt.tensor { { none, .5, none, none }, { 1., none, 2., 3. }, { 1., 2., 3., 4. },
      { none, none, none, none }, { 1., 0 / 0, none, 2. } }
    local ids = mrt.tensor { 0, 0, 0, 0, 0 }
    for _, e in ipairs { 0, 0.1, 1 } do
      local loss = (x:cross_entropy(ids, { label_smoothing = e, reduction = "none" }))
      local v, dx = loss:totable(), mrt.grad(loss:sum(), x):totable()
      assert.equal(inf, v[1])
      local second = e > 0 and inf or math.log(1 + math.exp(1) + math.exp(2))
      if second == inf then assert.equal(inf, v[2]) else close(second, v[2]) end
      assert.is_true(v[3] < 10 and v[4] ~= v[4] and v[5] ~= v[5])
      for i = 1, 3 do
        for j = 1, 4 do assert.is_true(math.abs(dx[i][j]) <= 1, e .. " " .. i .. " " .. j) end
      end
    end
  end)

  it("running sums of integers are i64, as sums are", function()
    local most = 2 ^ 31 - 1 | 0
    local y = mrt.tensor({ most, 1, 1 }, "i32"):cumsum(1)
    assert.equal("i64", y.dtype)
    assert.same({ most, most + 1, most + 2 }, y:totable())
    assert.same({ 455, 200 }, mrt.tensor({ 255, 200 }, "u8"):cumsum(1, true):totable())
    assert.same({ 1, 1, 2 }, mrt.tensor({ true, false, true }):cumsum(1):totable())
  end)
end)

-- Line by line lua/mrt/tensor/README.md.
describe("what differs from PyTorch", function()
  local nan <const>, inf <const> = 0 / 0, math.huge
  local function slopes(f, ...)
    local xs = { ... }
    local dx = mrt.grad(f(...):sum(), xs)
    for i = 1, #dx do dx[i] = dx[i]:totable()[1] end
    return dx
  end
  local function is_nan(t) return t:isnan():all():item() end
  local one, none = mrt.tensor { 1. }, mrt.tensor { nan }

  it("are gradients at NaN", function()
    assert.is_true(is_nan(none:relu()))
    assert.same({ 0 }, slopes(one.relu, none))
    for _, f in ipairs { one.hardtanh, one.relu6, one.softshrink, one.hardshrink,
      function(x) return x:threshold(0, 0) end } do
      assert.is_true(is_nan(f(none)))
      assert.same({ 0 }, slopes(f, none))
    end
    for _, f in ipairs { one.maximum, one.minimum } do
      assert.is_true(is_nan(f(none, one)))
      assert.same({ 0, 0 }, slopes(f, none, one))
    end
  end)

  it("are gradients at bounds, at the origin and of infinities", function()
    assert.same({ .5, .5 }, slopes(one.clamp, one, mrt.tensor { 1. }))
    local zero, other, endless = mrt.tensor { 0. }, mrt.tensor { 0. }, mrt.tensor { inf }
    for _, f in ipairs { one.atan2, one.hypot } do
      assert.same({ 0, 0 }, slopes(f, zero, other))
    end
    assert.same({ 0 }, slopes(function(y) return zero:xlogy(y) end, other))
    assert.same({ .5, .5 }, slopes(one.logaddexp, endless, mrt.tensor { inf }))
    assert.same({ inf, inf }, mrt.tensor({ -1., -2. }):polygamma(1):totable())
  end)

  it("are casts", function()
    assert.same({ 255, 0, 0, 255, 2 }, mrt.tensor({ 300, -5, nan, inf, 2.7 }):to("u8"):totable())
    assert.same({ 2 ^ 31 - 1, -2 ^ 31, 0 }, mrt.tensor({ 3e10, -3e10, nan }):to("i32"):totable())
    assert.equal(448, mrt.tensor({ 1e6 }):to("f8_e4m3"):totable()[1])
  end)

  it("is division of integers", function()
    local x = mrt.tensor { -7, 7 }
    for sign, f in pairs { ["n%%%%0"] = function() return x % 0 end,
      ["n//0"] = function() return x // 0 end } do
      local ok, err = pcall(f)
      assert.is_false(ok)
      assert.matches("^spec/tensor/numbers_spec.lua:%d+: attempt to perform '" .. sign .. "'$",
        tostring(err))
    end
    assert.is_false(pcall(x.remainder, x, 0))
    assert.is_true(is_nan(mrt.tensor { 1. } % 0) and is_nan(x % 0.0))
    for _, dtype in ipairs { "i64", "i32", "u8" } do
      local y = mrt.tensor({ 3, 0 }, { dtype = dtype })
      for _, f in ipairs { function() return x % y end, function() return x // y end,
        function() return 7 % y end, function() return 7 // y end } do
        local ok, err = pcall(function() return f():totable() end)
        assert.is_false(ok)
        assert.equal("data", err.code)
        assert.matches("divisor %(spec/tensor/numbers_spec.lua:%d+%): an element is 0", err.message)
      end
    end
    assert.is_true(is_nan(mrt.tensor { 1 } % mrt.tensor { 0. }))
    assert.same({ 1 << 53 }, (mrt.tensor { (1 << 53) + 1 } // 1):totable())
    assert.same({ -4, 3 }, (x // 2):totable())
    assert.same({ 2, 1 }, (x % 3):totable())
    assert.equal("-0.0", tostring((mrt.tensor { -1.5 } // inf):totable()[1]))
    assert.equal(.5, (mrt.tensor { 2 } ^ -1):item())
    assert.equal(1.5, mrt.tensor({ 1, 2 }):mean():item())
    assert.is_false(pcall(one.prod, mrt.tensor { true }))
    assert.equal(1e-6, mrt.nn.RMSNorm(3).eps)
  end)

  it("is not this", function()
    close(math.sqrt(7 / 3), mrt.tensor({ 1., 2., 4. }):std():item())
    assert.is_true(is_nan(one:std()))
    assert.same({ 0, 2, 2, 0 }, mrt.tensor({ .5, 1.5, 2.5, -.5 }):round():totable())
    assert.equal(44, (mrt.tensor({ 200 }, "u8") + mrt.tensor({ 100 }, "u8")):item())
    assert.equal("i64", mrt.tensor({ true }):sum().dtype)
    assert.equal(1, mrt.tensor({ 1., 3., 3. }):argmax():item())
    assert.equal(1, mrt.tensor({ 1., nan, 3. }):argmax():item())
    local equals = mrt.tensor { 3., 3. }
    assert.same({ .5, .5 }, mrt.grad(equals:amax(), equals):totable())
  end)
end)
