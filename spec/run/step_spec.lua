--- step_spec.lua -- a step happens whole or not at all, and updates in good order
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require("support.bits").of
local files = require "support.files"
local nn, optim = mrt.nn, mrt.optim

local program = os.getenv "MRT" or "build/mrt"

local function variables(model, opt)
  local list = { table.unpack(model:parameters()) }
  for _, slots in ipairs(opt.states) do
    for _, v in pairs(slots) do list[#list + 1] = v end
  end
  list[#list + 1] = opt.t
  return list
end

-- Trains until it is interrupted, then trains anew as many steps as are done
-- and compares.
local interrupted = [[
  local mrt = require "mrt"
  local nn, optim = mrt.nn, mrt.optim
  local function start()
    mrt.seed(3)
    local model = nn.GPT { vocab = 17, dim = 64, layers = 2, heads = 2, context = 32,
      dropout = 0.1 }
    local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
    local x = mrt.eval(mrt.randint(0, 17, 4, 32))
    local step = mrt.compile(function(x)
      local loss = nn.cross_entropy(model(x), x)
      opt:step(mrt.grad(loss, model:parameters()), { clip = 1.0 })
      return loss
    end, { accumulate = tonumber(arg[2]) })
    return function() step(x) end, function()
      local all = { opt.t:bytes() }
      for _, p in ipairs(model:parameters()) do all[#all + 1] = p:bytes() end
      for i = 1, #opt.states do
        all[#all + 1] = opt.states[i].m:bytes() .. opt.states[i].v:bytes()
      end
      return table.concat(all), opt.t:item()
    end
  end
  local step, state = start()
  step()
  io.open(arg[1], "w"):close()
  local ok, problem = pcall(function() while true do step() end end)
  local left, steps = state()
  local again, wanted = start()
  for _ = 1, steps do again() end
  print(ok, tostring(problem):match "interrupted", left == wanted(), steps)]]

describe("Ctrl-C", function()
  it("leaves every bit of parameters and optimizer at a step's border", function()
    local script, mark = files.temporary(interrupted), files.name()
    for i = 1, 6 do
      os.remove(mark)
      local pipe = io.popen(([[%s %s %s %d & until [ -e %s ]; do sleep 0.01; done
        sleep 0.0%d; kill -INT $!; wait $!]]):format(program, script, mark,
        i % 2 * 2 + 1, mark, i)) -- in three micro-batches every other time
      local line = pipe:read "a"
      pipe:close()
      assert.matches("^false\tinterrupted\ttrue\t%d", line)
    end
  end)
end)

describe("a condition that does not hold", function()
  for _, name in ipairs { "adamw", "adam", "sgd" } do
    it("leaves parameters and state of " .. name .. " untouched", function()
      local model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
      local opt = optim[name](model:parameters(), { lr = 0.1, weight_decay = 0.1,
        momentum = name == "sgd" and 0.9 or nil })
      local p = mrt.variable(mrt.ones(3))
      local step = mrt.compile(function(x, when)
        local loss = (model(x) ^ 2):mean()
        opt:step(mrt.grad(loss, model:parameters()), { when = when })
        p:assign(p * 2, { when = when })
        return loss
      end)
      local x, all = mrt.randn(5, 4), variables(model, opt)
      all[#all + 1] = p
      step(x, mrt.tensor(true))
      local before = bits(all)
      step(x, mrt.tensor(false))
      assert.equal(before, bits(all))
      step(x * (0 / 0), mrt.tensor(false)) -- not even by NaN
      assert.equal(before, bits(all))
      step(x, mrt.tensor(true))
      assert.not_equal(before, bits(all))
      assert.same({ 4, 4, 4 }, p:totable())
    end)
  end
end)

-- A program of random reads and updates of a few variables; the bits of all
-- it leaves and returns.
local function shuffled(seed, order)
  local state = seed
  local function random(n)
    state = state * 48271 % 2147483647
    return state % n + 1
  end
  local vars, ids = {}, mrt.tensor { 1, 0, 2 }
  for i = 1, 3 do vars[i] = mrt.variable(mrt.tensor { 0.5 * i, -1.25, 0.75 }) end
  local function body(x)
    local values, results = { x }, {}
    local function any() return values[random(#values)] end
    for _ = 1, 20 do
      local v, kind = vars[random(3)], random(7)
      if kind == 1 then values[#values + 1] = v * any()
      elseif kind == 2 then values[#values + 1] = v:slice(1, 1, 1):expand(3)
      elseif kind == 3 then values[#values + 1] = any():gather(1, ids) - v
      elseif kind == 4 then results[#results + 1] = any() + v
      elseif kind == 5 then v:assign(any(), { when = any():sum():gt(0) })
      elseif kind == 6 then v:assign(v - any():mean())
      else v:assign((v + any()):tanh())
      end
    end
    return table.unpack(results)
  end
  local f = mrt.compile(body, { order = order })
  local all = { table.unpack(vars) }
  for i = 1, 2 do
    state = seed
    for _, r in ipairs { f(mrt.tensor { 1.0, i, -0.5 }) } do all[#all + 1] = r end
  end
  return bits(all)
end

describe("updates in a trace", function()
  it("show the old value to who reads before, the new one after", function()
    local p, q = mrt.variable(mrt.tensor { 1.0, 2.0 }), mrt.variable(mrt.tensor { 10.0, 20.0 })
    local f = mrt.compile(function()
      local old, view = p * 1, p:slice(1, 2, 2)
      p:assign(q)
      local between = p + 0
      q:assign(old)
      p:assign(p + 1)
      return old, view, between, p, p:slice(1, 2, 2), q
    end)
    local results = { f() }
    for i, wanted in ipairs { { 1, 2 }, { 2 }, { 10, 20 }, { 11, 21 }, { 21 }, { 1, 2 } } do
      assert.same(wanted, results[i]:totable())
    end
    assert.same({ 11, 21 }, p:totable())
    assert.same({ 1, 2 }, q:totable())
    local again = { f() }
    assert.same({ 11, 21 }, again[1]:totable())
    assert.same({ 1, 2 }, results[1]:totable()) -- held results keep their bits
    assert.same({ 2, 3 }, again[4]:totable())
  end)

  it("take scalars and other dtypes for any shape", function()
    for _, shape in ipairs { {}, { 1 }, { 1, 1, 1 }, { 2, 3 }, { 0 } } do
      local p = mrt.variable(mrt.zeros(shape))
      p:assign(5)
      p:assign(p + mrt.tensor(2))
      mrt.compile(function(x) p:assign(x) p:assign(p + 1) end)(mrt.tensor(4.0):double())
      assert.equal(5 * p:numel(), p:sum():item())
    end
  end)

  for name, op in pairs { sgd = "descend", adamw = "adamw" } do
    it("happen as soon as their gradient exists: " .. name, function()
      local layers = {}
      for i = 1, 24 do layers[i] = nn.Linear(64, 64, { bias = false }) end
      local model = nn.Sequential(table.unpack(layers))
      local opt = optim[name](model:parameters())
      local function plan_of(options)
        local step = mrt.compile(function(x)
          opt:step(mrt.grad(model(x):sum(), model:parameters()), options)
        end)
        return step:plan(mrt.ones(2, 64))
      end
      local gradient = 64 * 64 * 4
      local plan = plan_of()
      assert.is_true(plan.transient < 4 * gradient)
      assert.is_true(plan_of { clip = 1.0 }.transient >= 24 * gradient) -- needs them all
      local updates = 0
      for _, step in ipairs(plan:steps()) do
        if step.op == op then updates = updates + 1 end
      end
      assert.is_true(updates >= 24)
    end)
  end

  it("do not change what a gradient reads that is taken after them", function()
    local function gradient(late)
      local p = mrt.variable(mrt.full({ 3 }, 2))
      local q = mrt.variable(mrt.full({ 3 }, 5))
      local step = mrt.compile(function(x)
        local loss = (p * q * x):sum()
        if late then p:assign(p * 10) end
        local g = mrt.grad(loss, q)
        if not late then p:assign(p * 10) end
        return g
      end)
      return step(mrt.ones(3)):totable()
    end
    assert.same({ 2, 2, 2 }, gradient(false))
    assert.same({ 2, 2, 2 }, gradient(true))
  end)

  it("give the same bits in whatever order they happen", function()
    for seed = 1, 40 do
      assert.equal(shuffled(seed, "program"), shuffled(seed, "memory"), "seed " .. seed)
    end
  end)
end)
