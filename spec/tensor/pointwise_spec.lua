-- pointwise_spec.lua -- methods composed of pointwise operators: dtypes, edges, refusals
local mrt = require "mrt"

local inf <const>, nan <const> = math.huge, 0 / 0

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, text)
  assert.matches(text, tostring(err), 1, true)
end

describe("methods that work element by element", function()
  it("take integers and bool as PyTorch does", function()
    local ids, truth = mrt.tensor { 1, 4, 9 }, mrt.tensor { true, false, true }
    for _, name in ipairs { "exp", "sqrt", "log1p", "atan", "lgamma", "sinc", "sigmoid" } do
      assert.equal("f32", ids[name](ids).dtype, name)
      assert.equal("f32", truth[name](truth).dtype, name)
      assert.same(ids:float()[name](ids:float()):totable(), ids[name](ids):totable(), name)
    end
    for _, name in ipairs { "floor", "ceil", "round", "trunc", "sign", "abs", "neg", "relu",
      "square", "nan_to_num", "clamp_min" } do
      assert.equal("i64", ids[name](ids, name == "clamp_min" and 2 or nil).dtype, name)
    end
    assert.equal("f32", (ids / truth).dtype)
    assert.same({ 1.5, 4, 5 }, ids:clamp(1.5, 5):totable())
    assert.equal("f32", ids:clamp(1.5, 5).dtype)
    assert.equal("i64", ids:clamp(2, 5).dtype)
    assert.same({ true, true, true }, ids:isfinite():totable())
    assert.same({ false, false, false }, ids:isnan():totable())
    assert.equal("f64", ids:float_power(2).dtype)
    assert.equal("bool", truth:maximum(truth).dtype)
  end)

  it("have operators of Lua for bits", function()
    local x, y = mrt.tensor { 12, 10 }, mrt.tensor { 10, 3 }
    assert.same({ 8, 2 }, (x & y):totable())
    assert.same({ 14, 11 }, (x | y):totable())
    assert.same({ 6, 9 }, (x ~ y):totable())
    assert.same({ -13, -11 }, (~x):totable())
    assert.same({ 48, 40 }, (x << 2):totable())
    assert.same({ 3, 2 }, (x >> 2):totable())
    assert.same({ 8, 8 }, (x & 8):totable())
    refused("bitwise_and: input 1 is f32[2]", function() return x & mrt.tensor { 1.5, 2 } end)
    refused("bool", function() return x:bool() << x:bool() end)
  end)

  it("raise to small powers without logarithms", function()
    local x = mrt.tensor { -3, 0, 1.5 }
    assert.same({ 9, 0, 2.25 }, (x ^ 2):totable())
    assert.equal((1 / x)[3]:item(), (x ^ -1)[3]:item())
    assert.equal(x:abs():sqrt()[3]:item(), (x ^ 0.5)[3]:item())
    assert.same({ -6, 0, 3 }, mrt.grad((x ^ 2):sum(), x):totable())
    assert.equal("f32", (mrt.tensor { 2, 3 } ^ 2).dtype)
  end)

  it("answer at once what is a boolean of Lua", function()
    local x = mrt.tensor { 1, nan, inf }
    assert.is_false(x:allclose(x))
    assert.is_true(x:allclose(x, { equal_nan = true }))
    assert.is_false(x:equal(x))
    assert.is_true(mrt.ones(2):equal(mrt.ones(2)))
    assert.is_false(mrt.ones(2):equal(mrt.ones(1, 2)))
    assert.is_true(mrt.ones(0):allclose(mrt.ones(0)))
    assert.is_true(mrt.tensor { 1, 2 }:equal(mrt.tensor { 1.0, 2.0 }))
    refused("0 or more wanted", x.allclose, x, x, -1)
    refused("a tensor wanted", x.equal, x, 1)
    local step = mrt.compile(function(a) return a * (a:allclose(a) and 1 or 2) end)
    refused("isclose(..):all()", step, mrt.ones(2))
  end)

  it("round to decimals, half to even", function()
    local x = mrt.tensor({ 1.25, -1.375, 125, 15 }, "f64")
    assert.same({ 1.2, -1.4, 125, 15 }, x:round(1):totable())
    assert.same({ 0, -0.0, 120, 20 }, x:round { decimals = -1 }:totable())
    refused("floats wanted", function() return mrt.tensor { 1 }:round(1) end)
    refused("an integer wanted", x.round, x, 0.5)
  end)

  it("bound by tensors and numbers", function()
    local x = mrt.tensor { -2, 0.5, 3, nan }
    assert.same({ -1, 0.5, 2 }, x:clamp(-1, 2):slice(1, 1, 3):totable())
    assert.same({ -2, 0.5, 1 }, x:clamp { max = mrt.tensor { 1.0 } }:slice(1, 1, 3):totable())
    assert.same({ 1, 1, 1 }, x:clamp(2, 1):slice(1, 1, 3):totable())
    assert.is_true(x:clamp(nan, 1):isnan():all():item())
    assert.is_true(x:clamp(-1, 2)[4]:isnan():item())
    local big = mrt.tensor { math.maxinteger, 5 }
    assert.same({ math.maxinteger - 1, 5 }, big:clamp(nil, math.maxinteger - 1):totable())
    refused("got neither", x.clamp, x)
    assert.same({ 1, 1, 0 }, mrt.grad(x:clamp(-2, 2):sum(), x):slice(1, 1, 3):totable())
    assert.same({ 0, 1, 0 }, mrt.grad(x:hardtanh(-2, 2):sum(), x):slice(1, 1, 3):totable())
  end)

  it("give gradients that are numbers where others give NaN", function()
    local zero = mrt.tensor { 0., 0. }
    for _, f in ipairs {
      function(x) return x:atan2(zero) end, function(x) return x:hypot(zero) end,
      function(x) return zero:xlogy(x) end, function(x) return x:xlogy(zero) end,
      function(x) return (x * 1e30):asinh() end, function(x) return (x + 1e30):elu() end,
      function(x) return (x - 1e30):mish() end, function(x) return (x - 1e30):softsign() end,
      function(x) return x:sinc() end, function(x) return (x + inf):logaddexp(zero + inf) end,
      function(x) return (x + 1e30):celu(0.5) end, function(x) return (x + 200):selu() end,
    } do
      local x = mrt.zeros(2)
      local dx = mrt.grad(f(x):sum(), x)
      assert.is_true(dx:isfinite():all():item())
      assert.is_true(mrt.grad(dx:sum(), x, { allow_unused = true }):isfinite():all():item())
    end
  end)

  it("refuse what they cannot do", function()
    local x, ids = mrt.ones(2, 3), mrt.tensor { 1, 2 }
    refused("an even one wanted", x.glu, x)
    refused("at least 1 dimension", function() return mrt.tensor(1.0):glu() end)
    refused("1 or 3 numbers wanted", x.prelu, x, mrt.ones(2))
    refused("another number wanted", x.celu, x, 0)
    refused("another number wanted", x.softplus, x, 0)
    refused("'trunc' or 'floor'", x.div, x, 2, "up")
    refused("must not exceed", x.rrelu, x, 1, 0.5)
    refused("integers have no rest", ids.fmod, ids, 0)
    refused("a positive integer wanted", x.mvlgamma, x, 0)
    refused("0 to 20", x.polygamma, x, 21)
    refused("numbers wanted", function() return mrt.tensor({ true }):positive() end)
    refused("i64", ids.leaky_relu, ids)
    assert.is_false(pcall(function() mrt.eval(ids:fmod(mrt.tensor { 0, 1 })) end))
  end)

  it("draw only where they are random", function()
    mrt.seed(3)
    local x = mrt.full({ 4, 100 }, -1)
    local y = x:rrelu { training = true }
    assert.is_true((y:ge(-1 / 3 - 1e-6):all() & y:le(-1 / 8):all()):item())
    assert.is_true(y:std():item() > 0.01)
    local soft, hard = x:gumbel_softmax(0.5), x:gumbel_softmax { hard = true, dim = 1 }
    assert.is_true(soft:sum(-1):allclose(mrt.ones(4)))
    assert.is_true(hard:sum(1):equal(mrt.ones(100)))
    assert.is_true(hard:amax():item() == 1 and hard:amin():item() == 0)
    local v = mrt.randn(4, 5)
    assert.is_true(mrt.grad((v:gumbel_softmax { hard = true } * mrt.randn(4, 5)):sum(), v)
      :abs():sum():item() > 0)
  end)
end)

describe("activations as layers", function()
  local nn = mrt.nn

  it("compute what the methods do", function()
    local x = mrt.randn(3, 4) * 3
    for layer, y in pairs {
      [nn.ReLU6()] = x:relu6(), [nn.LeakyReLU(0.2)] = x:leaky_relu(0.2),
      [nn.ELU { alpha = 0.5 }] = x:elu(0.5), [nn.SELU()] = x:selu(), [nn.CELU(2)] = x:celu(2),
      [nn.GELU { approximate = "tanh" }] = x:gelu { approximate = "tanh" },
      [nn.GELU "tanh"] = x:gelu { approximate = "tanh" }, [nn.Mish()] = x:mish(),
      [nn.GLU(1)] = mrt.cat({ x, x }, 1):glu(1), [nn.Softplus(2, 1)] = x:softplus(2, 1),
      [nn.Hardtanh(-2, 0.5)] = x:hardtanh(-2, 0.5), [nn.Threshold(0.5, 3)] = x:threshold(0.5, 3),
      [nn.Softmax(2)] = x:softmax(2), [nn.LogSoftmax { dim = 1 }] = x:log_softmax(1),
      [nn.Softmin(-1)] = (-x):softmax(-1), [nn.Identity(4, { any = "thing" })] = x,
      [nn.Softshrink(1)] = x:softshrink(1), [nn.Hardshrink()] = x:hardshrink(),
      [nn.Tanhshrink()] = x:tanhshrink(), [nn.LogSigmoid()] = x:logsigmoid(),
      [nn.Softsign()] = x:softsign(), [nn.Hardswish()] = x:hardswish(),
      [nn.Hardsigmoid()] = x:hardsigmoid(),
    } do
      local given = layer.type == "GLU" and mrt.cat({ x, x }, 1) or x
      assert.is_true(layer(given):equal(y), layer.type)
    end
  end)

  it("train slopes, and draw them while they train", function()
    local x = mrt.randn(3, 4, 5)
    local one, many = nn.PReLU(), nn.PReLU(4, 0.1)
    assert.is_true(one(x):equal(x:leaky_relu(0.25)))
    assert.is_true(many(x):equal(x:leaky_relu(0.1)))
    assert.same({ 4 }, mrt.grad(many(x):sum(), many.weight).shape)
    assert.equal(1, #many:parameters())
    local random = nn.RReLU(0.1, 0.3)
    assert.is_false(random(x):equal(x:leaky_relu(0.2)))
    random:eval()
    assert.is_true(random(x):allclose(x:leaky_relu(0.2)))
  end)

  it("refuse options that they have not", function()
    refused("no option 'inplace'", nn.LeakyReLU, { inplace = true })
    refused("a number wanted", nn.ELU, "x")
    refused("dim", nn.Softmax)
    refused("Threshold", nn.Threshold, 1)
    refused("num_parameters", nn.PReLU, 0)
    refused("Mish", nn.Mish(), 3)
  end)
end)
