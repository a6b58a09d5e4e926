--- conv_transpose.lua -- what a convolution's gradient does, as a layer
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"

---@class mrt.nn.ConvTranspose2dOptions
---@field stride? integer|integer[]          default 1
---@field padding? integer|integer[]         default 0
---@field output_padding? integer|integer[]  rows and columns more at the end; default 0
---@field dilation? integer|integer[]        default 1
---@field groups? integer                    default 1
---@field bias? boolean                      default true
---@field init? mrt.nn.Recipe                of the weights

--- Make a transposed convolution of images: `[N, inputs, H, W]` ->
--- `[N, outputs, H', W']`, H' = (H - 1) stride - 2 padding +
--- dilation (kernel - 1) + output_padding + 1.
---
---     local twice = nn.ConvTranspose2d(64, 32, 2, { stride = 2 })
---
--- Weights and biases begin uniform in +-1/sqrt(outputs / groups * area of the
--- kernel), as in PyTorch; with `init` given, weights begin as it says, and
--- biases at zero.
---@class mrt.nn.ConvTranspose2d: mrt.nn.Module
---@field weight mrt.Tensor  `[inputs, outputs / groups, height, width]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, kernel: any, o?: table): mrt.nn.ConvTranspose2d
local ConvTranspose2d = Module("ConvTranspose2d", "tensor")

local defaults = { stride = options.of(nil, 1), padding = options.of(nil, 0),
  output_padding = options.of(nil, 0), dilation = options.of(nil, 1),
  groups = options.of("size", 1), bias = true, init = options.of "function" }

function ConvTranspose2d:init(inputs, outputs, kernel, given)
  local who = "ConvTranspose2d"
  local o = options.read(who, given, defaults)
  options.size(who, "inputs", inputs)
  options.size(who, "outputs", outputs)
  local h, w = options.sides(who, "kernel", kernel)
  if inputs % o.groups ~= 0 or outputs % o.groups ~= 0 then
    core.fail("value", who, ("%d inputs and %d outputs, multiples of the %d "
      .. "groups wanted"):format(inputs, outputs, o.groups))
  end
  local default = initial.uniform(1 / math.sqrt(outputs // o.groups * h * w))
  self.weight = parameter(who, o.init or default, inputs,
    outputs // o.groups, h, w)
  if o.bias then
    self.bias = parameter(who, o.init and mrt.zeros or default, outputs)
  end
  rawset(self, "options", { stride = o.stride, padding = o.padding,
    output_padding = o.output_padding, dilation = o.dilation, groups = o.groups })
end

---@param x mrt.Tensor  `[N, inputs, H, W]`
---@return mrt.Tensor   `[N, outputs, H', W']`
function ConvTranspose2d:forward(x)
  return x:conv_transpose2d(self.weight, self.bias, self.options)
end

function ConvTranspose2d:describe()
  local w = self.weight
  return ("%d, %d, %dx%d"):format(w:size(1), w:size(2) * self.options.groups,
    w:size(3), w:size(4))
end

return ConvTranspose2d
