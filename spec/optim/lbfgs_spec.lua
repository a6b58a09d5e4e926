--- lbfgs_spec.lua -- L-BFGS: where it goes, line searches, closures, state
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local files = require "support.files"
local near = require "support.near"
local nn, optim = mrt.nn, mrt.optim

-- Rosenbrock's function of two numbers.
local function valley(p) return (1 - p[1]) ^ 2 + 100 * (p[2] - p[1] * p[1]) ^ 2 end

local function begin(o)
  local p = mrt.parameter(mrt.tensor({ -1.2, 1.0 }, "f64"))
  return p, optim.lbfgs({ p }, o)
end

describe("lbfgs", function()
  it("goes where PyTorch 2.6's goes", function()
    local p, opt = begin { lr = 0.1, history_size = 5, max_iter = 30 }
    near({ 24.2 }, { opt:step(function() return valley(p) end):item() }, 1e-12)
    near({ -1.0268491808277203, 1.052777124004819 }, p:totable(), 1e-9)
    p, opt = begin { line_search_fn = "strong_wolfe", history_size = 5, max_iter = 30 }
    opt:step(function() return valley(p) end)
    near({ 0.9265302288388554, 0.8562903061515991 }, p:totable(), 1e-8)
    assert.same({ 28, 37 }, { opt.iterations, opt.evaluations })
    opt:step(function() return valley(p) end)
    near({ 1, 1 }, p:totable(), 1e-4)
  end)

  it("solves a quadratic problem of many numbers, whatever the history", function()
    mrt.seed(2)
    local scale = mrt.eval(mrt.rand({ 40 }, { dtype = "f64" }) * 9 + 1)
    local wanted = mrt.eval(mrt.randn({ 40 }, { dtype = "f64" }))
    for _, history in ipairs { 3, 100 } do
      local a = mrt.parameter(mrt.zeros({ 4, 5 }, { dtype = "f64" }))
      local b = mrt.parameter(mrt.zeros({ 20 }, { dtype = "f64" }))
      local opt = optim.lbfgs({ a, b }, { line_search_fn = "strong_wolfe", max_iter = 100,
        history_size = history })
      local function loss()
        local d = mrt.cat { a:flatten(), b } - wanted
        return (scale * d * d):sum()
      end
      opt:step(loss)
      assert.is_true(loss():item() < 1e-9)
    end
  end)

  it("takes a compiled closure, which returns gradients too", function()
    mrt.seed(1)
    local x = mrt.eval(mrt.randn(32, 4))
    local y = mrt.eval(x:matmul(mrt.randn(4, 1)) + 0.5)
    local losses = {}
    for i, compiled in ipairs { false, true } do
      mrt.seed(4)
      local model = nn.Linear(4, 1)
      local params = model:parameters()
      local opt = optim.lbfgs(params, { line_search_fn = "strong_wolfe" })
      local f = function(a, b) return nn.mse(model(a), b) end
      if compiled then
        f = mrt.compile(function(a, b)
          local loss = nn.mse(model(a), b)
          return loss, table.unpack(mrt.grad(loss, params))
        end)
      end
      opt:step(function() return f(x, y) end)
      losses[i] = nn.mse(model(x), y):item()
      assert.is_true(losses[i] < 1e-8)
    end
  end)

  it("goes on from a saved state, and from a snapshot", function()
    local o = { lr = 0.1, history_size = 3, max_iter = 4 }
    local p, opt = begin(o)
    local function f() return valley(p) end
    opt:step(f)
    opt:step(f)
    local q, other = begin(o)
    q:assign(p)
    other:load_state(opt:state())
    local folder = files.name()
    local parts = { optimizer = opt, model = { state = function() return { p = p } end,
      load_state = function() end } }
    assert(mrt.train.snapshots { folder = folder, parts = parts }:save(2))
    opt:step(f)
    other:step(function() return valley(q) end)
    assert.same(p:totable(), q:totable())
    local r, third = begin(o)
    parts = { optimizer = third, model = { state = function() return { p = r } end,
      load_state = function() end } }
    assert.equal(2, assert(mrt.train.snapshots { folder = folder, parts = parts }:resume()))
    third:step(function() return valley(r) end)
    assert.same(p:totable(), r:totable())
    assert.equal(3, third.steps)
  end)

  it("follows a schedule, and keeps still at a minimum", function()
    local p, seen = mrt.parameter(mrt.tensor({ 3.0 }, "f64")), {}
    local opt = optim.lbfgs({ p }, { max_iter = 1, lr = function(step)
      seen[#seen + 1] = step
      return 1 / step
    end })
    for _ = 1, 3 do opt:step(function() return (p * p):sum() end) end
    assert.same({ 1, 2, 3 }, seen)
    local zero = mrt.parameter(mrt.zeros({ 2 }, { dtype = "f64" }))
    local still = optim.lbfgs { zero }
    still:step(function() return (zero * zero):sum() end)
    assert.same({ 0, 0 }, zero:totable())
    assert.equal(0, still.iterations)
  end)

  it("refuses what it cannot do", function()
    local p, opt = begin()
    assert.match("strong_wolfe", failure(optim.lbfgs, { p }, { line_search_fn = "exact" }).message)
    assert.match("history_size", failure(optim.lbfgs, { p }, { history_size = 0 }).message)
    assert.match("a scalar wanted", failure(opt.step, opt, function() return p end).message)
    assert.match("a tensor wanted", failure(opt.step, opt, function() return 3 end).message)
    assert.match("a compiled closure returns", failure(opt.step, opt,
      mrt.compile(function() return valley(p) end)).message)
    assert.match("2 for 1 parameters", failure(opt.step, opt, function()
      return valley(p), p * 1, p * 2
    end).message)
    assert.match("cannot be in a compiled function", failure(mrt.compile(function()
      return opt:step(function() return valley(p) end)
    end)).message)
    assert.match("a function", failure(opt.step, opt, { p }).message)
    assert.match("a module given", failure(optim.lbfgs, nn.Linear(1, 1)).message)
  end)
end)
