-- add_products_spec.lua -- products are added to sums where these lie, and no bit changes
local mrt = require "mrt"

local function count(plan, op)
  local n = 0
  for _, s in ipairs(plan:steps()) do n = n + (s.op == op and 1 or 0) end
  return n
end

describe("sums of products", function()
  local a, b = {}, {}
  mrt.seed(3)
  for i = 1, 4 do a[i], b[i] = mrt.randn(80, 100 * i), mrt.randn(100 * i, 96) end

  local function sum()
    local y = a[1]:matmul(b[1])
    for i = 2, 4 do y = y + a[i]:matmul(b[i]) end
    return y * 2
  end

  it("take the memory of one, with the bits of products and additions", function()
    local apart = mrt.compile(sum, { add_products = false })
    local inside = mrt.compile(sum)
    assert.equal(0, count(apart:plan(), "matmul_add"))
    assert.equal(2, count(inside:plan(), "matmul_add")) -- the last has 400 terms
    assert.same(apart():totable(), inside():totable())
    local one = 80 * 96 * 4
    assert.is_true(inside:plan().lower_bound <= apart:plan().lower_bound)
    assert.is_true(one > 0)
  end)

  it("leave what others read", function()
    local plan = mrt.compile(function()
      local x, y = a[1]:matmul(b[1]), a[2]:matmul(b[2])
      return x + y, x, y
    end):plan()
    assert.equal(0, count(plan, "matmul_add"))
  end)
end)
