--- vgg.lua -- Simonyan & Zisserman 2014 (arXiv:1409.1556)
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local BatchNorm = require "mrt.nn.batch_norm"
local Conv2d = require "mrt.nn.conv"
local Dropout = require "mrt.nn.dropout"
local Linear = require "mrt.nn.linear"
local MaxPool2d = require "mrt.nn.pool".MaxPool2d
local ReLU = require "mrt.nn.activation".ReLU
local Sequential = require "mrt.nn.sequential"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local scope = require "mrt.nn.scope"

-- Convolutions in each of the five stages, 64, 128, 256, 512 and 512 wide.
local depths = { [11] = { 1, 1, 2, 2, 2 }, [13] = { 2, 2, 2, 2, 2 },
  [16] = { 2, 2, 3, 3, 3 }, [19] = { 2, 2, 4, 4, 4 } }

local HIDDEN <const> = 4096

---@class mrt.nn.VGGOptions
---@field depth 11|13|16|19
---@field batch_norm? boolean  after each convolution; default false
---@field form? "imagenet"|"cifar"  end with three layers of which two are 4096
---  wide, or with one after averaging; default "imagenet"
---@field classes? integer     default 1000, or 10 for "cifar"
---@field size? integer        height and width of the images where the form is
---  "imagenet", a multiple of 32; default 224
---@field dropout? number      between the last three layers; default 0.5
---@field inputs? integer      channels of the image, default 3

--- Make a VGG: images `[N,inputs,H,W]` -> logits `[N,classes]`.
---
---     local model = nn.VGG{depth = 16, batch_norm = true, form = "cifar"}
---
--- Convolutions begin as in He et al. 2015.  Every stage, up to its pool, is a
--- layer that checkpoint policies see, and so is each of the last three.
---@class mrt.nn.VGG: mrt.nn.Module
---@overload fun(options: mrt.nn.VGGOptions): mrt.nn.VGG
local VGG = Module("VGG", "tensor")

local defaults = { depth = options.none, batch_norm = false, form = "imagenet",
  classes = options.none, size = 224, dropout = 0.5, inputs = 3 }

local function read(given)
  local o = options.read("VGG", given, defaults)
  if not depths[o.depth] then
    core.fail("value", "VGG", ("depth %s: 11, 13, 16 or 19 wanted")
      :format(tostring(o.depth)))
  elseif o.form ~= "cifar" and o.form ~= "imagenet" then
    core.fail("value", "VGG", ("form '%s', cifar or imagenet wanted")
      :format(o.form))
  end
  o.classes = o.classes or (o.form == "cifar" and 10 or 1000)
  for _, name in ipairs { "classes", "size", "inputs" } do
    options.size("VGG", name, o[name])
  end
  if o.size % 32 ~= 0 then
    core.fail("value", "VGG", ("size %d, a multiple of 32 wanted"):format(o.size))
  end
  return o
end

-- Convolutions of one width, then a pool that halves the sides.
local function stage(inputs, width, count, batch_norm)
  local list = {}
  local function add(layer) list[#list + 1] = layer end
  for i = 1, count do
    add(Conv2d(i == 1 and inputs or width, width, 3, { padding = 1,
      init = initial.kaiming_normal { mode = "outputs" } }))
    if batch_norm then add(BatchNorm(width)) end
    add(ReLU())
  end
  add(MaxPool2d(2))
  return Sequential(table.unpack(list))
end

function VGG:init(given)
  local o = read(given)
  local width, dense = o.inputs, { init = initial.normal(0.01) }
  self.form, self.size = o.form, o.size
  self.stages = {}
  for s, count in ipairs(depths[o.depth]) do
    local inputs = width
    width = math.min(64 << s - 1, 512)
    self.stages[s] = stage(inputs, width, count, o.batch_norm)
  end
  if o.form == "cifar" then
    self.head = Linear(width, o.classes, dense)
  else
    local side = o.size // 32
    self.head = Sequential(
      Sequential(Linear(width * side * side, HIDDEN, dense), ReLU(), Dropout(o.dropout)),
      Sequential(Linear(HIDDEN, HIDDEN, dense), ReLU(), Dropout(o.dropout)),
      Linear(HIDDEN, o.classes, dense))
  end
end

---@param x mrt.Tensor  `[N,inputs,H,W]`, H = W = size where the form is "imagenet"
---@return mrt.Tensor   `[N,classes]`
function VGG:forward(x)
  if self.form == "imagenet" and (x:dim() ~= 4 or x:size(3) ~= self.size
    or x:size(4) ~= self.size) then
    core.fail("shape", "VGG", ("%s, [N,C,%d,%d] wanted (option size)")
      :format(x:type(), self.size, self.size))
  end
  for _, part in ipairs(self.stages) do x = scope.layer(part, x) end
  if self.form == "cifar" then return self.head(x:global_avg_pool2d()) end
  return self.head(x:flatten(2))
end

function VGG:describe() return self.form end

return VGG
