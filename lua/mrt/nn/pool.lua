--- pool.lua -- pools, other sizes, windows as columns: layers without parameters
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local window = require "mrt.tensor.window"

local pool = {}

local function shown(value)
  if type(value) ~= "table" then return tostring(value) end
  local sides = {}
  for i, side in ipairs(value) do sides[i] = tostring(side) end
  return table.concat(sides, "x")
end

-- Second names of arguments: the operators'.
local same = { kernel = "kernel_size", size = "output_size" }

-- A layer that calls x:method(arguments), called `names`; the first `wanted` must be
-- there.
local function layer(name, method, names, wanted)
  local class = Module(name, "tensor")
  function class:init(...)
    local o = window.options(name, names, same, ...)
    for i = 1, wanted or 1 do
      if o[names[i]] == nil then argument.refuse(name, "%s is missing", names[i]) end
    end
    rawset(self, "options", o)
  end
  function class:forward(x) return x[method](x, self.options) end
  function class:describe()
    local out = {}
    for i, option in ipairs(names) do
      local value = self.options[option]
      if value ~= nil then out[#out + 1] = (i == 1 and "" or option .. " ") .. shown(value) end
    end
    return table.concat(out, ", ")
  end
  pool[name] = class
end

-- MaxPool2d(3, { stride = 2, padding = 1 }): arguments of Tensor.max_pool2d
for n = 1, 3 do
  layer(("MaxPool%dd"):format(n), ("max_pool%dd"):format(n), { "kernel_size", "stride", "padding",
    "dilation", "return_indices", "ceil_mode" })
  layer(("AvgPool%dd"):format(n), ("avg_pool%dd"):format(n), { "kernel_size", "stride", "padding",
    "ceil_mode", "count_include_pad" })
  layer(("LPPool%dd"):format(n), ("lp_pool%dd"):format(n), { "norm_type", "kernel_size", "stride",
    "ceil_mode" }, 2)
  layer(("AdaptiveAvgPool%dd"):format(n), ("adaptive_avg_pool%dd"):format(n), { "output_size" })
  layer(("AdaptiveMaxPool%dd"):format(n), ("adaptive_max_pool%dd"):format(n), { "output_size",
    "return_indices" })
end
layer("Unfold", "im2col", { "kernel_size", "dilation", "padding", "stride" })
layer("Fold", "col2im", { "output_size", "kernel_size", "dilation", "padding", "stride" }, 2)
layer("LocalResponseNorm", "local_response_norm", { "size", "alpha", "beta", "k" })
layer("PixelShuffle", "pixel_shuffle", { "upscale_factor" })
layer("PixelUnshuffle", "pixel_unshuffle", { "downscale_factor" })
layer("ChannelShuffle", "channel_shuffle", { "groups" })

--- Average each channel of each image: `[N,C,H,W]` -> `[N,C]`.
---
---     nn.GlobalAvgPool()(mrt.zeros(2, 3, 4, 4)):type()  --> f32[2,3]
---@class mrt.nn.GlobalAvgPool: mrt.nn.Module
---@overload fun(): mrt.nn.GlobalAvgPool
local GlobalAvgPool = Module("GlobalAvgPool", "tensor")
function GlobalAvgPool:forward(x) return x:global_avg_pool2d() end
pool.GlobalAvgPool = GlobalAvgPool

--- Resize signals, images and volumes as Tensor.interpolate does; `Upsample(2)` repeats
--- the pixels of images.
---
---     local up = nn.Upsample{ scale_factor = 2, mode = "bilinear" }
---@class mrt.nn.Upsample: mrt.nn.Module
---@overload fun(factor_or_options: any): mrt.nn.Upsample
local Upsample = Module("Upsample", "tensor")

function Upsample:init(...)
  local first = ...
  if math.type(first) == "integer" or type(first) == "table" and #first > 0 then
    rawset(self, "factor", first)
    return
  end
  local o = argument.read("Upsample", { "size", "scale_factor", "mode", "align_corners",
    "recompute_scale_factor", "factor" }, ...)
  if o.factor then
    rawset(self, "factor", o.factor)
  elseif o.size == nil and o.scale_factor == nil then
    argument.refuse("Upsample", "size or scale_factor is missing")
  end
  rawset(self, "options", o)
end

---@param x mrt.Tensor  `[N,C,...]`
---@return mrt.Tensor
function Upsample:forward(x)
  if self.factor then return x:upsample_nearest2d(self.factor) end
  return x:interpolate(self.options)
end

function Upsample:describe()
  if self.factor then return shown(self.factor) end
  local o = self.options
  return (o.size and "size " .. shown(o.size) or "scale_factor " .. shown(o.scale_factor))
    .. ", mode " .. (o.mode or "nearest")
end
pool.Upsample = Upsample

--- Make one dimension of all but the first, or of those from `first` to `last`.
---
---     nn.Flatten()(mrt.zeros(2, 3, 4)):type()  --> f32[2,12]
---@class mrt.nn.Flatten: mrt.nn.Module
---@overload fun(first?: integer, last?: integer): mrt.nn.Flatten
local Flatten = Module("Flatten", "tensor")

function Flatten:init(first, last)
  rawset(self, "first", first or 2)
  rawset(self, "last", last or -1)
end

---@param x mrt.Tensor
---@return mrt.Tensor
function Flatten:forward(x) return x:flatten(self.first, self.last) end

pool.Flatten = Flatten

return pool
