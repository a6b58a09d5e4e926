--- quantizer.lua -- which layers are quantised, and how
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Embedding = require "mrt.nn.embedding"
local Linear = require "mrt.nn.linear"
local QuantizedEmbedding = require "mrt.nn.quantized_embedding"
local QuantizedLinear = require "mrt.nn.quantized_linear"
local edit = require "mrt.nn.edit"
local options = require "mrt.util.options"

---@class mrt.nn.QuantizeOptions: mrt.nn.QuantizedLinearOptions
---@field except? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean
---  layers to leave: patterns of names, or a function
---@field embeddings? boolean  tables of tokens too (those of positions stay); default false

---@class mrt.nn.Quantizer
---@field how mrt.nn.QuantizedLinearOptions
---@field embeddings boolean
local Quantizer = {}
Quantizer.__index = Quantizer

local quantizer = {}

--- Read the options; a text is a kind.
---@param who string
---@param given? mrt.nn.QuantizeOptions|string
---@param embeddings? boolean  the default
---@return mrt.nn.Quantizer
function quantizer.new(who, given, embeddings)
  if type(given) == "string" then given = { kind = given } end
  local o = options.read(who, given, { kind = "nf4", block = options.of "size",
    double = false, activations = "exact", except = options.none,
    embeddings = embeddings or false })
  return setmetatable({ leave = edit.chooser(who, "except", o.except, false),
    embeddings = o.embeddings, how = { kind = o.kind, block = o.block, double = o.double,
      activations = o.activations },
    made = setmetatable({}, { __mode = "k" }) }, Quantizer)
end

--- What takes a layer's place, if anything does.
---@param name string
---@param layer mrt.nn.Module
---@param how? mrt.nn.QuantizedLinearOptions  default that of all
---@return mrt.nn.Module?
function Quantizer:replacement(name, layer, how)
  local kind, made = getmetatable(layer), self.made[layer]
  how = how or self.how
  if made then -- of weights that are gone
    made.bias = made.type == "QuantizedLinear" and layer.bias or nil
    return edit.inherit(made, layer)
  elseif kind == Linear and not self.leave(name, layer) then
    return edit.inherit(QuantizedLinear(layer, how), layer)
  elseif kind == Embedding and self.embeddings and not name:find "positions$"
    and not self.leave(name, layer) then
    return edit.inherit(QuantizedEmbedding(layer, how), layer)
  end
end

--- The weight of a layer has been read: quantise it now, and let it go, so that beside
--- what is quantised there is one layer's weight at a time.
---@param names table<mrt.nn.Module, string>  of all modules
---@param layer mrt.nn.Module
---@param key string
function Quantizer:read(names, layer, key)
  if key ~= "weight" then return end
  local other = self:replacement(names[layer], layer)
  if not other then return end
  self.made[layer] = other
  local weight = layer.weight
  rawset(layer, "weight", nil)
  weight:free()
end

--- Would it take codes of this kind as they are?
---@param names table<mrt.nn.Module, string>
---@param layer mrt.nn.Module
---@param key string
---@param kind string
---@return boolean
function Quantizer:wants(names, layer, key, kind)
  local class, name = getmetatable(layer), names[layer]
  if key ~= "weight" or kind ~= self.how.kind or self.leave(name, layer) then return false end
  return class == Linear or class == Embedding and self.embeddings and not name:find "positions$"
end

--- Codes and scales of a layer's weight have been read: let them take its place.
---@param names table<mrt.nn.Module, string>
---@param layer mrt.nn.Module
---@param codes mrt.Tensor
---@param scales mrt.Tensor
function Quantizer:take(names, layer, codes, scales)
  local how = { codes = codes, scales = scales }
  for name, value in pairs(self.how) do how[name] = value end
  self.made[layer] = self:replacement(names[layer], layer, how)
  rawset(layer, "weight", nil)
end

--- Put what was made of weights as they were read in their places.
---@param model mrt.nn.Module
function Quantizer:finish(model)
  edit.replace(model, function(name, layer)
    return self.made[layer] and self:replacement(name, layer)
  end)
  if next(self.made) == nil then
    core.fail("value", "quantize", "no Linear to quantise")
  end
end

return quantizer
