--- conv_nd.lua -- convolutions of signals and volumes, and what their gradients do
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"
local Module = require "mrt.nn.module"
local initial = require "mrt.nn.initial"
local options = require "mrt.util.options"
local parameter = require "mrt.nn.parameter"

local layers = {}

local shared = { stride = options.of(nil, 1), padding = options.of(nil, 0),
  dilation = options.of(nil, 1), groups = options.of("size", 1), bias = true,
  init = options.of "function" }

-- Inputs, outputs and the sides of the kernel; and the kernel's places.
local function read(who, n, inputs, outputs, kernel, o)
  options.size(who, "inputs", inputs)
  options.size(who, "outputs", outputs)
  local list, sides, area = type(kernel) == "table" and kernel or { kernel }, {}, 1
  if #list ~= 1 and #list ~= n then
    core.fail("value", who, ("kernel: one size%s wanted, got %d"):format(
      n > 1 and " or " .. n or "", #list))
  end
  for i = 1, n do
    sides[i] = list[i] or list[1]
    options.size(who, "kernel", sides[i])
    area = area * sides[i]
  end
  if inputs % o.groups ~= 0 or outputs % o.groups ~= 0 then
    core.fail("value", who, ("%d inputs and %d outputs, multiples of the %d "
      .. "groups wanted"):format(inputs, outputs, o.groups))
  end
  return sides, area
end

-- Weights of these dimensions, and biases, each as the recipes have them.
local function begin(self, who, o, fan, outputs, dims)
  local default = initial.uniform(1 / math.sqrt(fan))
  self.weight = parameter(who, o.init or default, table.unpack(dims))
  if o.bias then
    self.bias = parameter(who, o.init and mrt.zeros or default, outputs)
  end
  local kept = {}
  for _, name in ipairs { "stride", "padding", "output_padding", "dilation", "groups" } do
    kept[name] = o[name]
  end
  rawset(self, "options", kept)
end

local function describe(inputs, outputs, w, o, bias)
  local function shown(value)
    return type(value) == "table" and table.concat(value, "x") or tostring(value)
  end
  local sides = {}
  for i = 3, w:dim() do sides[i - 2] = w:size(i) end
  return ("%d, %d, %s, stride %s, padding %s%s%s"):format(inputs, outputs,
    table.concat(sides, "x"), shown(o.stride), shown(o.padding),
    o.groups > 1 and (", %d groups"):format(o.groups) or "", bias and "" or ", no bias")
end

local function conv(name, n, method)
  local class = Module(name, "tensor")
  function class:init(inputs, outputs, kernel, given)
    local o = options.read(name, given, shared)
    local sides, area = read(name, n, inputs, outputs, kernel, o)
    begin(self, name, o, inputs // o.groups * area, outputs,
      { outputs, inputs // o.groups, table.unpack(sides) })
  end
  function class:forward(x) return x[method](x, self.weight, self.bias, self.options) end
  function class:describe()
    local w = self.weight
    return describe(w:size(2) * self.options.groups, w:size(1), w, self.options, self.bias)
  end
  layers[name] = class
end

local function transposed(name, n, method)
  local class = Module(name, "tensor")
  local known = options.with(shared, "output_padding", options.of(nil, 0))
  function class:init(inputs, outputs, kernel, given)
    local o = options.read(name, given, known)
    local sides, area = read(name, n, inputs, outputs, kernel, o)
    begin(self, name, o, outputs // o.groups * area, outputs,
      { inputs, outputs // o.groups, table.unpack(sides) })
  end
  function class:forward(x) return x[method](x, self.weight, self.bias, self.options) end
  function class:describe()
    local w = self.weight
    return describe(w:size(1), w:size(2) * self.options.groups, w, self.options, self.bias)
  end
  layers[name] = class
end

--- Convolve signals: `[N, inputs, L]` -> `[N, outputs, L']`.
---
---     local y = nn.Conv1d(16, 32, 3, { padding = 1 })(mrt.randn(8, 16, 100))
---
--- Options are those of nn.Conv2d, of one side, and so is how weights begin.
---@class mrt.nn.Conv1d: mrt.nn.Module
---@field weight mrt.Tensor  `[outputs, inputs / groups, k]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, kernel: any, o?: table): mrt.nn.Conv1d
conv("Conv1d", 1, "conv1d")

--- Convolve volumes: `[N, inputs, D, H, W]` -> `[N, outputs, D', H', W']`; as nn.Conv2d.
---
---     nn.Conv3d(1, 4, 3)(mrt.zeros(1, 1, 5, 5, 5)):type()  --> f32[1,4,3,3,3]
---@class mrt.nn.Conv3d: mrt.nn.Module
---@field weight mrt.Tensor  `[outputs, inputs / groups, kd, kh, kw]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, kernel: any, o?: table): mrt.nn.Conv3d
conv("Conv3d", 3, "conv3d")

--- Do to signals what the gradient of a convolution does: `[N, inputs, L]` ->
--- `[N, outputs, L']`; as nn.ConvTranspose2d.
---
---     nn.ConvTranspose1d(1, 4, 3)(mrt.zeros(1, 1, 5)):type()  --> f32[1,4,7]
---@class mrt.nn.ConvTranspose1d: mrt.nn.Module
---@field weight mrt.Tensor  `[inputs, outputs / groups, k]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, kernel: any, o?: table): mrt.nn.ConvTranspose1d
transposed("ConvTranspose1d", 1, "conv_transpose1d")

--- The same for volumes: `[N, inputs, D, H, W]` -> `[N, outputs, D', H', W']`.
---
---     nn.ConvTranspose3d(1, 2, 2)(mrt.zeros(1, 1, 3, 3, 3)):type()  --> f32[1,2,4,4,4]
---@class mrt.nn.ConvTranspose3d: mrt.nn.Module
---@field weight mrt.Tensor  `[inputs, outputs / groups, kd, kh, kw]`
---@field bias mrt.Tensor?   `[outputs]`
---@overload fun(inputs: integer, outputs: integer, kernel: any, o?: table): mrt.nn.ConvTranspose3d
transposed("ConvTranspose3d", 3, "conv_transpose3d")

return layers
