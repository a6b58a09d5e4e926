--- method.lua -- what is trained of a model, and what its weights are kept in
---
---   full    all weights, in f32; dtype "bf16": products are computed in bf16
---   lora    adapters beside the linear layers of the blocks, whose weights stay as they
---           are, in `dtype`
---   qlora   the same beside weights of 4.127 bits (nf4, double)
---
--- The head and the table of tokens have no adapters, nor are they quantised; nor what
--- chooses among experts, unless `layers` names it.  Experts' weights, which lie together,
--- stay as they are, as in peft.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local Linear = require "mrt.nn.linear"
local QuantizedLinear = require "mrt.nn.quantized_linear"
local edit = require "mrt.nn.edit"
local lora = require "mrt.nn.lora"
local precision = require "mrt.policy.precision"

local method = {}

--- The names.
method.names = { lora = true, qlora = true, full = true }

---@class mrt.finetune.Method
---@field method "lora"|"qlora"|"full"
---@field dtype "f32"|"bf16"
---@field rank integer
---@field alpha number
---@field dropout number
---@field layers? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean

local QUANTIZED <const> = { kind = "nf4", double = true }

-- Is it in a block, not the head or beside the table?
local function is_inner(name) return name:find "^blocks%." ~= nil end

-- And none of the few rows that choose among experts.
local function is_usual(name)
  return is_inner(name) and not name:find "%.router$" and not name:find "%.shared_gate$"
end

-- Weights at once, one layer after the other, or when they are read first.
local function quantize(model, now)
  local how = { kind = QUANTIZED.kind, double = QUANTIZED.double, now = now }
  return edit.replace(model, function(name, layer)
    if getmetatable(layer) ~= Linear or not is_usual(name) then return nil end
    local made = edit.inherit(QuantizedLinear(layer, how), layer)
    if now then layer.weight:free() end
    return made
  end)
end

local function adapters(model, o)
  local wanted = edit.chooser("finetune", "layers", o.layers, true)
  local may = o.layers == nil and is_usual or is_inner
  return lora(model, { rank = o.rank, alpha = o.alpha, dropout = o.dropout,
    layers = function(name, layer) return may(name) and wanted(name, layer) end })
end

local function prepare(model, o, now)
  if o.method == "qlora" then quantize(model, now) end
  if o.method ~= "full" then adapters(model, o) end
  return model
end

--- What the weights of a model are to be loaded as.
---@param o mrt.finetune.Method
---@return mrt.DType
function method.stored(o) return o.method == "full" and "f32" or o.dtype end

--- What nn.load is to keep weights in, as it reads them; nil: all as they are.
---@param o mrt.finetune.Method
---@return mrt.nn.QuantizeOptions?
function method.quantized(o)
  if o.method ~= "qlora" then return nil end
  return { kind = QUANTIZED.kind, double = QUANTIZED.double, embeddings = false,
    except = function(name) return not is_usual(name) end }
end

--- Make a model ready to be trained.
---
--- Raises: `layers` chooses none; a rank above the size of one.
---@param model mrt.nn.Module
---@param o mrt.finetune.Method
---@return mrt.nn.Module model
function method.apply(model, o)
  if o.method ~= "full" then return prepare(model, o, true) end
  model:freeze(false)
  return model
end

--- The same of a model whose weights nobody has computed, in `method.stored`: for plans.
---@param model mrt.nn.Module
---@param o mrt.finetune.Method
---@return mrt.nn.Module model
function method.suppose(model, o)
  local dtype = method.stored(o)
  for _, module in model:modules() do
    for _, field in ipairs(module._fields) do
      local variable = rawget(module, field)
      if mrt.is_variable(variable) and variable:get_dtype() ~= dtype then
        rawset(module, field, mrt.parameter(mrt.zeros(variable:size(), { dtype = dtype })))
      end
    end
  end
  return prepare(model, o, false)
end

--- Options of mrt.compile that a method wants.
---@param o mrt.finetune.Method
---@return table
function method.options(o)
  return { precision = o.method == "full" and o.dtype == "bf16" and precision.bf16() or nil }
end

return method
