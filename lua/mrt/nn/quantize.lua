--- quantize.lua -- keep the weights of a model's linear layers in 8 or 4 bits
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local edit = require "mrt.nn.edit"
local quantizer = require "mrt.nn.quantizer"

--- Put a frozen nn.QuantizedLinear in the place of each nn.Linear, and return the
--- model (or, if it is itself a Linear, what took its place).
---
---     nn.quantize(model, {kind = "nf4", double = true, except = "head"})
---
--- With `embeddings`, tables of tokens become nn.QuantizedEmbedding, and a head that
--- shares its table reads the same codes.  To load a saved quantised model: build it,
--- quantise it alike, `load_state`.
---
--- With `activations = "int8"` products round what they are given to 8 bits too: a token
--- of a language model takes about half the time, and its logits move a little
--- (mrt.nn.QuantizedLinearOptions).  Never the default.
---
--- Raises: no layer is left to quantise.
---@param model mrt.nn.Module
---@param given? mrt.nn.QuantizeOptions
---@return mrt.nn.Module model
return function(model, given)
  edit.want_module("quantize", model)
  local wanted, count = quantizer.new("quantize", given), 0
  local out = edit.replace(model, function(name, layer)
    local other = wanted:replacement(name, layer)
    if other then count = count + 1 end
    return other
  end)
  if count == 0 then
    core.fail("value", "quantize", ("no Linear to quantise in %s(%s)"):format(model.type,
      model:describe()))
  end
  return out
end
