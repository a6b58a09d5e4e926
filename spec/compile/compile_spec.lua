--- compile_spec.lua -- compiled functions, variables, gradients of one's own
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"

describe("a compiled function", function()
  it("is traced once per signature", function()
    local traces = 0
    local f = mrt.compile(function(x, k, o)
      traces = traces + 1
      return o and o.add and x + k + o.x or x * k
    end)
    local x = mrt.ones(3)
    for _ = 1, 2 do
      assert.same({ 2, 2, 2 }, f(x, 2):totable())
      assert.same({ 3, 3, 3 }, f(x, 3):totable())
      assert.same({ 4, 4, 4 }, f(x, 2, { add = true, x = x }):totable())
      assert.same({ 3, 3, 3 }, f(x, 2, { add = true, x = mrt.tensor(0.0) }):totable())
      assert.same({ 2, 2 }, f(mrt.ones(2), 2):totable())
      assert.same({ 2, 2 }, f(mrt.ones(2, { dtype = "i64" }), 2):totable())
    end
    assert.equal(6, traces)
  end)

  it("is traced again in another mode, once", function()
    local traces, layer = 0, mrt.nn.Dropout(0.5)
    local f = mrt.compile(function(x)
      traces = traces + 1
      return layer(x)
    end)
    for _ = 1, 3 do
      layer:train()
      f(mrt.ones(8))
      layer:eval()
      assert.same({ 1, 1 }, f(mrt.ones(2)):totable())
    end
    layer:train()
    assert.equal(2, traces)
  end)

  it("forgets what has not been used for longest, by plans and by bytes", function()
    local cache = require "mrt.compile.cache"
    local plans, bytes = cache.MOST_PLANS, cache.MOST_BYTES
    local traces = 0
    local function steps()
      traces = 0
      return mrt.compile(function(x) traces = traces + 1 return x + 1 end)
    end
    local function try()
      local f = steps()
      for n = 1, 4 do f(mrt.ones(n)) end
      f(mrt.ones(1)) -- used again
      f(mrt.ones(5))
      f(mrt.ones(1))
      assert.equal(5, traces)
      f(mrt.ones(2))
      assert.equal(6, traces)
    end
    local ok, message = pcall(function()
      cache.MOST_PLANS = 4
      try()
      cache.MOST_PLANS = 1000
      local one = steps()
      one(mrt.ones(1))
      cache.MOST_BYTES = 4 * one.plans.bytes
      try()
      cache.MOST_BYTES = 1 -- the newest stays
      local f = steps()
      for _ = 1, 3 do f(mrt.ones(1)) end
      assert.equal(1, traces)
    end)
    cache.MOST_PLANS, cache.MOST_BYTES = plans, bytes
    assert(ok, message)
  end)

  it("says once which argument has it traced often, and what helps", function()
    local program = require "support.program"
    local script = [[
      local mrt = require "mrt"
      local step = mrt.compile(function(x, lr) return x * lr end, { name = "descend" })
      for i = 1, 20 do step(mrt.ones(2), i / 10) end
      local other = mrt.compile(function(x) return x + 1 end, { name = "lengths" })
      for i = 1, 32 do other(mrt.ones(i)) end
      print "32 lengths"
      for i = 30, 40 do other(mrt.ones(i)) end
    ]]
    local said = program.script(script)
    assert.matches("descend has been traced and planned for 9 values of argument 2, a number",
      said, 1, true)
    assert.matches("mrt.runtime", said, 1, true)
    assert.matches("32 lengths\n[^\n]*lengths has been traced and planned for 33 values "
      .. "of argument 1, a tensor", said)
    assert.equal(2, select(2, said:gsub("has been traced", "")))
  end)

  it("returns what the function returns", function()
    local p = mrt.parameter(mrt.zeros(2))
    local f = mrt.compile(function(x)
      p:assign(p + 1)
      return x, { twice = x * 2, n = 3, x }, nil, "word", p, x
    end)
    local x = mrt.ones(2)
    local a, t, none, word, q, again = f(x)
    assert.same({ 1, 1 }, a:totable())
    assert.same({ 2, 2 }, t.twice:totable())
    assert.same({ 1, 1 }, t[1]:totable())
    assert.same({ 1, 1 }, again:totable())
    assert.same({ 1, 1 }, q:totable())
    assert.same({ 3, nil, "word" }, { t.n, none, word })
    assert.equal(6, select("#", f(x)))
    assert.same({ 1, 1 }, q:totable()) -- a result keeps its bits
    assert.same({ 2, 2 }, p:totable())
    assert.equal(0, select("#", mrt.compile(function() end)()))
  end)

  it("may call itself, but not without end", function()
    local power, endless
    power = mrt.compile(function(x, n) return n == 0 and x or power(x * 2, n - 1) end)
    endless = mrt.compile(function(x) return endless(x) end)
    for _ = 1, 3 do
      assert.same({ 1024 }, power(mrt.ones(1), 10):totable())
      assert.error_matches(function() endless(mrt.ones(1)) end, "calls itself without end")
    end
    local outer = mrt.compile(function(x)
      for _ = 1, 300 do pcall(endless, x) end
      return power(x, 3)
    end)
    assert.same({ 8 }, outer(mrt.ones(1)):totable())
  end)

  it("is part of the function that calls it", function()
    local inner = mrt.compile(function(x) return x + 1 end)
    assert.equal(3, mrt.compile(function(x) return inner(x) * 1.5 end)(mrt.ones(1)):item())
  end)

  it("computes what was pending before as a constant", function()
    local lazy = mrt.ones(2) * 3
    assert.same({ 4, 4 }, mrt.compile(function(x) return x + lazy end)(mrt.ones(2)):totable())
  end)

  it("reads runtime inputs before every run", function()
    local rate, w = 1, mrt.parameter(mrt.zeros {})
    local f = mrt.compile(function() w:assign(w + mrt.runtime(function() return rate end)) end)
    f()
    rate = 0.5
    f()
    assert.equal(1.5, w:item())
    assert.equal(0.5, mrt.runtime(function() return rate end):item())
  end)

  it("leaves everything as it was when its trace fails", function()
    local p = mrt.parameter(mrt.zeros(2))
    local f = mrt.compile(function(how)
      p:assign(p + 1)
      if how == "item" then p:sum():item() end
      if how == "print" then tostring(p) end
      if how == "raise" then error { code = "mine" } end
      return { { p } }
    end)
    assert.equal("state", failure(f, "item").code)
    assert.equal("state", failure(f, "print").code)
    assert.equal("mine", failure(f, "raise").code)
    assert.matches("a result is a table in a table", failure(f, "nest").message)
    assert.matches("an argument is a function", failure(f, print).message)
    assert.is_false(mrt.tracing())
    assert.same({ 0, 0 }, p:totable())
  end)

  it("changes nothing when an index is out of range", function()
    local table, p = mrt.ones(4, 2), mrt.parameter(mrt.zeros {})
    local f = mrt.compile(function(ids) p:assign(p + 1 + table:embedding(ids):sum()) end)
    f(mrt.tensor { 1 })
    local err = failure(f, mrt.tensor { 4 })
    assert.equal("data", err.code)
    assert.matches("index 4, 0 to 3 wanted", err.message)
    assert.equal(3, p:item())
  end)

  it("checks its options", function()
    assert.matches("no option 'memry' %(options: ", failure(mrt.compile, print,
      { memry = 1 }).message)
    assert.matches("option 'cse': a boolean wanted", failure(mrt.compile, print,
      { cse = 1 }).message)
    assert.matches("memory or program wanted", failure(mrt.compile, print,
      { order = "up" }).message)
    assert.matches("a function or module wanted, got nil", failure(mrt.compile).message)
  end)
end)

describe("a plan", function()
  local w = mrt.parameter(mrt.ones(3), "weights")
  local step = mrt.compile(function(x, y)
    local loss = ((x:matmul(w) - y) ^ 2):mean()
    w:assign(w - mrt.grad(loss, w) * 0.1)
    return loss
  end)
  local x, y = mrt.ones(8, 3), mrt.zeros(8)

  it("is known before the first run, and adds up", function()
    local plan = step:plan(x, y)
    assert.equal(plan, step:plan(x, y))
    assert.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
    assert.is_true(plan.lower_bound <= plan.peak)
    assert.same({ 1, 1, 1 }, w:totable())
  end)

  it("reports bytes, nodes and the lines at the peak", function()
    local text = step:plan(x, y):text()
    for _, wanted in ipairs { "peak ", "persistent", "transient", "lower bound", "traced %d+",
      "cse %d+", "fuse %d+", "peak step", "compile_spec.lua:%d+", "bytes at the peak" } do
      assert.matches(wanted, text)
    end
    assert.matches("matmul", step:plan(x, y):graph())
  end)

  it("can leave optimisations out, with the same bits", function()
    local function f(a) return (a:exp() * 1 + a:exp()):sum() end
    local wanted = mrt.compile(f)(x):item()
    local nodes = mrt.compile(f):plan(x).nodes
    for _, name in ipairs { "cse", "fold", "dce", "simplify", "product_before_gather",
      "sink_permute", "fuse", "inplace", "share" } do
      local g = mrt.compile(f, { [name] = false })
      assert.equal(wanted, g(x):item())
      assert.is_true(g:plan(x).nodes >= nodes)
    end
    assert.equal(wanted, mrt.compile(f, { order = "program" })(x):item())
  end)
end)

describe("a variable", function()
  it("is assigned tensors, numbers, and when a condition holds", function()
    local p = mrt.variable(mrt.zeros(2), "p")
    assert.equal("p", p.name)
    local before = p + 10 -- lazy: means the old value
    assert.equal(p, p:assign(3))
    assert.same({ 3, 3 }, p:totable())
    assert.same({ 10, 10 }, before:totable())
    p:assign(mrt.tensor { 1, 2 })
    p:assign(0, { when = mrt.tensor(false) }):assign(0, { when = false })
    assert.same({ 1, 2 }, p:totable())
    p:assign(0, { when = p:sum():gt(2) })
    assert.same({ 0, 0 }, p:totable())
    assert.matches("bool%[%] wanted", failure(p.assign, p, 1, { when = p }).message)
    assert.matches("no variable", failure(mrt.ones(2).assign, mrt.ones(2), 1).message)
    assert.equal("shape", failure(p.assign, p, mrt.ones(3)).code)
  end)
end)

describe("a gradient", function()
  it("comes as its argument came", function()
    local x = mrt.tensor { 1.0, 2 }
    local y = (x * x):sum()
    assert.same({ 2, 4 }, mrt.grad(y, x):totable())
    assert.same({ 2, 4 }, mrt.grad(y, { x })[1]:totable())
    assert.same({ 2, 2 }, mrt.grad(mrt.grad(y, x):sum(), x):totable())
    assert.same({ 2, 8 }, mrt.grad(x * x, x, { grad_outputs = x }):totable())
    assert.equal("gradient", failure(mrt.grad, y, mrt.ones(2)).code)
    assert.same({ 0, 0 }, mrt.grad(y, mrt.ones(2), { allow_unused = true }):totable())
    assert.matches("no option 'unused'", failure(mrt.grad, y, x, { unused = 1 }).message)
    assert.matches("element 2 of the list is 3", failure(mrt.grad, y, { x, 3 }).message)
  end)

  it("may be one's own, and its errors are one's own", function()
    local seen
    local function make(backward)
      return mrt.custom { forward = function(a, b) return a * b end, backward = backward }
    end
    local a, b = mrt.tensor { 1.0, 2 }, mrt.tensor { 3.0, 4 }
    local f = make(function(dy, p, q)
      seen = { p, q }
      return dy * 10, false
    end)
    local y = f(a, b)
    assert.same({ 3, 8 }, y:totable())
    assert.same({ 10, 10 }, mrt.grad(y:sum(), a):totable())
    assert.same({ a, b }, seen)
    local mine = {}
    assert.equal(mine, failure(mrt.grad, make(function() error(mine) end)(a, b):sum(), a))
    local err = failure(mrt.grad, make(function() return 3 end)(a, b):sum(), a)
    assert.matches("a tensor wanted, got 3", err.message)
    assert.same({ 10, 10 }, mrt.grad(y:sum(), a):totable())
  end)
end)
