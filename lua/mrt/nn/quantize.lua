--- quantize.lua -- keep the weights of a model's linear layers in 8 or 4 bits
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Linear = require "mrt.nn.linear"
local QuantizedLinear = require "mrt.nn.quantized_linear"
local edit = require "mrt.nn.edit"
local options = require "mrt.util.options"

---@class mrt.nn.QuantizeOptions: mrt.nn.QuantizedLinearOptions
---@field except? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean
---  layers to leave: patterns of names, or a function

--- Put a frozen nn.QuantizedLinear in the place of each nn.Linear, and return the
--- model (or, if it is itself a Linear, what took its place).
---
---     nn.quantize(model, {kind = "nf4", double = true, except = "head"})
---
--- To load a saved quantised model: build it, quantise it alike, `load_state`.
---
--- Raises: no layer is left to quantise.
---@param model mrt.nn.Module
---@param given? mrt.nn.QuantizeOptions
---@return mrt.nn.Module model
return function(model, given)
  edit.want_module("quantize", model)
  local o = options.read("quantize", given, { kind = "nf4", block = options.of "size",
    double = false, except = options.none })
  local leave = edit.chooser("quantize", "except", o.except, false)
  local how, count = { kind = o.kind, block = o.block, double = o.double }, 0
  local out = edit.replace(model, function(name, layer)
    if getmetatable(layer) ~= Linear or leave(name, layer) then return nil end
    count = count + 1
    return edit.inherit(QuantizedLinear(layer, how), layer)
  end)
  if count == 0 then
    core.fail("value", "quantize", ("no Linear to quantise in %s(%s)"):format(model.type,
      model:describe()))
  end
  return out
end
