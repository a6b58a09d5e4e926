--- plan_spec.lua -- where an estimate and a plan describe the same, they agree
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local training = require "support.training"
local estimate, nn, optim = mrt.estimate, mrt.nn, mrt.optim

local function numel(params)
  local n = 0
  for _, p in ipairs(params) do n = n + p:numel() end
  return n
end

local shape = { vocab = 32, dim = 64, heads = 4, context = 16 }
local batch = 8

-- The plan of a GPT's training step with `layers` layers.
local function gpt_plan(layers)
  local model = nn.GPT { vocab = shape.vocab, dim = shape.dim, heads = shape.heads,
    context = shape.context, layers = layers }
  local opt = optim.adamw(model:parameters())
  -- forward, then backward, all kept, as the formulas have it
  local step = training.step(model, opt, { order = "program", spend = 0 })
  local tokens = mrt.randint(0, shape.vocab, batch, shape.context)
  return step:plan(tokens, tokens), model
end

local function sum(plan, kind)
  local bytes = 0
  for _, v in ipairs(plan:values()) do
    if v.kind == kind then bytes = bytes + v.bytes end
  end
  return bytes
end

describe("an estimate and a plan agree", function()
  it("on parameters", function()
    for _, o in ipairs { {}, { bias = false }, { tie = false }, { bias = false, tie = false } } do
      local described = { vocab = 31, dim = 24, layers = 3, context = 10, bias = o.bias,
        tie = o.tie }
      local expected = estimate.parameters(described)
      described.heads = 3
      assert.equal(expected, numel(nn.GPT(described):parameters()))
      described.dim, described.head_dim = 22, 5
      assert.equal(estimate.parameters { vocab = 31, dim = 22, layers = 3, context = 10,
        bias = o.bias, tie = o.tie, heads = 3, head_dim = 5 },
        numel(nn.GPT(described):parameters()))
    end
    for _, bias in ipairs { true, false } do
      assert.equal(estimate.linear { inputs = 7, outputs = 9, bias = bias }.parameters,
        numel(nn.Linear(7, 9, { bias = bias }):parameters()))
    end
  end)

  -- Each variable begins at a multiple of 64 bytes; these are multiples already.
  it("on what persists: weights and two states, and the count of updates", function()
    local plan, model = gpt_plan(2)
    assert.equal(estimate.states { parameters = numel(model:parameters()) }.persistent + 64,
      plan.persistent)
  end)

  -- Each class of mrt.optim, with each kind of state it has; of sizes that need no
  -- padding, large enough for 8 bits.
  it("on the state of every optimizer", function()
    local more = { sgd = { momentum = 0.9 }, rmsprop = { centered = true, momentum = 0.9 } }
    local classes = 0
    for name, class in pairs(optim) do
      local meta = type(class) == "table" and getmetatable(class)
      if meta and meta.__index == optim.Optimizer then
        classes = classes + 1
        local cases = { {}, more[name] }
        for _, state in ipairs { "bf16", "8bit" } do
          if class.defaults.state then
            local o = { state = state }
            for key, value in pairs(more[name] or {}) do o[key] = value end
            cases[#cases + 1] = o
          end
        end
        for _, o in ipairs(cases) do
          local model = nn.Linear(128, 64)
          local opt = class(model:parameters(), o)
          local plan = mrt.compile(function(x)
            local loss = model(x):sum()
            opt:step(mrt.grad(loss, opt:parameters()))
            return loss
          end):plan(mrt.zeros(4, 128))
          assert.equal(estimate.states { parameters = opt:parameters(), optimizer = name,
            options = o }.persistent + 64, plan.persistent, name .. " " .. (o.state or ""))
        end
      end
    end
    assert.is_true(classes >= 8)
  end)

  -- Without dropout and with fused attention; the formula leaves out the mean and
  -- deviation that each of two norms keeps for each token.
  it("on the activations of a layer", function()
    local statistics = 2 * 2 * 4 * batch * shape.context
    assert.equal(statistics + estimate.layer { sequence = shape.context, batch = batch,
      dim = shape.dim, heads = shape.heads, dtype = "f32", dropout = false,
      attention = "fused" }, sum(gpt_plan(4), "activation") - sum(gpt_plan(3), "activation"))
  end)

  it("on the boundaries: what the residual stream holds when the gradient begins", function()
    local layers = 4
    local boundary = estimate.boundary { tokens = batch * shape.context, dim = shape.dim,
      layers = 1, dtype = "f32" }
    local plan, start = gpt_plan(layers), nil
    for i, s in ipairs(plan:steps()) do
      if s.backward then start = start or i end
    end
    -- The stream holds the embedding's sum and, of each layer, its middle and its
    -- end, which is the boundary; others of that size are no linear layer's.
    local count = 0
    for _, v in ipairs(plan:values()) do
      if v.kind == "activation" and v.bytes == boundary and v.first < start
        and v.last >= start and (v.op == "linear" or v.op == "embedding") then
        count = count + 1
      end
    end
    assert.equal(2 * layers + 1, count)
  end)

  it("on what a linear layer keeps and gives", function()
    local o = estimate.linear { inputs = 64, outputs = 32, rows = 16 }
    local model = nn.Linear(64, 32)
    local plan = mrt.compile(function(x) return model(x) end):plan(mrt.zeros(16, 64))
    assert.equal(o.weights, plan.persistent)
    assert.equal(o.kept, plan.inputs)
    assert.equal(o.output, plan.outputs)
  end)
end)

describe("inference", function()
  -- Without gradients a chain needs an input and an output at a time.
  it("takes two buffers and a workspace for a chain of any length", function()
    local width, rows = 64, 32
    local buffer, transient = width * rows * 4, nil
    for _, n in ipairs { 4, 16, 64 } do
      local layers = {}
      for _ = 1, n do
        layers[#layers + 1] = nn.Linear(width, width)
        layers[#layers + 1] = nn.ReLU()
      end
      local model = nn.Sequential(table.unpack(layers))
      local plan = mrt.compile(function(x) return model(x) end):plan(mrt.zeros(rows, width))
      local workspace = 0
      for _, v in ipairs(plan:values()) do
        if v.kind == "workspace" then workspace = math.max(workspace, v.bytes) end
      end
      transient = transient or plan.transient
      assert.equal(transient, plan.transient)
      assert.equal(2 * buffer + workspace, plan.transient)
      assert.equal(n * estimate.linear { inputs = width, outputs = width }.weights, plan.persistent)
    end
  end)
end)
