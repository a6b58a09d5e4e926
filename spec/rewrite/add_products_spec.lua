-- add_products_spec.lua -- products are added to sums where these lie, and no bit changes
local mrt = require "mrt"
local core = require "mrt.core"

local count = require("support.steps").count

describe("sums of products", function()
  local a, b = {}, {}
  mrt.seed(3)
  for i, terms in ipairs { 100, 200, 300, 384, 385 } do
    a[i], b[i] = mrt.randn(480, terms), mrt.randn(terms, 960) -- more than kernels work in
  end

  local function sum(last)
    local y = a[1]:matmul(b[1])
    for i = 2, last or 4 do y = y + a[i]:matmul(b[i]) end
    return y:sum(1)
  end

  it("take the memory of one, with the bits of products and additions", function()
    local apart = mrt.compile(function() return sum() end, { add_products = false })
    local inside = mrt.compile(function() return sum() end)
    assert.equal(0, count(apart:plan(), "matmul_add"))
    assert.equal(3, count(inside:plan(), "matmul_add"))
    assert.same(apart():totable(), inside():totable())
    assert.is_true(inside:plan().lower_bound < apart:plan().lower_bound)
  end)

  it("leave what is no whole before it is added", function()
    local all = mrt.compile(function() return sum(5) end)
    assert.equal(3, count(all:plan(), "matmul_add"))
    assert.same(mrt.compile(function() return sum(5) end, { add_products = false })():totable(),
      all():totable())
  end)

  it("take factors of bf16, and any number of terms, where products have epilogues", function()
    local device = mrt.device.current()
    device.epilogues = true
    finally(function() core.set_device() end)
    local w, v = mrt.parameter(mrt.randn(96, 96) * 0.1), mrt.eval(mrt.randn(500, 96))
    local x = mrt.eval(mrt.randn(500, 96))
    local function gradient(add_products)
      local step = mrt.compile(function(given)
        local y = given
        for _ = 1, 4 do y = y:linear(w):tanh() end
        return mrt.grad((y * v):sum(), { w })[1]
      end, { precision = mrt.policy.precision.bf16(), add_products = add_products })
      return count(step:plan(x), "matmul_add"), step(x):bytes()
    end
    assert.equal(0, (gradient())) -- not otherwise
    core.set_device(device)
    local added, inside = gradient()
    local none, apart = gradient(false)
    assert.same({ 2, 0 }, { added, none }) -- one product rounds the f32 argument itself
    assert.is_true(inside == apart)
  end)

  it("leave what others read", function()
    local plan = mrt.compile(function()
      local x, y = a[1]:matmul(b[1]), a[2]:matmul(b[2])
      return x + y, x, y
    end):plan()
    assert.equal(0, count(plan, "matmul_add"))
  end)

  it("take the rows of a table's gradient, with the bits of both", function()
    local table, ids = mrt.randn(300, 70), mrt.randint(0, 300, 20, { dtype = "i64" })
    local x = mrt.randn(20, 70)
    local function gradient()
      local rows = table:embedding(ids)
      return mrt.grad(((rows * x):linear(table) ^ 2):sum(), { table })[1]
    end
    local apart = mrt.compile(gradient, { add_products = false })
    local inside = mrt.compile(gradient)
    assert.equal(0, count(apart:plan(), "embedding_add"))
    assert.equal(1, count(inside:plan(), "embedding_add"))
    assert.equal(0, count(inside:plan(), "embedding_grad"))
    assert.same(apart():totable(), inside():totable())
    assert.is_true(inside:plan().lower_bound < apart:plan().lower_bound)
  end)

  it("leave rows that are more than the table", function()
    local table, ids = mrt.randn(30, 70), mrt.randint(0, 30, 90, { dtype = "i64" })
    local plan = mrt.compile(function()
      local rows = table:embedding(ids)
      return mrt.grad((rows:linear(table) ^ 2):sum(), { table })[1]
    end):plan()
    assert.equal(0, count(plan, "embedding_add"))
  end)
end)
