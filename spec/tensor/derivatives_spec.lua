--- derivatives_spec.lua -- jacobian, hessian, jvp and hvp against what they are
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random = require "mrt.data.random"
local ranks = require "support.ranks"

local nn, policy = mrt.nn, mrt.policy

local function near(wanted, got, tolerance, what)
  assert.same(wanted.shape, got.shape)
  if wanted:numel() == 0 then return end
  local difference = (wanted - got):abs():amax():item()
  local size = math.max(1, wanted:abs():amax():item())
  assert(difference <= tolerance * size,
    ("%s differs by %g of %g"):format(what or "it", difference, size))
end

local function f64(...) return mrt.eval(mrt.randn(...):to "f64") end

-- dy / dx by central differences: one row for each element of x, turned.
local function differences(f, x, step)
  local rows, flat = {}, x:reshape(-1)
  for k = 1, x:numel() do
    local e = mrt.arange(x:numel()):eq(k - 1):to "f64" * step
    local function at(d) return f((flat + d):reshape(x.shape)):reshape(-1) end
    rows[k] = (at(e) - at(-e)) / (2 * step)
  end
  return mrt.eval(mrt.stack(rows, 2))
end

-- Functions of f64[3,4], smooth ones, that a program is drawn from.
local weights
local parts = {
  function(x) return x:tanh() end,
  function(x) return (x * 0.3):exp() - x end,
  function(x) return x:t():reshape(3, 4) * 0.7 end,
  function(x) return x:softmax(2) end,
  function(x) return x:layer_norm() + 0.1 * x end,
  function(x) return x:gelu() end,
  function(x) return x:linear(weights[1], weights[2]):silu() end,
  function(x) return x:matmul(x:t()):matmul(x) * 0.1 end,
  function(x) return mrt.cat({ x:slice(1, 2, 3), x:slice(1, 1, 1):square() }, 1) end,
  function(x) return x / (1 + x:square():sum(2, true)):sqrt() end,
  function(x) return x:cumsum(2) * 0.5 end,
  function(x) return (x:square() + 1):log() + x:mean(1, true) end,
  function(x) return mrt.where(x:gt(0), x, x:sin()) end,
  function(x) return x:reshape(1, 1, 3, 4):conv2d(weights[3], { padding = 1 }):reshape(3, 4) end,
  function(x) return x:reshape(1, 4, 3, 1):attention(x:reshape(1, 4, 3, 1) + 1,
    x:reshape(1, 4, 3, 1), { causal = true }):reshape(3, 4) end,
}

local function program(draw)
  local chosen = {}
  for i = 1, 1 + draw:integer(4) do chosen[i] = parts[draw:integer(#parts) + 1] end
  return function(x)
    for _, part in ipairs(chosen) do x = part(x) end
    return x
  end
end

describe("of random programs", function()
  setup(function()
    mrt.seed(7)
    weights = { f64(4, 4), f64(4), f64(1, 1, 3, 3) }
  end)

  it("jacobian and jvp are those of finite differences", function()
    local draw = random.new(5)
    for round = 1, 25 do
      local f, x, v = program(draw), f64(3, 4), f64(3, 4)
      local wanted = differences(f, x, 1e-5):reshape(3, 4, 3, 4)
      local jacobian = mrt.jacobian(f, x)
      near(wanted, jacobian, 1e-7, "jacobian " .. round)
      near(jacobian, mrt.jacobian(f, x, { mode = "forward" }), 1e-12, "forward " .. round)
      local y, dy = mrt.jvp(f, x, v)
      near(f(x), y, 0)
      near((jacobian * v):sum({ 3, 4 }), dy, 1e-12, "jvp " .. round)
    end
  end)

  it("hessian and hvp are differences of gradients, and symmetric", function()
    local draw = random.new(6)
    for round = 1, 25 do
      local g, c, x, v = program(draw), f64(3, 4), f64(3, 4), f64(3, 4)
      local function f(a) return (g(a) * c):sum() end
      local wanted = differences(function(a) return mrt.grad(f(a), a, { allow_unused = true }) end,
        x, 1e-5):reshape(3, 4, 3, 4)
      local hessian = mrt.hessian(f, x)
      near(wanted, hessian, 1e-6, "hessian " .. round)
      near(hessian, hessian:permute { 3, 4, 1, 2 }, 1e-12, "turned " .. round)
      local y, hv = mrt.hvp(f, x, v)
      assert.equal(f(x):item(), y:item())
      near((hessian * v):sum({ 3, 4 }), hv, 1e-12, "hvp " .. round)
    end
  end)

  it("all are the same bits in a compiled function, within a budget too", function()
    local draw = random.new(8)
    for _ = 1, 6 do
      local g, x, v = program(draw), mrt.eval(mrt.randn(3, 4)), mrt.eval(mrt.randn(3, 4))
      weights = { mrt.eval(mrt.randn(4, 4), mrt.randn(4), mrt.randn(1, 1, 3, 3)) }
      local function all(a, b)
        local function f(t) return g(t):square():sum() end
        return mrt.jacobian(g, a), select(2, mrt.jvp(g, a, b)), mrt.hessian(f, a),
          select(2, mrt.hvp(f, a, b))
      end
      local wanted = table.pack(all(x, v))
      local step = mrt.compile(all)
      local tight = mrt.compile(all, { memory = step:plan(x, v).peak,
        checkpoint = policy.checkpoint.all() })
      for _, run in ipairs { step, tight } do
        local got = table.pack(run(x, v))
        for i = 1, 4 do assert(wanted[i]:bytes() == got[i]:bytes(), "result " .. i) end
      end
    end
  end)
end)

describe("of functions that are known", function()
  it("a jacobian has the dimensions of y, then those of x", function()
    local w, x = f64(5, 3), f64(3)
    near(w, mrt.jacobian(function(a) return w:matmul(a:reshape(3, 1)):reshape(5) end, x), 0)
    local p = x:softmax(1)
    local wanted = mrt.where(mrt.arange(3):eq(mrt.arange(3):reshape(3, 1)), p, 0)
      - p:reshape(3, 1) * p
    near(wanted, mrt.jacobian(function(a) return a:softmax(1) end, x), 1e-14)
    assert.same({ 3 }, mrt.jacobian(function(a) return a:sum() end, x).shape)
    assert.same({ 0, 3 }, mrt.jacobian(function(a) return a:slice(1, 2, 1) end, x).shape)
    assert.same({ 2, 2, 3 }, mrt.jacobian(function(a)
      return mrt.stack { a:slice(1, 1, 2), a:slice(1, 2, 3) }
    end, x).shape)
  end)

  it("a hessian of several tensors has a block for each two", function()
    local a, x, y = f64(3, 2), f64(3), f64(2)
    local function f(u, w)
      return (u:reshape(1, 3):matmul(a):reshape(2) * w):sum() + (w ^ 3):sum()
    end
    local h = mrt.hessian(f, { x, y })
    near(mrt.zeros(3, 3):to "f64", h[1][1], 0)
    near(a, h[1][2], 1e-14)
    near(a:t(), h[2][1], 1e-14)
    near(mrt.where(mrt.arange(2):eq(mrt.arange(2):reshape(2, 1)), 6 * y, 0), h[2][2], 1e-14)
    local v = { f64(3), f64(2) }
    local _, hv = mrt.hvp(f, { x, y }, v)
    near(a:matmul(v[2]:reshape(2, 1)):reshape(3), hv[1], 1e-14)
    near(a:t():matmul(v[1]:reshape(3, 1)):reshape(2) + 6 * y * v[2], hv[2], 1e-14)
  end)

  it("what comes out can be differentiated again", function()
    local x = f64(4)
    local function penalty(a)
      return mrt.jacobian(function(t) return (t:tanh() * t:sum()) end, a):square():sum()
    end
    near(differences(function(a) return penalty(a):reshape(1) end, x, 1e-5):reshape(4),
      mrt.grad(penalty(x), x), 1e-7)
    local third = mrt.jacobian(function(a)
      return mrt.hessian(function(t) return (t ^ 4):sum() end, a)
    end, x)
    assert.same({ 4, 4, 4 }, third.shape)
    near(24 * x, (third * mrt.ones(4, 4, 4):to "f64"):sum({ 1, 2 }), 1e-13)
  end)
end)

describe("of a model's parameters", function()
  local function setting()
    mrt.seed(1)
    local model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    local params, vs = model:parameters(), {}
    local x, y = mrt.eval(mrt.randn(8, 3), mrt.randn(8, 2))
    for i, p in ipairs(params) do vs[i] = mrt.eval(mrt.randn(p.shape)) end
    return model, params, vs, x, y
  end

  -- H v of a loss, as one list of numbers; the model is updated by it.
  local function run(o)
    local model, params, vs, x, y = setting()
    local step = mrt.compile(function(a, b)
      local _, hv = mrt.hvp(function() return nn.mse(model(a), b) end, params, vs)
      for i, p in ipairs(params) do p:assign(p - 0.1 * hv[i]) end
      return table.unpack(hv)
    end, o)
    local flat = {}
    for _, h in ipairs { step(x, y) } do flat[#flat + 1] = h:reshape(-1) end
    return mrt.cat(flat)
  end

  it("hvp takes micro-batches, budgets and narrow products", function()
    local wanted = run()
    near(wanted, run { accumulate = 2 }, 1e-5)
    near(wanted, run { accumulate = 3 }, 1e-5)
    near(wanted, run { checkpoint = policy.checkpoint.all() }, 0)
    near(wanted, run { precision = policy.precision.bf16() }, 0.02)
    near(wanted, run { accumulate = 4, precision = policy.precision.f16 { loss_scale = 64 } }, 5e-3)
  end)

  it("jvp is of the rows at hand", function()
    local model, params, vs, x, y = setting()
    local function make(o)
      return mrt.compile(function(a, b)
        local out, along = mrt.jvp(function() return model(a) end, params, vs)
        local loss = nn.mse(out, b)
        mrt.grad(loss, params)
        return along, loss
      end, o)
    end
    local wanted = make()(x, y)
    assert.same({ 8, 2 }, wanted.shape)
    near(wanted, (make { accumulate = 4 }(x, y)), 1e-6)
    near(wanted, (make { checkpoint = policy.checkpoint.all() }(x, y)), 0)
    near(select(2, mrt.jvp(function() return model(x) end, params, vs)), wanted, 0)
  end)

  it("hvp is that of all ranks' batches, however the parameters lie", function()
    local wanted = run()
    for _, how in ipairs { "ddp()", "zero(1)", "zero(2)", "fsdp()" } do
      local code = ([[
        mrt.seed(1)
        local model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        local params, vs = model:parameters(), {}
        local x, y = mrt.eval(mrt.randn(8, 3), mrt.randn(8, 2))
        for i, p in ipairs(params) do vs[i] = mrt.eval(mrt.randn(p.shape)) end
        local r = comm.rank
        x, y = x:slice(1, 4 * r + 1, 4 * r + 4), y:slice(1, 4 * r + 1, 4 * r + 4)
        local step = mrt.compile(function(a, b)
          local _, hv = mrt.hvp(function() return nn.mse(model(a), b) end, params, vs)
          return table.unpack(hv)
        end, { shard = policy.shard.%s })
        local out = {}
        for _, h in ipairs { step(x, y) } do
          for _, n in ipairs(h:reshape(-1):totable()) do out[#out + 1] = n end
        end
        return table.concat(out, " ")
      ]]):format(how)
      local numbers = {}
      for n in ranks.alike(2, code):gmatch "%S+" do numbers[#numbers + 1] = tonumber(n) end
      near(wanted, mrt.tensor(numbers, "f32"), 1e-5, how)
    end
  end)
end)

describe("they are refused with the line that asks", function()
  it("where arguments do not fit", function()
    local x = mrt.ones(3)
    local function id(a) return a end
    local nine = mrt.ones(1, 1, 1, 1, 1)
    for wanted, call in pairs {
      ["hvp: the function returned f32%[3%], a scalar wanted"] =
        function() return mrt.hvp(id, x, x) end,
      ["hessian: the function returned f32%[3%], a scalar wanted"] =
        function() return mrt.hessian(id, x) end,
      ["jvp: v is f32%[4%], the shape of x wanted, f32%[3%]"] =
        function() return mrt.jvp(id, x, mrt.ones(4)) end,
      ["jvp: v: a list of 2 tensors wanted, as x is"] =
        function() return mrt.jvp(id, { x, mrt.ones(3) }, x) end,
      ["jvp: v: a tensor wanted, as x is"] = function() return mrt.jvp(id, x, { x }) end,
      ["jacobian: x 1 and x 2 are the same tensor"] =
        function() return mrt.jacobian(id, { x, x }) end,
      ["jacobian: x is i64%[2%], floats wanted"] =
        function() return mrt.jacobian(id, mrt.ones(2):long()) end,
      ["jacobian: the function returned 2 values, one tensor wanted"] =
        function() return mrt.jacobian(function(a) return a, a end, x) end,
      ["jacobian: what the function returned is i64%[3%], floats wanted"] =
        function() return mrt.jacobian(function(a) return a:long() end, x) end,
      ["jacobian: option 'mode': \"reverse\" or \"forward\" wanted, got \"both\""] =
        function() return mrt.jacobian(id, x, { mode = "both" }) end,
      ["jacobian: .- has 10 dimensions, at most 8 wanted"] =
        function() return mrt.jacobian(id, nine) end,
      ["jacobian: a function or module wanted, got 3"] = function() return mrt.jacobian(3, x) end,
      ["does not lead to any output %(allow_unused = true gives zeros%)"] =
        function() return mrt.jacobian(function() return mrt.ones(2) end, x) end,
    } do
      local ok, err = pcall(call)
      assert.is_false(ok)
      assert.matches(wanted, tostring(err))
      assert.matches("^spec/tensor/derivatives_spec.lua:%d+: ", tostring(err))
    end
    near(mrt.zeros(2, 3), mrt.jacobian(function() return mrt.ones(2) end, x,
      { allow_unused = true }), 0)
  end)
end)
