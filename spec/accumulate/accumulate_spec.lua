--- accumulate_spec.lua -- micro-batches give the step of the whole batch
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local failure = require "support.failure"
local training = require "support.training"
local nn, optim = mrt.nn, mrt.optim

local function close(wanted, got, tolerance, what)
  wanted, got = wanted:double():reshape(-1), got:double():reshape(-1)
  local scale = wanted:abs():max():item() + 1e-12
  local off = (wanted - got):abs():max():item() / scale
  assert(off <= (tolerance or 2e-5), ("%s is off by %g"):format(what, off))
end

-- Two steps of `f(x, y, w)` on a batch of `n`, then what it returned and w.
local function two_steps(f, k, n, options)
  mrt.seed(7)
  local w = mrt.parameter(mrt.randn(6, 4), "w")
  local x, y = mrt.eval(mrt.randn(n, 6), mrt.randint(0, 4, n))
  local own = { accumulate = k }
  for name, value in pairs(options or {}) do own[name] = value end
  local step = mrt.compile(function(a, b) return f(a, b, w) end, own)
  step(x, y)
  local out = { step(x, y) }
  out[#out + 1] = w
  return out
end

-- The same for one batch and for micro-batches, the last smaller or not.
local function agrees(f, options)
  local wanted = two_steps(f, nil, 11, options)
  for _, k in ipairs { 1, 2, 3, 5, 8, 11 } do
    local got = two_steps(f, k, 11, options)
    for i, value in ipairs(wanted) do
      assert.equal(value:type(), got[i]:type())
      if k == 1 then
        assert.equal(value:bytes(), got[i]:bytes())
      else
        close(value, got[i], nil, ("%d micro-batches: value %d"):format(k, i))
      end
    end
  end
end

local function refuses(f, text, options)
  local err = failure(two_steps, f, 3, 11, options)
  assert.matches(text, err.message)
  return err
end

-- A step down `loss`'s gradient; returns the loss.
local function down(loss, w, options)
  w:assign(w - mrt.grad(loss, w, options) * 0.1)
  return loss
end

local losses = {
  ["a mean"] = function(x, _, w) return down((x:matmul(w) ^ 2):mean(), w) end,
  ["a sum"] = function(x, _, w) return down((x:matmul(w) ^ 2):sum() * 0.02, w) end,
  ["a sum over the number of rows"] = function(x, _, w)
    return down((x:matmul(w) ^ 2):sum() / x:size(1), w)
  end,
  ["a sum over a number"] = function(x, _, w)
    return down((x:matmul(w) ^ 2):sum() / 11, w)
  end,
  ["cross-entropy"] = function(x, y, w) return down(nn.cross_entropy(x:matmul(w), y), w) end,
  ["a mean over the targets that count"] = function(x, y, w)
    return down(nn.cross_entropy(x:matmul(w), y, { ignore_index = 2 }), w)
  end,
  ["a denominator"] = function(x, y, w)
    local loss = nn.cross_entropy(x:matmul(w), y, { ignore_index = 2 })
    return down(loss, w, { denominator = y:ne(2):sum() })
  end,
  ["a mean and weight decay"] = function(x, _, w)
    return down((x:matmul(w) ^ 2):mean() + (w * w):sum() * 0.1, w)
  end,
  ["a sum and weight decay"] = function(x, _, w)
    return down((x:matmul(w) ^ 2):sum() * 0.02 + (w * w):sum() * 0.1, w)
  end,
  ["a mean and a sum"] = function(x, _, w)
    local h = x:matmul(w)
    return down((h ^ 2):mean() + h:sum() * 0.01, w)
  end,
  ["a function of a mean"] = function(x, _, w)
    return down((x:matmul(w) ^ 2):mean():sqrt(), w)
  end,
  ["nothing of the batch"] = function(x, _, w)
    return down((w * w):sum(), w), x:sum()
  end,
}

local functions = {
  ["clipping, and its norm"] = function(x, _, w)
    local loss = (x:matmul(w) ^ 2):mean()
    local clipped, norm = optim.clip_grad_norm({ mrt.grad(loss, w) }, 0.5)
    w:assign(w - clipped[1])
    return loss, norm
  end,
  ["an update with a condition"] = function(x, _, w)
    local loss = (x:matmul(w) ^ 2):mean()
    w:assign(w - mrt.grad(loss, w), { when = loss:gt(1.0) })
    return loss
  end,
  ["a rate that reads the batch's size"] = function(x, _, w)
    local loss = (x:matmul(w) ^ 2):mean()
    w:assign(w - mrt.grad(loss, w) * (0.01 * x:size(1)))
    return loss
  end,
  ["results of rows, totals and functions of them"] = function(x, y, w)
    local h = x:matmul(w)
    return down((h ^ 2):mean(), w), h, h:argmax(2), h:argmax(2):eq(y):sum(), h:sum(1),
      h:mean():exp(), x, h:unsqueeze(1):transpose(1, 2)
  end,
  ["random numbers of each row and of none"] = function(x, _, w)
    local h = (x:matmul(w) + mrt.randn(x:size(1), 4)):t():dropout(0.4):t()
    return down((h:dropout(0.5) ^ 2):mean() + x:matmul(w + mrt.rand(6, 4)):mean(), w), h
  end,
  ["a penalty on gradients of rows"] = function(x, _, w)
    local score = x:matmul(w):tanh():sum(2)
    local gx = mrt.grad(score, x, { grad_outputs = mrt.ones_like(score) })
    return down(score:mean() + ((gx ^ 2):sum(2):sqrt() - 1):square():mean(), w), gx
  end,
  ["the gradient of a mean, of rows"] = function(x, _, w)
    local loss = x:matmul(w):tanh():mean()
    local gx = mrt.grad(loss, x)
    return down(loss, w), gx
  end,
  ["a product of the Hessian and a vector"] = function(x, _, w)
    local g = mrt.grad((x:matmul(w):tanh() ^ 2):mean(), w)
    return down((g * mrt.arange(24):reshape(6, 4):float()):sum(), w), g
  end,
  ["rows merged with other dimensions"] = function(x, _, w)
    local h = mrt.stack({ x, x * 2, x + 1 }, 2):reshape(-1, 6):matmul(w)
    h = h:reshape(x:size(1), 3, 2, 2):transpose(2, 3):reshape(-1, 6)
    return down((h:dropout(0.2) ^ 2):sum(2):mean(), w)
  end,
  ["gradients for several, one an intermediate"] = function(x, _, w)
    local b = w:sum(1)
    local g = mrt.grad(((x:matmul(w) + b) ^ 2):mean(), { w, b })
    w:assign(w - g[1] * 0.1)
    return g[2]
  end,
}

describe("micro-batches", function()
  for _, group in ipairs { losses, functions } do
    for name, f in pairs(group) do
      it("give what the batch gives: " .. name, function() agrees(f) end)
    end
  end

  it("poisoned memory changes nothing", function()
    core.set_poison(true)
    local ok, err = pcall(agrees, functions["results of rows, totals and functions of them"])
    core.set_poison(false)
    assert(ok, err)
  end)

  it("agree where a gradient is taken after an update", function()
    agrees(function(x, _, w)
      local loss = (x:matmul(w) ^ 2):mean()
      return down(loss, w), mrt.grad(loss, x)
    end)
  end)

  it("refuse what needs the whole batch at once", function()
    refuses(function(x, _, w)
      local h = x:matmul(w)
      return down(((h - h:mean(1, true)) ^ 2):mean(), w)
    end, "accumulate_spec.lua:%d+ reads f32%[11,4%].*denominator.*allow_batch_statistics")
    refuses(function(x, _, w)
      local h = x:matmul(w)
      return down(h:matmul(h:t()):softmax(2):amax(), w)
    end, "no function of sums over the batch")
    refuses(function(x, _, w)
      local position = mrt.arange(x:size(1)):float():unsqueeze(2)
      return down((x:matmul(w) * position):mean(), w)
    end, "no function of sums over the batch")
    refuses(function(x, _, w)
      local g = mrt.grad((x:matmul(w) ^ 2):mean(), w)
      return down((g * g):sum(), w)
    end, "not one number")
    refuses(function(x, _, w)
      local loss = (x:matmul(w) ^ 2):mean()
      return loss, x:matmul(mrt.grad(loss, w))
    end, "accumulate_spec.lua:%d+ reads f32%[11,6%]")
    refuses(function(x, _, w)
      down((x:matmul(w) ^ 2):mean(), w)
      return down((x:matmul(w) ^ 2):mean(), w)
    end, "reads a variable after its update")
    refuses(function(x, _, w)
      local h = x:matmul(w)
      if x:size(1) > 4 then h = h:exp() end
      return down((h ^ 2):mean(), w)
    end, "with 11 rows this function computes exp")
    refuses(function(x, _, w)
      local h = x:matmul(w)
      return down((h ^ 2):mean(), w), h:t()
    end, "does not have the batch as its first dimension")
    refuses(function(x, _, w) return x:matmul(w):mean() end, "takes no gradient")
  end)

  it("may have statistics of their own when that is allowed", function()
    local function f(x, _, w)
      local h = x:matmul(w)
      return down(((h - h:mean(1, true)) ^ 2):mean(), w)
    end
    local own = two_steps(f, 3, 12, { allow_batch_statistics = true })
    assert.equal("f32[6,4]", own[2]:type())
    close(two_steps(f, 1, 12)[2], own[2], 0.2, "roughly the same")
    local w = mrt.parameter(mrt.zeros(6, 4), "w")
    local step = mrt.compile(function(x) return f(x, nil, w) end,
      { accumulate = 3, allow_batch_statistics = true })
    assert.matches("statistics of the batch .- change results",
      step:plan(mrt.zeros(12, 6)):text())
  end)

  it("are what the option says", function()
    local x, w = mrt.randn(8, 2), mrt.parameter(mrt.zeros(2))
    local function f(a) return down((a:matmul(w) - 1):square():mean(), w) end
    for value, text in pairs { [0] = "0, a positive integer", [1.5] = "1.5, a positive",
      [true] = "true, a positive", many = '"many", a positive' } do
      assert.matches(text, failure(mrt.compile, f, { accumulate = value }).message)
    end
    local step = mrt.compile(f, { accumulate = 9 })
    assert.matches("9 micro%-batches of a batch of 8 rows", failure(step, x).message)
    assert.matches("no batch to split", failure(step, mrt.ones {}).message)
    assert.matches("no batch to split", failure(step).message)
    local bad = mrt.compile(f, { accumulate = function(i) return i / 2 end })
    assert.matches("gave 0.5 for step 1", failure(bad, x).message)
    assert.matches("denominator: a scalar tensor wanted, got f32%[8,2%]",
      failure(mrt.grad, w:sum(), w, { denominator = x }).message)
    assert.equal(step:plan_in(1, x).peak, mrt.compile(f, { accumulate = "auto" }):plan(x).peak)
    assert.same({ 0, 0 }, w:totable())
  end)

  it("may change in number from step to step, and draw the same numbers", function()
    local function train(k)
      mrt.seed(5)
      local w, asked = mrt.parameter(mrt.randn(6, 4)), {}
      local step = mrt.compile(function(x)
        return down((x:dropout(0.5):matmul(w) ^ 2):mean(), w)
      end, { accumulate = k and function(i)
        asked[#asked + 1] = i
        return k[i]
      end })
      local x = mrt.eval(mrt.randn(8, 6))
      for _ = 1, 5 do step(x) end
      return w, asked
    end
    local w, asked = train { 1, 2, 4, 1, 2 }
    close(train(nil), w, nil, "the weight")
    assert.same({ 1, 2, 3, 4, 5 }, asked)
  end)
end)

-- ---- models ----------------------------------------------------------------

local models = {
  ["an MLP"] = { function()
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 5))
  end, function(n) return mrt.randn(n, 20), mrt.randint(0, 5, n) end },
  ["a GPT"] = { function()
    return nn.GPT { vocab = 19, dim = 24, layers = 2, heads = 2, context = 8, dropout = 0.2 }
  end, function(n) return mrt.randint(0, 19, n, 8), mrt.randint(0, 19, n, 8) end },
}

local function now() return training.memory().now end

local function build(make, batch, k, n)
  mrt.seed(11)
  local model = make()
  local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
  local step = mrt.compile(function(x, y)
    local out = model(x)
    local loss = nn.cross_entropy(out, y)
    local norm = opt:step(mrt.grad(loss, model:parameters()), { clip = 1.0 })
    return loss, norm, k == 5 and out or nil
  end, { accumulate = k })
  return step, model, mrt.eval(batch(n))
end

describe("a model in micro-batches", function()
  for name, case in pairs(models) do
    it("trains as with the whole batch: " .. name, function()
      local function losses_of(k)
        local step, _, x, y = build(case[1], case[2], k, 10)
        local list = {}
        for i = 1, 4 do list[i] = (step(x, y)) end
        return mrt.stack(list)
      end
      local wanted = losses_of(1)
      for _, k in ipairs { 2, 3, 5, 8 } do close(wanted, losses_of(k), 1e-5, k .. ": loss") end
    end)

    it("takes what its plan says, to the byte: " .. name, function()
      for _, k in ipairs { 2, 3, 5, 8 } do
        local before = now()
        local step, _, x, y = build(case[1], case[2], k, 10)
        local plan = step:plan(x, y)
        assert.equal(plan.peak, plan.persistent + plan.transient + plan.outputs)
        assert.is_true(plan.peak <= 1.02 * plan.lower_bound)
        mrt.memory { reset = true }
        for _ = 1, 3 do
          for _, result in pairs { step(x, y) } do result:free() end
        end
        assert.equal(plan.peak + plan.inputs, mrt.memory().peak - before)
        step, plan, x, y = nil, nil, nil, nil -- luacheck: ignore
      end
    end)
  end

  it("shows one micro-batch and what runs once", function()
    local step, _, x, y = build(models["a GPT"][1], models["a GPT"][2], 4, 10)
    local plan = step:plan(x, y)
    assert.matches("4 micro%-batches of 3 rows, of a batch of 10", plan:text())
    assert.matches("accumulators", plan:text())
    assert.equal(plan.nodes, #plan:steps())
    assert.equal(plan.nodes, #plan:operands())
    local sum = 0
    for _, v in ipairs(plan:values()) do
      if v.role == "accumulator" then sum = sum + v.bytes end
    end
    assert.equal(plan.accumulators, sum)
    local path = files.name()
    for _, format in ipairs { "json", "svg", "html", "graph", "memory_viz" } do
      assert(plan:save(path, { format = format }))
    end
    assert.is_true(step:plan_in(2, x, y).peak > plan.peak)
  end)

  it("stays within a budget, which is for the whole step", function()
    local make, batch = table.unpack(models["a GPT"])
    local whole, _, x, y = build(make, batch, 2, 10)
    local peak = whole:plan(x, y).peak
    local model = make()
    local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
    local function train(memory)
      local step = training.step(model, opt, { accumulate = 2, memory = memory },
        { clip = 1.0 })
      step.quiet = memory < peak / 2 -- only that it is too little
      return step:plan(x, y)
    end
    local less = math.floor(peak * 0.95)
    assert.is_true(train(less).peak <= less)
    assert.equal("budget", failure(train, math.floor(peak * 0.3)).code)
  end)

  it("shares accumulators between numbers of micro-batches", function()
    local step, _, x, y = build(models["an MLP"][1], models["an MLP"][2], 2, 12)
    local plan = step:plan(x, y)
    for _, result in pairs { step(x, y) } do result:free() end
    local before = now()
    local other = step:plan_in(3, x, y)
    assert.equal(plan.accumulators, other.accumulators)
    assert.equal(before, now())
  end)
end)

describe("a step in micro-batches", function()
  it("happens whole or not at all: a bad index", function()
    local table, t = mrt.parameter(mrt.ones(4, 2)), mrt.parameter(mrt.zeros {})
    local step = mrt.compile(function(ids)
      local loss = table:embedding(ids):sum()
      table:assign(table - mrt.grad(loss, table))
      t:assign(t + 1)
      return loss
    end, { accumulate = 3 })
    local good = mrt.tensor { 0, 1, 2, 3, 0, 1 }
    assert.equal(12, step(good):item())
    local before = table:totable()
    local err = failure(step, mrt.tensor { 0, 1, 2, 3, 4, 1 })
    assert.equal("data", err.code)
    assert.matches("index 4, 0 to 3 wanted", err.message)
    assert.same(before, table:totable())
    assert.equal(1, t:item())
    assert.equal(-8, step(good):item()) -- nothing is left of what was added up
    assert.same({ { -3, -3 }, { -3, -3 }, { -1, -1 }, { -1, -1 } }, table:totable())
  end)

  it("reads a view of its inputs, and inputs that are not split whole", function()
    local w = mrt.parameter(mrt.ones(3))
    local step = mrt.compile(function(o, scale)
      local loss = (o.x * w * scale):sum()
      w:assign(w - mrt.grad(loss, w))
      return loss
    end, { accumulate = 2 })
    local x, scale = mrt.arange(12):float():reshape(4, 3), mrt.tensor { 1.0, 2, 3 }
    assert.equal((x * scale):sum():item(), step({ x = x }, scale):item())
    assert.same({ -17, -43, -77 }, w:totable())
  end)
end)
