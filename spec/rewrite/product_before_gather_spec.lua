-- product_before_gather_spec.lua -- products with rows of a small table: of the table first,
-- and gradients added up by its rows first
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require("support.bits").of

-- The largest product of a step's plan, in flop.
local function largest(step, ...)
  local most = 0
  for _, node in ipairs(step:plan(...):steps()) do
    if node.class == "matmul" then most = math.max(most, node.flops) end
  end
  return most
end

-- How rows move between the lookup of ids [4,6] and the product, and what else
-- reads them.
local ways = {
  straight = function(x) return x end,
  transposed = function(x) return x:transpose(1, 2) end,
  joined = function(x) return x:reshape(-1, x:size(-1)) end,
  both = function(x) return x:transpose(1, 2):reshape(3, 8, x:size(-1)) end,
  back = function(x) return x:reshape(24, 1, x:size(-1)):transpose(1, 2) end,
  last = function(x) return x:transpose(2, 3):reshape(-1, x:size(-1)) end, -- not rows
}

local function program(way, rows, biased)
  mrt.seed(3)
  local table_, w = mrt.randn(rows, 5, { dtype = "f64" }), mrt.randn(7, 5, { dtype = "f64" })
  local bias = biased and mrt.randn(7, { dtype = "f64" }) or nil
  local ids = mrt.randint(0, rows, 4, 6, { dtype = "i32" })
  local list = { table_, w, bias }
  mrt.eval(ids, table.unpack(list))
  -- By itself, or from rows that are a sum, which no rule looks through.
  local function step(hidden)
    return function(i)
      local x = table_:embedding(i)
      if hidden then x = x + 0 end
      local y = bias and way(x):linear(w, bias) or way(x):linear(w)
      local loss = (y * y:sin()):sum()
      local g = mrt.grad(loss, list)
      return y, table.unpack(g)
    end
  end
  return step, ids
end

describe("a product with rows of a table", function()
  it("is that of the table looked up, bit for bit", function()
    for name, way in pairs(ways) do
      for _, biased in ipairs { true, false } do
        for _, rows in ipairs { 1, 6, 23, 24, 30 } do
          local make, ids = program(way, rows, biased)
          local step = mrt.compile(make(false))
          local off = mrt.compile(make(false), { product_before_gather = false })
          assert(bits { step(ids) } == bits { off(ids) }, name)
          local whole = 24 * 7 * (10 + (biased and 1 or 0))
          local less = name ~= "last" and rows < 24
          assert.equal(less and whole * rows // 24 or whole, largest(step, ids), name)
        end
      end
    end
  end)

  it("has the gradients of the rows by themselves", function()
    for name, way in pairs(ways) do
      for _, rows in ipairs { 6, 30 } do
        local make, ids = program(way, rows, true)
        local got, wanted = { mrt.compile(make(false))(ids) }, { mrt.compile(make(true))(ids) }
        for i = 1, #wanted do
          local off = (got[i] - wanted[i]):abs():max():item()
          assert(off < 1e-12, ("%s, %d rows, result %d: off by %g"):format(name, rows, i, off))
        end
      end
    end
  end)

  it("leaves rows alone that were looked up before a table changed, or outside", function()
    local table_, w = mrt.parameter(mrt.randn(3, 4)), mrt.parameter(mrt.randn(2, 4))
    local ids = mrt.randint(0, 3, 9, { dtype = "i32" })
    local x = table_:embedding(ids)
    local wanted = mrt.eval(x:linear(w):t():matmul(x))
    local copy = mrt.eval(x + 0)
    local function dw(of) return mrt.grad((of:linear(w) ^ 2):sum() * 0.5, { w })[1] end
    mrt.eval(x)
    local inside = mrt.compile(function() return dw(x) end)()
    table_:assign(table_ * 2)
    for _, g in ipairs { inside, dw(x), dw(copy), wanted } do
      assert.is_true((g - wanted):abs():max():item() < 1e-4)
    end
  end)
end)
