--- vit.lua -- Dosovitskiy et al. 2020 (arXiv:2010.11929): images as sequences of patches
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local LayerNorm = require "mrt.nn.layer_norm"
local Conv2d = require "mrt.nn.conv"
local Block = require "mrt.nn.decoder.block"
local heads = require "mrt.nn.encoder.heads"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"
local read = require "mrt.nn.encoder.options"
local scope = require "mrt.nn.scope"

---@class mrt.nn.ViTOptions
---@field image integer        height and width
---@field patch integer        of a patch; image is a multiple
---@field dim integer
---@field layers integer
---@field heads integer
---@field channels? integer    default 3
---@field hidden? integer      of the feed-forward half; default 4 dim
---@field classes? integer     default none: no head
---@field eps? number          of the norms; default 1e-12
---@field activation? "silu"|"gelu"|"gelu_tanh"|"quick_gelu"|"relu"|"relu2"|"tanh"|"mish"
---  default gelu
---@field qkv_bias? boolean    default true
---@field pooler? "tanh"|"relu"  what the first position says of the whole

--- Make an encoder of images `[B,channels,image,image]` -> `[B,classes]`; without classes
--- `[B,1+patches,dim]`, of which the first is the image's.
---
---     local model = nn.ViT { image = 224, patch = 16, dim = 768, layers = 12, heads = 12,
---       classes = 1000 }
---@class mrt.nn.ViT: mrt.nn.Module
---@field options mrt.nn.ViTOptions  complete
---@overload fun(options: mrt.nn.ViTOptions): mrt.nn.ViT
local ViT = Module("ViT", "tensor")

local own = { image = options.want "size", patch = options.want "size",
  channels = options.of("size", 3), classes = options.of "size", pooler = options.of "string" }

local function complete(given)
  local o = read.options("ViT", given, own, "pre")
  read.word("ViT", o, "pooler", heads.poolers)
  if o.image % o.patch ~= 0 then
    core.fail("value", "ViT", ("image %d, a multiple of patch = %d wanted"):format(o.image,
      o.patch))
  end
  return o
end

--- Options with the defaults filled in.
---@param given mrt.nn.ViTOptions
---@return mrt.nn.ViTOptions
ViT.complete = complete

function ViT:init(given)
  local o = complete(given)
  local normal = initial.normal(0.02)
  rawset(self, "options", o)
  local patches = (o.image // o.patch) ^ 2 // 1 | 0
  self.class = parameter("ViT", normal, 1, 1, o.dim)
  self.positions = parameter("ViT", normal, 1, patches + 1, o.dim)
  self.patches = Conv2d(o.channels, o.dim, o.patch, { stride = o.patch, init = normal })
  self.blocks = {}
  for i = 1, o.layers do self.blocks[i] = Block(o, { inner = normal, last = normal }, i) end
  self.norm = LayerNorm(o.dim, { eps = o.eps })
  if o.pooler then self.pooler = heads.Pooler(o, normal) end
  if o.classes then self.classifier = Linear(o.dim, o.classes, { init = normal }) end
end

local function check(o, images)
  if images:dim() ~= 4 or images:size(2) ~= o.channels or images:size(3) ~= o.image
    or images:size(4) ~= o.image then
    core.fail("shape", "ViT", ("images %s, [batch, %d, %d, %d] wanted"):format(images:type(),
      o.channels, o.image, o.image))
  end
end

--- What the head reads.
---
---     model:features(images)
---
--- Raises: images of another size.
---@param images mrt.Tensor  `[B,channels,image,image]`
---@return mrt.Tensor        `[B,1+patches,dim]`
function ViT:features(images)
  local o = self.options
  check(o, images)
  local B = images:size(1)
  images = images:to(self.patches.weight:get_dtype())
  local x = self.patches(images):reshape(B, o.dim, -1):transpose(2, 3)
  x = mrt.cat({ self.class:expand(B, 1, o.dim), x }, 2) + self.positions
  local told = {}
  for _, block in ipairs(self.blocks) do x = scope.layer(block, x, told) end
  return self.norm(x)
end

--- What the first position says of the whole.
---
---     model:pooled(model:features(images))
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[B,1+patches,dim]`
---@return mrt.Tensor          `[B,dim]`
function ViT:pooled(features)
  if not self.pooler then core.fail("value", "ViT", "pooled: the model has no pooler") end
  return self.pooler(features)
end

--- The classes of features; the same where there are none.
---
---     model:logits(model:features(images))
---
--- Raises: features of another width.
---@param features mrt.Tensor  `[B,1+patches,dim]`
---@return mrt.Tensor
function ViT:logits(features)
  return self.classifier and self.classifier(features:select(2, 1)) or features
end

---@param images mrt.Tensor  `[B,channels,image,image]`
---@return mrt.Tensor        `[B,classes]`
function ViT:forward(images) return self:logits(self:features(images)) end

function ViT:describe()
  local o = self.options
  return ("image %d, patch %d"):format(o.image, o.patch)
end

return ViT
