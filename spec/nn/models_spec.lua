--- models_spec.lua -- whole models against the formulas they are made of
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn = mrt.nn

local function near(wanted, got, tolerance)
  local difference = (wanted - got):abs():amax():item()
  local size = wanted:abs():amax():item()
  assert.is_true(difference <= tolerance * size,
    ("differs by %g of %g"):format(difference, size))
end

local function tokens(vocab, B, T)
  local ids = mrt.randint(0, vocab, { B, T }, { dtype = "i32" })
  mrt.eval(ids)
  return ids
end

describe("Llama", function()
  local model

  setup(function()
    mrt.seed(5)
    model = nn.Llama { vocab = 11, dim = 24, layers = 2, heads = 4, kv_heads = 2,
      context = 8 }
  end)

  -- One layer with nothing fused: keys and values repeated, scores stored.
  local function layer(block, x)
    local B, T, width = x:size(1), x:size(2), block.attention.head_dim
    local function norm(y, weight)
      return y / ((y * y):mean(3, true) + 1e-5):sqrt() * weight
    end
    local h = norm(x, block.norm1.weight)
    local function heads(linear, count)
      return h:matmul(linear.weight:t()):reshape(B, T, count, width)
    end
    local at = block.attention
    local q = heads(at.q, 4):rope():transpose(2, 3)
    local function shared(y)  -- each of two heads for two of q
      return y:reshape(B, T, 2, 1, width):expand(B, T, 2, 2, width)
        :reshape(B, T, 4, width):transpose(2, 3)
    end
    local k, v = shared(heads(at.k, 2):rope()), shared(heads(at.v, 2))
    local scores = q:matmul(k:transpose(3, 4)) / math.sqrt(width)
    local row, column = mrt.arange(T):reshape(T, 1), mrt.arange(T):reshape(1, T)
    local p = mrt.where(column:le(row), scores, -1e30):softmax(4)
    local y = p:matmul(v):transpose(2, 3):reshape(B, T, 4 * width)
    x = x + y:matmul(at.proj.weight:t())
    h = norm(x, block.norm2.weight)
    local gate = h:matmul(block.mlp.gate.weight:t())
    local up = h:matmul(block.mlp.up.weight:t())
    return x + (gate * gate:sigmoid() * up):matmul(block.mlp.down.weight:t())
  end

  it("computes what its formulas say", function()
    local ids = tokens(11, 3, 8)
    for _, net in ipairs { model, nn.Llama { vocab = 11, dim = 21, layers = 2, heads = 4,
      kv_heads = 2, head_dim = 10, context = 8 } } do
      local x = net.tokens(ids)
      for _, block in ipairs(net.blocks) do x = layer(block, x) end
      x = x / ((x * x):mean(3, true) + 1e-5):sqrt() * net.norm.weight
      near(x:matmul(net.head.weight:t()), net(ids), 1e-4)
    end
  end)

  it("sees no later token, and may share its table", function()
    local ids = tokens(11, 1, 8)
    local other = mrt.cat({ ids:slice(2, 1, 7), 10 - ids:slice(2, 8, 8) }, 2)
    assert.equal(model(ids):slice(2, 1, 7):bytes(),
      model(other):slice(2, 1, 7):bytes())
    local tied = nn.Llama { vocab = 11, dim = 24, layers = 2, heads = 4,
      kv_heads = 2, context = 8, tie = true }
    assert.equal(model:count() - 11 * 24, tied:count())
  end)

  it("refuses what does not divide, and more than its context", function()
    local function make(changes)
      local o = { vocab = 11, dim = 24, layers = 1, heads = 4, context = 8 }
      for k, v in pairs(changes) do o[k] = v end
      return nn.Llama(o)
    end
    assert.error_matches(function() make { kv_heads = 3 } end, "kv_heads 3")
    assert.error_matches(function() make { heads = 8 } end, "even width")
    assert.error_matches(function() make { head_dim = 3 } end, "head_dim 3: .*even width")
    assert.error_matches(function() make { layers = 0 } end, "layers")
    assert.error_matches(function() model(tokens(11, 1, 9)) end, "context = 8")
  end)
end)

-- ---- models of images --------------------------------------------------------

local function image(...)
  local x = mrt.randn(...)
  mrt.eval(x)
  return x
end

local function size(x) return table.concat(x:size(), ",") end

-- Some steps on one mini-batch; the first loss and the last.
local function train(model, x, y, options)
  local opt = mrt.optim.sgd(model:parameters(), { lr = 0.02, momentum = 0.9 })
  local step = mrt.compile(function(a, b)
    local logits = model(a)
    if logits:dim() == 4 then logits = logits:permute(1, 3, 4, 2) end
    local loss = nn.cross_entropy(logits, b)
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, options)
  local losses = {}
  for i = 1, 8 do losses[i] = step(x, y):item() end
  return losses[1], losses[8], step
end

local function learns(model, x, y)
  local first, last = train(model, x, y)
  assert.is_true(last < 0.8 * first, ("%g to %g"):format(first, last))
end

-- In evaluation mode a row does not depend on the others, and nothing is
-- updated.
local function evaluates(model, x)
  local before = {}
  for i, b in ipairs(model:buffers()) do before[i] = b:bytes() end
  model:eval()
  local forward = mrt.compile(function(a) return model(a) end)
  local all, one = forward(x), forward(x:slice(1, 1, 1))
  model:train()
  near(all:slice(1, 1, 1), one, 1e-4)
  for i, b in ipairs(model:buffers()) do assert.equal(before[i], b:bytes()) end
end

local function refuses(make, cases)
  for _, case in ipairs(cases) do
    assert.error_matches(function() make(case[1]) end, case[2])
  end
end

describe("ResNet", function()
  setup(function() mrt.seed(6) end)

  it("has as many parameters as the published ones", function()
    for _, case in ipairs {
      { 11689512, { depth = 18 } }, { 21797672, { depth = 34 } },
      { 25557032, { depth = 50 } }, { 44549160, { depth = 101 } },
      { 60192808, { depth = 152 } },
      { 11173962, { depth = 18, form = "cifar" } },
    } do
      assert.equal(case[1], nn.ResNet(case[2]):count())
    end
  end)

  -- Each stage of n blocks: its convolutions, a shortcut from another width,
  -- and twice as many numbers for the norms as there are channels.
  local function formula(n)
    local count, inputs = 3 * 16 * 9 + 2 * 16 + 64 * 10 + 10, 16
    for _, w in ipairs { 16, 32, 64 } do
      count = count + 9 * w * (inputs + w) + 4 * w + (n - 1) * (18 * w * w + 4 * w)
      if inputs ~= w then count = count + inputs * w + 2 * w end
      inputs = w
    end
    return count
  end

  it("has those of CIFAR's formula", function()
    for _, n in ipairs { 3, 5, 9, 18 } do
      assert.equal(formula(n), nn.ResNet { depth = 6 * n + 2 }:count())
    end
    assert.equal(272474, formula(3))
  end)

  it("halves the sides in each stage, and gives logits", function()
    local x = image(2, 3, 64, 64)
    local large = nn.ResNet { depth = 18, width = 4, classes = 7 }
    assert.equal("2,7", size(large(x)))
    assert.equal("2,4,16,16", size(large.pool(large.stem(x))))
    assert.equal("2,10", size(nn.ResNet { depth = 8, width = 4 }(x)))
    local odd = nn.ResNet { blocks = { 1, 1 }, width = 4, inputs = 1, bottleneck = true }
    assert.equal("3,10", size(odd(mrt.randn(3, 1, 9, 7))))
    assert.equal(16 * 2, odd.head.weight:size(2))
  end)

  it("learns, both forms of blocks, and evaluates", function()
    local x, y = image(4, 3, 8, 8), tokens(10, 4, 1):reshape(4)
    for _, o in ipairs { { depth = 8, width = 4 },
      { depth = 11, width = 4, bottleneck = true, preactivation = true } } do
      local model = nn.ResNet(o)
      learns(model, x, y)
      evaluates(model, x)
    end
  end)

  it("plans 164 layers, and less of them for a smaller budget", function()
    local model = nn.ResNet { depth = 164, bottleneck = true, preactivation = true }
    local weights = 0
    for _, p in ipairs(model:parameters()) do
      if p:dim() > 1 then weights = weights + 1 end
    end
    assert.equal(164 + 3, weights) -- three shortcuts
    local function plan(options)
      local step = mrt.compile(function(x, y)
        local loss = nn.cross_entropy(model(x), y)
        return mrt.grad(loss, model:parameters())
      end, options)
      return step:plan(mrt.zeros(8, 3, 32, 32), mrt.zeros({ 8 }, { dtype = "i32" }))
    end
    local all = plan { spend = 0 }
    local roots = plan { checkpoint = mrt.policy.checkpoint.sqrt() }
    assert.is_true(roots.transient * 3 < all.transient)
  end)

  it("refuses what it is not, by name", function()
    refuses(nn.ResNet, {
      { { depth = 19 }, "depth 19" }, { { depth = "x" }, "depth x" },
      { {}, "one of depth and blocks" }, { { depth = 18, blocks = { 1 } }, "one of depth" },
      { { blocks = {} }, "blocks" }, { { blocks = { 2, 0 } }, "blocks 2" },
      { { blocks = 3 }, "blocks" },
      { { depth = 18, form = "x" }, "form 'x'" }, { { depth = 18, width = 0 }, "width" },
      { { depth = 18, width = "w" }, "width" }, { { depth = 18, classes = 1.5 }, "classes" },
      { { depth = 18, inputs = -1 }, "inputs" }, { { depth = 18, bottleneck = 1 }, "bottleneck" },
      { { depth = 18, preactivation = 1 }, "preactivation" }, { { deep = 18 }, "deep" } })
  end)
end)

describe("VGG", function()
  setup(function() mrt.seed(7) end)

  it("has as many parameters as the published ones", function()
    for depth, counts in pairs { [11] = { 132863336, 132868840 },
      [13] = { 133047848, 133053736 }, [16] = { 138357544, 138365992 },
      [19] = { 143667240, 143678248 } } do
      assert.equal(counts[1], nn.VGG { depth = depth }:count())
      assert.equal(counts[2], nn.VGG { depth = depth, batch_norm = true }:count())
    end
    local small = nn.VGG { depth = 16, batch_norm = true, form = "cifar" }
    assert.equal(14728266, small:count())
  end)

  it("learns, and evaluates", function()
    local x, y = image(2, 3, 32, 32), tokens(10, 2, 1):reshape(2)
    local model = nn.VGG { depth = 11, batch_norm = true, form = "cifar" }
    assert.equal("2,10", size(model(x)))
    learns(model, x, y)
    evaluates(model, x)
  end)

  it("wants images of its size, and refuses other options by name", function()
    local model = nn.VGG { depth = 11, size = 64 }
    assert.equal("f32[1,1000]", model(mrt.zeros(1, 3, 64, 64)):type())
    assert.error_matches(function() model(mrt.zeros(1, 3, 32, 32)) end, "N,C,64,64")
    assert.error_matches(function() model(mrt.zeros(64, 64)) end, "N,C,64,64")
    refuses(nn.VGG, { { { depth = 12 }, "depth 12" }, { {}, "depth nil" },
      { { depth = 11, form = "x" }, "form 'x'" }, { { depth = 11, size = 40 }, "size 40" },
      { { depth = 11, classes = 0 }, "classes" }, { { depth = 11, inputs = 0 }, "inputs" },
      { { depth = 11, dropout = 2 }, "p = 2" }, { { depth = 11, norm = true }, "norm" } })
  end)
end)

describe("UNet", function()
  setup(function() mrt.seed(8) end)

  it("has as many parameters as the published one", function()
    assert.equal(31037633, nn.UNet { classes = 1 }:count())
  end)

  it("gives logits for each pixel, learns and evaluates", function()
    local x = image(2, 1, 8, 12)
    local y = x:gt(0):to "i32":reshape(2, 8, 12)
    for _, up in ipairs { "transposed", "repeat" } do
      local model = nn.UNet { inputs = 1, classes = 3, depth = 2, width = 8, up = up }
      assert.equal("2,3,8,12", size(model(x)))
      learns(model, x, y)
      evaluates(model, x)
    end
  end)

  it("splits a batch with group norms, which batch norms refuse", function()
    local x, y = image(4, 1, 8, 8), tokens(3, 4, 64):reshape(4, 8, 8)
    local function make(norm)
      mrt.seed(9)
      return nn.UNet { inputs = 1, classes = 3, depth = 1, width = 4, norm = norm }
    end
    local whole = select(2, train(make "group", x, y))
    local parts = select(2, train(make "group", x, y, { accumulate = 2 }))
    assert.is_true(math.abs(whole - parts) < 1e-4, ("%g, %g"):format(whole, parts))
    assert.error_matches(function() train(make "batch", x, y, { accumulate = 2 }) end,
      "allow_batch_statistics")
    train(make "batch", x, y, { accumulate = 2, allow_batch_statistics = true })
  end)

  it("wants sides that can be halved, and refuses options by name", function()
    local model = nn.UNet { classes = 2, depth = 3, width = 2, norm = "none" }
    assert.error_matches(function() model(mrt.zeros(1, 3, 8, 12)) end, "multiples of 2%^3 = 8")
    assert.error_matches(function() model(mrt.zeros(3, 8, 8)) end, "N,C,H,W")
    refuses(nn.UNet, { { {}, "classes" }, { { classes = 2, depth = 0 }, "depth" },
      { { classes = 2, depth = 40 }, "depth 40" }, { { classes = 2, width = 0 }, "width" },
      { { classes = 2, up = "x" }, "up 'x'" }, { { classes = 2, norm = "x" }, "norm 'x'" },
      { { classes = 2, levels = 3 }, "levels" } })
  end)
end)
