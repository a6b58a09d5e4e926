--- fuse_spec.lua -- pointwise operators and reductions in one pass: which, and that no bit
-- is another
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

-- How often each operator runs, by its label.
local function labels(step, ...)
  local count = {}
  for _, s in ipairs(step:plan(...):steps()) do count[s.op] = (count[s.op] or 0) + 1 end
  return count
end

local function bytes(list)
  mrt.eval(table.unpack(list))
  local out = {}
  for i, t in ipairs(list) do out[i] = t:bytes() end
  return table.concat(out)
end

describe("fusing", function()
  it("has a gradient wait for nothing where it may run at once", function()
    mrt.seed(1)
    local x, up, gate, down = mrt.randn(40, 64), mrt.parameter(mrt.randn(96, 64)),
      mrt.parameter(mrt.randn(96, 64)), mrt.parameter(mrt.randn(64, 96))
    local function f(a)
      local y = (a:linear(gate):silu() * a:linear(up)):linear(down)
      return table.unpack(mrt.grad((y ^ 2):sum(), { gate, up, down, a }))
    end
    local fused, plain = mrt.compile(f), mrt.compile(f, { fuse = false })
    local count = labels(fused, x)
    for label in pairs(count) do
      if label:find "silu_grad" then assert.matches("%+silu_grad", label) end
    end
    assert.is_true(fused:plan(x).peak <= plain:plan(x).peak)
    assert.equal(bytes { plain(x) }, bytes { fused(x) })
  end)

  -- Two products, which would have to be kept for their sum to wait for what comes later.
  local function sum_of_products(a, v)
    return a:matmul(v) + (a * 0.5):matmul(v)
  end

  it("reads a variable as it is where that is written", function()
    local w = mrt.parameter(mrt.ones(8, 8))
    local v, x = mrt.ones(8, 8), mrt.ones(8, 8)
    local function f(a)
      local y = sum_of_products(a, v)                    -- 12, read once
      local z, old = a:matmul(v):exp():matmul(v), w:t()
      w:assign(w + z * 0 + 1)
      return y * w, sum_of_products(a, v) * old
    end
    local new, old = mrt.compile(f)(x)
    assert.same({ 12 * 2, 12 }, { new[{ 1, 1 }]:item(), old[{ 1, 1 }]:item() })
  end)

  it("hurries nothing whose inputs come later", function()
    mrt.seed(2)
    local x, v = mrt.randn(30, 30), mrt.randn(30, 30)
    local function f(a)
      local y = sum_of_products(a, v)
      local late = (a:matmul(v) * 0.1):tanh():matmul(v)
      return (y * late):matmul(v)
    end
    local fused, plain = mrt.compile(f), mrt.compile(f, { fuse = false, order = "program" })
    assert.equal(bytes { plain(x) }, bytes { fused(x) })
  end)
end)

describe("a reduction of a chain", function()
  local function fused_and_plain(f, o)
    local plain = { fuse = false }
    for k, v in pairs(o or {}) do plain[k] = v end
    return mrt.compile(f, o), mrt.compile(f, plain)
  end

  it("never has what it joins in memory", function()
    local x, y = mrt.eval(mrt.randn(300, 200)), mrt.eval(mrt.randn(300, 200))
    local function f(a, b) return ((a - b):square() * 0.5):mean() end
    local fused, plain = fused_and_plain(f)
    assert.equal(1, labels(fused, x, y)["sub+mul+mul+sum"])
    assert.is_true(fused:plan(x, y).transient < 4096)
    assert.is_true(plain:plan(x, y).transient >= 300 * 200 * 4)
    assert.equal(bytes { plain(x, y) }, bytes { fused(x, y) })
  end)

  local function count_of(step, pattern, ...)
    local n = 0
    for label, count in pairs(labels(step, ...)) do
      n = n + (label:find(pattern) and count or 0)
    end
    return n
  end

  it("is apart where somebody else has what it joins", function()
    local x = mrt.eval(mrt.randn(20, 30))
    local cases = {
      function(a) local y = a * 2 return y, y:sum() end,
      function(a) local y = a:exp() return y:sum(), y:amax(1) end,
      function(a) local y = a:exp() return (y + 1):sum(), y:t():contiguous() end,
      function(a) return a:to("bf16"):exp():sum() end,
      function(a) return a:gt(0):sum() end,
    }
    for i, f in ipairs(cases) do
      local fused, plain = fused_and_plain(f)
      assert.equal(0, count_of(fused, "%+[sa][um][ma]x?$", x), "case " .. i)
      assert.equal(bytes { plain(x) }, bytes { fused(x) })
    end
  end)

  it("reads a variable before it is written", function()
    local w, x = mrt.parameter(mrt.ones(6, 6)), mrt.ones(6, 6)
    local function f(a)
      local scaled = w * 3
      w:assign(w + a:matmul(a))
      return scaled:sum(), w:sum()
    end
    local step = mrt.compile(f)
    local before, after = step(x)
    assert.same({ 36 * 3, 36 * 7 }, { before:item(), after:item() })
    assert.is_nil(labels(step, x).copy) -- nothing waits so long that it had to be saved
  end)

  local pointwise = {
    function(a, b) return a * b end, function(a, b) return a - b end,
    function(a, b) return mrt.maximum(a, b) end, function(a) return a:square() + 0.25 end,
    function(a) return a:tanh() end, function(a, b) return mrt.where(a:gt(b), a, b * 0.5) end,
    function(a) return a:to("bf16"):to "f32" end, function(a) return a:abs():sqrt() end,
  }
  local kinds = { "sum", "prod", "amax", "amin", "mean" }

  -- A shape, what broadcasts to it, and dimensions to reduce.
  local function draw(random)
    local sizes <const> = { 1, 2, 3, 5, 8, 17, 64, 130, 700 }
    local shape, other, dims = {}, {}, {}
    for i = 1, random(3) do
      shape[i] = sizes[random(#sizes - (i > 1 and 2 or 0))]
      other[i] = random(3) == 1 and 1 or shape[i]
      if random(2) == 1 then dims[#dims + 1] = i end
    end
    if #dims == 0 then dims[1] = random(#shape) end
    return shape, other, dims
  end

  local function program(random, dims)
    local steps, kind, keepdim = {}, kinds[random(#kinds)], random(2) == 1
    for i = 1, random(6) do steps[i] = pointwise[random(#pointwise)] end
    return function(a, b)
      local y = a + b
      for _, step in ipairs(steps) do y = step(y, b) end
      local z = y[kind](y, dims, { keepdim = keepdim })
      if keepdim then z = (a * z):sum(dims) end
      return z
    end
  end

  -- NaN is NaN, whatever its sign.
  local function numbers(z)
    local known = z:eq(z)
    return bytes { known, mrt.where(known, z, 0) }
  end

  it("has the bits of one that reads them from memory", function()
    local seed, joined = 20261127, 0
    math.randomseed(seed)
    for i = 1, 150 do
      local shape, other, dims = draw(math.random)
      local dtype = i % 5 == 0 and "f64" or "f32"
      local x = mrt.randn(shape):to(dtype)
      local y = mrt.randn(other):to(dtype)
      if i % 7 == 0 then x = mrt.where(x:gt(1.5), 0 / 0, x) end
      mrt.eval(x, y)
      local fused, plain = fused_and_plain(program(math.random, dims))
      assert.equal(numbers(plain(x, y)), numbers(fused(x, y)),
        ("seed %d, case %d: %s over %s"):format(seed, i, x:type(), table.concat(dims, ",")))
      if count_of(fused, "%+%l+$", x, y) > 0 then joined = joined + 1 end
    end
    assert.is_true(joined > 100)
  end)

  -- Weights after three steps of a loss with such reductions, the losses, and the plan.
  local function trained(o)
    mrt.seed(5)
    local nn = mrt.nn
    local net = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(),
      nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 6))
    local opt = mrt.optim.adamw(net:parameters(), { lr = 0.01 })
    local step = mrt.compile(function(x, y)
      local loss = (net(x) - y):square():mean()
      for _, p in ipairs(net:parameters()) do loss = loss + 1e-3 * (p * p):sum() end
      opt:step(mrt.grad(loss, net:parameters()))
      return loss
    end, o)
    local x, y = mrt.eval(mrt.randn(480, 12), mrt.randn(480, 6))
    local losses = {}
    for i = 1, 3 do losses[i] = step(x, y) end
    local list = net:parameters()
    table.move(losses, 1, 3, #list + 1, list)
    return bytes(list), step:plan(x, y)
  end

  it("changes no bit beside other techniques", function()
    local policy = mrt.policy
    local base = select(2, trained {})
    local joined = 0
    for _, s in ipairs(base:steps()) do
      if s.op == "mul+sum" then joined = joined + 1 end
    end
    assert.equal(8, joined) -- of the weights' squares; the error's the gradient reads, too
    for i, o in ipairs {
      {}, { memory = base.peak * 9 // 10 }, { checkpoint = policy.checkpoint.sqrt() },
      { accumulate = 3 }, { precision = policy.precision.bf16() },
      { accumulate = 2, precision = policy.precision.bf16(),
        checkpoint = policy.checkpoint.sqrt() },
      { accumulate = 4, memory = base.peak },
    } do
      local plain = { fuse = false }
      for k, v in pairs(o) do if k ~= "memory" then plain[k] = v end end
      assert.equal((trained(plain)), (trained(o)), "case " .. i)
    end
  end)
end)
