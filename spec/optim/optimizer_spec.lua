--- optimizer_spec.lua -- what optimizers share: steps, clipping, state, groups,
--- schedules, averages
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local near = require "support.near"
local optim = mrt.optim

describe("every optimizer", function()
  it("clips the common length of all gradients", function()
    local a = mrt.parameter(mrt.tensor { 0.0 })
    local b = mrt.parameter(mrt.tensor { 0.0 })
    local opt = optim.sgd({ a, b }, { lr = 1 })
    local grads = { mrt.tensor { 3.0 }, mrt.tensor { 4.0 } }
    local norm = opt:step(grads, { clip = 1 })
    assert.equal(5, norm:item())
    near({ -0.6, -0.8 }, { a:totable()[1], b:totable()[1] })
    local clipped, length = optim.clip_grad_norm(grads, 10)
    assert.equal(5, length:item())
    near({ 3, 4 }, { clipped[1]:totable()[1], clipped[2]:totable()[1] })
  end)

  it("clips every element", function()
    local clipped = optim.clip_grad_value({ mrt.tensor { -3.0, 0.5, 3 } }, 1)
    near({ -1, 0.5, 1 }, clipped[1]:totable())
    assert.error_matches(function() optim.clip_grad_value(clipped, -1) end, "max = %-1")
    assert.error_matches(function() optim.clip_grad_norm(clipped) end, "max = nil")
    assert.error_matches(function() optim.clip_grad_norm(clipped[1], 1) end, "a list of tensors")
  end)

  it("refuses a module, and nothing at all", function()
    for _, name in ipairs { "sgd", "adam", "rmsprop", "adagrad", "lion", "lamb", "muon", "ema" } do
      assert.error_matches(function() optim[name](mrt.nn.Linear(1, 1)) end,
        name .. ": a module given, model:parameters%(%) wanted")
      assert.error_matches(function() optim[name] {} end, name .. ": no parameters")
    end
  end)

  it("leaves everything untouched when told not to", function()
    local p = mrt.parameter(mrt.tensor { 1.0, 2.0 })
    local opt = optim.adam({ p }, { lr = 0.1 })
    local step = mrt.compile(function(g, when)
      opt:step({ g }, { when = when })
    end)
    local g = mrt.tensor { 1.0, 1.0 }
    step(g, mrt.tensor(false))
    assert.same({ 1, 2 }, p:totable())
    assert.equal(0, opt.t:item())
    assert.same({ 0, 0 }, opt:state()["1.m"]:totable())
    step(g, mrt.tensor(true))
    assert.equal(1, opt.t:item())
    near({ 0.9, 1.9 }, p:totable())
  end)

  it("goes on where a saved state was", function()
    local function run(steps, opt, p)
      for _ = 1, steps do
        opt:step(mrt.grad((p * p * p * p):sum(), { p }))
      end
    end
    local function make(values)
      local p = mrt.parameter(mrt.tensor(values))
      return p, optim.adam({ p }, { lr = 0.1 })
    end
    local p, opt = make { 1.0, 2.0 }
    run(3, opt, p)
    local q, other = make(p:totable())
    other:load_state(opt:state())
    run(3, opt, p)
    run(3, other, q)
    assert.same(p:totable(), q:totable())
  end)

  it("reads its learning rate before every run", function()
    local p = mrt.parameter(mrt.tensor { 0.0 })
    local opt = optim.sgd({ p }, { lr = 1 })
    local step = mrt.compile(function(g) opt:step { g } end)
    local g = mrt.tensor { 1.0 }
    step(g)
    opt.lr = 10
    step(g)
    opt.lr = function(n) return 100 * n end   -- the third update
    step(g)
    assert.same({ -311 }, p:totable())
  end)

  it("gives groups their own settings, in the model's order", function()
    local model = mrt.nn.Linear(2, 2)
    local groups = optim.groups(model, { weight_decay = 0.5 })
    groups[2].lr = 0.25
    local opt = optim.sgd(groups, { lr = 1 })
    assert.same(model:parameters(), opt:parameters())
    local before = model.weight:totable()[1][1]
    local bias = model.bias:totable()[1]
    opt:step { mrt.zeros(2, 2), mrt.ones(2) }
    near({ before * 0.5, bias - 0.25 },
      { model.weight:totable()[1][1], model.bias:totable()[1] })
  end)

  it("names what does not fit", function()
    local p = mrt.parameter(mrt.zeros(2, 3), "weight")
    assert.error_matches(function() optim.sgd { p, p } end, "weight, is there twice")
    assert.error_matches(function() optim.sgd { mrt.zeros(2) } end,
      "parameter 1: a variable wanted, got f32%[2%]")
    local opt = optim.sgd { p }
    assert.error_matches(function() opt:step {} end, "0 gradients for 1 parameters")
    assert.error_matches(function() opt:step { mrt.zeros(3, 2) } end,
      "gradient 1 is f32%[3,2%], parameter weight is f32%[2,3%]")
    assert.error_matches(function() optim.adam({ p }, { beta = 1 }) end,
      "adam: no option 'beta'")
  end)

  it("can be written by a user", function()
    local signsgd = optim.Optimizer("signsgd", {}, {})
    function signsgd.update(_, p, g, _, at)
      p:assign(p - g:sign() * at.lr, { when = at.when })
    end
    local p = mrt.parameter(mrt.tensor { 1.0, -1.0 })
    signsgd({ p }, { lr = 0.5 }):step { mrt.tensor { 7.0, -0.1 } }
    assert.same({ 0.5, -0.5 }, p:totable())
  end)
end)

describe("a schedule", function()
  it("cosine rises, falls and stays", function()
    local lr = optim.cosine { lr = 1, min = 0.1, warmup = 9, steps = 109 }
    near({ 0.1, 0.9, 1, 0.55, 0.1, 0.1 },
      { lr(1), lr(9), lr(10), lr(60), lr(110), lr(1000) }, 1e-12)
  end)

  it("linear falls along a line", function()
    local lr = optim.linear { lr = 1, steps = 10 }
    near({ 1, 0.5, 0 }, { lr(1), lr(6), lr(11) }, 1e-12)
  end)

  it("constant only warms up, step goes down stairs", function()
    local lr = optim.constant { lr = 2, warmup = 1 }
    near({ 1, 2, 2 }, { lr(1), lr(2), lr(99) }, 1e-12)
    lr = optim.step { lr = 1, factor = 0.5, every = 3 }
    near({ 1, 1, 0.5, 0.25 }, { lr(1), lr(3), lr(4), lr(7) }, 1e-12)
    assert.error_matches(function() optim.cosine { lr = 1 } end,
      "cosine: steps is missing")
  end)

  it("multistep and exponential go down at steps, and at every step", function()
    local lr = optim.multistep { lr = 1, factor = 0.5, at = { 2, 5 } }
    near({ 1, 1, 0.5, 0.5, 0.25 }, { lr(1), lr(2), lr(3), lr(5), lr(6) }, 1e-12)
    lr = optim.exponential { lr = 1, factor = 0.5, warmup = 1, min = 0.2 }
    near({ 0.5, 1, 0.5, 0.25, 0.2 }, { lr(1), lr(2), lr(3), lr(4), lr(9) }, 1e-12)
    assert.error_matches(function() optim.multistep { lr = 1 } end, "at is missing")
    assert.error_matches(function() optim.exponential { lr = 1 } end, "factor is missing")
  end)

  it("one_cycle rises, falls and stays", function()
    local lr = optim.one_cycle { lr = 1, steps = 11, rise = 0.5, start = 10, finish = 100 }
    near({ 0.1, 1, 0.001, 0.001 }, { lr(1), lr(5.5), lr(11), lr(50) }, 1e-12)
    assert.is_true(lr(3) > lr(2) and lr(8) > lr(9))
  end)

  it("polynomial, inverse_sqrt and wsd fall in their ways", function()
    local lr = optim.polynomial { lr = 1, min = 0.2, steps = 12, warmup = 2, power = 2 }
    near({ 1 / 3, 1, 0.2 + 0.8 * 0.25, 0.2, 0.2 }, { lr(1), lr(3), lr(8), lr(13), lr(99) }, 1e-12)
    lr = optim.inverse_sqrt { lr = 1, warmup = 100 }
    near({ 0.01, 1, 0.5 }, { lr(1), lr(100), lr(400) }, 1e-12)
    lr = optim.wsd { lr = 1, min = 0.1, warmup = 9, steps = 100, decay = 20 }
    near({ 0.1, 1, 1, 0.1 + 0.9 * 0.5, 0.1, 0.1 },
      { lr(1), lr(10), lr(81), lr(86), lr(101), lr(999) }, 1e-12)
    lr = optim.wsd { lr = 1, steps = 100, decay = 20, way = "linear" }
    near({ 1, 0.5 }, { lr(1), lr(91) }, 1e-12)
    assert.error_matches(function() optim.wsd { lr = 1, steps = 10, decay = 11 } end, "decay 11")
    assert.error_matches(function() optim.wsd { lr = 1, steps = 10, decay = 1, way = "x" } end,
      "way 'x'")
  end)

  it("cosine_restarts and cyclic begin again", function()
    local lr = optim.cosine_restarts { lr = 1, min = 0.2, steps = 10, factor = 2, warmup = 1 }
    near({ 0.5, 1, 0.6, 1, 0.6, 1 }, { lr(1), lr(2), lr(7), lr(12), lr(22), lr(32) }, 1e-12)
    lr = optim.cosine_restarts { lr = 1, steps = 10 }
    near({ 1, 0.5, 1 }, { lr(1), lr(6), lr(10 ^ 9 * 10 + 1) }, 1e-12)
    lr = optim.cyclic { lr = 1, min = 0, up = 4, down = 2, mode = "triangular2" }
    near({ 0, 0.5, 1, 0.5, 0, 0.5 }, { lr(1), lr(3), lr(5), lr(6), lr(7), lr(11) }, 1e-12)
    assert.error_matches(function() optim.cyclic { lr = 1, min = 0, mode = "x" } end, "mode 'x'")
    assert.error_matches(function() optim.cyclic { lr = 1 } end, "min is missing")
  end)

  it("chain follows one after the other", function()
    local lr = optim.chain {
      { steps = 4, lr = optim.ramp { lr = 1, steps = 4, start = 0.5 } },
      { steps = 2, lr = 0.7 },
      { lr = optim.linear { lr = 1, steps = 10 } },
    }
    near({ 0.5, 0.875, 0.7, 0.7, 1, 0.5, 0 },
      { lr(1), lr(4), lr(5), lr(6), lr(7), lr(12), lr(99) }, 1e-12)
    local p = mrt.parameter(mrt.tensor { 0.0 })
    local opt = optim.sgd({ p }, { lr = lr })
    for _ = 1, 5 do opt:step { mrt.tensor { 1.0 } } end
    near({ -(0.5 + 0.625 + 0.75 + 0.875 + 0.7) }, p:totable(), 1e-6)
    assert.error_matches(function() optim.chain {} end, "a list of")
    assert.error_matches(function() optim.chain { { lr = 1 }, { lr = 2 } } end,
      "phase 1: steps is missing")
    assert.error_matches(function() optim.chain { { steps = 1, lr = "x" } } end, "a schedule")
  end)

  it("plateau falls when a value does not", function()
    local plateau = optim.plateau { lr = 1, factor = 0.5, patience = 1, min = 0.3 }
    local rates = {}
    for i, value in ipairs { 3, 2, 2, 2, 1, 1, 1, 1, 1 } do
      plateau:see(value)
      rates[i] = plateau.rate(i)
    end
    near({ 1, 1, 1, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3 }, rates)
  end)
end)

describe("moving averages", function()
  local function model()
    local p = mrt.parameter(mrt.tensor { 1.0, 2.0 }, "p")
    return p, optim.sgd({ p }, { lr = 1 })
  end

  it("follow the parameters, in a step or after it", function()
    for _, in_trace in ipairs { true, false } do
      local p, opt = model()
      local ema = optim.ema({ p }, { decay = 0.75 })
      local function step(g)
        opt:step { g }
        ema:update()
      end
      if in_trace then step = mrt.compile(step) end
      step(mrt.tensor { 1.0, 0.0 })
      step(mrt.tensor { 1.0, 0.0 })
      near({ 0.75 * 0.75 - 0.25, 2 }, ema.averages[1]:totable())
      near({ -1, 2 }, p:totable())
      ema:apply(function() near({ 0.75 * 0.75 - 0.25, 2 }, p:totable()) end)
      assert.error_matches(function() ema:apply(error, "broken") end, "broken")
      near({ -1, 2 }, p:totable())
      near({ 2 }, { ema.t:item() })
    end
  end)

  it("warm up, are skipped, saved and loaded", function()
    local p, opt = model()
    local ema = optim.ema({ p }, { decay = 0.9, warmup = true })
    opt:step { mrt.tensor { 1.0, 0.0 } }
    ema:update { when = mrt.tensor(false) }
    near({ 1, 2 }, ema.averages[1]:totable())
    ema:update { when = mrt.tensor(true) }
    near({ 0.1, 2 }, ema.averages[1]:totable())
    local other = optim.ema({ (model()) }):load_state(ema:state())
    near({ 0.1, 2 }, other.averages[1]:totable())
    assert.error_matches(function() optim.ema({ p }, { decay = 1 }) end, "decay = 1")
  end)
end)
