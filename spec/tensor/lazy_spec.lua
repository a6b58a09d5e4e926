--- lazy_spec.lua -- laziness is invisible: results are as if each line had run
local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"
local random_program = require "support.random_program"

local function ones(n)
  return mrt.variable(mrt.full({ n or 2 }, 1))
end

-- Nothing but what is returned stays alive.
local function alone(f)
  local t = f()
  collectgarbage()
  collectgarbage()
  return t
end

describe("laziness", function()
  it("keeps what a pending value reads from a compiled update", function()
    local w = ones()
    local y = w * 2
    mrt.compile(function() w:assign(w + 10) end)()
    assert.are.same({ 2, 2 }, y:totable())
  end)

  it("refuses a gradient through what a compiled step has overwritten", function()
    local w = ones()
    local y = (w * w):sum()
    mrt.eval(y)
    mrt.compile(function() w:assign(w + 10) end)()
    assert.has_error(function() mrt.grad(y, w) end)
  end)

  it("lets a variable start as another was", function()
    local w = ones()
    local v = mrt.variable(w)
    w:assign(w * 5)
    assert.are.same({ 1, 1 }, v:totable())
  end)

  it("does not compute what a trace has left behind", function()
    local w, left = ones(), nil
    local step = mrt.compile(function(x)
      left = x * w
      return left:sum()
    end)
    step(mrt.full({ 2 }, 1))
    w:assign(w * 5)
    assert.are.equal(10, step(mrt.full({ 2 }, 1)):item())
    assert.has_error(function() left:totable() end)
  end)

  it("takes gradients after a print, and updates one variable after the other", function()
    local a, b = ones(), ones()
    local loss = alone(function()
      return (((a * 2):tanh() * b):tanh()):sum()
    end)
    loss:item()
    local da, db = table.unpack(mrt.grad(loss, { a, b }))
    a:assign(a - da)
    b:assign(b - db)
    local function tanh(x) return (math.exp(2 * x) - 1) / (math.exp(2 * x) + 1) end
    local h = tanh(2)
    local t = tanh(h)
    assert.is_true(math.abs(b:totable()[1] - (1 - (1 - t * t) * h)) < 1e-5)
  end)

  it("draws random numbers under the seed of their line", function()
    mrt.seed(1)
    local now = mrt.randn(3):totable()
    mrt.seed(1)
    local later = mrt.randn(3)
    mrt.seed(9)
    assert.are.same(now, later:totable())
    local x = ones(50)
    local y = alone(function() return (x:dropout(0.5) * x):sum() end)
    local kept = y:item()
    mrt.seed(77)
    assert.are.equal(2 * kept, mrt.grad(y, x):sum():item())
  end)

  it("keeps the constants of a plan when nobody else does", function()
    local step = alone(function()
      local c = ones(3) + 2
      local made = mrt.compile(function() return c + 1 end)
      made()
      c = nil -- luacheck: ignore
      return made
    end)
    assert.are.same({ 4, 4, 4 }, step():totable())
  end)

  it("lets a custom gradient evaluate and differentiate", function()
    local x = ones(3)
    local y = (x * 2):exp()
    local square = mrt.custom {
      forward = function(t) return t * t end,
      backward = function(dy, t)
        assert(y:sum():item() > 22)
        return dy * mrt.grad((t * t):sum(), t)
      end,
    }
    local loss = (square(y) + y):sum()
    local e = math.exp(2)
    local got = mrt.grad(loss, x):totable()[1]
    assert.is_true(math.abs(got - (4 * e * e + 2 * e)) < 1e-3)
  end)

  it("changes nothing when an index is bad, updates before the check included", function()
    local w, count = mrt.variable(mrt.full({ 4, 3 }, 1)), ones()
    local step = mrt.compile(function(ids)
      count:assign(count + 1)
      return w:embedding(ids):sum() + (count * 2):sum()
    end)
    assert.has_error(function() step(mrt.tensor({ 0, 9 }, "i64")) end)
    assert.are.same({ 1, 1 }, count:totable())
    assert.are.equal(14, step(mrt.tensor({ 0, 1 }, "i64")):item())
  end)

  it("starts a long chain of variables", function()
    local v = ones()
    for _ = 1, 20000 do
      v = mrt.variable(v + 1)
    end
    assert.are.same({ 20001, 20001 }, v:totable())
  end)

  it("gives the bits of evaluating each line, for random programs", function()
    local plans = { {}, { fuse = false }, { inplace = false },
      { cse = false, fold = false, dce = false, simplify = false } }
    core.set_poison(true)
    for seed = 1, tonumber(os.getenv "MRT_SPEC_GRAPHS") or 60 do
      local random = random_graph.generator(seed)
      local ok, err = pcall(random_program.run, random, plans[seed % #plans + 1])
      assert(ok, ("seed %d: %s"):format(seed, tostring(err)))
    end
    core.set_poison(false)
  end)
end)
