-- spend_spec.lua -- what is computed again unasked: fewer bytes, the same bits, little time
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require "support.bits"
local random_graph = require "support.random_graph"
local ranks = require "support.ranks"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local GRAPHS <const> = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 20

local function images()
  return mrt.randn(8, 3, 16, 16), mrt.randint(0, 10, { 8 }, { dtype = "i32" })
end

-- Models whose activations are large enough to be worth a launch.
local models = {
  gpt = function()
    local model = nn.GPT { vocab = 64, context = 64, layers = 2, heads = 2, dim = 64,
      dropout = 0.1 }
    return model, function(x, y) return model:loss(x, y) end,
      function() return mrt.randint(0, 64, 8, 64), mrt.randint(0, 64, 8, 64) end
  end,
  resnet = function()
    local model = nn.ResNet { depth = 8, form = "cifar" }
    return model, function(x, y) return nn.cross_entropy(model(x), y) end, images
  end,
  relu6 = function()
    local layers = {}
    for i = 1, 4 do
      layers[#layers + 1] = nn.Conv2d(i == 1 and 3 or 16, 16, 3, { padding = 1 })
      layers[#layers + 1] = nn.BatchNorm(16, { affine = i ~= 2 })
      layers[#layers + 1] = nn.ReLU6()
    end
    layers[#layers + 1] = nn.GlobalAvgPool()
    layers[#layers + 1] = nn.Linear(16, 10)
    local model = nn.Sequential(table.unpack(layers))
    return model, function(x, y) return nn.cross_entropy(model(x), y) end, images
  end,
}

-- A step of a model: steps taken, what they trained, and the plan.
local function train(name, o)
  mrt.seed(7)
  local model, loss, batch = models[name]()
  local opt = optim.adamw(model:parameters(), { lr = 1e-3 })
  local step = mrt.compile(function(x, y)
    local l = loss(x, y)
    opt:step(mrt.grad(l, model:parameters()), { clip = 1.0 })
    return l
  end, o)
  mrt.seed(8)
  local losses = {}
  local x, y = batch()
  for i = 1, 2 do losses[i] = step(x, y) end
  return bits.of(losses) .. bits.trained(model, opt), step:plan(x, y)
end

local function again(plan)
  local count, seconds = 0, 0
  for _, s in ipairs(plan:steps()) do
    if s.recomputed then count, seconds = count + 1, seconds + s.time end
  end
  return count, seconds
end

describe("what is computed again unasked", function()
  for _, name in ipairs { "gpt", "resnet" } do
    it(("takes fewer bytes and gives the same bits: %s"):format(name), function()
      local kept, all = train(name, { spend = 0 })
      local spent, plan = train(name, { spend = 0.2 })
      assert.equal(kept, spent)
      assert.equal(0, (again(all)))
      local count, seconds = again(plan)
      assert.is_true(count > 0)
      assert.is_true(seconds <= 0.2 * all.seconds)
      assert.is_true(plan.peak < all.peak)
      -- a smaller share of the time than of the bytes
      assert.is_true(seconds / all.seconds < 1 - plan.peak / all.peak + 1e-9)
    end)
  end

  it("is told in the report", function()
    local _, plan = train("gpt", { spend = 0.2 })
    assert.matches("nodes recomputed in", plan:choices().text)
  end)

  it("is nothing where a policy or a budget has the word", function()
    local _, all = train("gpt", { spend = 0 })
    local _, kept = train("gpt", { spend = 0.5, checkpoint = policy.checkpoint.none() })
    assert.equal(0, (again(kept)))
    local _, within = train("gpt", { spend = 0.5, memory = all.peak })
    assert.equal(0, (again(within)))
  end)

  it("refuses a share that is none", function()
    for _, share in ipairs { -0.1, 1.5, 0 / 0 } do
      assert.error_matches(function() mrt.compile(function() end, { spend = share }) end,
        "option 'spend': a number from 0 to 1")
    end
    assert.error_matches(function() mrt.compile(function() end, { spend = "much" }) end,
      "option 'spend': a number wanted")
  end)

  it("changes no bit beside all else", function()
    local random = random_graph.generator(20261128)
    local function pick(list) return list[random(#list)] end
    for i = 1, GRAPHS // 4 do
      local name = pick { "gpt", "resnet", "relu6" }
      local o = {
        precision = pick { policy.precision.f32(), policy.precision.bf16(),
          policy.precision.f16 { loss_scale = "dynamic" } },
        accumulate = name == "gpt" and pick { 1, 2, 4 } or nil,
        compress = pick { false, false, "int8", "nf4" } or nil,
        split_batch_norm = pick { true, false }, fuse = pick { true, true, false },
        order = pick { "memory", "program" }, inplace = pick { true, false },
      }
      local text = {}
      for key, value in pairs(o) do text[#text + 1] = key .. " = " .. tostring(value) end
      text = ("%d: %s, %s"):format(i, name, table.concat(text, ", "))
      o.spend = 0
      local kept, all = train(name, o)
      o.spend = pick { 0.02, 0.2, 1 }
      local spent, plan = train(name, o)
      assert.equal(kept, spent, text)
      assert.is_true(plan.peak <= all.peak, text)
    end
  end)

  -- Losses of two steps, and the peak.
  local code = [[
    local spend = %s
    mrt.seed(3)
    local model = nn.GPT { vocab = 96, context = 64, layers = 2, heads = 4, dim = 64 }
    local params = model:parameters()
    local opt = optim.adamw(params, { lr = 1e-3 })
    local step = mrt.compile(function(x, y)
      local l = model:loss(x, y)
      opt:step(mrt.grad(l, params))
      return l
    end, { spend = spend, %s })
    mrt.seed(5)
    local x, y = mrt.randint(0, 96, 8, 64), mrt.randint(0, 96, 8, 64)
    mrt.eval(x, y)
    local words = {}
    for i = 1, 2 do words[i] = ("%%a"):format(step(x, y):item()) end
    return table.concat(words, " ") .. " " .. step:plan(x, y).peak
  ]]

  for _, o in ipairs { "mesh = { tensor = 2 }", "mesh = { context = 2 }",
    "shard = policy.shard.zero(3)",
    "shard = policy.shard.zero(1), precision = policy.precision.bf16()",
    "shard = policy.shard.ddp(), accumulate = 2" } do
    it("changes no bit on ranks: " .. o, function()
      local kept, spent = ranks.run(2, code:format("0", o)), ranks.run(2, code:format("0.2", o))
      for r = 1, 2 do
        local losses, all = kept[r]:match "^(.*) (%d+)$"
        local same, peak = spent[r]:match "^(.*) (%d+)$"
        assert.equal(losses, same)
        assert.is_true(tonumber(peak) <= tonumber(all))
      end
    end)
  end
end)
