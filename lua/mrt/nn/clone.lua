--- clone.lua -- a module with parameters of its own that begin as another's
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"

local function copy_list(list)
  local out = {}
  for key, value in pairs(list) do out[key] = value end
  return out
end

local function clone(value, known)
  if known[value] then return known[value] end
  local out
  if core.is_variable(value) then
    out = mrt.parameter(value:copy())
  elseif type(value) ~= "table" or getmetatable(value) and not rawget(value, "_fields") then
    return value
  else
    out = setmetatable({}, getmetatable(value))
    known[value] = out
    for key, held in pairs(value) do rawset(out, key, clone(held, known)) end
    if rawget(value, "_fields") then
      rawset(out, "_fields", copy_list(value._fields))
      rawset(out, "_buffers", copy_list(value._buffers))
    end
    return out
  end
  known[value] = out
  return out
end

--- Copy a module: parameters that it has twice, the copy has twice.
---@param module mrt.nn.Module
---@return mrt.nn.Module
return function(module) return clone(module, {}) end
