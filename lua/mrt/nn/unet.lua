--- unet.lua -- Ronneberger et al. 2015 (arXiv:1505.04597)
---
--- Convolutions keep the size of the image, so that what is copied across needs
--- no cropping and every pixel gets its logits.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"
local BatchNorm = require "mrt.nn.batch_norm"
local Conv2d = require "mrt.nn.conv"
local ConvTranspose2d = require "mrt.nn.conv_transpose"
local GroupNorm = require "mrt.nn.group_norm"
local ReLU = require "mrt.nn.activation".ReLU
local Sequential = require "mrt.nn.sequential"
local Upsample = require "mrt.nn.pool".Upsample
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local scope = require "mrt.nn.scope"

local GROUPS <const> = 8 -- of GroupNorm, or as many as divide the width

local norms = {
  batch = BatchNorm,
  group = function(width)
    local groups = GROUPS
    while width % groups ~= 0 do groups = groups // 2 end
    return GroupNorm(groups, width)
  end,
}

-- Twice: 3x3 convolution, norm, relu.
local function double(inputs, width, norm)
  local list = {}
  for i = 1, 2 do
    list[#list + 1] = Conv2d(i == 1 and inputs or width, width, 3, { padding = 1,
      bias = not norm, init = initial.kaiming_normal() })
    if norm then list[#list + 1] = norm(width) end
    list[#list + 1] = ReLU()
  end
  return Sequential(table.unpack(list))
end

local raises = {
  transposed = function(width) return ConvTranspose2d(width, width // 2, 2, { stride = 2 }) end,
  ["repeat"] = function(width)
    return Sequential(Upsample(2), Conv2d(width, width // 2, 3, { padding = 1 }))
  end,
}

-- Up: twice the size, half the channels, beside what was kept on the way down.
local Up = Module("Up", "tensor")

function Up:init(width, up, norm)
  self.up = raises[up](width)
  self.convs = double(width, width // 2, norm)
end

function Up:forward(x, kept) return self.convs(mrt.cat({ kept, self.up(x) }, 2)) end

-- ---- the model -------------------------------------------------------------

---@class mrt.nn.UNetOptions
---@field classes integer
---@field inputs? integer   channels of the image, default 3
---@field depth? integer    how often the sides are halved, default 4
---@field width? integer    channels at full size, doubled with each halving;
---  default 64
---@field up? "transposed"|"repeat"  how sides are doubled: a transposed
---  convolution (the default), or pixels repeated and a convolution, which leaves
---  no chequered patterns (Odena et al. 2016)
---@field norm? "batch"|"group"|"none"  after each convolution, default "batch"

--- Make a U-Net: images `[N,inputs,H,W]` -> logits `[N,classes,H,W]`, H and W
--- multiples of 2^depth.
---
---     local model = nn.UNet{inputs = 1, classes = 2, depth = 3, width = 16}
---     local logits = model(x)
---     nn.cross_entropy(logits:permute(1, 3, 4, 2), targets)   -- targets [N,H,W]
---
--- Every level, down and up, is a layer that checkpoint policies see.
---@class mrt.nn.UNet: mrt.nn.Module
---@overload fun(options: mrt.nn.UNetOptions): mrt.nn.UNet
local UNet = Module("UNet", "tensor")

local defaults = { classes = options.none, inputs = 3, depth = 4, width = 64,
  up = "transposed", norm = "batch" }

local function read(given)
  local o = options.read("UNet", given, defaults)
  for _, name in ipairs { "classes", "inputs", "depth", "width" } do
    options.size("UNet", name, o[name])
  end
  if o.depth > 16 or o.width > 1 << 20 then
    core.fail("value", "UNet", ("depth %d, width %d: at most 16, 2^20 wanted")
      :format(o.depth, o.width))
  elseif not raises[o.up] then
    core.fail("value", "UNet", ("up '%s', transposed or repeat wanted"):format(o.up))
  elseif not norms[o.norm] and o.norm ~= "none" then
    core.fail("value", "UNet", ("norm '%s', batch, group or none wanted")
      :format(o.norm))
  end
  return o
end

function UNet:init(given)
  local o = read(given)
  local norm = norms[o.norm]
  self.depth = o.depth
  self.downs = {}
  self.ups = {}
  for level = 1, o.depth + 1 do
    local width = o.width << level - 1
    self.downs[level] = double(level == 1 and o.inputs or width // 2, width, norm)
  end
  for i = 1, o.depth do
    self.ups[i] = Up(o.width << o.depth + 1 - i, o.up, norm)
  end
  self.head = Conv2d(o.width, o.classes, 1)
end

local function check(self, x)
  local unit = 1 << self.depth
  if x:dim() == 4 and x:size(3) % unit == 0 and x:size(4) % unit == 0 then return end
  core.fail("shape", "UNet", ("%s, [N,C,H,W] with H and W multiples of 2^%d = %d wanted")
    :format(x:type(), self.depth, unit))
end

---@param x mrt.Tensor  `[N,inputs,H,W]`
---@return mrt.Tensor   `[N,classes,H,W]`
function UNet:forward(x)
  check(self, x)
  local kept = {}
  for level, down in ipairs(self.downs) do
    x = scope.layer(function(y)
      return down(level > 1 and y:max_pool2d(2) or y)
    end, x)
    kept[level] = x
  end
  for i, up in ipairs(self.ups) do
    x = scope.layer(up, x, kept[#kept - i])
  end
  return self.head(x)
end

function UNet:describe() return ("depth %d"):format(self.depth) end

return UNet
