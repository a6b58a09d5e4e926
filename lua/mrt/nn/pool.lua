--- pool.lua -- pools of images, and what follows them
---
--- SPDX-License-Identifier: MIT

local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"

local pool = {}

local function shown(value)
  if type(value) ~= "table" then return tostring(value) end
  local sides = {}
  for i, side in ipairs(value) do sides[i] = tostring(side) end
  return table.concat(sides, "x")
end

-- A layer that calls x:method(first, options), its arguments called `names`.
local function layer(name, method, names)
  local class, first = Module(name, "tensor"), names[1]
  function class:init(...)
    local o = argument.read(name, names, ...)
    if first and o[first] == nil then
      argument.refuse(name, "%s is missing", first)
    end
    rawset(self, "first", first and o[first])
    if first then o[first] = nil end
    rawset(self, "options", next(o) and o)
  end
  function class:forward(x) return x[method](x, self.first, self.options) end
  function class:describe()
    local out = { self.first ~= nil and shown(self.first) or nil }
    for _, option in ipairs(names) do
      local value = (self.options or {})[option]
      if value ~= nil then out[#out + 1] = option .. " " .. shown(value) end
    end
    return table.concat(out, ", ")
  end
  pool[name] = class
end

-- MaxPool2d(3, { stride = 2, padding = 1 }): arguments of Tensor.max_pool2d
layer("MaxPool2d", "max_pool2d", { "kernel", "stride", "padding", "dilation", "ceil_mode" })
layer("AvgPool2d", "avg_pool2d",
  { "kernel", "stride", "padding", "ceil_mode", "count_include_pad" })
layer("AdaptiveAvgPool2d", "adaptive_avg_pool2d", { "size" }) -- AdaptiveAvgPool2d(7)
layer("GlobalAvgPool", "global_avg_pool2d", {})               -- [N,C,H,W] -> [N,C]
layer("Upsample", "upsample_nearest2d", { "factor" })         -- Upsample(2): pixels repeated

--- Make one dimension of all but the first, or of those from `first` to `last`.
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
