--- dropout.lua -- Srivastava et al. 2014
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

--- Make a dropout layer: while training, each element is zero with chance `p`
--- and scaled by 1 / (1 - p) otherwise; in evaluation mode nothing happens.
---
---     nn.Dropout(0.1)(mrt.ones(2, 3)):type()  --> f32[2,3]
---@class mrt.nn.Dropout: mrt.nn.Module
---@field p number
---@overload fun(p?: number): mrt.nn.Dropout
local Dropout = Module("Dropout", "tensor")

function Dropout:init(p)
  self.p = p or 0.5
  if type(self.p) ~= "number" or not (self.p >= 0 and self.p < 1) then
    core.fail("value", "Dropout", ("p = %s, wanted 0 <= p < 1"):format(options.show(self.p)))
  end
end

---@param x mrt.Tensor
---@return mrt.Tensor  shape and dtype of x
function Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return x:dropout { p = self.p }
end

function Dropout:describe() return "p = " .. tostring(self.p) end

return Dropout
