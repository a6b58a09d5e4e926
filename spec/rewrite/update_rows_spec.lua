-- update_rows_spec.lua -- tables of which the rows that were looked up are updated, and the
-- same bits as by a gradient as large as the table; on a CUDA device too where MRT_CUDA
-- names the plug-in
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local bits = require "support.bits"
local failure = require "support.failure"
local program = require "support.program"
local ranks = require "support.ranks"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local ROWS <const> = 400

-- How many steps of a plan are of an operator.
local count = require("support.steps").count

local function by_rows(plan)
  return count(plan, "descend_rows") + count(plan, "sgd_rows") + count(plan, "rmsprop_rows")
    + count(plan, "adamw_rows")
end

-- ---- ways to look up, from ids [6,5] ---------------------------------------

local function each(w, ids) return w:embedding(ids):sum(2) end
local function bag(mode, offsets)
  return function(w, ids)
    if not offsets then return w:embedding_bag(ids, { mode = mode }) end
    local n = ids:numel() -- 30, or 10 of a third
    return w:embedding_bag(ids:reshape(n), mrt.arange(ids:size(1)):to "i32" * 4,
      { mode = mode })
  end
end
local ways = { each, bag "sum", bag "mean", bag("sum", true), bag("mean", true) }

local optimizers = {
  { "sgd", {} }, { "sgd", { lazy = true, momentum = 0.9, nesterov = true } },
  { "sgd", { lazy = true, weight_decay = 0.1 } }, { "adagrad", {} },
  { "adagrad", { initial = 0.1, lr_decay = 0.1 } },
  { "adagrad", { lazy = true, weight_decay = 0.1 } }, { "adam", { lazy = true } },
  { "adamw", { lazy = true, weight_decay = 0.1 } },
  { "adamw", { lazy = true, state = "bf16" } },
}

-- A table looked up `lookups` times, by ways drawn, before a small network.  ids repeat.
local function trainer(seed, options, o)
  local state = seed
  local function r(n) -- an integer from 1 to n
    state = state * 48271 % 2147483647
    return state % n + 1
  end
  for _ = 1, 3 do r(1) end
  local kind = optimizers[r(#optimizers)]
  mrt.seed(seed)
  local width = ({ 24, 9, 70, 600 })[r(4)]
  local tokens, linear = nn.Embedding(ROWS, width), nn.Linear(width, 3)
  local model = nn.Sequential(tokens, linear)
  local own = { lr = 0.1 }
  for key, value in pairs(kind[2]) do own[key] = value end
  local opt = optim[kind[1]](model:parameters(), own)
  local lookups, chosen = r(3), {}
  for i = 1, lookups do chosen[i] = ways[r(o.batch and 3 or #ways)] end
  local function fn(ids)
    local x
    for i, way in ipairs(chosen) do
      local y = way(tokens.weight, (ids + i) % ROWS)
      x = x and x + y or y
    end
    local loss = (linear(x:tanh()) ^ 2):mean()
    local grads = mrt.grad(loss, model:parameters())
    if o.scaled then grads[1] = grads[1] * loss end
    opt:step(grads, { clip = o.clip, when = o.when and (loss:gt(0.01)) or nil })
    return loss
  end
  return mrt.compile(fn, options), model, opt
end

local function run(seed, options, o)
  local step, model, opt = trainer(seed, options, o or {})
  local out = {}
  for i = 1, 3 do
    mrt.seed(1000 * seed + i)
    out[i] = step(mrt.randint(0, i == 2 and 7 or ROWS, 6, 5, { dtype = "i32" })):item()
  end
  local plan = step:plan(mrt.zeros({ 6, 5 }, { dtype = "i32" }))
  return table.concat(out, " ") .. bits.trained(model, opt), plan
end

local function with(options, more)
  local out = {}
  for key, value in pairs(options) do out[key] = value end
  for key, value in pairs(more) do out[key] = value end
  return out
end

local off = { update_rows = false }

describe("updates by rows", function()
  it("have the bits of a gradient as large as the table", function()
    for seed = 1, 60 do
      local wanted, dense = run(seed, off)
      local got, plan = run(seed, {})
      assert.equal(wanted, got, "seed " .. seed)
      assert.equal(1, by_rows(plan), "seed " .. seed)
      assert.equal(0, by_rows(dense))
      assert.equal(0, count(plan, "embedding_grad") + count(plan, "embedding_bag_grad"))
      assert.is_true(plan.peak < dense.peak)
    end
  end)

  it("have them beside all that a step may be", function()
    -- dense: something else reads the gradient
    local ways_of = {
      { {}, { scaled = true } }, { {}, { when = true } },
      { {}, { clip = 0.1 }, dense = true },
      { { accumulate = 3 }, { batch = true }, dense = true },
      { { precision = policy.precision.bf16() } },
      { { precision = policy.precision.f16() }, dense = true },
      { { precision = policy.precision.bf16_pure() } },
      { { fuse = false, inplace = false, share = false } }, { { order = "program" } },
      { { swap = function() return "swap" end } },
      { { checkpoint = function() return "recompute" end } },
      { { nan = "trap" } }, { { cse = false, dce = false, simplify = false } },
    }
    core.set_poison(true)
    for seed = 1, 52 do
      local way = ways_of[seed % #ways_of + 1]
      local wanted = run(seed, with(way[1], off), way[2])
      local got, plan = run(seed, way[1], way[2])
      assert.equal(wanted, got, ("seed %d, way %d"):format(seed, seed % #ways_of + 1))
      assert.equal(way.dense and 0 or 1, by_rows(plan))
    end
    core.set_poison(false)
  end)

  it("take what was planned, within a budget too", function()
    for seed = 1, 8 do
      local _, free = run(seed, {})
      local wanted = run(seed, off)
      local got = run(seed, { memory = free.peak })
      assert.equal(wanted, got)
    end
  end)
end)

describe("updates by many threads #process", function()
  it("have the bits of one", function()
    local script = [[
      local mrt = require "mrt"
      mrt.seed(1)
      for _, kind in ipairs { "sgd", "adagrad", "adam" } do
        local bag, rows = mrt.nn.EmbeddingBag(5000, 48), mrt.nn.Embedding(5000, 48)
        local params = { bag.weight, rows.weight }
        local opt = mrt.optim[kind](params, { lr = 0.1, lazy = kind == "adam" })
        local step = mrt.compile(function(i)
          local x = bag(i) + bag(i * 7 % 5000) + rows(i):mean(2)
          opt:step(mrt.grad((x ^ 2):sum(), params))
        end)
        for round = 1, 2 do step(mrt.randint(0, 50 ^ round, 80, 20, { dtype = "i32" })) end
        for _, p in ipairs(params) do print((p:bytes():gsub(".", function(c)
          return ("%02x"):format(c:byte())
        end))) end
      end]]
    local one = program.script(script, "MRT_THREADS=1")
    assert.is_true(#one > 1e6)
    assert.is_true(one == program.script(script, "MRT_THREADS=2"))
    assert.is_true(one == program.script(script, "MRT_THREADS=5"))
  end)
end)

-- Which rows of a table three steps move, and how far.
local ranked = [[
  mrt.seed(4)
  local tokens, linear = nn.Embedding(40, 6), nn.Linear(6, 3)
  local model = nn.Sequential(tokens, linear)
  local opt = optim.adamw(model:parameters(), { lr = 0.1, lazy = true })
  local before = tokens.weight:to "f64"
  mrt.eval(before)
  local step = mrt.compile(function(ids)
    local loss = (model(ids) ^ 2):mean()
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, { shard = %s })
  for i = 1, 3 do
    local ids = mrt.tensor({ 1, 5, 5, 30 + i }, { dtype = "i64" })
    local rows = 4 // comm.size
    step(ids:slice(1, comm.rank * rows + 1, comm.rank * rows + rows))
  end
  local moved = (tokens.weight:to "f64" - before):abs():sum(2)
  local words = {}
  for row, x in ipairs(moved:totable()) do
    words[row] = x == 0 and "-" or ("%%.4f"):format(x)
  end
  return table.concat(words, " ")
]]

describe("lazy updates of ranks that share parameters #process", function()
  it("leave the rows that none has looked up, or are refused", function()
    local function on(n, stage) return ranks.alike(n, ranked:format(stage)) end
    local one = on(1, "nil")
    local _, still = one:gsub("%-", "")
    assert.equal(40 - 5, still)
    assert.equal(one, on(2, "policy.shard.ddp()"))
    for _, stage in ipairs { "policy.shard.zero(2)", "policy.shard.zero(3, {bucket = 0})",
      "policy.shard.fsdp {bucket = '10KiB'}" } do
      local _, text = failure(on, 2, stage)
      assert.matches("adamw: lazy .* in pieces", text)
    end
  end)
end)

describe("updates by rows on a CUDA device", function()
  if not os.getenv "MRT_CUDA" then
    pending "MRT_CUDA names no plug-in"
    return
  end
  after_each(function() mrt.device "cpu" end)

  it("have the bits of a gradient as large as the table", function()
    local rows = 0
    for seed = 1, 30 do
      mrt.device "cuda:0"
      local wanted = run(seed, off)
      local got, plan = run(seed, {})
      assert.equal(wanted, got, "seed " .. seed)
      rows = rows + by_rows(plan) -- of one lookup, without state in bf16
      for _, s in ipairs(plan:steps()) do
        assert.is_false(s.hosted and s.op:find "_rows" and true or false)
      end
    end
    assert.is_true(rows > 5)
  end)
end)

-- ---- by hand ---------------------------------------------------------------

-- One step of a table [4,2] that is looked up once; what it is then.
local function stepped(make, weights, dy, ids, options)
  local w = mrt.parameter(mrt.tensor(weights))
  local opt = make(w)
  local step = mrt.compile(function(i, d)
    local loss = (w:embedding(i) * d):sum()
    opt:step(mrt.grad(loss, { w }))
  end, options)
  step(mrt.tensor(ids, { dtype = "i32" }), mrt.tensor(dy))
  return w, opt, step
end

local HUGE <const> = math.huge
local special = { { -0.0, 0 }, { HUGE, -HUGE }, { 0 / 0, 1 }, { -0.0, 3 } }

describe("rows that were not looked up", function()
  it("change where rate or scale are negative or not finite, as they would", function()
    for _, kind in ipairs { "sgd", "adagrad" } do
      for _, lr in ipairs { 0.1, -0.1, 0, -0.0, HUGE, 0 / 0 } do
        for _, options in ipairs { { initial = 0 }, { initial = 1 } } do
          if kind == "sgd" then options = {} end
          local function make(w)
            local opt = optim[kind]({ w }, options)
            opt.lr = lr -- as a schedule may set it
            return opt
          end
          local got = stepped(make, special, { { 1.0, -1 }, { -0.0, 0 } }, { 3, 3 })
          local wanted = stepped(make, special, { { 1.0, -1 }, { -0.0, 0 } }, { 3, 3 }, off)
          assert.equal(wanted:bytes(), got:bytes(), kind .. " " .. lr)
        end
      end
    end
  end)

  it("stay as they are where the update is lazy, compiled or not", function()
    local dy = { { 1.0, 2 }, { 0, 0 }, { 3, 0 }, { 1, 1 } }
    local ids = { 1, 2, 1, 3 } -- row 2 is looked up, its gradient is 0
    for _, kind in ipairs { "sgd", "adam", "adamw", "adagrad" } do
      local given = { lr = 0.5, lazy = true, weight_decay = 0.1,
        momentum = kind == "sgd" and 0.9 or nil }
      local function make(w) return optim[kind]({ w }, given) end
      local w, opt = stepped(make, { { 1.0, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, dy, ids)
      local same = mrt.tensor { { 1.0, 2 }, { 5, 6 } }
      assert.equal(same:bytes(), mrt.cat({ w[1], w[3] }):reshape(2, 2):bytes(), kind)
      local v = mrt.parameter(mrt.tensor { { 1.0, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } })
      local other = make(v)
      other:step { mrt.tensor { { 0.0, 0 }, { 4, 2 }, { 0, 0 }, { 1, 1 } } }
      assert.equal(bits.of { v, other.states[1].m or v }, bits.of { w, opt.states[1].m or w })
    end
  end)

  it("keep moments, whose bias is corrected by the count of steps, as SparseAdam has it", function()
    local w = mrt.parameter(mrt.tensor { { 1.0 }, { 1.0 } })
    local opt = optim.adam({ w }, { lr = 0.1, lazy = true })
    local step = mrt.compile(function(i)
      opt:step(mrt.grad((w:embedding(i) * 2):sum(), { w }))
    end)
    local m, v, p = { 0, 0 }, { 0, 0 }, { 1, 1 }
    for t, id in ipairs { 0, 1, 1, 0, 1 } do
      step(mrt.tensor({ id }, { dtype = "i64" }))
      local k = id + 1
      m[k], v[k] = 0.9 * m[k] + 0.1 * 2, 0.999 * v[k] + 0.001 * 4
      p[k] = p[k] - 0.1 * (m[k] / (1 - 0.9 ^ t)) / (math.sqrt(v[k] / (1 - 0.999 ^ t)) + 1e-8)
      assert.near(p[1], w[1]:item(), 1e-5)
      assert.near(p[2], w[2]:item(), 1e-5)
    end
  end)
end)

describe("a table", function()
  it("is not written by a step with an id out of range", function()
    for _, make in ipairs {
      function(w) return w:embedding(mrt.tensor({ 0, 4 }, { dtype = "i64" })):sum() end,
      function(w) return w:embedding_bag(mrt.tensor({ { 0, -1 } }, { dtype = "i64" })):sum() end,
      function(w)
        return (w:embedding(mrt.tensor({ 0, 4 }, { dtype = "i64" })) ^ 2):sum()
      end,
    } do
      local w = mrt.parameter(mrt.randn(4, 3))
      local before, opt = w:bytes(), optim.sgd({ w }, { lr = 1 })
      local step = mrt.compile(function() opt:step(mrt.grad(make(w), { w })) end)
      local err = failure(step)
      assert.equal("data", err.code)
      assert.equal(before, w:bytes())
    end
  end)

  it("has no gradient of ids or offsets out of range, looked up or not", function()
    local w = mrt.parameter(mrt.randn(4, 3))
    local function i(list) return mrt.tensor(list, { dtype = "i64" }) end
    for _, case in ipairs { { i { 0, 9 } }, { i { -1 } }, { i { { 0, 9 } }, bag = true },
      { i { 0, 1, 2 }, i { 0, 2, 1 }, bag = true }, { i { 0, 1, 2 }, i { 0, 5 }, bag = true } } do
      local op = case.bag and "embedding_bag" or "embedding"
      local y = w[op](w, case[1], case[2])
      local dy = mrt.eval(mrt.ones(y:size())) -- there, or still to be made
      for _, g in ipairs { mrt.grad(y:sum(), { w })[1], mrt.grad((y * dy):sum(), { w })[1] } do
        local err = failure(g.bytes, g)
        assert.equal("data", err.code)
        assert.matches("embedding.*wanted", err.message)
      end
    end
  end)

  it("may have no rows, or no columns, or be looked up nowhere", function()
    for _, size in ipairs { { 0, 4 }, { 4, 0 }, { 4, 3 } } do
      local w = mrt.parameter(mrt.ones(size))
      local opt = optim.sgd({ w }, { lr = 1 })
      local step = mrt.compile(function(ids)
        opt:step(mrt.grad((w:embedding(ids) ^ 2):sum(), { w }))
      end)
      local before = w:bytes()
      step(mrt.zeros({ 0 }, { dtype = "i64" }))
      assert.equal(before, w:bytes())
    end
  end)

  it("whose gradient is read, or has other parts, keeps it", function()
    local w = mrt.parameter(mrt.randn(50, 6))
    local opt = optim.sgd({ w }, { lr = 0.1 })
    local ids = mrt.tensor({ 1, 2 }, { dtype = "i64" })
    local function plan_of(fn) return mrt.compile(fn):plan(ids) end
    local returned = plan_of(function(i)
      local g = mrt.grad((w:embedding(i) ^ 2):sum(), { w })
      opt:step(g)
      return g[1]
    end)
    local tied = plan_of(function(i)
      opt:step(mrt.grad((w:embedding(i):matmul(w:t()) ^ 2):sum(), { w }))
    end)
    local many = mrt.compile(function(i)
      opt:step(mrt.grad((w:embedding(i) ^ 2):sum(), { w }))
    end):plan(mrt.zeros({ 51 }, { dtype = "i64" }))
    for _, plan in ipairs { returned, tied, many } do assert.equal(0, by_rows(plan)) end
  end)

  it("that is updated lazily has no state in 8 bits", function()
    local w = mrt.parameter(mrt.randn(50, 6))
    for _, kind in ipairs { "sgd", "adam", "adamw" } do
      local err = failure(optim[kind], { w }, { lazy = true, state = "8bit",
        momentum = kind == "sgd" and 0.5 or nil })
      assert.matches("lazy with state = 8bit", err.message)
    end
  end)
end)
