--- optim_spec.lua -- optimizers against their papers, in plain Lua
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local near = require "support.near"
local optim = mrt.optim

-- A problem in two variables whose gradient is known: sum(c p^4) / 4.
local start, c = { 1.5, -2.0, 0.3 }, { 1.0, 0.5, 3.0 }

local function plain_gradient(p)
  local g = {}
  for i = 1, #p do g[i] = c[i] * p[i] ^ 3 end
  return g
end

local function descend(make, steps, in_trace)
  local p = mrt.parameter(mrt.tensor(start, "f64"), "p")
  local weights = mrt.tensor(c, "f64")
  local opt = make { p }
  local function step()
    local loss = (weights * p * p * p * p):sum() / 4
    opt:step(mrt.grad(loss, { p }))
    return loss
  end
  if in_trace then step = mrt.compile(step) end
  for _ = 1, steps do step() end
  return p:totable(), opt
end

local function adam_by_hand(steps, o)
  local p, m, v = { table.unpack(start) }, { 0, 0, 0 }, { 0, 0, 0 }
  for t = 1, steps do
    local g = plain_gradient(p)
    for i = 1, #p do
      if o.coupled then g[i] = g[i] + o.decay * p[i] end
      m[i] = 0.9 * m[i] + 0.1 * g[i]
      v[i] = 0.999 * v[i] + 0.001 * g[i] ^ 2
      local mhat, vhat = m[i] / (1 - 0.9 ^ t), v[i] / (1 - 0.999 ^ t)
      local decay = o.coupled and 0 or o.lr * o.decay * p[i]
      p[i] = p[i] - decay - o.lr * mhat / (math.sqrt(vhat) + 1e-8)
    end
  end
  return p
end

local function sgd_by_hand(steps, o)
  local p, buf = { table.unpack(start) }, { 0, 0, 0 }
  for _ = 1, steps do
    local g = plain_gradient(p)
    for i = 1, #p do
      g[i] = g[i] + o.decay * p[i]
      buf[i] = o.momentum * buf[i] + g[i]
      p[i] = p[i] - o.lr * (o.nesterov and g[i] + o.momentum * buf[i] or buf[i])
    end
  end
  return p
end

local function rmsprop_by_hand(steps, o)
  local p, v, m, buf = { table.unpack(start) }, {}, {}, {}
  for i = 1, #p do v[i], m[i], buf[i] = o.initial or 0, 0, 0 end
  for t = 1, steps do
    local g = plain_gradient(p)
    for i = 1, #p do
      g[i] = g[i] + o.decay * p[i]
      v[i] = o.keep * v[i] + o.add * g[i] ^ 2
      m[i] = o.keep * m[i] + o.add * g[i]
      local spread = o.centered and v[i] - m[i] ^ 2 or v[i]
      local d = g[i] / (math.sqrt(spread) + o.eps)
      buf[i] = (o.momentum or 0) * buf[i] + d
      p[i] = p[i] - o.lr / (1 + (t - 1) * (o.lr_decay or 0)) * buf[i]
    end
  end
  return p
end

local function lion_by_hand(steps, o)
  local p, m = { table.unpack(start) }, { 0, 0, 0 }
  for _ = 1, steps do
    local g = plain_gradient(p)
    for i = 1, #p do
      local c_i = 0.9 * m[i] + 0.1 * g[i]
      p[i] = p[i] - o.lr * ((c_i > 0 and 1 or c_i < 0 and -1 or 0) + o.decay * p[i])
      m[i] = 0.99 * m[i] + 0.01 * g[i]
    end
  end
  return p
end

local function norm_of(x)
  local sum = 0
  for i = 1, #x do sum = sum + x[i] ^ 2 end
  return math.sqrt(sum)
end

local function lamb_by_hand(steps, o)
  local p, m, v = { table.unpack(start) }, { 0, 0, 0 }, { 0, 0, 0 }
  for t = 1, steps do
    local g, r = plain_gradient(p), {}
    for i = 1, #p do
      m[i] = 0.9 * m[i] + 0.1 * g[i]
      v[i] = 0.999 * v[i] + 0.001 * g[i] ^ 2
      r[i] = m[i] / (1 - 0.9 ^ t) / (math.sqrt(v[i] / (1 - 0.999 ^ t)) + 1e-6)
        + o.decay * p[i]
    end
    local trust = norm_of(p) / norm_of(r)
    for i = 1, #p do p[i] = p[i] - o.lr * trust * r[i] end
  end
  return p
end

local function product(a, b)
  local out = {}
  for i = 1, #a do
    out[i] = {}
    for j = 1, #b[1] do
      out[i][j] = 0
      for k = 1, #b do out[i][j] = out[i][j] + a[i][k] * b[k][j] end
    end
  end
  return out
end

local function map(f, ...)
  local lists, out = { ... }, {}
  for i = 1, #lists[1] do
    out[i] = {}
    for j = 1, #lists[1][1] do
      local at = {}
      for k, list in ipairs(lists) do at[k] = list[i][j] end
      out[i][j] = f(table.unpack(at))
    end
  end
  return out
end

local function turned(a)
  local out = {}
  for j = 1, #a[1] do
    out[j] = {}
    for i = 1, #a do out[j][i] = a[i][j] end
  end
  return out
end

-- Of a gradient p^3.
local function muon_by_hand(p, steps, o)
  local buf = map(function() return 0 end, p)
  for _ = 1, steps do
    local g = map(function(x) return x ^ 3 end, p)
    buf = map(function(b, x) return 0.95 * b + x end, buf, g)
    local u = o.nesterov and map(function(x, b) return x + 0.95 * b end, g, buf) or buf
    local high, sum = #u > #u[1], 0
    local x = high and turned(u) or u
    map(function(e) sum = sum + e ^ 2 end, x)
    x = map(function(e) return e / (math.sqrt(sum) + 1e-7) end, x)
    for _ = 1, 5 do
      local a = product(x, turned(x))
      local b = map(function(e, f) return -4.7750 * e + 2.0315 * f end, a, product(a, a))
      x = map(function(e, f) return 3.4445 * e + f end, x, product(b, x))
    end
    if high then x = turned(x) end
    local long = math.max(1, #p / #p[1]) ^ 0.5
    p = map(function(e, d) return e - o.lr * (long * d + o.decay * e) end, p, x)
  end
  return p
end

describe("an optimizer", function()
  for _, in_trace in ipairs { true, false } do
    local where = in_trace and "in a compiled step" or "outside a trace"

    it("adam is its paper's algorithm " .. where, function()
      local p = descend(function(params) return optim.adam(params) end, 20,
        in_trace)
      near(adam_by_hand(20, { lr = 0.001, decay = 0 }), p)
    end)

    it("adamw decays the weight, not the gradient, " .. where, function()
      local p = descend(function(params)
        return optim.adamw(params, { lr = 0.05, weight_decay = 0.3 })
      end, 20, in_trace)
      near(adam_by_hand(20, { lr = 0.05, decay = 0.3 }), p)
    end)

    it("sgd has momentum and nesterov " .. where, function()
      for _, nesterov in ipairs { false, true } do
        local p = descend(function(params)
          return optim.sgd(params, { lr = 0.05, momentum = 0.9,
            weight_decay = 0.1, nesterov = nesterov })
        end, 10, in_trace)
        near(sgd_by_hand(10, { lr = 0.05, momentum = 0.9, decay = 0.1,
          nesterov = nesterov }), p)
      end
    end)

    it("rmsprop has momentum and centering " .. where, function()
      for _, momentum in ipairs { 0, 0.9 } do
        for _, centered in ipairs { false, true } do
          local p = descend(function(params)
            return optim.rmsprop(params, { lr = 0.01, alpha = 0.9, eps = 1e-3,
              momentum = momentum, centered = centered, weight_decay = 0.1 })
          end, 10, in_trace)
          near(rmsprop_by_hand(10, { lr = 0.01, keep = 0.9, add = 0.1, eps = 1e-3,
            momentum = momentum, centered = centered, decay = 0.1 }), p)
        end
      end
    end)

    it("adagrad adds up squares " .. where, function()
      local p = descend(function(params)
        return optim.adagrad(params, { lr = 0.1, lr_decay = 0.2, initial = 0.5,
          weight_decay = 0.1 })
      end, 10, in_trace)
      near(rmsprop_by_hand(10, { lr = 0.1, keep = 1, add = 1, eps = 1e-10, initial = 0.5,
        lr_decay = 0.2, decay = 0.1 }), p)
    end)

    it("lion moves by a momentum's sign " .. where, function()
      local p = descend(function(params)
        return optim.lion(params, { lr = 0.05, weight_decay = 0.3 })
      end, 20, in_trace)
      near(lion_by_hand(20, { lr = 0.05, decay = 0.3 }), p)
    end)

    it("lamb moves as far as the parameter is long " .. where, function()
      for _, decay in ipairs { 0, 0.3 } do
        local p = descend(function(params)
          return optim.lamb(params, { lr = 0.05, weight_decay = decay })
        end, 20, in_trace)
        near(lamb_by_hand(20, { lr = 0.05, decay = decay }), p)
      end
    end)

    it("sgd without momentum keeps no state " .. where, function()
      local p, opt = descend(function(params)
        return optim.sgd(params, { lr = 0.05, weight_decay = 0.1 })
      end, 10, in_trace)
      near(sgd_by_hand(10, { lr = 0.05, momentum = 0, decay = 0.1 }), p)
      assert.is_nil(opt:state()["1.buf"])
    end)
  end

  it("muon makes a momentum orthogonal, and leaves the rest to adamw", function()
    local wide = { { 1.0, -0.5, 0.3 }, { 0.2, 0.7, -1.1 } }
    for _, nesterov in ipairs { true, false } do
      for _, values in ipairs { wide, turned(wide) } do
        local p = mrt.parameter(mrt.tensor(values, "f64"))
        local kernel = mrt.parameter(p:reshape(#values, -1, 1))
        local q = mrt.parameter(mrt.tensor(values, "f64"))
        local b = mrt.parameter(mrt.tensor(start, "f64"))
        local all = { p, kernel, q, b }
        local opt = optim.muon({ { params = { p, kernel } }, { params = { q }, adamw = true },
          { params = { b } } }, { lr = 0.1, nesterov = nesterov, weight_decay = 0.2,
            adamw_scale = 0.5, betas = { 0.9, 0.999 } })
        local step = mrt.compile(function()
          local grads = {}
          for i = 1, 3 do grads[i] = all[i] ^ 3 end
          grads[4] = mrt.tensor(c, "f64") * b ^ 3
          opt:step(grads)
        end)
        for _ = 1, 5 do step() end
        local wanted = muon_by_hand(values, 5, { lr = 0.1, decay = 0.2, nesterov = nesterov })
        for i, row in ipairs(wanted) do
          near(row, p:totable()[i])
          near(row, kernel:flatten(2):totable()[i])
        end
        near(adam_by_hand(5, { lr = 0.05, decay = 0.2 }), b:totable())
        assert.is_nil(opt:state()["1.m"] or opt:state()["3.buf"])
      end
    end
  end)

  it("lion, lamb and muon are the same in micro-batches, clipped and skipped", function()
    for _, name in ipairs { "lion", "lamb", "muon" } do
      local function run(accumulate, when)
        mrt.seed(1)
        local w = mrt.parameter(mrt.randn(4, 3))
        local opt = optim[name]({ w }, { lr = 0.1 })
        local step = mrt.compile(function(x, due)
          local loss = x:matmul(w):square():mean()
          opt:step(mrt.grad(loss, { w }), { clip = 0.5, when = due })
          return loss
        end, { accumulate = accumulate })
        local before, x = w:bytes(), mrt.randn(8, 4)
        for _ = 1, 3 do step(x, mrt.tensor(when)) end
        if not when then
          assert.equal(before, w:bytes())
          for _, s in pairs(opt:state()) do assert.equal(0, s:abs():sum():item()) end
        end
        return w:flatten():totable()
      end
      near(run(1, true), run(4, true), 1e-5)
      run(4, false)
    end
  end)

  it("lamb starts from nothing", function()
    local p = mrt.parameter(mrt.tensor { 0.0, 0.0 })
    local opt = optim.lamb({ p }, { lr = 0.1 })
    opt:step { mrt.tensor { 0.0, 0.0 } }
    assert.same({ 0, 0 }, p:totable())
    opt:step { mrt.tensor { 1.0, -1.0 } }
    assert.is_true(p:totable()[1] < 0 and p:totable()[2] > 0)
  end)

  it("adam adds its decay to the gradient", function()
    local p = descend(function(params)
      return optim.adam(params, { lr = 0.05, weight_decay = 0.3 })
    end, 20, true)
    near(adam_by_hand(20, { lr = 0.05, decay = 0.3, coupled = true }), p)
  end)
end)
