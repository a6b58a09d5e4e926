--- quantized_linear.lua -- a linear layer whose weights are kept in 8 or 4 bits
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Module = require "mrt.nn.module"
local Linear = require "mrt.nn.linear"
local options = require "mrt.util.options"

-- The second quantisation, of the scales: 8 bits each, 256 to a block.
local second = { kind = "int8", block = 256 }
local kinds = { int8 = true, nf4 = true, fp4 = true, q4_0 = true, q8_0 = true }
local in_what = { exact = true, int8 = true }
-- Kinds whose scales are f16 already.
local gguf = { q4_0 = true, q8_0 = true }
local dtypes = core.dtypes()

---@class mrt.nn.QuantizedLinearOptions
---@field kind? "nf4"|"fp4"|"int8"|"q4_0"|"q8_0"  default "nf4"
---@field block? integer    weights of a row that share a scale; default 64, int8:
---  the whole row; q4_0 and q8_0 have 32
---@field double? boolean   keep the scales in 8 bits too; default false; not of q4_0
---  and q8_0
---@field activations? "exact"|"int8"  default "exact"; "int8" rounds what the layer is
---  given too, in blocks of 32 along a row: symmetric, to one of 255 numbers, each off by
---  1/254 of the largest of its block at most.  One row takes half the time or less, and
---  results are off by about as much as weights in 8 bits make them; nf4 and fp4 weights
---  are also rounded to 127ths of their scale.  Gradients are those of exact ones.
---  `block` is a multiple of 32 then; inputs in f64 are refused
---@field now? boolean      compute the codes at once, so that the weights may go (default);
---  false: when they are first read, for plans of models that are never run
---@field codes? mrt.Tensor   those of a file, with its scales: the linear layer's weights are not
---  looked at
---@field scales? mrt.Tensor

--- Make a frozen linear layer from another one: `[..., inputs]` ->
--- `[..., outputs]`.  Weights take 4.5 bits each, with `double` 4.127, with kind
--- "int8" 8 and a scale for each row.  "q4_0" (4.5 bits) and "q8_0" (8.5) are GGUF's.
---
---     local y = nn.QuantizedLinear(nn.Linear(768, 3072), {kind = "nf4"})(x)
---
--- Dettmers et al. 2023 (arXiv:2305.14314).  With `double`, the mean of the scales
--- is subtracted and what is left quantised.  Gradients go through to the inputs;
--- codes and scales are buffers, the bias a frozen parameter.  Scales of narrow
--- weights are f32, of q4_0 and q8_0 f16, and stay so in `to`; results have the dtype
--- of the inputs.
---@class mrt.nn.QuantizedLinear: mrt.nn.Module
---@field inputs integer
---@field outputs integer
---@field activations "exact"|"int8"  not part of `state()`
---@field codes mrt.Tensor    u8; named as the kind in `state()`
---@field scales mrt.Tensor   `[outputs, blocks]`; with `double` what scales these
---@field bias mrt.Tensor?    `[outputs]`
---@overload fun(linear: mrt.nn.Linear, o?: mrt.nn.QuantizedLinearOptions): mrt.nn.Module
local QuantizedLinear = Module("QuantizedLinear", "tensor")

-- Refuse what is no layer, or no such option of it.
local function want(linear, o)
  if getmetatable(linear) ~= Linear then
    core.fail("value", "QuantizedLinear", "a Linear wanted, got " .. options.show(linear))
  elseif not kinds[o.kind] then
    core.fail("value", "QuantizedLinear",
      ("kind '%s', nf4, fp4, int8, q4_0 or q8_0 wanted"):format(o.kind))
  elseif o.double and gguf[o.kind] then
    core.fail("value", "QuantizedLinear", ("double with kind '%s', whose scales are f16")
      :format(o.kind))
  elseif not in_what[o.activations] then
    core.fail("value", "QuantizedLinear", ("activations '%s', exact or int8 wanted")
      :format(o.activations))
  elseif o.activations == "int8" and o.block and o.block % 32 ~= 0
    and o.block < linear.weight:size(2) then
    core.fail("value", "QuantizedLinear",
      ("block %d, a multiple of 32 wanted for activations in int8"):format(o.block))
  end
end

function QuantizedLinear:init(linear, given)
  local o = options.read("QuantizedLinear", given,
    { kind = "nf4", block = options.of "size", double = false, activations = "exact",
      now = true, codes = options.none, scales = options.none })
  want(linear, o)
  self.frozen, self.kind, self.double, self.activations = true, o.kind, o.double, o.activations
  self.outputs, self.inputs = linear.weight:size(1), linear.weight:size(2)
  local weight = linear.weight:detach()
  if dtypes[weight:get_dtype()].narrow then weight = weight:to "f32" end
  local codes, scales = o.codes, o.scales
  if not codes then codes, scales = weight:quantize { kind = o.kind, block = o.block } end
  self.block = o.block
  -- A saved state says by this name of what kind it is.
  self:register_buffer(o.kind, mrt.variable(codes))
  rawset(self, "codes", self[o.kind])
  if o.double then
    self.blocks = scales:size(2)
    local mean = scales:mean()
    local inner, outer = (scales - mean):reshape(1, -1):quantize(second)
    self:register_buffer("mean", mrt.variable(mean))
    self:register_buffer("inner", mrt.variable(inner))
    scales = outer
  end
  self:register_buffer("scales", mrt.variable(scales))
  if linear.bias then self.bias = linear.bias end
  if o.now then mrt.eval(self:buffers()) end
end

--- Return the scale of each block.
---
---     nn.QuantizedLinear(nn.Linear(64, 8)):block_scales():type()  --> f32[8,1]
---@return mrt.Tensor  `[outputs, blocks]`
function QuantizedLinear:block_scales()
  if not self.double then return self.scales end
  local scales = self.inner:dequantize(self.scales, second) + self.mean
  return scales:reshape(self.outputs, self.blocks)
end

--- Return the weights that the codes stand for.
---
---     nn.QuantizedLinear(nn.Linear(64, 8)):weights():type()  --> f32[8,64]
---@return mrt.Tensor  `[outputs, inputs]`
function QuantizedLinear:weights()
  return self.codes:dequantize(self:block_scales(),
    { kind = self.kind, block = self.block, columns = self.inputs })
end

--- Return the bits that a weight takes, scales included.
---
---     nn.QuantizedLinear(nn.Linear(64, 8)):bits()  --> 4.5
---@return number
function QuantizedLinear:bits()
  local bytes = 0
  for _, buffer in ipairs(self:buffers()) do bytes = bytes + buffer:nbytes() end
  return 8 * bytes / (self.outputs * self.inputs)
end

---@param x mrt.Tensor  `[..., inputs]`
---@return mrt.Tensor   `[..., outputs]`
function QuantizedLinear:forward(x)
  local how = { kind = self.kind, block = self.block, columns = self.inputs,
    activations = self.activations }
  local scales = self:block_scales()
  if x:get_dtype() == "f64" then scales = scales:to "f64" end
  return x:quantized_linear(self.codes, scales, self.bias, how)
end

function QuantizedLinear:describe()
  return ("%d, %d, %s, %.3f bits%s%s"):format(self.inputs, self.outputs, self.kind,
    self:bits(), self.activations == "int8" and ", int8 activations" or "",
    self.bias and "" or ", no bias")
end

return QuantizedLinear
