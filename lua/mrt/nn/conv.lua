--- conv.lua -- convolution of images
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"

---@class mrt.nn.Conv2dOptions
---@field stride? integer|integer[]    default 1
---@field padding? integer|integer[]|"same"  default 0
---@field dilation? integer|integer[]  default 1
---@field groups? integer              default 1
---@field bias? boolean                default true
---@field init? mrt.nn.Recipe          of the weights

--- Make a convolution of images: `[N, inputs, H, W]` -> `[N, outputs, H', W']`.
---
---     local y = nn.Conv2d(3, 64, 3, { padding = 1 })(mrt.randn(8, 3, 32, 32))
---
--- Weights and biases begin uniform in +-1/sqrt(inputs / groups * area of the
--- kernel), as in PyTorch; with `init` given, weights begin as it says, called
--- with (outputs, inputs / groups, height, width), and biases at zero.
---@class mrt.nn.Conv2d: mrt.nn.Module
---@field weight mrt.Tensor  `[outputs, inputs / groups, height, width]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, kernel: any, options?: table): mrt.nn.Conv2d
local Conv2d = Module("Conv2d", "tensor")

local defaults = { stride = options.of(nil, 1), padding = options.of(nil, 0),
  dilation = options.of(nil, 1), groups = options.of("size", 1), bias = true,
  init = options.of "function" }

function Conv2d:init(inputs, outputs, kernel, given)
  local o = options.read("Conv2d", given, defaults)
  options.size("Conv2d", "inputs", inputs)
  options.size("Conv2d", "outputs", outputs)
  local h, w = options.sides("Conv2d", "kernel", kernel)
  if inputs % o.groups ~= 0 or outputs % o.groups ~= 0 then
    core.fail("value", "Conv2d", ("%d inputs and %d outputs, multiples of the %d "
      .. "groups wanted"):format(inputs, outputs, o.groups))
  end
  local fan = inputs // o.groups * h * w
  local default = initial.uniform(1 / math.sqrt(fan))
  self.weight = parameter("Conv2d", o.init or default, outputs,
    inputs // o.groups, h, w)
  if o.bias then
    self.bias = parameter("Conv2d", o.init and mrt.zeros or default, outputs)
  end
  rawset(self, "options", { stride = o.stride, padding = o.padding,
    dilation = o.dilation, groups = o.groups })
end

---@param x mrt.Tensor  `[N, inputs, H, W]`
---@return mrt.Tensor   `[N, outputs, H', W']`
function Conv2d:forward(x) return x:conv2d(self.weight, self.bias, self.options) end

function Conv2d:describe()
  local w, o = self.weight, self.options
  local function shown(value)
    return type(value) == "table" and table.concat(value, "x") or tostring(value)
  end
  return ("%d, %d, %dx%d, stride %s, padding %s%s%s"):format(w:size(2) * o.groups,
    w:size(1), w:size(3), w:size(4), shown(o.stride), shown(o.padding),
    o.groups > 1 and (", %d groups"):format(o.groups) or "",
    self.bias and "" or ", no bias")
end

return Conv2d
