--- structured_spec.lua -- smaller layers compute what the masked ones do
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local ranks = require "support.ranks"

local nn, optim, policy, prune = mrt.nn, mrt.optim, mrt.policy, mrt.prune

local function near(wanted, got, what)
  assert.same(wanted:size(), got:size())
  local difference = (wanted - got):abs():amax():item()
  assert(difference <= 2e-5 * math.max(1, wanted:abs():amax():item()),
    ("%s differs by %g"):format(what or "it", difference))
end

-- Where the kept numbers are 1 among n, each `span` times.
local function marks(kept, n, span)
  local flat = {}
  for i = 1, n do for k = 1, span do flat[(i - 1) * span + k] = 0 end end
  for _, i in ipairs(kept) do for k = 1, span do flat[(i - 1) * span + k] = 1 end end
  return mrt.tensor(flat, "f32")
end

-- The columns that read what goes become 0.
local function mask(layer, kept, n, span)
  local shape = layer.weight:size()
  for d = 1, #shape do if d ~= 2 then shape[d] = 1 end end
  layer.weight:assign(layer.weight * marks(kept, n, span or 1):reshape(shape))
end

local function at(model, path)
  for key in path:gmatch "[^.]+" do model = model[math.tointeger(tonumber(key)) or key] end
  return model
end

local function tokens(vocab, B, T)
  return mrt.eval(mrt.randint(0, vocab, { B, T }, { dtype = "i32" }))
end

local gpt = { vocab = 17, dim = 24, layers = 2, heads = 4, context = 8, head_dim = 5 }
local llama = { vocab = 17, dim = 24, layers = 2, heads = 6, kv_heads = 3, context = 8,
  hidden = 40 }

-- The same model twice.
local function twins(class, o)
  mrt.seed(5)
  local model = class(o)
  mrt.seed(5)
  return model, class(o)
end

describe("prune.heads", function()
  it("is a smaller model with the function of the masked one", function()
    for class, o in pairs { [nn.GPT] = gpt, [nn.Llama] = llama } do
      local model, masked = twins(class, o)
      local x, count = tokens(17, 3, 8), model:count()
      local _, kept = prune.heads(model, { share = 0.4 })
      local units = o.kv_heads or o.heads
      for i = 1, 2 do
        local name = ("blocks.%d.attention"):format(i)
        assert.equal(units - math.floor(0.4 * units + 0.5), #kept[name])
        mask(at(masked, name).proj, kept[name], units, o.kv_heads and 8 or 5)
      end
      near(masked(x), model(x), model.type)
      assert.is_true(model:count() < count)
      local again = select(2, twins(class, o))
      prune.heads(again, { kept = kept })
      again:load_state(model:state())
      assert.equal(model(x):bytes(), again(x):bytes())
    end
  end)

  it("leaves those through which least goes", function()
    mrt.seed(6)
    local layer = nn.CausalSelfAttention(8, 4)
    local small = layer.proj.weight * marks({ 2 }, 4, 2):reshape(1, 8) * -0.999
    layer.proj.weight:assign(layer.proj.weight + small)
    local _, kept = prune.heads(layer, { share = 0.25 })
    assert.same({ [""] = { 1, 3, 4 } }, kept)
    assert.matches("3 heads of 2", tostring(layer))
  end)
end)

describe("prune.channels", function()
  it("is a smaller model with the function of the masked one", function()
    for class, o in pairs { [nn.GPT] = gpt, [nn.Llama] = llama } do
      local model, masked = twins(class, o)
      local x = tokens(17, 3, 8)
      local _, kept = prune.channels(model, { share = 0.5, multiple = 8 })
      for i = 1, 2 do
        local mlp = ("blocks.%d.mlp"):format(i)
        local first = kept[mlp .. ".fc"] or kept[mlp .. ".gate"]
        assert.equal(o.hidden and 24 or 48, #first) -- half, up to a multiple of 8
        local read = at(masked, mlp)
        mask(read.proj or read.down, first, o.hidden or 96)
      end
      near(masked(x), model(x), model.type)
    end
  end)

  it("goes through convolutions, norms, pools and what is flattened", function()
    local function make()
      mrt.seed(7)
      return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 3, { padding = 1 }), nn.BatchNorm(8), nn.ReLU()),
        nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, { padding = 1, bias = false }), nn.GELU(),
        nn.Flatten(), nn.Linear(12 * 16, 10), nn.Tanh(), nn.Dropout(0.2), nn.Linear(10, 4))
    end
    local model, masked = make(), make()
    for _, m in ipairs { model, masked } do
      mrt.seed(9)
      local norm = m.layers[1].layers[2]
      norm.weight:assign(mrt.rand(8) + 0.5)
      norm.bias:assign(mrt.randn(8))
      norm.running_mean:assign(mrt.randn(8))
      m:eval()
    end
    local _, kept = prune.channels(model, { share = 0.5 })
    assert.same({ 4, 6, 5 }, { #kept["layers.1.layers.1"], #kept["layers.3"], #kept["layers.6"] })
    mask(masked.layers[3], kept["layers.1.layers.1"], 8)
    mask(masked.layers[6], kept["layers.3"], 12, 16)
    mask(masked.layers[9], kept["layers.6"], 10)
    local x = mrt.eval(mrt.randn(2, 3, 8, 8))
    near(masked(x), model(x))
    model:train()
    masked:train()
    model.layers[8]:eval()
    masked.layers[8]:eval()
    near(masked(x), model(x), "with statistics of the batch")
    assert.equal(4, model.layers[1].layers[2].channels)
  end)

  it("keeps to the inside of residual blocks, and takes all of a VGG", function()
    for _, o in ipairs { { depth = 20 },
      { depth = 11, bottleneck = true, preactivation = true } } do
      o.form, o.classes, o.width = "cifar", 5, 8
      local model, masked = twins(nn.ResNet, o)
      model:eval()
      masked:eval()
      local _, kept = prune.channels(model, { share = 0.3 })
      for name, list in pairs(kept) do
        local block, i = name:match "^(.*)%.convs%.(%d+)$"
        block = at(masked, block)
        i = math.tointeger(tonumber(i))
        mask(block.convs[i + 1], list, block.convs[i].weight:size(1))
      end
      local x = mrt.eval(mrt.randn(2, 3, 16, 16))
      near(masked(x), model(x), model:describe())
    end
    local vgg = nn.VGG { depth = 11, form = "cifar", batch_norm = true }
    local count = vgg:count()
    prune.channels(vgg, { share = 0.5 })
    assert.is_true(vgg:count() < 0.3 * count)
    assert.same({ 2, 10 }, vgg:eval()(mrt.randn(2, 3, 32, 32)):size())
  end)

  it("takes what a module of one's own says, and keeps masks", function()
    local Net = nn.Module "Net"
    function Net:init()
      self.a, self.b, self.c = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 4)
    end
    function Net:forward(x) return self.c(self.a(x) * self.b(x):sigmoid()) end
    function Net:joints()
      return { { from = { self.a, self.b }, through = {}, into = self.c, span = 1 } }
    end
    local model, masked = twins(Net)
    for _, m in ipairs { model, masked } do prune.magnitude(m, { share = 0.3 }) end
    local _, kept = prune.channels(model, { share = 0.25 })
    assert.equal(6, #kept.a)
    masked.c.weight:assign(masked.c.weight * marks(kept.a, 8, 1))
    local x = mrt.eval(mrt.randn(5, 6))
    near(masked(x), model(x))
    local zeros = prune.report(model).zeros
    assert.same({ 6, 6 }, model.a.weight_mask:size())
    local opt = optim.adamw(model:parameters(), { lr = 0.1 })
    for _ = 1, 3 do opt:step(mrt.grad(model(x):square():sum(), model:parameters())) end
    assert.equal(zeros, prune.report(model).zeros)
  end)
end)

describe("a model that is smaller", function()
  it("takes fewer bytes, and trains as a model made so", function()
    local function step_of(model, options)
      local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
      return mrt.compile(function(x, y)
        local loss = nn.cross_entropy(model(x), y)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, options)
    end
    local x, y = tokens(17, 4, 8), tokens(17, 4, 8)
    local model = twins(nn.GPT, gpt)
    local whole = step_of(model):plan(x, y)
    prune.heads(prune.channels(model, { share = 0.5 }), { share = 0.5 })
    local step = step_of(model)
    local plan = step:plan(x, y)
    assert.is_true(plan.persistent < 0.7 * whole.persistent and plan.peak < whole.peak)
    local first, last = step(x, y):item(), nil
    for _ = 1, 20 do last = step(x, y):item() end
    assert.is_true(last < 0.7 * first)
    local state = {}
    for name, p in pairs(model:state()) do state[name] = p:copy() end
    mrt.eval(state["tokens.weight"])
    local wanted
    for _, options in ipairs { {}, { checkpoint = policy.checkpoint.all() },
      { accumulate = 2 }, { memory = plan.peak }, { precision = policy.precision.bf16() } } do
      model:load_state(state)
      local own = step_of(model, options)
      local loss
      for _ = 1, 3 do loss = own(x, y):item() end
      wanted = wanted or loss
      assert.near(wanted, loss, options.precision and 0.03 or 1e-4)
    end
  end)

  it("is traced anew by a function that knows the larger one", function()
    local model, masked = twins(nn.GPT, gpt)
    local run, x = mrt.compile(function(a) return model(a) end), tokens(17, 2, 8)
    run(x)
    local _, kept = prune.heads(model, { share = 0.5 })
    for i = 1, 2 do
      local name = ("blocks.%d.attention"):format(i)
      mask(at(masked, name).proj, kept[name], 4, 5)
    end
    near(masked(x), run(x))
  end)

  it("is spread over ranks", function()
    assert.equal("true", ranks.alike(2, [[
      mrt.seed(5)
      local model = nn.GPT { vocab = 17, dim = 24, layers = 2, heads = 4, context = 8 }
      mrt.prune.heads(mrt.prune.channels(model, { share = 0.3 }), { share = 0.25 })
      local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
      local step = mrt.compile(function(x)
        local loss = nn.cross_entropy(model(x), x)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, { shard = policy.shard.fsdp() })
      local x = mrt.eval(mrt.randint(0, 17, { 2, 8 }, { dtype = "i32" }))
      local first, last = step(x):item()
      for _ = 1, 10 do last = step(x):item() end
      return tostring(last < first)
    ]]))
  end)
end)

describe("structured pruning is refused", function()
  it("where nothing can be left out, or something else reads it", function()
    local net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    local function fails(wanted, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(wanted, tostring(err))
    end
    fails("prune.channels: share or kept wanted, got neither", prune.channels, net)
    fails("share or kept wanted, got both", prune.channels, net, { share = 0.5, kept = {} })
    fails("share = 1, wanted 0 <= share < 1", prune.channels, net, { share = 1 })
    fails("no heads in Sequential.* that can be left out", prune.heads, net, { share = 0.5 })
    fails("no channels in Linear", prune.channels, nn.Linear(3, 3), { share = 0.5 })
    fails("a module wanted", prune.channels, 3, { share = 0.5 })
    fails("kept: there is no channels 'a'", prune.channels, net, { kept = { a = { 1 } } })
    fails("'layers.1' has 1 to 6, rising, got 7", prune.channels, net,
      { kept = { ["layers.1"] = { 1, 7 } } })
    local shared = nn.Linear(4, 4)
    fails("'layers.1' is there twice, or shares its weights", prune.channels,
      nn.Sequential(shared, nn.ReLU(), shared), { share = 0.5 })
    local tied = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 4))
    tied.layers[3].weight = tied.layers[1].weight
    fails("shares its weights", prune.channels, tied, { share = 0.5 })
    -- all or nothing
    local deep = nn.Sequential(net, nn.ReLU(), nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
    deep.layers[5].weight:assign(deep.layers[5].weight * (0 / 0))
    fails("'layers.3': weights are not numbers %(NaN%)", prune.channels, deep, { share = 0.5 })
    assert.same({ 6, 4 }, net.layers[1].weight:size())
    assert.error_matches(mrt.compile(function() prune.heads(net, { share = 0.5 }) end),
      "inside a compiled function")
  end)
end)
