--- layers.lua -- weights and activations of matmuls, linear layers, convolutions
---
--- What training keeps of y = f(x, W) is x, which the gradient of W reads, and W,
--- which the gradient of x reads; y is kept by whoever reads it next.
---
--- SPDX-License-Identifier: MIT

local read = require "mrt.estimate.read"

local layers = {}

---@class mrt.estimate.Layer
---@field parameters integer  a count
---@field weights integer     bytes
---@field kept integer        bytes kept for the gradient besides weights: the input
---@field output integer      bytes
---@field flops number        forward; multiply and add are two

local function layer(parameters, kept, output, flops, bytes)
  return { parameters = read.whole(parameters), weights = read.whole(parameters * bytes),
    kept = read.whole(kept * bytes), output = read.whole(output * bytes), flops = flops }
end

--- Estimate `batch` products `[m,k] x [k,n]`: no parameters, both inputs kept.
---
---     mrt.estimate.matmul { m = 32, k = 784, n = 10 }
---
--- Raises: an option that is missing or that there is not.
---@param o {m: integer, k: integer, n: integer, batch: integer?, dtype: string?}  f32
---@return mrt.estimate.Layer
function layers.matmul(o)
  o = read.options("estimate.matmul", o, { m = read.needed, k = read.needed,
    n = read.needed, batch = 1, dtype = "f32" })
  return layer(0, o.batch * (o.m * o.k + o.k * o.n), o.batch * o.m * o.n,
    2 * o.batch * o.m * o.k * o.n, read.bytes("estimate.matmul", o.dtype))
end

--- Estimate y = x W^T + b for `rows` rows, nn.Linear's formula.
---
---     mrt.estimate.linear { rows = 32, inputs = 784, outputs = 10 }
---
--- Raises: an option that is missing or that there is not.
---@param o {inputs: integer, outputs: integer, rows: integer?, bias: boolean?, dtype: string?}
---@return mrt.estimate.Layer
function layers.linear(o)
  o = read.options("estimate.linear", o, { inputs = read.needed,
    outputs = read.needed, rows = 1, bias = true, dtype = "f32" })
  return layer(o.inputs * o.outputs + (o.bias and o.outputs or 0), o.rows * o.inputs,
    o.rows * o.outputs, 2 * o.rows * o.inputs * o.outputs,
    read.bytes("estimate.linear", o.dtype))
end

-- The length of one dimension of the result.
local function slide(o, size)
  local span = o.dilation * (o.kernel - 1) + 1
  if size + 2 * o.padding < span then
    read.refuse("estimate.conv2d", "a kernel that spans %.0f does not fit %.0f with padding %.0f",
      span, size, o.padding)
  end
  return (size + 2 * o.padding - span) // o.stride + 1
end

---@class mrt.estimate.ConvOptions
---@field channels integer  of the input
---@field filters integer   channels of the output
---@field height integer
---@field width integer
---@field kernel integer    its side
---@field batch? integer    default 1, as stride, dilation and groups
---@field stride? integer
---@field dilation? integer
---@field groups? integer
---@field padding? integer  default 0
---@field bias? boolean     default true
---@field dtype? string     default f32

--- Estimate a convolution over images: `[batch, channels, height, width]`.
---
---     mrt.estimate.conv2d { batch = 1, channels = 3, filters = 8, height = 8, width = 8,
---       kernel = 3 }
---
--- Raises: an option that is missing or that there is not.
---@param o mrt.estimate.ConvOptions
---@return mrt.estimate.Layer
function layers.conv2d(o)
  o = read.options("estimate.conv2d", o, { channels = read.needed,
    filters = read.needed, height = read.needed, width = read.needed,
    kernel = read.needed, batch = 1, stride = 1, dilation = 1, groups = 1, padding = 0,
    bias = true, dtype = "f32" }, { padding = true })
  if o.channels % o.groups ~= 0 or o.filters % o.groups ~= 0 then
    read.refuse("estimate.conv2d",
      "%.0f channels and %.0f filters are not both multiples of %.0f groups",
      o.channels, o.filters, o.groups)
  end
  local weight = o.filters * (o.channels / o.groups) * o.kernel ^ 2
  local places = o.batch * slide(o, o.height) * slide(o, o.width)
  return layer(weight + (o.bias and o.filters or 0),
    o.batch * o.channels * o.height * o.width, places * o.filters, 2 * places * weight,
    read.bytes("estimate.conv2d", o.dtype))
end

return layers
