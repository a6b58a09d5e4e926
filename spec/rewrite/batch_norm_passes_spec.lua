-- batch_norm_passes_spec.lua -- batch norms as statistics and pointwise operators, and their
-- gradients with those of what follows: the same bits
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local bits = require "support.bits"
local random_graph = require "support.random_graph"
local nn, optim, policy = mrt.nn, mrt.optim, mrt.policy

local GRAPHS <const> = tonumber(os.getenv "MRT_SPEC_GRAPHS") or 20

-- Layers of convolutions and norms, each followed by what `after` says; every third norm has
-- neither weight nor bias.
local function net(after)
  local layers = {}
  for i = 1, 4 do
    layers[#layers + 1] = nn.Conv2d(i == 1 and 3 or 8, 8, 3, { padding = 1 })
    layers[#layers + 1] = nn.BatchNorm(8, { affine = i ~= 3 })
    layers[#layers + 1] = after(i)
  end
  layers[#layers + 1] = nn.GlobalAvgPool()
  layers[#layers + 1] = nn.Linear(8, 10)
  return nn.Sequential(table.unpack(layers))
end

local models = {
  resnet = function() return nn.ResNet { depth = 8, form = "cifar" } end,
  relu = function() return net(function() return nn.ReLU() end) end,
  relu6 = function() return net(function() return nn.ReLU6() end) end,
  bounds = function() -- some that narrow floats do not have
    return net(function(i) return nn.Hardtanh(i < 3 and -0.3 or -1, i < 3 and 0.7 or 2) end)
  end,
  gelu = function() return net(function() return nn.GELU() end) end,
}

-- What two steps trained, and how often each operator runs.
local function train(name, o)
  mrt.seed(7)
  local model = models[name]()
  for _, p in ipairs(model:parameters()) do -- biases that are not 0
    if p:dim() == 1 then p:assign(p + 0.1 * mrt.randn(p:size(1))) end
  end
  local opt = optim.sgd(model:parameters(), { lr = 0.05, momentum = 0.9 })
  local step = mrt.compile(function(x, y)
    local l = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(l, model:parameters()))
    return l
  end, o)
  local x, y = mrt.randn(6, 3, 10, 10), mrt.randint(0, 10, { 6 }, { dtype = "i32" })
  mrt.eval(x, y)
  local losses, ops = {}, {}
  for i = 1, 2 do losses[i] = step(x, y) end
  for _, s in ipairs(step:plan(x, y):steps()) do ops[s.op] = (ops[s.op] or 0) + 1 end
  return bits.of(losses) .. bits.trained(model, opt), ops
end

describe("batch norms in parts", function()
  local masks = { resnet = true, relu = true, relu6 = true }
  for _, precision in ipairs { "f32", "bf16", "bf16_pure" } do
    it("have the bits of whole ones, in " .. precision, function()
      for name in pairs(models) do
        local o = { precision = policy.precision[precision](), split_batch_norm = false,
          mask_batch_norm = false }
        local whole, before = train(name, o)
        assert.is_nil(before.batch_stats or before.batch_norm_grad_within)
        o.split_batch_norm, o.mask_batch_norm = nil, nil
        local parts, ops = train(name, o)
        assert(whole == parts, name)
        assert.is_nil(ops.batch_norm)
        assert.is_true(ops.batch_stats > 0)
        if masks[name] then assert.is_true((ops.batch_norm_grad_within or 0) > 0, name) end
        if name == "gelu" then assert.is_nil(ops.batch_norm_grad_within) end
      end
    end)
  end

  it("change no bit beside all else", function()
    local random = random_graph.generator(77)
    local function pick(list) return list[random(#list)] end
    for i = 1, GRAPHS // 4 do
      local name = pick { "resnet", "relu", "relu6", "bounds" }
      local o = {
        precision = pick { policy.precision.f32(), policy.precision.bf16(),
          policy.precision.bf16_pure(), policy.precision.f16 { loss_scale = "dynamic" } },
        compress = pick { false, "int8", "nf4" } or nil, inplace = pick { true, false },
        checkpoint = pick { false, policy.checkpoint.all() } or nil,
        order = pick { "memory", "program" }, fuse = pick { true, true, false },
      }
      local text = {}
      for key, value in pairs(o) do text[#text + 1] = key .. " = " .. tostring(value) end
      text = ("%d: %s, %s"):format(i, name, table.concat(text, ", "))
      local all = train(name, o)
      o.mask_batch_norm, o.split_batch_norm = pick { true, false }, pick { true, false }
      assert(all == train(name, o), text)
    end
  end)
end)
