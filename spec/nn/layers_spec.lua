--- layers_spec.lua -- attention, transformers, cells, norms, dropout, containers
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local failure = require "support.failure"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local function far(a, b) return (a - b):abs():amax():item() end
local function near(a, b, tolerance)
  local d = far(a, b)
  assert(d <= (tolerance or 1e-5), ("%g apart"):format(d))
end

describe("MultiheadAttention", function()
  mrt.seed(2)
  local layer = nn.MultiheadAttention(12, 3, { batch_first = true })
  layer.in_proj_bias:assign(mrt.randn(36))
  local x = mrt.eval(mrt.randn(2, 5, 12))

  it("is causal self-attention with the same weights", function()
    local causal = nn.CausalSelfAttention(12, 3)
    causal.qkv.weight:assign(layer.in_proj_weight)
    causal.qkv.bias:assign(layer.in_proj_bias)
    causal.proj.weight:assign(layer.out_proj.weight)
    causal.proj.bias:assign(layer.out_proj.bias)
    near(causal(x), (layer(x, x, x, { is_causal = true, need_weights = false })))
    near(causal(x), (layer(x, x, x, { is_causal = true })))
    local mask = mrt.ones(5, 5):triu(1):to "bool"
    near(causal(x), (layer(x, x, x, { attn_mask = mask, need_weights = false })))
  end)

  it("does not see what is masked, and gives the probabilities", function()
    local hidden = mrt.tensor { { false, false, false, true, true }, { false, false, false, false,
      true } }
    local other = mrt.where(hidden:unsqueeze(3), mrt.randn(2, 5, 12), x)
    local y, weights = layer(x, x, x, hidden)
    near(y, (layer(x, other, other, hidden)))
    assert.equal("f32[2,5,5]", weights:type())
    near(weights:sum(3), mrt.ones(2, 5))
    assert.equal(0, weights:masked_fill(hidden:logical_not():unsqueeze(2), 0):sum():item())
    local _, each = layer(x, x, x, { average_attn_weights = false })
    assert.equal("f32[2,3,5,5]", each:type())
    local alone, of_alone = layer(x[1], x[1], x[1])
    near(alone, (layer(x, x, x))[1])
    assert.equal("f32[5,5]", of_alone:type())
  end)

  it("refuses what does not fit", function()
    local function refused(text, ...)
      assert.match("MultiheadAttention: .*" .. text, failure(layer, ...).message)
    end
    refused("%[..., 12%]", mrt.zeros(2, 5, 11), x, x)
    refused("do not fit", x, mrt.zeros(3, 5, 12), x)
    refused("all of 3 dimensions", x, x[1], x)
    refused("key: a tensor", x)
    refused("attn_mask f32%[4,4%], %[5,5%] or %[6,5,5%]", x, x, x, { attn_mask = mrt.zeros(4, 4) })
    refused("of bool or floats", x, x, x, { attn_mask = mrt.zeros({ 5, 5 }, { dtype = "i64" }) })
    refused("no option 'mask'", x, x, x, { mask = mrt.zeros(5, 5) })
    assert.match("no multiple of 5 heads", failure(nn.MultiheadAttention, 12, 5).message)
    assert.match("dropout = 1", failure(nn.MultiheadAttention, 12, 3, 1).message)
  end)
end)

describe("a transformer", function()
  it("has copies of its layer, each with weights of its own", function()
    local layer = nn.TransformerEncoderLayer(8, 2, 16)
    local encoder = nn.TransformerEncoder(layer, 3, nn.LayerNorm(8))
    assert.equal(3 * 12 + 2, #encoder:parameters())
    local a, b = encoder.layers[1].linear1.weight, encoder.layers[2].linear1.weight
    assert.equal(0, far(a, b))
    a:assign(0)
    assert.is_true(far(a, b) > 0)
    local names = {}
    for name in encoder:named_parameters() do names[#names + 1] = name end
    assert.equal("layers.1.self_attn.in_proj_weight", names[1])
    assert.equal("norm.bias", names[#names])
  end)

  it("trains, in bf16, in micro-batches, within a budget", function()
    mrt.seed(1)
    local function new(o)
      mrt.seed(3)
      local model = nn.Transformer { d_model = 16, nhead = 2, num_encoder_layers = 2,
        num_decoder_layers = 1, dim_feedforward = 32, dropout = 0.1, batch_first = true }
      local opt = optim.adamw(model:parameters(), { lr = 1e-2 })
      return mrt.compile(function(src, tgt, hidden)
        local y = model(src, tgt, { src_key_padding_mask = hidden, tgt_is_causal = true,
          memory_key_padding_mask = hidden })
        local loss = nn.mse(y, tgt)
        opt:step(mrt.grad(loss, model:parameters()))
        return loss
      end, o), model
    end
    local src, tgt = mrt.eval(mrt.randn(8, 6, 16)), mrt.eval(mrt.randn(8, 4, 16))
    local hidden = mrt.arange(6):ge(4):unsqueeze(1):expand(8, 6)
    hidden = mrt.eval(hidden:copy())
    local first
    for _, o in ipairs { {}, { precision = policy.precision.bf16() }, { accumulate = 2 },
      { checkpoint = policy.checkpoint.all() } } do
      local step = new(o)
      local before = step(src, tgt, hidden):item()
      first = first or before
      assert.is_true(math.abs(before - first) < 0.05 * first)
      local last
      for _ = 1, 10 do last = step(src, tgt, hidden):item() end
      assert.is_true(last < before)
    end
  end)

  it("takes a function for its activation, and refuses what is none", function()
    local layer = nn.TransformerEncoderLayer(4, 1, { activation = function(x) return x:tanh() end })
    assert.equal("f32[3,2,4]", layer(mrt.zeros(3, 2, 4)):type())
    assert.match("activation", failure(nn.TransformerEncoderLayer, 4, 1,
      { activation = "swish" }).message)
    assert.match("a layer wanted", failure(nn.TransformerEncoder, 3, 2).message)
    assert.same({ { 0, -math.huge }, { 0, 0 } },
      nn.Transformer.generate_square_subsequent_mask(2):totable())
  end)
end)

describe("recurrent layers", function()
  it("go both ways like two that go one way", function()
    mrt.seed(5)
    for _, name in ipairs { "RNN", "LSTM", "GRU" } do
      local both = nn[name](3, 4, { bidirectional = true, chunk = 2 })
      local there, back = nn[name](3, 4), nn[name](3, 4)
      for _, p in ipairs { "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0" } do
        there[p]:assign(both[p])
        back[p]:assign(both[p .. "_reverse"])
      end
      local x = mrt.eval(mrt.randn(5, 2, 3))
      local steps = {}
      for t = 1, 5 do steps[t] = x[6 - t] end
      local y, h = both(x)
      local forward, h1 = there(x)
      local backward, h2 = back(mrt.stack(steps))
      near(y:slice(3, 1, 4), forward)
      for t = 1, 5 do near(y[t]:slice(2, 5, 8), backward[6 - t]) end
      near(h, mrt.cat({ h1, h2 }, 1))
    end
  end)

  it("are cells, step by step", function()
    mrt.seed(6)
    for _, name in ipairs { "RNN", "LSTM", "GRU" } do
      local layer, cell = nn[name](3, 4), nn[name .. "Cell"](3, 4)
      for _, p in ipairs { "weight_ih", "weight_hh", "bias_ih", "bias_hh" } do
        cell[p]:assign(layer[p .. "_l0"])
      end
      local x = mrt.eval(mrt.randn(4, 2, 3))
      local h, c
      for t = 1, 4 do h, c = cell(x[t], h, c) end
      near(layer(x)[4], h)
      assert.equal("f32[4]", cell(x[1][1]):type())
      assert.match(name .. "Cell: f32%[2,4%], %[N, 3%]", failure(cell, mrt.zeros(2, 4)).message)
      assert.match("h is f32%[1%]", failure(cell, x[1], mrt.zeros(1)).message)
    end
  end)
end)

describe("dropout", function()
  it("of channels takes all of one or nothing", function()
    mrt.seed(1)
    for spatial = 1, 3 do
      local shape = { 8, 100 }
      for d = 1, spatial do shape[d + 2] = 3 end
      local layer = nn[("Dropout%dd"):format(spatial)](0.25)
      local y = layer(mrt.ones(shape)):reshape(800, -1)
      near(y:amax(2), y:amin(2), 0)
      local kept = y:gt(0):to("f32"):mean():item()
      assert.is_true(math.abs(kept - 0.75) < 0.06)
      near(y:amax(), mrt.tensor(1 / 0.75))
      assert.equal(1, layer:eval()(mrt.ones(shape)):amin():item())
      assert.match("dimensions wanted", failure(layer:train(), mrt.ones(3)).message)
    end
  end)

  it("for selu keeps mean and variance", function()
    mrt.seed(2)
    for _, name in ipairs { "AlphaDropout", "FeatureAlphaDropout" } do
      local y = nn[name](0.3)(mrt.randn(100, 1000, 2))
      assert.is_true(math.abs(y:mean():item()) < 0.02)
      assert.is_true(math.abs(y:var():item() - 1) < 0.02)
    end
    assert.match("p = 1", failure(nn.AlphaDropout, 1).message)
  end)
end)

describe("weights that are computed", function()
  it("weight_norm changes nothing at first, and trains length and direction", function()
    mrt.seed(3)
    local plain, x = nn.Linear(4, 3), mrt.eval(mrt.randn(6, 4))
    local wanted = mrt.eval(plain(x))
    local layer = nn.weight_norm(plain)
    near(wanted, layer(x))
    local names = {}
    for name in layer:named_parameters() do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "bias", "weight_g", "weight_v" }, names)
    local opt = optim.sgd(layer:parameters(), { lr = 0.1 })
    local step = mrt.compile(function(a)
      local loss = nn.mse(layer(a), wanted * 2)
      opt:step(mrt.grad(loss, layer:parameters()))
      return loss
    end)
    local first = step(x):item()
    for _ = 1, 20 do step(x) end
    assert.is_true(step(x):item() < first / 2)
    assert.match("no parameter 'w'", failure(nn.weight_norm, nn.Linear(2, 2), "w").message)
  end)

  it("spectral_norm makes the largest singular value 1", function()
    mrt.seed(4)
    local layer = nn.spectral_norm(nn.Linear(5, 3), { n_power_iterations = 20 })
    local step = mrt.compile(function(x) return layer(x) end)
    for _ = 1, 3 do step(mrt.zeros(1, 5)) end
    layer:eval()
    local w = mrt.eval(layer(mrt.eval(mrt.arange(5):unsqueeze(2):eq(mrt.arange(5)):to "f32"))
      - layer.bias) -- [5, 3]
    local v = mrt.ones(3)
    for _ = 1, 200 do
      v = mrt.eval(w:t():matmul(w:matmul(v)))
      v = mrt.eval(v / v:norm())
    end
    assert.is_true(math.abs(w:matmul(v):norm():item() - 1) < 1e-3)
    assert.equal(2, #layer:parameters())
    assert.equal(2, #layer:buffers())
  end)
end)

describe("norms, containers, nn.init", function()
  it("say how many dimensions they take", function()
    mrt.seed(1)
    local x = mrt.eval(mrt.randn(3, 4, 5, 6) * 3 + 1)
    local y = nn.InstanceNorm2d(4)(x)
    assert.is_true(y:mean({ 3, 4 }):abs():amax():item() < 1e-5)
    near(y:var { dim = { 3, 4 }, correction = 0 }, mrt.ones(3, 4), 1e-4)
    near(nn.InstanceNorm2d(4)(x[2]), y[2])
    near(nn.BatchNorm2d(4)(x), nn.BatchNorm(4)(x), 0)
    assert.equal("f32[2,3]", nn.BatchNorm1d(3)(mrt.randn(2, 3)):type())
    assert.match("BatchNorm2d: .*4 dimensions", failure(nn.BatchNorm2d(4), mrt.zeros(2, 4)).message)
    assert.match("InstanceNorm1d", failure(nn.InstanceNorm1d(4), x).message)
  end)

  it("hold modules by place and by name", function()
    local Net = nn.Module "Net"
    function Net:init()
      self.list = nn.ModuleList { nn.Linear(2, 2), nn.Linear(2, 3) }
      self.heads = nn.ModuleDict { b = nn.Linear(3, 1), a = nn.Linear(3, 2) }
      self.scales = nn.ParameterList { mrt.parameter(mrt.ones(1)) }
    end
    local names = {}
    for name in Net():named_parameters() do names[#names + 1] = name end
    assert.same({ "list.1.weight", "list.1.bias", "list.2.weight", "list.2.bias",
      "heads.a.weight", "heads.a.bias", "heads.b.weight", "heads.b.bias", "scales.1" }, names)
    assert.match("element 1", failure(nn.ModuleList, { 3 }).message)
    assert.match("no name", failure(nn.ModuleDict, { train = nn.Linear(1, 1) }).message)
    assert.equal("f32[3,4,8]", nn.Unflatten(2, { 4, 8 })(mrt.zeros(3, 32)):type())
    assert.equal("f32[4,8]", nn.Unflatten(-1, { 4, 8 })(mrt.zeros(32)):type())
  end)

  it("begin as nn.init says", function()
    mrt.seed(9)
    local init = nn.init
    local function filled(name, dims, ...)
      local v = mrt.parameter(mrt.zeros(dims))
      assert.is_true(rawequal(v, init[name](v, ...)))
      return v
    end
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 } }, filled("eye_", { 2, 3 }):totable())
    local dirac = filled("dirac_", { 4, 2, 3, 3 }, 2)
    local x = mrt.eval(mrt.randn(1, 4, 5, 5))
    near(x, x:conv2d(dirac, { padding = { 1, 1 }, groups = 2 }))
    local sparse = filled("sparse_", { 10, 50 }, 0.33, 0.5)
    near(sparse:eq(0):to("i64"):sum(1):to "f32", mrt.full({ 50 }, 4))
    assert.equal(3, filled("constant_", { 2 }, 3):amin():item())
    local u = filled("uniform_", { 4000 }, { a = 2, b = 4 })
    assert.is_true(u:amin():item() >= 2 and u:amax():item() < 4)
    local k = filled("kaiming_uniform_", { 200, 100 }, { a = 5 ^ 0.5 })
    assert.is_true(k:abs():amax():item() <= 0.1 and k:abs():amax():item() > 0.099)
    local n = filled("kaiming_normal_", { 200, 100 }, 0, "fan_out", "relu")
    assert.is_true(math.abs(n:std():item() - 0.1) < 0.003)
    assert.match("mode 'in'", failure(init.kaiming_normal_, n, 0, "in").message)
    assert.match("a variable wanted", failure(init.ones_, mrt.zeros(2)).message)
  end)
end)
