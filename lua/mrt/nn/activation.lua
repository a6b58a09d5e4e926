--- activation.lua -- pointwise functions, and those of rows, as layers
---
--- Options are those of the methods of tensors that they call, by place or by name:
--- `nn.LeakyReLU(0.2)`, `nn.ELU{alpha = 0.5}`.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local argument = require "mrt.util.argument"
local Module = require "mrt.nn.module"
local options = require "mrt.util.options"

local activation = {}

-- A layer that calls x:method(options).  `defaults` tell the types of options; those
-- that are not given are the method's.
local function layer(name, method, names, defaults)
  local class = Module(name, "tensor")
  function class:init(...)
    local given = argument.read(name, names or {}, ...)
    options.read(name, given, defaults or {})
    rawset(self, "options", next(given) and given or nil)
  end
  function class:forward(x) return x[method](x, self.options) end
  activation[name] = class
end

layer("ReLU", "relu")
layer("ReLU6", "relu6")
layer("LeakyReLU", "leaky_relu", { "negative_slope" }, { negative_slope = 0.01 })
layer("ELU", "elu", { "alpha" }, { alpha = 1 })
layer("SELU", "selu")
layer("CELU", "celu", { "alpha" }, { alpha = 1 })
layer("GELU", "gelu", { "approximate" }, { approximate = "none" }) -- "tanh" for GPT-2's
layer("SiLU", "silu")
layer("Mish", "mish")
layer("GLU", "glu", { "dim" }, { dim = -1 })
layer("Tanh", "tanh")
layer("Tanhshrink", "tanhshrink")
layer("Sigmoid", "sigmoid")
layer("LogSigmoid", "logsigmoid")
layer("Softplus", "softplus", { "beta", "threshold" }, { beta = 1, threshold = 20 })
layer("Softsign", "softsign")
layer("Softshrink", "softshrink", { "lambd" }, { lambd = 0.5 })
layer("Hardshrink", "hardshrink", { "lambd" }, { lambd = 0.5 })
layer("Hardswish", "hardswish")
layer("Hardsigmoid", "hardsigmoid")
layer("Hardtanh", "hardtanh", { "min_val", "max_val" }, { min_val = -1, max_val = 1 })
layer("Threshold", "threshold", { "threshold", "value" },
  { threshold = options.want "number", value = options.want "number" })
layer("Softmax", "softmax", { "dim" }, { dim = options.want "integer" })
layer("LogSoftmax", "log_softmax", { "dim" }, { dim = options.want "integer" })
layer("Softmin", "softmin", { "dim" }, { dim = options.want "integer" })

--- Slopes below 0 drawn at random while it trains, their mean otherwise.
---
---     nn.RReLU()(mrt.tensor{-1.0, 2.0}):type()  --> f32[2]
---@class mrt.nn.RReLU: mrt.nn.Module
---@overload fun(lower?: number, upper?: number): mrt.nn.RReLU
local RReLU = Module("RReLU", "tensor")

local slopes = { lower = 1 / 8, upper = 1 / 3 }

function RReLU:init(...)
  rawset(self, "options", options.read("RReLU", argument.read("RReLU", { "lower", "upper" },
    ...), slopes))
end

function RReLU:forward(x)
  local o = self.options
  return x:rrelu(o.lower, o.upper, self.training)
end

--- A slope below 0 that is trained: one, or one for each channel, dimension 2.
---
---     nn.PReLU()(mrt.tensor{-1.0, 2.0})  --> [-0.25 2.00]
---@class mrt.nn.PReLU: mrt.nn.Module
---@field weight mrt.Tensor  `[num_parameters]`
---@overload fun(num_parameters?: integer, init?: number): mrt.nn.PReLU
local PReLU = Module("PReLU", "tensor")

local trained = { num_parameters = 1, init = 0.25 }

function PReLU:init(...)
  local o = options.read("PReLU", argument.read("PReLU", { "num_parameters", "init" }, ...),
    trained)
  options.size("PReLU", "num_parameters", o.num_parameters)
  self.weight = mrt.parameter(mrt.full({ o.num_parameters }, o.init))
end

function PReLU:forward(x) return x:prelu(self.weight) end

function PReLU:describe() return ("%d"):format(self.weight:size(1)) end

--- Give back what comes in; what it is made with does not matter.
---
---     nn.Identity()(mrt.tensor{1, 2})  --> [1 2]
---@class mrt.nn.Identity: mrt.nn.Module
local Identity = Module("Identity", "tensor")
function Identity.init() end
function Identity.forward(_, x) return x end

activation.RReLU, activation.PReLU, activation.Identity = RReLU, PReLU, Identity

return activation
