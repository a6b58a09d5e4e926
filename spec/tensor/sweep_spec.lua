-- The reverse sweep, looked at: what is visited, and the table from nodes to gradients.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local random_graph = require "support.random_graph"

local function labels(nodes)
  local out = {}
  for i, n in ipairs(nodes) do out[i] = ("%s:%d"):format(n.label, n.parts) end
  return table.concat(out, " ")
end

-- What holds of every sweep: a gradient is complete when its node's turn comes.
local function check(sweep)
  local have, largest = nil, 0
  for _, s in ipairs(sweep) do
    local bytes = 0
    if have then
      for _, n in ipairs(s.nodes) do assert.equal(n.parts, have[n.label], n.label) end
    end
    have = {}
    for _, n in ipairs(s.table) do have[n.label], bytes = n.parts, bytes + n.bytes end
    for _, n in ipairs(s.gives) do assert.is_true(have[n.label] >= 1) end
    assert.equal(bytes, s.waiting)
    largest = math.max(largest, bytes)
  end
  assert.equal(largest, sweep.largest)
end

describe("mrt.sweep", function()
  it("shows each step with the table from nodes to gradients", function()
    local w, b = mrt.variable(mrt.ones(3), "w"), mrt.variable(mrt.ones(3), "b")
    local h = w * w + b
    local sweep = mrt.sweep((h:exp() * h):sum(), { w, b })
    local rows = {}
    for i, s in ipairs(sweep) do
      rows[i] = ("%s | %s | %s | %s"):format(s.op, labels(s.nodes), labels(s.gives),
        labels(s.table))
    end
    assert.same({
      "sum | v7:1 | v6:1 | v6:1",
      "mul | v6:1 | v5:1 v4:1 | v4:1 v5:1",
      "exp | v5:1 | v4:2 | v4:2",
      "add | v4:2 | v3:1 b:1 | b:1 v3:1",
      "mul | v3:1 | w:1 w:2 | w:2 b:1",
    }, rows)
    assert.equal(24, sweep.largest)
    assert.matches("sweep_spec.lua", sweep[1].file)
    assert.matches("v4 x2", tostring(sweep))
    check(sweep)
  end)

  it("has the gradients of mrt.grad, in its bits", function()
    for seed = 1, 30 do
      mrt.seed(seed)
      local leaves = { mrt.variable(mrt.randn(4, 6), "a"), mrt.variable(mrt.randn(6, 4)) }
      local y = random_graph.program(seed, 12)(leaves, function(t) return t end)[1]
      local wanted = mrt.grad(y, leaves, { allow_unused = true })
      local sweep = mrt.sweep(y, leaves, { allow_unused = true })
      for i in ipairs(leaves) do
        assert.equal(wanted[i]:bytes(), sweep.gradients[i]:bytes())
      end
      check(sweep)
    end
  end)

  it("goes through gradients of gradients, checkpoints and custom gradients", function()
    local x = mrt.variable(mrt.randn(4), "x")
    local clip = mrt.custom { forward = function(a) return a:clamp(0, 1) end,
      backward = function(dy) return dy end }
    local inner = mrt.grad((clip(x) * x):sum(), x)
    local y = (inner * mrt.checkpoint(function(a) return a:sin() * a end, x)):sum()
    local sweep = mrt.sweep(y, x)
    assert.equal(mrt.grad(y, x):bytes(), sweep.gradients[1]:bytes())
    assert.is_true(#sweep > 4)
    check(sweep)
  end)

  it("looks at what a compiled function traces", function()
    local x, sweep = mrt.variable(mrt.randn(4, 4), "x"), nil
    local step = mrt.compile(function(t)
      local loss = t:matmul(x):tanh():square():mean()
      sweep = mrt.sweep(loss, x)
      x:assign(x - 0.1 * sweep.gradients[1])
      return loss
    end)
    local t = mrt.randn(4, 4)
    local first = step(t):item()
    assert.is_true(step(t):item() < first)
    assert.equal("matmul", sweep[#sweep].op)
    assert.same({ "x:1" }, { labels(sweep[#sweep].table) })
    check(sweep)
  end)

  it("raises what mrt.grad raises, at the caller's line", function()
    local x = mrt.variable(mrt.randn(4))
    assert.error_matches(function() mrt.sweep(x, x) end, "sweep_spec.lua:%d+: .*scalar wanted")
    assert.error_matches(function() mrt.sweep(x:sum(), mrt.variable(mrt.ones(2))) end,
      "sweep_spec.lua:%d+: .*does not lead")
    assert.error_matches(function() mrt.sweep(3, x) end, "sweep_spec.lua:%d+: .*tensor")
    assert.error_matches(function() mrt.sweep(x:sum(), x, { unused = true }) end,
      "sweep_spec.lua:%d+: .*unused")
    assert.is_false(core.tracing())
  end)
end)
