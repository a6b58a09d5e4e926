--- spatial_norm.lua -- norms that say how many dimensions they take
---
--- BatchNorm1d, 2d and 3d are BatchNorm for `[N, C, L]` (or `[N, C]`), `[N, C, H, W]` and
--- `[N, C, D, H, W]`; InstanceNorm1d, 2d and 3d normalise each channel of each sample.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local BatchNorm = require "mrt.nn.batch_norm"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

local layers = {}

local batch_names = { "eps", "momentum", "affine", "tracking" }

local function want_rank(self, x, ranks)
  for _, rank in ipairs(ranks) do
    if x:dim() == rank then return end
  end
  core.fail("shape", self.type, ("%s, %s dimensions wanted"):format(x:type(),
    table.concat(ranks, " or ")))
end

local function batch_norm(name, ranks)
  local class = Module(name, "tensor")
  function class:init(channels, ...)
    BatchNorm.init(self, channels, argument.read(name, batch_names, ...))
  end
  function class:forward(x)
    want_rank(self, x, ranks)
    return BatchNorm.forward(self, x)
  end
  class.describe = BatchNorm.describe
  layers[name] = class
end

---@class mrt.nn.InstanceNormOptions
---@field eps? number      added to the variance; default 1e-5
---@field affine? boolean  weight and bias; default false

-- Ulyanov, Vedaldi & Lempitsky, arXiv:1607.08022: a group norm of one channel a group.
local function instance_norm(name, spatial)
  local class = Module(name, "tensor")
  function class:init(channels, ...)
    options.size(name, "channels", channels)
    local o = options.read(name, argument.read(name, { "eps", "affine" }, ...),
      { eps = 1e-5, affine = false })
    self.channels, self.eps = channels, o.eps
    if not o.affine then return end
    self.weight = mrt.parameter(mrt.ones(channels))
    self.bias = mrt.parameter(mrt.zeros(channels))
  end
  function class:forward(x)
    want_rank(self, x, { spatial + 1, spatial + 2 })
    local alone = x:dim() == spatial + 1
    if alone then x = x:unsqueeze(1) end
    if x:size(2) ~= self.channels then
      core.fail("shape", name, ("%s, [N, %d, ...] wanted"):format(x:type(), self.channels))
    elseif self.training and x:numel() == x:size(1) * x:size(2) then
      core.fail("shape", name, ("%s, 2 or more values for each channel wanted to train")
        :format(x:type()))
    end
    local y = x:group_norm(self.channels, self.weight, self.bias, { eps = self.eps })
    return alone and y:squeeze(1) or y
  end
  function class:describe() return ("%d"):format(self.channels) end
  layers[name] = class
end

batch_norm("BatchNorm1d", { 2, 3 })
for n = 2, 3 do batch_norm(("BatchNorm%dd"):format(n), { n + 2 }) end
for n = 1, 3 do instance_norm(("InstanceNorm%dd"):format(n), n) end

return layers
