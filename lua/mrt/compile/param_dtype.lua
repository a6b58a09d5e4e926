--- param_dtype.lua -- parameters that are stored in a narrow dtype
---
--- A policy may want what the optimizers of a step update to be stored in bf16,
--- with no copy in f32.  Only a trace tells which variables these are; so the
--- first trace is thrown away, they are converted where they are, and the function
--- is traced again: what was traced before the update has read them as f32.  Where
--- they are narrow already, once is enough.
---
--- SPDX-License-Identifier: MIT

local again = require "mrt.compile.retrace"
local core = require "mrt.core"

local weights = { conversions = 0 } -- so far, of all variables

local current -- of the trace being made: {settings, list}

---@class mrt.Weights
---@field dtype mrt.DType
---@field stochastic boolean  rounded up or down at random, with the right mean

local Trace = { __close = function() current = nil end }

--- What variables are has changed: compiled functions look whether they still fit.
function weights.changed() weights.conversions = weights.conversions + 1 end

--- The dtype that what this trace updates is to be stored in; nil: as it is.
---@return mrt.DType?
function weights.wanted() return current and current.settings.dtype end

--- Whether what this trace updates is rounded at random.
---@return boolean
function weights.stochastic() return current ~= nil and current.settings.stochastic end

--- Store a variable in another dtype from now on; compiled functions that read it
--- are traced again.
---@param variable mrt.Tensor
---@param dtype mrt.DType
function weights.convert(variable, dtype)
  if variable:get_dtype() == dtype then return end
  core.convert(variable, dtype)
  weights.changed()
end

--- Look at updates until the result is closed.
---@param settings mrt.Weights?
---@return table? closable
function weights.enter(settings)
  if not settings then return nil end
  current = setmetatable({ settings = settings, list = {} }, Trace)
  return current
end

--- An optimizer updates these. Tells whether they are rounded stochastically.
---@param params mrt.Tensor[]
---@return boolean
function weights.updated(params)
  if not current then return false end
  for _, p in ipairs(params) do
    if p:get_dtype() == "f32" then table.insert(current.list, p) end
  end
  return current.settings.stochastic
end

--- The function has been traced: ends the trace if variables must be converted.
function weights.finish()
  if not current or #current.list == 0 then return end
  local list, dtype = current.list, current.settings.dtype
  again.request(function()
    for _, p in ipairs(list) do weights.convert(p, dtype) end
  end)
end

return weights
