--- pretty_spec.lua -- what objects look like at the prompt, and printed
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local mrt = require "mrt"
local pretty = require "mrt.cli.repl.pretty"

local nn, optim, data = mrt.nn, mrt.optim, mrt.data

local function shown(value, width) return pretty.value(value, { width = width or 80 }) end

local function lines_of(text) return select(2, text:gsub("\n", "\n")) + 1 end

describe("an object as text", function()
  it("says of optimizers what they do to what", function()
    local model = nn.Linear(3, 2)
    local opt = optim.adamw(model:parameters(), { lr = optim.cosine { lr = 0.1, steps = 100 } })
    assert.equal("adamw { lr = cosine { lr = 0.1, min = 0, steps = 100, warmup = 0 } } of 2 "
      .. "tensors, 8 numbers, 32 B; state 68 B; 0 updates", tostring(opt))
    opt.lr = 0.5
    opt:step(mrt.grad(model(mrt.ones(1, 3)):sum(), model:parameters()))
    assert.matches("^adamw { lr = 0.5 } of .*; 1 update$", tostring(opt))
    assert.equal("ema { decay = 0.9 } of 2 tensors, 8 numbers, 32 B",
      tostring(optim.ema(model:parameters(), { decay = 0.9 })))
    assert.matches("^lbfgs .*; 0 iterations$", tostring(optim.lbfgs(model:parameters())))
    assert.equal("class adamw", tostring(optim.adamw))
  end)

  it("says of optimizers within a trace what is known there", function()
    local model = nn.Linear(3, 2)
    local opt, text = optim.sgd(model:parameters()), nil
    mrt.compile(function(x)
      text = tostring(opt)
      return x
    end)(mrt.ones(1))
    assert.matches("^sgd { lr = 0.001 } of 2 tensors", text)
  end)

  it("says of loaders and texts how much there is", function()
    local x = mrt.ones(5, 2)
    local loader = data.batches({ x, x }, { batch = 2 })
    assert.equal("loader of 5 examples: 3 mini-batches of 2, shuffled; epoch 1, 0 taken",
      tostring(loader))
    local text = assert(data.text { text = ("abc "):rep(100) })
    assert.equal("text of 400 tokens, vocabulary of 4 (bytes)", tostring(text))
    assert.matches("^text of 360 tokens", tostring((text:split(0.9))))
    assert.equal("stream in mini-batches of 2: 0 rows taken, 0 waiting, 0 late",
      tostring(data.stream(function() return nil end, { batch = 2 })))
    local path = files.write(files.name(), ("\0\0"):rep(7))
    assert.equal("7 tokens in a file, as i32", tostring(assert(data.tokens(path))))
  end)

  it("says of compiled functions, distributions and policies what they are", function()
    local step = mrt.compile(function(x) return x + 1 end, { name = "more" })
    assert.equal("mrt.Compiled: more, 0 plans", tostring(step))
    mrt.eval(step(mrt.ones(2)))
    assert.matches("^mrt.Compiled: more, 1 plan, peak [%d.]+ %S+$", tostring(step))
    assert.equal("Normal { loc = 0, scale = 1 }, batch [], event []",
      tostring(mrt.distributions.Normal(0, 1)))
    assert.equal("policy.checkpoint.every(2)", tostring(mrt.policy.checkpoint.every(2)))
    assert.equal("linear { lr = 1, min = 0, steps = 2, warmup = 0 }",
      shown(optim.linear { lr = 1, steps = 2 }))
    assert.equal("plateau { lr = 0.1 }", shown(optim.plateau { lr = 0.1 }.rate))
  end)
end)

describe("a value at the prompt", function()
  it("is a list of a state's tensors, in the order of their numbers", function()
    local model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    assert.equal("layers.1.bias    f32[2] [0.0 0.0]\nlayers.1.weight  f32[2,2]\n"
      .. "layers.3.bias    f32[1] [0.0]\nlayers.3.weight  f32[1,2]\n"
      .. "4 tensors, 9 numbers, 36 B", shown(model:load_state {
        ["layers.1.bias"] = mrt.zeros(2), ["layers.1.weight"] = mrt.zeros(2, 2),
        ["layers.3.bias"] = mrt.zeros(1), ["layers.3.weight"] = mrt.zeros(1, 2) }:state()))
    local large = {}
    for i = 1, 100 do large["p" .. i] = mrt.zeros(2, 2) end
    local text = shown(large)
    assert.equal(42, lines_of(text))
    assert.matches("\np2 +f32.*\np10 .*\n%.%.%. 60 more\n100 tensors, 400 numbers, 1.56 KiB$", text)
  end)

  it("shows tensors in tables by their types and names", function()
    assert.equal("{ f32[2,2], x = f32[2,3] weight }",
      shown { mrt.zeros(2, 2), x = mrt.name(mrt.zeros(2, 3), "weight") })
    assert.equal(shown(mrt.arange(60), 40), shown(mrt.arange(60), 40))
    assert.is_true(lines_of(shown(mrt.arange(60), 40)) > lines_of(shown(mrt.arange(60), 80)))
  end)

  it("lists what a library has", function()
    local text = shown(optim)
    assert.matches("^mrt.optim\nclasses:\n  .*adamw.*functions:\n  chain  .*cosine", text)
    text = shown(nn)
    assert.matches("modules:\n  init  initial\nclasses:\n", text)
    assert.matches("Linear ", text, 1, true)
    for _, value in ipairs { mrt, nn, optim, mrt.policy } do
      for _, width in ipairs { 50, 80, 120 } do
        for line in shown(value, width):gmatch "[^\n]+" do assert.is_true(#line <= width, line) end
      end
    end
    assert.equal("{ <mrt.optim> }", shown { optim })
    assert.equal("function mrt.nn.cross_entropy", shown(nn.cross_entropy))
    assert.matches("^function%(a, %.%.%.%) of .*pretty_spec.lua:%d+$", shown(function(a, ...)
      return a, ...
    end))
  end)

  it("keeps to one budget, however tables lie in tables", function()
    local numbers, list = {}, {}
    for i = 1, 1000 do numbers[i] = i end
    for i = 1, 1000 do list[i] = numbers end
    assert.is_true(lines_of(shown(numbers)) < 30)
    assert.is_true(lines_of(shown(list)) < 100)
    local deep = {}
    for i = 1, 50 do
      deep["k" .. i] = {}
      for j = 1, 50 do deep["k" .. i]["l" .. j] = { a = { b = {} } } end
    end
    assert.is_true(lines_of(shown(deep)) < 300)
    assert.is_true(#shown { ("x"):rep(1e6) } < 300)
    assert.equal(("é"):rep(100), (shown { ("é"):rep(101) }:match '"(.-)"'))
  end)
end)
