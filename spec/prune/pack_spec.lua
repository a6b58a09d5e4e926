--- pack_spec.lua -- packed weights compute what pruned ones do, in half of the bytes
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local files = require "support.files"
local ranks = require "support.ranks"

local nn, optim, policy, prune = mrt.nn, mrt.optim, mrt.policy, mrt.prune

local function net(packed)
  mrt.seed(8)
  local model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64, { bias = false }))
  prune.two_of_four(model)
  return packed and prune.pack(model) or model
end

-- The weights of its two layers, as they were pruned.
local function weights(model)
  local list = {}
  for _, i in ipairs { 1, 3 } do
    local layer = model.layers[i]
    list[#list + 1] = layer.weights and layer:weights() or layer.weight
  end
  return mrt.eval(list)
end

local function bits(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x:bytes() end
  return table.concat(out)
end

describe("prune.pack", function()
  it("changes no bit of what a model computes and learns", function()
    local precision = policy.precision
    for name, given in pairs { adamw = { weight_decay = 0.1 }, sgd = { momentum = 0.9 },
      lion = {} } do
      for i, options in ipairs { {}, { accumulate = 2 }, { precision = precision.bf16() },
        { precision = precision.f16 { loss_scale = 64 }, accumulate = 4 },
        { checkpoint = policy.checkpoint.all() }, { swap = policy.swap.optimizer() } } do
        local function run(packed)
          local model, o = net(packed), { lr = 1e-2 }
          for k, v in pairs(given) do o[k] = v end
          local opt = optim[name](model:parameters(), o)
          local x = mrt.eval(mrt.randn(8, 64))
          local step = mrt.compile(function(a)
            local loss = nn.mse(model(a), a)
            opt:step(mrt.grad(loss, opt:parameters()))
            return loss
          end, options)
          local losses = {}
          for k = 1, 4 do losses[k] = step(x) end
          return bits(losses) .. bits(weights(model)), step:plan(x)
        end
        local wanted, masked = run(false)
        local got, packed = run(true)
        assert(wanted == got, ("%s, %d: other bits"):format(name, i))
        assert.is_true(packed.persistent < masked.persistent)
      end
    end
  end)

  it("is read in bf16 under fp8", function()
    local model, x = net(true), mrt.eval(mrt.randn(4, 64))
    local wanted = mrt.eval(model(x))
    local got = mrt.compile(function(a) return model(a) end,
      { precision = policy.precision.fp8() })(x)
    assert.is_true(((got - wanted):norm() / wanted:norm()):item() < 0.02)
  end)

  it("takes 17 bits for a weight of f32, 9 in bf16, and half of the moments", function()
    local function bytes(o)
      local model = nn.Linear(256, 512, { bias = false })
      prune.two_of_four(model)
      if o.dtype then model:to(o.dtype) end
      if o.pack then model = prune.pack(model) end
      local opt = o.train and optim.adamw(model:parameters(), { lr = 1e-3 })
      return mrt.compile(function(x)
        local loss = model(x):square():sum()
        if opt then opt:step(mrt.grad(loss, model:parameters())) end
        return loss
      end):plan(mrt.zeros(4, 256)).persistent
    end
    local count = 256 * 512
    assert.equal(count * 4, bytes {})
    assert.equal(count * 17 // 8, bytes { pack = true })
    assert.equal(count * 9 // 8, bytes { pack = true, dtype = "bf16" })
    -- mask, count of updates and its padding beside
    assert.equal(count * (3 * 2) + count // 8 + 64, bytes { pack = true, train = true })
    assert.equal(count * (3 * 4) + count + 64, bytes { train = true })
  end)

  it("fits a budget that the pruned model does not", function()
    local x = mrt.eval(mrt.randn(4, 1024))
    local function step(packed, memory)
      mrt.seed(2)
      local model = nn.Linear(1024, 1024)
      prune.two_of_four(model)
      if packed then model = prune.pack(model) end
      return mrt.compile(function(a) return model(a) end,
        { memory = memory, swap = policy.swap.none() })
    end
    local plan = step(true):plan(x)
    assert.equal(bits { step(false)(x) }, bits { step(true, plan.peak)(x) })
    assert.is_true(plan.peak < step(false):plan(x).peak)
    assert.error_matches(function() step(false, plan.peak)(x) end, "is too little")
  end)

  it("is the same over ranks, however the values lie", function()
    for _, how in ipairs { "ddp()", "zero(2)", "fsdp()" } do
      local code = ([[
        local function run(packed)
          mrt.seed(3)
          local model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 8))
          mrt.prune.two_of_four(model)
          local layer = model.layers[1]
          if packed then model = mrt.prune.pack(model) end
          local opt = optim.adamw(model:parameters(), { lr = 0.01, weight_decay = 0 })
          local step = mrt.compile(function(a)
            local loss = model(a):square():mean()
            opt:step(mrt.grad(loss, model:parameters()))
            return loss
          end, { shard = policy.shard.%s })
          local x = mrt.eval(mrt.randn(4, 64) * (comm.rank + 1))
          for _ = 1, 3 do step(x) end
          layer = model.layers[1]
          return mrt.eval(packed and layer:weights() or layer.weight + 0):bytes()
        end
        return tostring(run(false) == run(true))
      ]]):format(how)
      assert.equal("true", ranks.alike(2, code), how)
    end
  end)

  it("keeps shared weights shared, modes, and what is no such layer", function()
    local shared = nn.Linear(8, 8)
    local other = nn.Linear(8, 8, { bias = false })
    other.weight = shared.weight
    local odd = nn.Linear(6, 8)
    local model = nn.Sequential(shared, other, nn.Dropout(0.1), nn.Linear(8, 6), odd)
    prune.two_of_four(model, { layers = { "layers%.1", "layers%.4" } })
    model:eval()
    local x = mrt.eval(mrt.randn(3, 8))
    local wanted = mrt.eval(model(x)):bytes()
    prune.pack(model)
    assert.equal(wanted, model(x):bytes())
    assert.equal("TwoOfFourLinear", model.layers[1].type)
    assert.equal(model.layers[1].values, model.layers[2].values)
    assert.equal("TwoOfFourLinear", model.layers[4].type)
    assert.equal("Linear", model.layers[5].type)
    assert.is_false(model.layers[1].training)
    assert.matches("8, 6, two of four", tostring(model))
    assert.equal(0.5, prune.report(model).share)
  end)

  it("is saved and loaded", function()
    local model, path = net(true), files.name() .. ".safetensors"
    local x = mrt.eval(mrt.randn(2, 64))
    assert(mrt.save(path, model:state()))
    local other = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64, { bias = false }))
    prune.pack(prune.two_of_four(other)):load_state(assert(mrt.load(path)))
    assert.equal(model(x):bytes(), other(x):bytes())
  end)

  it("is refused where there is nothing to pack", function()
    assert.error_matches(function() prune.pack(nn.Sequential(nn.Linear(8, 8))) end,
      "pack_spec.lua:%d+: prune.pack: no Linear in Sequential.* has two of four weights")
    local model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    prune.two_of_four(model, { layers = "1$" })
    assert.error_matches(function() prune.pack(model, { layers = "layers" }) end,
      "prune.pack: 'layers%.2', Linear%(8, 8%): more than two of four weights are not 0")
    assert.error_matches(function() nn.TwoOfFourLinear(nn.Linear(8, 8)) end,
      "TwoOfFourLinear: more than two of four weights are not 0, 32 in all")
    assert.error_matches(function() nn.TwoOfFourLinear(nn.Linear(6, 8)) end,
      "rows of 6 weights, a multiple of 4 wanted")
    assert.error_matches(function() nn.TwoOfFourLinear(nn.ReLU()) end, "a Linear wanted")
    assert.error_matches(function() prune.pack(3) end, "a module wanted")
    assert.error_matches(mrt.compile(function() prune.pack(model) end),
      "inside a compiled function")
  end)
end)
