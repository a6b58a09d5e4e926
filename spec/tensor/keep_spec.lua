--- keep_spec.lua -- what an evaluation passes through and a program holds is kept
local mrt = require "mrt"
local core = require "mrt.core"

local function steps(f)
  local before = core.info().steps
  f()
  return core.info().steps - before
end

local function collect()
  collectgarbage()
  collectgarbage()
end

local function bytes(f)
  collect()
  local before = mrt.memory().now
  f()
  collect()
  return mrt.memory().now - before
end

-- n steps of descent on a line, written without mrt.compile, variables or assign.
local function descend(n)
  local x, y = mrt.randn(16, 4), mrt.randn(16, 1)
  mrt.eval(x, y)
  local w, loss = mrt.zeros(4, 1), nil
  for _ = 1, n do
    local error = x:matmul(w) - y
    loss = (error * error):mean()
    w = w - 0.1 * mrt.grad(loss, w)
    loss:item()
  end
  return loss:item()
end

describe("what is evaluated on the way", function()
  it("is computed once, however often it is used", function()
    local x = mrt.randn(8, 8)
    mrt.eval(x)
    local y = x:matmul(x):matmul(x)
    local first = steps(function() y:sum():item() end)
    local second = steps(function() y:sum():item() end)
    local third = steps(function() y:mean():item() end)
    assert.is_true(first >= 3 and second < first and third <= second + 1,
      ("%d, %d, %d"):format(first, second, third))
  end)

  it("is computed twice at most where it is pointwise, and fused the first time", function()
    local x = mrt.randn(8)
    mrt.eval(x)
    local y = (x * 2):tanh():exp()
    collect()
    local function sum() y:sum():item() end
    local first, _, third = steps(sum), steps(sum), steps(sum)
    assert.is_true(third <= first, ("%d, %d"):format(first, third))
    local z
    assert.equal(0, bytes(function() z = y:exp():exp() z:sum():item() end))
    assert.equal(64, bytes(function() z:sum():item() end)) -- aligned
  end)

  it("lives as long as its handle", function()
    local x = mrt.randn(64, 64)
    mrt.eval(x)
    local y
    assert.equal(64 * 64 * 4, bytes(function()
      y = x:matmul(x)
      y:sum():item()
    end))
    assert.equal(-64 * 64 * 4, bytes(function() y = nil end))
    assert.is_nil(y)
  end)

  it("is not kept where there is no room, and the result is the same", function()
    local x = mrt.randn(64, 64)
    mrt.eval(x)
    local function chain()
      local list = { x }
      for i = 2, 7 do list[i] = list[i - 1]:matmul(x) end
      return list, list[7]:sum()
    end
    local wanted = select(2, chain()):item()
    finally(function() core.set_budget(0) end)
    local kept = {}
    for budget = 65536, 524288, 8192 do
      local list, sum = chain()
      collect()
      local before = mrt.memory().now
      core.set_budget(budget)
      local ok, got = pcall(sum.item, sum)
      core.set_budget(0)
      collect()
      if ok then
        assert.equal(wanted, got)
        kept[#kept + 1] = mrt.memory().now - before
      end
      assert.equal(7, #list)
    end
    assert.equal(64, kept[1]) -- the sum
    assert.equal(6 * 64 * 64 * 4 + 64, kept[#kept])
  end)

  it("makes descent line by line linear in its steps", function()
    -- How much is fused depends on which handles the collector has left.
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    local function work(n) return steps(function() descend(n) end) end
    work(3)
    local ten, twenty, forty = work(10), work(20), work(40)
    -- But for what is fused with the ends.
    assert(math.abs(2 * (twenty - ten) - (forty - twenty)) <= 4)
  end)

  it("gives the gradient of what is older than nothing asked for", function()
    local a = mrt.full({ 2 }, 3)
    local old = a * a
    local w = mrt.full({ 2 }, 5)
    local y = (old * w):sum()
    assert.same({ 9, 9 }, mrt.grad(y, w):totable())
    local da, dw = table.unpack(mrt.grad(y, { a, w }))
    assert.same({ { 30, 30 }, { 9, 9 } }, { da:totable(), dw:totable() })
    assert.same({ 5, 5 }, mrt.grad(y, old):totable())
  end)

  it("has the bits of a program that keeps nothing", function()
    mrt.seed(3)
    local once = descend(25)
    mrt.seed(3)
    local x, y = mrt.randn(16, 4), mrt.randn(16, 1)
    local w, loss = mrt.variable(mrt.zeros(4, 1)), nil
    local step = mrt.compile(function(a, b)
      local error = a:matmul(w) - b
      local l = (error * error):mean()
      w:assign(w - 0.1 * mrt.grad(l, w))
      return l
    end)
    for _ = 1, 25 do loss = step(x, y) end
    assert.equal(loss:item(), once)
  end)
end)
