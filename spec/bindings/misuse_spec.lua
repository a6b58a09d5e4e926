--- misuse_spec.lua -- whatever a function of the library is given, it works or
--- says at the caller's line what is wrong
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local random_graph = require "support.random_graph"
local nn, optim, data, train = mrt.nn, mrt.optim, mrt.data, mrt.train

local function nothing() end

local variable = mrt.parameter(mrt.zeros(3, 3))
local values = { false, true, 0, -1, 0.5, 3, 0 / 0, math.maxinteger, "", "no such file", {},
  { 1 }, { 3, "a" }, { variable }, nothing, variable, mrt.zeros(2, 3), mrt.zeros {},
  mrt.tensor { 1, 2 }, nn.Linear(3, 3), nn.ReLU, setmetatable({}, { __call = nothing }) }

-- Names of options that one or another of them has.
local names = { "lr", "steps", "batch", "context", "vocab", "dim", "layers", "heads", "eps",
  "bias", "init", "groups", "stride", "padding", "model", "loss", "loader", "optimizer",
  "clip", "folder", "parts", "unit", "seed", "betas", "momentum", "mode", "depth", "classes",
  "params", "text", "files", "dtype", "reduction", "warmup", "at", "every", "factor" }

local function generate(seed)
  local random = random_graph.generator(seed)
  local function value()
    if random(4) > 0 then return values[random(#values + 1) + 1] end -- nil past the last
    local given = {}
    for _ = 1, random(5) do given[names[random(#names) + 1]] = values[random(#values) + 1] end
    return given
  end
  return random, value
end

-- What is called: constructors, and then what they made.
local subjects = {}
local function add(prefix, list, skipped)
  for name, f in pairs(list) do
    if not skipped[name] and (type(f) == "function" or type(f) == "table") then
      subjects[#subjects + 1] = { prefix .. name, f }
    end
  end
end
add("nn.", nn, { Module = true, initial = true, init = true })
add("nn.init.", nn.init, {})
add("nn.initial.", nn.initial, {})
add("optim.", optim, {})
add("data.", data, { random = true, idle = true })
add("data.random.", data.random, {})
add("policy.", mrt.policy, {})
add("prune.", mrt.prune, {})
add("estimate.", mrt.estimate, { dtypes = true, gpt3 = true }) -- tables
add("train.", train, { log = true, snapshots = true }) -- these make folders
for _, name in ipairs { "zeros", "full", "arange", "linspace", "eye", "rand", "randint",
  "from_bytes", "cat", "stack", "grad", "custom", "variable", "name", "eval", "load", "open",
  "compile", "checkpoint", "set_rng_state", "memory", "tensor" } do
  subjects[#subjects + 1] = { "mrt." .. name, mrt[name] }
end
table.sort(subjects, function(a, b) return a[1] < b[1] end)

local here = debug.getinfo(1, "S").short_src

local function check(name, seed, ok, err)
  if ok then return end
  local told = type(err) == "table" and err.code and err.position
    and err.position:find(here, 1, true)
  assert(told, ("%s, seed %d: %s"):format(name, seed, tostring(err)))
end

describe("whatever it is given,", function()
  it("a function works or raises at the caller's line", function()
    for _, subject in ipairs(subjects) do
      local name, f = table.unpack(subject)
      for seed = 1, 40 do
        local random, value = generate(seed)
        local args = { n = random(4) }
        for i = 1, args.n do args[i] = value() end
        local ok, made = pcall(function() return (f(table.unpack(args, 1, args.n))) end)
        check(name, seed, ok, made)
      end
    end
  end)

  it("a module works or raises at the caller's line", function()
    local modules = { nn.Linear(3, 3), nn.Conv2d(3, 3, 1), nn.ConvTranspose2d(3, 3, 1),
      nn.MaxPool2d(2), nn.Upsample(2), nn.Flatten(), nn.Embedding(3, 3), nn.EmbeddingBag(3, 3),
      nn.LayerNorm(3), nn.BatchNorm(3), nn.GroupNorm(1, 3), nn.RMSNorm(3), nn.Dropout(0.5),
      nn.MLP(4), nn.LSTM(3, 3), nn.GRU(3, 3), nn.ReLU(),
      nn.GPT { vocab = 3, dim = 4, layers = 1, heads = 1, context = 3 },
      nn.UNet { classes = 2, depth = 1, width = 2 } }
    for _, module in ipairs(modules) do
      for seed = 1, 40 do
        local _, value = generate(seed)
        local a, b, c = value(), value(), value()
        check(module.type, seed, pcall(function() return (module(a, b, c)) end))
        check(module.type .. ":load_state", seed, pcall(function() module:load_state(a) end))
      end
    end
  end)

  it("an optimizer works or raises at the caller's line", function()
    for _, name in ipairs { "sgd", "adam", "adamw", "rmsprop", "adagrad" } do
      local opt = optim[name] { variable }
      for seed = 1, 40 do
        local _, value = generate(seed)
        local a, b = value(), value()
        check(name .. ":step", seed, pcall(function() opt:step(a, b) end))
        check(name .. ":load_state", seed, pcall(function() opt:load_state(a) end))
      end
    end
  end)
end)

-- What random calls once found: an error that named a line of the library.
describe("at the caller's line", function()
  local function refused(f)
    local ok, err = pcall(f)
    assert.is_false(ok)
    check("", 0, ok, err)
  end

  it("functions that others returned say what is wrong", function()
    for _, schedule in ipairs { optim.constant { lr = 1 }, optim.cosine { lr = 1, steps = 3 },
      optim.linear { lr = 1, steps = 3 }, optim.step { lr = 1, every = 2 },
      optim.multistep { lr = 1, at = { 2 } }, optim.exponential { lr = 1, factor = 0.5 },
      optim.one_cycle { lr = 1, steps = 3 } } do
      for _, step in ipairs { true, {}, "x" } do refused(function() return (schedule(step)) end) end
      assert.is_number(schedule(1))
    end
    refused(function() return (data.random.order(3, 1)(true)) end)
    refused(function() return (nn.initial.xavier_uniform()(variable, 2)) end)
    refused(function() return (nn.initial.kaiming_normal()("x", 2)) end)
  end)

  it("options and lists are of their types", function()
    local step = mrt.compile(function(x) return x + 1 end)
    for _, f in ipairs {
      function() return (variable:var { correction = variable }) end,
      function() return (variable:std { correction = "x" }) end,
      function() mrt.set_rng_state { seed = 1, next = true } end,
      function() return (nn.initial.gain("leaky_relu", {})) end,
      function() return (mrt.estimate.states { parameters = { 3 } }) end,
      function() return (mrt.estimate.zero { parameters = 1, stage = 1e30 }) end,
      function() return (optim.one_cycle { lr = nothing, steps = 3 }) end,
      function() return (data.idx { true }) end,
      function() return (train.step { model = {}, optimizer = {}, loss = nothing }) end,
      function() return (data.idx { nil, "x" }) end,
      function() return (mrt.estimate.conv2d { batch = 1, inputs = 1, filters = 1,
        height = 2 ^ 70, width = 2 ^ 70, kernel = 3, groups = 2 ^ 80 }) end,
      function() return (step:measure({}, variable)) end,
      function() return (step:measure(nil, variable)) end,
    } do refused(f) end
    assert.matches("^Upsample%(truex2%)", tostring(nn.Upsample { true, 2 }))
  end)
end)
