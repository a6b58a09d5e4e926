--- heldout.lua -- training steps that kernels and planner were not tuned on
---
--- Six models beside those of cases.lua, of sizes whose step takes a tenth of a second
--- to one on two cores.  torch_models.py has the same functions, with as many parameters.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local nn, optim = mrt.nn, mrt.optim

-- ---- what mrt.nn lacks -------------------------------------------------------------

-- Sandler et al. 2018 (arXiv:1801.04381): wider, each channel by itself, narrower.
local Inverted = nn.Module("InvertedResidual", "tensor")

function Inverted:init(inputs, width, stride, wider)
  local inner, list = inputs * wider, {}
  local function add(from, to, kernel, o)
    o.bias, o.padding = false, kernel // 2
    table.move({ nn.Conv2d(from, to, kernel, o), nn.BatchNorm(to), nn.ReLU6() }, 1, 3,
      #list + 1, list)
  end
  if wider > 1 then add(inputs, inner, 1, {}) end
  add(inner, inner, 3, { stride = stride, groups = inner })
  add(inner, width, 1, {})
  list[#list] = nil -- what comes out narrow keeps its negative numbers
  self.same = stride == 1 and inputs == width
  self.layers = nn.Sequential(table.unpack(list))
end

function Inverted:forward(x)
  local y = self.layers(x)
  return self.same and x + y or y
end

-- wider, width, how many, stride of the first: the form for 32x32 images.
local stages = { { 1, 16, 1, 1 }, { 6, 24, 2, 1 }, { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
  { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } }

local function mobilenet()
  local list = { nn.Conv2d(3, 32, 3, { padding = 1, bias = false }), nn.BatchNorm(32), nn.ReLU6() }
  local inputs = 32
  for _, s in ipairs(stages) do
    for i = 1, s[3] do
      list[#list + 1] = Inverted(inputs, s[2], i == 1 and s[4] or 1, s[1])
      inputs = s[2]
    end
  end
  table.move({ nn.Conv2d(inputs, 1280, 1, { bias = false }), nn.BatchNorm(1280), nn.ReLU6(),
    nn.GlobalAvgPool(), nn.Linear(1280, 10) }, 1, 5, #list + 1, list)
  return nn.Sequential(table.unpack(list))
end

-- ---- the cases ---------------------------------------------------------------------

local function ids(n, ...) return mrt.randint(0, n, { ... }, { dtype = "i32" }) end

local function adamw(params) return optim.adamw(params, { lr = 3e-4, weight_decay = 0.1 }) end

local function sgd(params)
  return optim.sgd(params, { lr = 0.1, momentum = 0.9, weight_decay = 5e-4 })
end

-- Each: the model, classes, its optimizer, inputs and targets.
local cases = {
  -- 3 levels below 64x64, 32 channels at full size; classes of pixels, batch 8
  unet = function()
    local model = nn.UNet { classes = 4, depth = 3, width = 32 }
    local function pixels(x) return model(x):permute(1, 3, 4, 2) end
    return model, 4, adamw, mrt.randn(8, 3, 64, 64), ids(4, 8, 64, 64), pixels
  end,
  -- the widths of ViT-S, half its layers, on 8x8 patches of 4x4; batch 8
  vit = function()
    local model = nn.ViT { image = 32, patch = 4, dim = 384, layers = 6, heads = 6,
      classes = 10, eps = 1e-6 }
    return model, 10, adamw, mrt.randn(8, 3, 32, 32), ids(10, 8)
  end,
  -- MobileNetV2 for 32x32 images, batch 32
  mobilenet = function() return mobilenet(), 10, sgd, mrt.randn(32, 3, 32, 32), ids(10, 32) end,
  -- six layers, two heads of keys and values for six of queries; two sequences of 256
  llama = function()
    local model = nn.Llama { vocab = 4096, dim = 384, layers = 6, heads = 6, kv_heads = 2,
      context = 256 }
    return model, 4096, adamw, ids(4096, 2, 256), ids(4096, 2, 256)
  end,
  -- six layers, words of all positions; four sequences of 128
  bert = function()
    local model = nn.Encoder { vocab = 8192, dim = 384, layers = 6, heads = 6, context = 128,
      types = 2, head = "words" }
    return model, 8192, adamw, ids(8192, 4, 128), ids(8192, 4, 128)
  end,
  -- VGG-11 with batch norms for 32x32 images, batch 32
  vgg = function()
    local model = nn.VGG { depth = 11, batch_norm = true, form = "cifar" }
    return model, 10, sgd, mrt.randn(32, 3, 32, 32), ids(10, 32)
  end,
}

return cases
