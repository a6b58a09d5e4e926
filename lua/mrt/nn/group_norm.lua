--- group_norm.lua -- Wu & He 2018 (arXiv:1803.08494)
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

---@class mrt.nn.GroupNormOptions
---@field eps? number      added to the variance; default 1e-5
---@field affine? boolean  weight and bias; default true

--- Make a group norm for `[N, channels, ...]`: each sample's channels, in
--- `groups` groups of neighbours, are normalised over the group and all
--- positions, then scaled and shifted channel by channel: y = (x - mean) /
--- sqrt(var + eps) * weight + bias.
---
---     nn.GroupNorm(2, 8)(mrt.randn(4, 8, 16)):type()  --> f32[4,8,16]
---@class mrt.nn.GroupNorm: mrt.nn.Module
---@field weight mrt.Tensor?  `[channels]`
---@field bias mrt.Tensor?    `[channels]`
---@overload fun(groups: integer, channels: integer, o?: mrt.nn.GroupNormOptions): mrt.nn.GroupNorm
local GroupNorm = Module("GroupNorm", "tensor")

function GroupNorm:init(groups, channels, given)
  options.size("GroupNorm", "groups", groups)
  options.size("GroupNorm", "channels", channels)
  if channels % groups ~= 0 then
    core.fail("value", "GroupNorm",
      ("%d channels in %d groups, a multiple wanted"):format(channels, groups))
  end
  local o = options.read("GroupNorm", given, { eps = 1e-5, affine = true })
  self.groups, self.channels, self.eps = groups, channels, o.eps
  if o.affine then
    self.weight = mrt.parameter(mrt.ones(channels))
    self.bias = mrt.parameter(mrt.zeros(channels))
  end
end

---@param x mrt.Tensor  `[N, channels, ...]`
---@return mrt.Tensor   shape of x
function GroupNorm:forward(x)
  if x:dim() < 2 or x:size(2) ~= self.channels then
    core.fail("shape", "GroupNorm", ("%s, [N, %d, ...] wanted")
      :format(x:type(), self.channels))
  end
  return x:group_norm(self.groups, self.weight, self.bias, { eps = self.eps })
end

function GroupNorm:describe() return ("%d, %d"):format(self.groups, self.channels) end

return GroupNorm
