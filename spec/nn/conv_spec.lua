--- conv_spec.lua -- images as users see them: [N,C,H,W], layers, plans
---
--- What the operators compute is held to oracles in ops_spec.lua.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local training = require "support.training"
local nn = mrt.nn

local function same(a, b, tolerance)
  assert.same(b.shape, a.shape)
  local worst = a:numel() == 0 and 0 or (a - b):abs():amax():item()
  assert.is_true(worst <= (tolerance or 1e-5), ("differs by %g"):format(worst))
end

-- How often each operator is in the plan of fn(inputs).
local function counts(fn, ...)
  local out = {}
  for _, step in ipairs(mrt.compile(fn):plan(...):steps()) do
    out[step.op] = (out[step.op] or 0) + 1
  end
  return out
end

describe("methods of images", function()
  it("take [N,C,H,W], and positions as PyTorch has them", function()
    local x, w, b = mrt.randn(2, 4, 7, 6), mrt.randn(6, 2, 3, 2), mrt.randn(6)
    local last = core.op.permute(x, { 1, 3, 4, 2 })
    local y = core.op.conv2d(last, w, b, { stride = { 2, 1 }, padding = 1, groups = 2 })
    local wanted = core.op.permute(y, { 1, 4, 2, 3 })
    same(x:conv2d(w, b, { stride = { 2, 1 }, padding = 1, groups = 2 }), wanted)
    same(x:conv2d(w, b, { 2, 1 }, 1, 1, 2), wanted)
    same(mrt.conv2d(x, w, nil, { 2, 1 }, 1, 1, 2) + b:reshape(6, 1, 1), wanted)
    same(x:max_pool2d(3, 2, 1), x:max_pool2d { kernel = 3, stride = 2, padding = 1 })
    same(x:avg_pool2d(2):slice(3, 1, 1):slice(4, 1, 1),
      x:slice(3, 1, 2):slice(4, 1, 2):mean({ 3, 4 }, true))
  end)

  it("keep the size with padding 'same'", function()
    local x, w = mrt.randn(1, 2, 9, 8), mrt.randn(3, 2, 3, 5)
    same(x:conv2d(w, { padding = "same", dilation = { 2, 1 } }),
      x:conv2d(w, { padding = { 2, 2 }, dilation = { 2, 1 } }))
    assert.same({ 1, 3, 9, 8 }, x:conv2d(w, { padding = "same" }).shape)
  end)

  it("convolve transposed: as the gradient of a convolution", function()
    for _, o in ipairs { { stride = 2 }, { stride = { 2, 3 }, padding = { 1, 0 } },
      { dilation = 2, groups = 2 }, { stride = 2, padding = 1, output_padding = 1 } } do
      local groups = o.groups or 1
      local x, w = mrt.randn(2, 4, 5, 6), mrt.randn(4, 6 // groups, 3, 3)
      local y = x:conv_transpose2d(w, o)
      local image = mrt.zeros(y:size())
      local forward = { stride = o.stride, padding = o.padding, dilation = o.dilation,
        groups = o.groups }
      same(y, mrt.grad((image:conv2d(w, forward) * x):sum(), image))
      local bias = mrt.randn(6)
      same(x:conv_transpose2d(w, bias, o), y + bias:reshape(6, 1, 1))
    end
  end)

  it("convolve transposed where windows do not meet: by hand", function()
    local x = mrt.tensor { { { { 1.0, 2 }, { 3, 4 } } } }
    local w = mrt.tensor { { { { 1.0, 10 }, { 0, 5 } } } }
    assert.same({ { { { 1, 10, 2, 20 }, { 0, 5, 0, 10 }, { 3, 30, 4, 40 }, { 0, 15, 0, 20 } } } },
      x:conv_transpose2d(w, nil, 2):totable())
  end)

  it("repeat pixels, whose gradients add up", function()
    local x = mrt.tensor { { { { 1.0, 2 } }, { { 3, 4 } } } }
    assert.same({ { { { 1, 1, 1, 2, 2, 2 }, { 1, 1, 1, 2, 2, 2 } },
      { { 3, 3, 3, 4, 4, 4 }, { 3, 3, 3, 4, 4, 4 } } } },
      x:upsample_nearest2d { 2, 3 }:totable())
    local g = mrt.grad(x:upsample_nearest2d(3):sum(), x)
    same(g, mrt.full({ 1, 2, 1, 2 }, 9))
  end)

  it("average adaptively and globally", function()
    local x = mrt.randn(3, 5, 6, 4)
    same(x:adaptive_avg_pool2d(1), x:mean({ 3, 4 }, true))
    same(x:adaptive_avg_pool2d { 3, 2 }, x:avg_pool2d(2))
    same(x:adaptive_avg_pool2d { 6, 4 }, x)
    same(mrt.arange(1, 8):to "f32":reshape(1, 1, 1, 7):adaptive_avg_pool2d { 1, 3 },
      mrt.tensor { { { { 2.0, 4, 6 } } } })
    same(x:global_avg_pool2d(), x:mean { dim = { 3, 4 } })
  end)

  it("meet in views that cancel", function()
    local w1, w2 = mrt.parameter(mrt.randn(8, 4, 3, 3)), mrt.parameter(mrt.randn(8, 8, 3, 3))
    local got = counts(function(x)
      local y = x:conv2d(w1, { padding = 1 }):relu():max_pool2d(2)
      return mrt.grad((y:conv2d(w2):relu()):sum(), { w1, w2 })
    end, mrt.randn(2, 4, 8, 8))
    assert.equal(2, got.conv2d)
    assert.equal(2, got.conv2d_dw)
    assert.equal(1, got.conv2d_dx) -- nobody asked for the gradient of x
    assert.equal(1, got.copy)      -- x itself comes as [N,C,H,W]
  end)

  it("raise at the caller's line, in the caller's order of dimensions", function()
    local x = mrt.randn(2, 3, 8, 8)
    local function refused(text, code, fn)
      local ok, err = pcall(fn)
      assert.is_false(ok)
      assert.equal(code, err.code)
      assert.truthy(tostring(err):find("conv_spec.lua:%d+: ") and
        tostring(err):find(text, 1, true), tostring(err))
    end
    refused("f32[2,3,8,8] in 1 group, 4 channels wanted", "shape", function()
      return x:conv2d(mrt.zeros(4, 4, 3, 3))
    end)
    refused("spans 9 does not fit 8", "shape", function()
      return x:conv2d(mrt.zeros(4, 3, 9, 1))
    end)
    refused("[N,C,H,W] wanted", "shape", function()
      return mrt.zeros(8, 8):max_pool2d(2)
    end)
    refused("no option 'strides'", "value", function()
      return x:avg_pool2d(2, { strides = 2 })
    end)
    refused("padding 'same' with stride 2", "value", function()
      return x:conv2d(mrt.zeros(4, 3, 3, 3), { padding = "same", stride = 2 })
    end)
    refused("output_size 0, an integer from 1 wanted", "value", function()
      return x:adaptive_avg_pool2d(0)
    end)
    refused("multiples of the 2 groups", "value", function()
      return nn.Conv2d(3, 4, 3, { groups = 2 })
    end)
    refused("kernel_size is missing", "value", function() return nn.MaxPool2d() end)
    refused("no option 'strides'", "value", function()
      return nn.AvgPool2d(2, { strides = 2 })
    end)
    local w = mrt.zeros(3, 4, 2, 2)
    for text, o in pairs { ["output_padding 2, less than the stride 2"] =
      { stride = 2, output_padding = 2 }, ["stride x"] = { stride = "x" },
      ["stride 0"] = { stride = 0 }, ["padding -1"] = { padding = -1 } } do
      refused(text, "value", function() return x:conv_transpose2d(w, o) end)
    end
    refused("weights [3, outputs", "shape", function()
      return x:conv_transpose2d(mrt.zeros(4, 3, 2, 2))
    end)
    refused("bias", "shape", function() return x:conv_transpose2d(w, mrt.zeros(3)) end)
    refused("factor 0", "value", function() return x:upsample_nearest2d(0) end)
    refused("factor nil", "value", function() return x:upsample_nearest2d() end)
  end)
end)

describe("layers of images", function()
  it("take positions and a table alike", function()
    local x = mrt.randn(1, 2, 9, 9)
    local by_place, by_name = nn.MaxPool2d(3, 2, 1), nn.MaxPool2d { kernel = 3, stride = 2,
      padding = 1 }
    same(by_place(x), x:max_pool2d(3, 2, 1))
    same(by_name(x), by_place(x))
    assert.equal("3, stride 2, padding 1", by_name:describe())
  end)

  local function net()
    return nn.Sequential(nn.Conv2d(3, 8, 3, { padding = 1, bias = false }), nn.ReLU(),
      nn.MaxPool2d(2), nn.Conv2d(8, 8, { 3, 1 }, { groups = 8 }), nn.AvgPool2d(2, { stride = 1 }),
      nn.Conv2d(8, 12, 1), nn.ReLU(), nn.GlobalAvgPool(), nn.Linear(12, 5))
  end

  it("begin as PyTorch's do, and learn", function()
    mrt.seed(3)
    local model = net()
    local conv = model.layers[1]
    local bound = 1 / math.sqrt(3 * 9)
    assert.is_true(conv.weight:abs():amax():item() <= bound)
    assert.is_true(conv.weight:std():item() > 0.4 * bound)
    assert.equal(8 * 27 + 8 * 3 + 8 + 8 * 12 + 12 + 12 * 5 + 5, model:count())
    assert.truthy(tostring(model):find("8, 8, 3x1, stride 1, padding 0, 8 groups", 1, true))
    local opt = mrt.optim.adamw(model:parameters(), { lr = 1e-2 })
    local x, t = mrt.randn(20, 3, 8, 8), mrt.randint(0, 5, 20)
    local step = training.step(model, opt)
    local first = step(x, t):item()
    for _ = 1, 60 do step(x, t) end
    assert.is_true(step(x, t):item() < 0.5 * first)
  end)

  it("give the gradient of the whole batch in micro-batches", function()
    mrt.seed(4)
    local model = net()
    local x, t = mrt.randn(12, 3, 8, 8), mrt.randint(0, 5, 12)
    local function grads(accumulate)
      local step = mrt.compile(function(a, b)
        local loss = nn.cross_entropy(model(a), b)
        return loss, table.unpack(mrt.grad(loss, model:parameters()))
      end, { accumulate = accumulate })
      return { step(x, t) }
    end
    local whole, parts = grads(1), grads(3)
    for i, g in ipairs(whole) do same(parts[i], g, 1e-5) end
  end)

  it("have the weights and outputs that mrt.estimate says", function()
    for _, o in ipairs { { 3, 16, 3, 1, 1, 1 }, { 8, 12, 5, 2, 0, 4 }, { 16, 16, 1, 1, 0, 1 } } do
      local channels, filters, kernel, stride, padding, groups = table.unpack(o)
      local says = mrt.estimate.conv2d { channels = channels, filters = filters, height = 16,
        width = 16, kernel = kernel, stride = stride, padding = padding, groups = groups,
        batch = 4, bias = false }
      local layer = nn.Conv2d(channels, filters, kernel,
        { stride = stride, padding = padding, groups = groups, bias = false })
      assert.equal(says.parameters, layer:count())
      local plan = mrt.compile(function(x)
        return layer(x):permute(1, 3, 4, 2):relu()
      end):plan(mrt.randn(4, channels, 16, 16))
      for _, step in ipairs(plan:steps()) do
        if step.op == "conv2d" then assert.equal(says.flops, step.flops) end
      end
      for _, v in ipairs(plan:values()) do
        local made = v.op == "conv2d" and v.kind ~= "workspace"
        if made then assert.equal(says.output, v.bytes) end
      end
    end
  end)
end)

describe("convolution kernels", function()
  -- Threads, small batches and large: the sums are the same sums.
  it("compute an image alike in any batch", function()
    local x, w = mrt.randn(13, 5, 9, 7), mrt.randn(70, 5, 3, 3)
    local o = { padding = 1, stride = 2 }
    same(x:slice(1, 3, 4):conv2d(w, o), x:conv2d(w, o):slice(1, 3, 4), 0)
    local dy = mrt.randn(13, 70, 5, 4)
    local function dx(a, b)
      return mrt.grad((a:conv2d(w, o) * b):sum(), a)
    end
    same(dx(x:slice(1, 3, 4):copy(), dy:slice(1, 3, 4)), dx(x, dy):slice(1, 3, 4), 0)
  end)
end)
