--- resnet.lua -- He et al. 2015 (arXiv:1512.03385), 2016 (arXiv:1603.05027)
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local AvgPool = require "mrt.nn.pool".GlobalAvgPool
local BatchNorm = require "mrt.nn.batch_norm"
local Conv2d = require "mrt.nn.conv"
local Linear = require "mrt.nn.linear"
local MaxPool2d = require "mrt.nn.pool".MaxPool2d
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local scope = require "mrt.nn.scope"

local he = initial.kaiming_normal { mode = "outputs" }

local function conv(inputs, outputs, kernel, stride)
  return Conv2d(inputs, outputs, kernel, { stride = stride or 1,
    padding = kernel // 2, bias = false, init = he })
end

-- ---- blocks ----------------------------------------------------------------

-- The convolutions of a block: three by three twice, or once between two that
-- change the number of channels.
local function convolutions(inputs, width, stride, bottleneck)
  if not bottleneck then
    return { conv(inputs, width, 3, stride), conv(width, width, 3) },
      { width, width }
  end
  return { conv(inputs, width, 1), conv(width, width, 3, stride),
    conv(width, 4 * width, 1) }, { width, width, 4 * width }
end

-- conv, norm, relu, .., conv, norm; the input is added; relu.
local Block = Module("ResidualBlock", "tensor")

function Block:init(inputs, width, stride, bottleneck)
  local sizes
  self.convs, sizes = convolutions(inputs, width, stride, bottleneck)
  self.norms = {}
  for i, size in ipairs(sizes) do self.norms[i] = BatchNorm(size) end
  local outputs = sizes[#sizes]
  if stride ~= 1 or inputs ~= outputs then
    self.shortcut = conv(inputs, outputs, 1, stride)
    self.shortcut_norm = BatchNorm(outputs)
  end
end

function Block:forward(x)
  local y = x
  for i, layer in ipairs(self.convs) do
    y = self.norms[i](layer(y))
    if i < #self.convs then y = y:relu() end
  end
  if self.shortcut then x = self.shortcut_norm(self.shortcut(x)) end
  return (x + y):relu()
end

-- norm, relu, conv, .., conv; the input is added as it came.
local PreBlock = Module("PreactivationBlock", "tensor")

function PreBlock:init(inputs, width, stride, bottleneck)
  local sizes
  self.convs, sizes = convolutions(inputs, width, stride, bottleneck)
  self.norms = { BatchNorm(inputs) }
  for i = 2, #sizes do self.norms[i] = BatchNorm(sizes[i - 1]) end
  if stride ~= 1 or inputs ~= sizes[#sizes] then
    self.shortcut = conv(inputs, sizes[#sizes], 1, stride)
  end
end

function PreBlock:forward(x)
  local y = x
  for i, layer in ipairs(self.convs) do
    y = self.norms[i](y):relu()
    if i == 1 and self.shortcut then x = self.shortcut(y) end
    y = layer(y)
  end
  return x + y
end

-- ---- the model -------------------------------------------------------------

---@class mrt.nn.ResNetOptions
---@field depth? integer         (or blocks) 18, 34, 50, 101, 152, 200: four stages as for
---  ImageNet; else 6n + 2 (20, 32, 44, 56, 110, ..) or, with bottlenecks, 9n + 2
---  (164, 1001): three stages of n blocks, 16 to 64 wide, as for CIFAR
---@field blocks? integer[]      in place of depth: how many in each stage
---@field bottleneck? boolean    blocks of three convolutions; default: where depth
---  is 50, 101, 152 or 200
---@field width? integer         of the first stage; default 64, or 16 with three
---@field classes? integer       default 1000, or 10 for "cifar"
---@field form? "imagenet"|"cifar"  begin with a 7x7 convolution and a pooling,
---  both with stride 2, or with a 3x3 convolution; default "imagenet" for four
---  stages
---@field preactivation? boolean  norm and relu before each convolution
---@field inputs? integer        channels of the image, default 3

--- Make a residual network: images `[N,inputs,H,W]` -> logits `[N,classes]`.
---
---     local model = nn.ResNet{depth = 18, form = "cifar", classes = 10}
---     local deep = nn.ResNet{depth = 1001, bottleneck = true,
---                            preactivation = true, classes = 10}
---
--- Convolutions begin as in He et al. 2015.  Every block is a layer that
--- checkpoint policies see.
---@class mrt.nn.ResNet: mrt.nn.Module
---@overload fun(options: mrt.nn.ResNetOptions): mrt.nn.ResNet
local ResNet = Module("ResNet", "tensor")

local MOST <const> = 16 -- stages: each is twice as wide as the one before

local four_stages = { [18] = { 2, 2, 2, 2 }, [34] = { 3, 4, 6, 3 },
  [50] = { 3, 4, 6, 3 }, [101] = { 3, 4, 23, 3 }, [152] = { 3, 8, 36, 3 },
  [200] = { 3, 24, 36, 3 } }

local defaults = { depth = options.none, blocks = options.none,
  bottleneck = options.none, width = options.none, classes = options.none,
  form = options.none, preactivation = false, inputs = 3 }

-- Blocks of each stage, and whether they are bottlenecks.
local function stages(o)
  if o.blocks then return o.blocks, o.bottleneck == true end
  local known = four_stages[o.depth]
  if known then
    return known, o.bottleneck == nil and o.depth >= 50 or o.bottleneck == true
  end
  local layers = o.bottleneck and 9 or 6
  local n = math.type(o.depth) == "integer" and (o.depth - 2) // layers or 0
  if n < 1 or (o.depth - 2) % layers ~= 0 then
    core.fail("value", "ResNet", ("depth %s: 18, 34, 50, 101, 152, 200, 6n + 2 "
      .. "or, with bottleneck = true, 9n + 2 wanted"):format(tostring(o.depth)))
  end
  return { n, n, n }, o.bottleneck == true
end

-- What is not said depends on the number of stages.
local function fill_in(o)
  local few = #o.blocks < 4
  o.form = o.form or (few and "cifar" or "imagenet")
  o.width = o.width or (few and 16 or 64)
  o.classes = o.classes or (o.form == "cifar" and 10 or 1000)
  if o.form ~= "cifar" and o.form ~= "imagenet" then
    core.fail("value", "ResNet", ("form '%s', cifar or imagenet wanted")
      :format(o.form))
  end
end

local function read(given)
  local o = options.read("ResNet", given, defaults)
  if (o.depth == nil) == (o.blocks == nil) then
    core.fail("value", "ResNet", "one of depth and blocks wanted")
  elseif o.bottleneck ~= nil and type(o.bottleneck) ~= "boolean" then
    core.fail("value", "ResNet", ("bottleneck: a boolean wanted, got %s")
      :format(tostring(o.bottleneck)))
  end
  o.blocks, o.bottleneck = stages(o)
  if type(o.blocks) ~= "table" or #o.blocks == 0 or #o.blocks > MOST then
    core.fail("value", "ResNet", ("blocks: a list of 1 to %d numbers wanted")
      :format(MOST))
  end
  for i, n in ipairs(o.blocks) do options.size("ResNet", "blocks " .. i, n) end
  fill_in(o)
  for _, name in ipairs { "width", "classes", "inputs" } do
    options.size("ResNet", name, o[name])
  end
  return o
end

-- The blocks of all stages, and the channels that the last one gives.
local function make_blocks(o)
  local make = o.preactivation and PreBlock or Block
  local blocks, inputs = {}, o.width
  for s, count in ipairs(o.blocks) do
    local width = o.width << s - 1
    for i = 1, count do
      local stride = i == 1 and s > 1 and 2 or 1
      blocks[#blocks + 1] = make(inputs, width, stride, o.bottleneck)
      inputs = o.bottleneck and 4 * width or width
    end
  end
  return blocks, inputs
end

function ResNet:init(given)
  local o = read(given)
  local large = o.form == "imagenet"
  local outputs
  self.preactivation = o.preactivation
  self.stem = conv(o.inputs, o.width, large and 7 or 3, large and 2 or 1)
  if not o.preactivation then self.norm = BatchNorm(o.width) end
  if large then self.pool = MaxPool2d(3, { stride = 2, padding = 1 }) end
  self.blocks, outputs = make_blocks(o)
  if o.preactivation then self.norm = BatchNorm(outputs) end
  self.average = AvgPool()
  self.head = Linear(outputs, o.classes)
end

---@param x mrt.Tensor  `[N,inputs,H,W]`
---@return mrt.Tensor   `[N,classes]`
function ResNet:forward(x)
  x = self.stem(x)
  if not self.preactivation then x = self.norm(x):relu() end
  if self.pool then x = self.pool(x) end
  for _, block in ipairs(self.blocks) do x = scope.layer(block, x) end
  if self.preactivation then x = self.norm(x):relu() end
  return self.head(self.average(x))
end

return ResNet
