--- linear.lua -- y = x W^T + b
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"

---@class mrt.nn.LinearOptions
---@field bias? boolean        default true
---@field init? mrt.nn.Recipe  of the weights

--- Make a linear layer: `[..., inputs]` -> `[..., outputs]`.
---
---     local y = nn.Linear(784, 10)(mrt.randn(32, 784))   -- f32[32,10]
---
--- Weights and biases begin uniform in +-1/sqrt(inputs), as in PyTorch; with
--- `init` given, weights begin as it says and biases at zero.
---@class mrt.nn.Linear: mrt.nn.Module
---@field weight mrt.Tensor  `[outputs, inputs]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, options?: mrt.nn.LinearOptions): mrt.nn.Linear
local Linear = Module("Linear", "tensor")

function Linear:init(inputs, outputs, given)
  local o = options.read("Linear", given, { bias = true, init = options.of "function" })
  options.size("Linear", "inputs", inputs)
  options.size("Linear", "outputs", outputs)
  local default = initial.uniform(1 / math.sqrt(inputs))
  self.weight = parameter("Linear", o.init or default, outputs, inputs)
  if o.bias then
    self.bias = parameter("Linear", o.init and mrt.zeros or default, outputs)
  end
end

---@param x mrt.Tensor  `[..., inputs]`
---@return mrt.Tensor   `[..., outputs]`
function Linear:forward(x)
  if self.bias then return x:linear(self.weight, self.bias) end
  return x:linear(self.weight)
end

function Linear:describe()
  return ("%d, %d%s"):format(self.weight:size(2), self.weight:size(1),
    self.bias and "" or ", no bias")
end

return Linear
