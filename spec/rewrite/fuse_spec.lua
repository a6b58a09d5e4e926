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

  it("reads no variable before it is updated", function()
    local w = mrt.parameter(mrt.tensor { 1.0, 2 })
    local function f(a)
      local y = a * 3
      local z = y:matmul(mrt.ones(2, 2)) -- y may not wait past this without being kept
      w:assign(w + 1)
      return y * w, z
    end
    local x = mrt.tensor { { 1.0, 1 } }
    local y, z = mrt.compile(f)(x)
    assert.same({ { 6, 9 } }, y:totable())
    assert.same({ { 6, 6 } }, z:totable())
  end)

  it("hurries nothing whose inputs come later", function()
    mrt.seed(2)
    local x, w = mrt.randn(30, 30), mrt.randn(30, 30)
    local function f(a)
      local y = a:exp()
      local late = (a:matmul(w) * 0.1):tanh():matmul(w)
      return (y * late):sin():sum(), (y + 1):matmul(late):sum()
    end
    local fused, plain = mrt.compile(f), mrt.compile(f, { fuse = false, order = "program" })
    assert.equal(bytes { plain(x) }, bytes { fused(x) })
  end)
end)
