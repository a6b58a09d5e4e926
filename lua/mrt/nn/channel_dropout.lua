--- channel_dropout.lua -- dropout of whole channels, and of what selu gives
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"

local layers = {}

local function class_of(name, forward)
  local class = Module(name, "tensor")
  function class:init(p)
    self.p = p or 0.5
    if type(self.p) ~= "number" or not (self.p >= 0 and self.p < 1) then
      core.fail("value", name, ("p = %s, wanted 0 <= p < 1"):format(tostring(self.p)))
    end
  end
  function class:forward(x)
    if not self.training or self.p == 0 then return x end
    return forward(self, x)
  end
  function class:describe() return ("p = %g"):format(self.p) end
  layers[name] = class
end

-- 1 / (1 - p) or 0 for each channel of each sample, `[N, C, 1, ...]`, or `[C, 1, ...]`
-- without a batch.
local function channels(self, x, spatial)
  local rank, shape = x:dim(), x:size()
  if rank ~= spatial + 1 and rank ~= spatial + 2 then
    core.fail("shape", self.type, ("%s, %d dimensions wanted, or %d without a batch")
      :format(x:type(), spatial + 2, spatial + 1))
  end
  for d = rank - spatial + 1, rank do shape[d] = 1 end
  return mrt.ones(shape, { dtype = x:get_dtype() }):dropout { p = self.p }
end

-- Make Dropout1d, Dropout2d, Dropout3d: while training, each channel is zero with chance `p`
-- and scaled by 1 / (1 - p) otherwise (Tompson et al., arXiv:1411.4280).
for spatial = 1, 3 do
  class_of(("Dropout%dd"):format(spatial), function(self, x)
    return x * channels(self, x, spatial)
  end)
end

local LEAST <const> = -1.7580993408473766 -- what selu goes to

-- Put LEAST where `kept` is 0, then scale and shift so that mean 0 and variance 1 stay.
local function alpha_dropped(self, x, kept)
  local p = self.p
  local a = ((1 - p) * (1 + p * LEAST ^ 2)) ^ -0.5
  return mrt.where(kept:gt(0), x, LEAST) * a - a * p * LEAST
end

--- Make a dropout for what selu gives, which keeps mean and variance (Klambauer et al.,
--- arXiv:1706.02515).
---
---     nn.AlphaDropout(0.1)(mrt.ones(2, 3)):type()  --> f32[2,3]
---@class mrt.nn.AlphaDropout: mrt.nn.Module
---@overload fun(p?: number): mrt.nn.AlphaDropout
class_of("AlphaDropout", function(self, x)
  local ones = mrt.ones(x:size(), { dtype = x:get_dtype() })
  return alpha_dropped(self, x, ones:dropout { p = self.p })
end)

--- The same of whole channels.
---
---     nn.FeatureAlphaDropout(0.1)(mrt.ones(2, 3, 4)):type()  --> f32[2,3,4]
---@class mrt.nn.FeatureAlphaDropout: mrt.nn.Module
---@overload fun(p?: number): mrt.nn.FeatureAlphaDropout
class_of("FeatureAlphaDropout", function(self, x)
  return alpha_dropped(self, x, channels(self, x, math.max(1, x:dim() - 2)))
end)

return layers
