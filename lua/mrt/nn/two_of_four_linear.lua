--- two_of_four_linear.lua -- a linear layer that keeps two of each four weights
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local options = require "mrt.util.options"

local op = core.op

--- Make a linear layer of another one, of whose weights at most two of each four
--- neighbours in a row are not 0: `[..., inputs]` -> `[..., outputs]`.
---
---     prune.two_of_four(linear)
---     local packed = nn.TwoOfFourLinear(linear)   -- 17 bits a weight in f32, not 32
---
--- It computes what the other one does, on the CPU bit for bit.  The values that are kept are
--- trained, with moments for them alone; which weights they are is a buffer and does
--- not change.  `prune.pack` does so in a model (arXiv:2104.08378).
---@class mrt.nn.TwoOfFourLinear: mrt.nn.Module
---@field inputs integer
---@field outputs integer
---@field values mrt.Tensor  `[outputs, inputs / 2]`
---@field codes mrt.Tensor   `[outputs, inputs / 8]` rounded up, u8: two bits a value
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(linear: mrt.nn.Linear): mrt.nn.TwoOfFourLinear
local TwoOfFourLinear = Module("TwoOfFourLinear", "tensor")

local function refuse(text, ...) core.fail("value", "TwoOfFourLinear", text:format(...)) end

function TwoOfFourLinear:init(linear)
  if getmetatable(linear) ~= Linear then
    refuse("a Linear wanted, got %s", options.show(linear))
  end
  local weight = linear.weight:detach()
  self.outputs, self.inputs = weight:size(1), weight:size(2)
  if self.inputs % 4 ~= 0 then
    refuse("rows of %d weights, a multiple of 4 wanted", self.inputs)
  end
  local values, codes = op.two_of_four(weight)
  local rest = op.ne(op.two_of_four_dense(values, codes), weight):to "i64":sum():item()
  if rest > 0 then
    refuse("more than two of four weights are not 0, %d in all (prune.two_of_four comes first)",
      rest)
  end
  self.values = mrt.parameter(values)
  self:register_buffer("codes", mrt.variable(codes))
  if linear.bias then self.bias = linear.bias end
  mrt.eval { self.values, self.codes }
end

--- Return the weights as the layer that it was made of had them.
---
---     layer:weights():type()
---@return mrt.Tensor  `[outputs, inputs]`
function TwoOfFourLinear:weights() return op.two_of_four_dense(self.values, self.codes) end

---@param x mrt.Tensor  `[..., inputs]`
---@return mrt.Tensor   `[..., outputs]`
function TwoOfFourLinear:forward(x)
  if self.bias then return (op.two_of_four_linear(x, self.values, self.codes, self.bias)) end
  return (op.two_of_four_linear(x, self.values, self.codes))
end

function TwoOfFourLinear:describe()
  return ("%d, %d, two of four%s"):format(self.inputs, self.outputs,
    self.bias and "" or ", no bias")
end

return TwoOfFourLinear
