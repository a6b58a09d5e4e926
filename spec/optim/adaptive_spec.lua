--- adaptive_spec.lua -- optimizers composed of operators, against their formulas in plain
--- Lua; with micro-batches, clipping, skipped updates, narrow weights and saved states
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local near = require "support.near"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local start, c = { 1.5, -2.0, 0.3 }, { 1.0, 0.5, -3.0 }
local function gradient_of(p, i) return c[i] * p ^ 2 - 0.4 end

-- Each by hand: one element's new value from it, its gradient, its state, the update's number.
local by_hand = {
  adamax = function(p, g, s, t, o)
    s.m = 0.9 * (s.m or 0) + 0.1 * g
    s.u = math.max(0.999 * (s.u or 0), math.abs(g) + 1e-8)
    return p - o.lr / (1 - 0.9 ^ t) * s.m / s.u
  end,
  adadelta = function(p, g, s, _, o)
    s.v = 0.9 * (s.v or 0) + 0.1 * g * g
    local d = math.sqrt((s.s or 0) + 1e-6) / math.sqrt(s.v + 1e-6) * g
    s.s = 0.9 * (s.s or 0) + 0.1 * d * d
    return p - o.lr * d
  end,
  nadam = function(p, g, s, t, o)
    local function mu(k) return 0.9 * (1 - 0.5 * 0.96 ^ (k * 0.004)) end
    s.M = (s.M or 1) * mu(t)
    s.m = 0.9 * (s.m or 0) + 0.1 * g
    s.v = 0.999 * (s.v or 0) + 0.001 * g * g
    local d = (1 - mu(t)) / (1 - s.M) * g + mu(t + 1) / (1 - s.M * mu(t + 1)) * s.m
    return p - o.lr * d / (math.sqrt(s.v / (1 - 0.999 ^ t)) + 1e-8)
  end,
  radam = function(p, g, s, t, o)
    s.m = 0.9 * (s.m or 0) + 0.1 * g
    s.v = 0.999 * (s.v or 0) + 0.001 * g * g
    local most, rest = 2 / 0.001 - 1, 1 - 0.999 ^ t
    local r, d = most - 2 * t * 0.999 ^ t / rest, s.m / (1 - 0.9 ^ t)
    if r > 5 then
      d = d * math.sqrt(rest) / (math.sqrt(s.v) + 1e-8)
        * math.sqrt((r - 4) * (r - 2) * most / ((most - 4) * (most - 2) * r))
    end
    return p - o.lr * d
  end,
  asgd = function(p, g, _, t, o)
    local eta = o.lr / (1 + 1e-4 * o.lr * (t - 1)) ^ 0.75
    return p - eta * 1e-4 * p - eta * g
  end,
  rprop = function(p, g, s, _, o)
    local same = g * (s.h or 0)
    s.s = math.min(50, math.max(1e-6, (s.s or o.lr) * (same > 0 and 1.2 or same < 0 and 0.5 or 1)))
    s.h = same < 0 and 0 or g
    return p - (s.h > 0 and s.s or s.h < 0 and -s.s or 0)
  end,
}

local names = { "adafactor" }
for name in pairs(by_hand) do names[#names + 1] = name end
table.sort(names)

local function descend(name, o, steps, in_trace)
  local p = mrt.parameter(mrt.tensor(start, "f64"), "p")
  local weights = mrt.tensor(c, "f64")
  local opt = optim[name]({ p }, o)
  local function step() opt:step { weights * p * p - 0.4 } end
  if in_trace then step = mrt.compile(step) end
  for _ = 1, steps do step() end
  return p:totable(), opt
end

describe("an optimizer that is composed", function()
  for _, in_trace in ipairs { true, false } do
    it("is its formula " .. (in_trace and "in a compiled step" or "outside a trace"), function()
      for name, formula in pairs(by_hand) do
        local steps = 12
        for _, maximize in ipairs { false, true } do
          local decay = name == "rprop" and 0 or 0.1
          local wanted = {}
          for i, p in ipairs(start) do
            local s = {}
            for t = 1, steps do
              local g = gradient_of(p, i)
              p = formula(p, (maximize and -g or g) + decay * p, s, t, { lr = 0.02 })
            end
            wanted[i] = p
          end
          near(wanted, (descend(name, { lr = 0.02, weight_decay = decay, maximize = maximize },
            steps, in_trace)), 1e-6)
        end
      end
    end)
  end

  it("adafactor keeps a row and a column of second moments", function()
    local values = { { 1.0, -2.0, 0.5 }, { 0.3, 0.7, -1.1 } }
    local p = mrt.parameter(mrt.tensor(values, "f64"))
    local opt = optim.adafactor({ p }, { lr = 0.1, weight_decay = 0.1 })
    assert.equal("f64[2,1]", opt:state()["1.row"]:type())
    assert.equal("f64[1,3]", opt:state()["1.col"]:type())
    assert.equal((2 + 3) * 8, optim.adafactor:state_bytes { p })
    local row, col = { 0, 0 }, { 0, 0, 0 }
    for t = 1, 4 do
      opt:step { p * p * p }
      local share, rms, update, long = t ^ -0.8, 0, {}, 0
      for i = 1, 2 do
        for j = 1, 3 do rms = rms + values[i][j] ^ 2 / 6 end
      end
      local a = math.max(1e-3, math.sqrt(rms)) * math.min(0.1, 1 / math.sqrt(t))
      for i = 1, 2 do
        local mean = 0
        for j = 1, 3 do mean = mean + values[i][j] ^ 6 / 3 end
        row[i] = row[i] + share * (mean - row[i])
      end
      for j = 1, 3 do
        local mean = (values[1][j] ^ 6 + values[2][j] ^ 6) / 2
        col[j] = col[j] + share * (mean - col[j])
      end
      for i = 1, 2 do
        update[i] = {}
        for j = 1, 3 do
          local v = row[i] * col[j] / ((row[1] + row[2]) / 2)
          update[i][j] = values[i][j] ^ 3 / math.sqrt(v)
          long = long + update[i][j] ^ 2 / 6
        end
      end
      for i = 1, 2 do
        for j = 1, 3 do
          values[i][j] = values[i][j] * (1 - 0.1 * 0.1)
            - a * update[i][j] / math.max(1, math.sqrt(long))
        end
        near(values[i], p:totable()[i], 1e-6)
      end
    end
  end)

  it("asgd averages where it was", function()
    local _, opt = descend("asgd", { lr = 0.02, t0 = 2 }, 5, true)
    local wanted, seen = {}, {}
    for i, p in ipairs(start) do
      for t = 1, 5 do
        p = by_hand.asgd(p, gradient_of(p, i), nil, t, { lr = 0.02 })
        seen[t] = p
      end
      wanted[i] = seen[4] + (seen[5] - seen[4]) / 2
    end
    near(wanted, opt:state()["1.ax"]:totable(), 1e-6)
  end)

  it("is the same in micro-batches, clipped and skipped", function()
    for _, name in ipairs(names) do
      local function run(accumulate, when)
        mrt.seed(1)
        local w = mrt.parameter(mrt.randn(4, 3))
        local opt = optim[name]({ w }, { lr = 0.1 })
        local step = mrt.compile(function(x, due)
          local loss = x:matmul(w):square():mean()
          opt:step(mrt.grad(loss, { w }), { clip = 0.5, when = due })
          return loss
        end, { accumulate = accumulate })
        local before, x, state = w:bytes(), mrt.randn(8, 4), {}
        for key, s in pairs(opt:state()) do state[key] = s:bytes() end
        for _ = 1, 3 do step(x, mrt.tensor(when)) end
        if not when then
          assert.equal(before, w:bytes())
          for key, s in pairs(opt:state()) do assert.equal(state[key], s:bytes(), name .. key) end
        end
        return w:flatten():totable()
      end
      near(run(1, true), run(4, true), 1e-4)
      run(4, false)
    end
  end)

  it("trains weights of bf16, under a budget, and goes on from a saved state", function()
    math.randomseed(3)
    for _, name in ipairs(names) do
      local o = { precision = math.random() < 0.5 and policy.precision.bf16_pure() or nil,
        accumulate = math.random() < 0.5 and 2 or nil }
      local x = mrt.eval(mrt.randn(16, 8))
      local function new()
        mrt.seed(5)
        local model = nn.Linear(8, 8)
        local opt = optim[name](model:parameters(), { lr = 0.01 })
        local step = mrt.compile(function(y)
          local loss = (model(y) - y):pow(2):mean()
          opt:step(mrt.grad(loss, model:parameters()))
          return loss
        end, o)
        return model, opt, step
      end
      local model, opt, step = new()
      local first = step(x):item()
      for _ = 1, 15 do step(x) end
      local other_model, other, other_step = new()
      other_step(x)
      other_model:load_state(model:state())
      other:load_state(opt:state())
      local last, again = step(x):item(), other_step(x):item()
      assert(last < first, name)
      assert.equal(last, again, name)
      for _, s in pairs(opt:state()) do
        local all = s:isnan():any():item()
        assert.is_false(all, name)
      end
    end
  end)

  it("refuses options that cannot be", function()
    local function refused(name, o, text)
      local p = { mrt.parameter(mrt.zeros(2)) }
      assert.match("^" .. name .. ": .*" .. text, failure(optim[name], p, o).message)
    end
    refused("rprop", { lr = function() return 1 end }, "no meaning")
    refused("rprop", { etas = { 1.2, 0.5 } }, "etas")
    refused("rprop", { step_sizes = { 1 } }, "step_sizes")
    refused("adadelta", { rho = 2 }, "rho = 2")
    refused("adafactor", { d = 0.5 }, "d = 0.5")
    refused("adafactor", { eps = { 1 } }, "eps: .*nil")
    refused("nadam", { betas = { 0.9, 1 } }, "betas%[2%]")
    refused("radam", { momentum = 1 }, "no option 'momentum'")
  end)
end)
