--- fuse_spec.lua -- pointwise operators in one pass: which, and that no bit is another
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
