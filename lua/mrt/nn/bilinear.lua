--- bilinear.lua -- y = x1^T W x2 + b
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"

local bilinear = {}

local function want_fit(x1, x2, weight)
  local fits = weight:dim() == 3 and x1:dim() > 0 and x1:dim() == x2:dim()
    and x1:size(-1) == weight:size(2) and x2:size(-1) == weight:size(3)
  for d = 1, fits and x1:dim() - 1 or 0 do fits = fits and x1:size(d) == x2:size(d) end
  if not fits then
    core.fail("shape", "bilinear", ("%s, %s and %s, [..., I], [..., J] and [O, I, J] wanted")
      :format(x1:type(), x2:type(), weight:type()))
  end
end

--- y[..., o] = sum over i and j of x1[..., i] weight[o, i, j] x2[..., j], plus bias[o].
---
---     nn.bilinear(mrt.ones(5, 2), mrt.ones(5, 3), mrt.ones(4, 2, 3)):type()  --> f32[5,4]
---
--- Raises: sizes that do not fit.
---@param x1 mrt.Tensor      `[..., I]`
---@param x2 mrt.Tensor      `[..., J]`
---@param weight mrt.Tensor  `[O, I, J]`
---@param bias? mrt.Tensor|{bias: mrt.Tensor?}  `[O]`
---@return mrt.Tensor        `[..., O]`
function bilinear.bilinear(x1, x2, weight, bias)
  argument.tensor("bilinear", "x1", x1)
  argument.tensor("bilinear", "x2", x2)
  argument.tensor("bilinear", "weight", weight)
  bias = argument.read("bilinear", { "bias" }, bias).bias
  want_fit(x1, x2, weight)
  local O, I, J = weight:size(1), weight:size(2), weight:size(3)
  local rows = x1:size()
  rows[#rows] = nil
  -- [..., O J], then the products with x2 added up
  local left = x1:reshape(-1, I):matmul(weight:permute(2, 1, 3):reshape(I, O * J))
  local y = (left:reshape(-1, O, J) * x2:reshape(-1, 1, J)):sum(3)
  rows[#rows + 1] = O
  y = y:reshape(rows)
  return bias and y + bias or y
end

--- Make a layer of two inputs: `[..., inputs1]`, `[..., inputs2]` -> `[..., outputs]`.
---
---     nn.Bilinear(2, 3, 4)(mrt.ones(5, 2), mrt.ones(5, 3)):type()  --> f32[5,4]
---@class mrt.nn.Bilinear: mrt.nn.Module
---@field weight mrt.Tensor  `[outputs, inputs1, inputs2]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs1: integer, inputs2: integer, outputs: integer, o?: table): mrt.nn.Module
local Bilinear = Module("Bilinear", "tensor")
bilinear.Bilinear = Bilinear

function Bilinear:init(inputs1, inputs2, outputs, ...)
  options.size("Bilinear", "inputs1", inputs1)
  options.size("Bilinear", "inputs2", inputs2)
  options.size("Bilinear", "outputs", outputs)
  local o = options.read("Bilinear", argument.read("Bilinear", { "bias" }, ...), { bias = true })
  local recipe = initial.uniform(1 / math.sqrt(inputs1))
  self.weight = mrt.parameter(recipe(outputs, inputs1, inputs2))
  if o.bias then self.bias = mrt.parameter(recipe(outputs)) end
end

---@param x1 mrt.Tensor
---@param x2 mrt.Tensor
---@return mrt.Tensor
function Bilinear:forward(x1, x2) return bilinear.bilinear(x1, x2, self.weight, self.bias) end

function Bilinear:describe()
  return ("%d, %d, %d"):format(self.weight:size(2), self.weight:size(3), self.weight:size(1))
end

return bilinear
