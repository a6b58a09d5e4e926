--- param_dtype.lua -- parameters that are stored in a narrow dtype
---
--- A policy may want what the optimizers of a step update to be stored in bf16,
--- with no copy in f32.  Only a trace tells which variables these are; so the
--- first trace is thrown away, they are converted where they are, and the function
--- is traced again: what was traced before the update has read them as f32.  Where
--- they are narrow already, once is enough.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local retrace = require "mrt.compile.retrace"

local weights = { conversions = 0 } -- so far, of all variables

---@class mrt.Weights
---@field dtype mrt.DType
---@field stochastic boolean  rounded up or down at random, with the right mean

--- What variables are has changed: compiled functions look whether they still fit.
function weights.changed() weights.conversions = weights.conversions + 1 end

--- Store a variable in another dtype from now on; compiled functions that read it
--- are traced again.
---@param variable mrt.Tensor
---@param dtype mrt.DType
function weights.convert(variable, dtype)
  if variable:get_dtype() == dtype then return end
  core.convert(variable, dtype)
  weights.changed()
end

-- ---- in a trace ------------------------------------------------------------

--- A transform.  It finishes last, when all updates are in the trace.
---@class mrt.NarrowWeights: mrt.Transform
---@field settings mrt.Weights
---@field wide mrt.Tensor[]  in a trace: what is updated and has to be converted
local Narrow = { name = "narrow weights" }
Narrow.__index = Narrow

--- Make the transform of a function whose parameters are stored so.
---@param settings mrt.Weights?
---@return mrt.NarrowWeights?
function weights.new(settings)
  return settings and setmetatable({ settings = settings }, Narrow)
end

function Narrow:begin() self.wide = {} end

function Narrow:updates(next, params)
  for _, p in ipairs(params) do
    if p:get_dtype() == "f32" then table.insert(self.wide, p) end
  end
  return next(params) or self.settings.stochastic
end

function Narrow:finish()
  local list, dtype = self.wide, self.settings.dtype
  if #list == 0 then return end
  retrace.request(function()
    for _, p in ipairs(list) do weights.convert(p, dtype) end
  end)
end

return weights
