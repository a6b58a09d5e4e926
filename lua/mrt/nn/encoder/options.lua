--- options.lua -- what encoders are made of: theirs, and those that their layers read
---
--- The layers are those of decoders (decoder/block.lua), which see every position.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local activations = require "mrt.nn.decoder.mlp".activations

local shared = { dim = options.want "size", layers = options.want "size",
  heads = options.want "size", hidden = options.of "size", eps = 1e-12, activation = "gelu",
  qkv_bias = true }

local read = {}

--- Read the options of an encoder: its own, and those that both kinds have.
---@param who string
---@param given table
---@param own table   options.lua's table of defaults
---@param place "pre"|"sum"  where the norms stand
---@return table complete  what decoder/block.lua reads is among it
function read.options(who, given, own, place)
  local known = {}
  for name, default in pairs(shared) do known[name] = default end
  for name, default in pairs(own) do known[name] = default end
  local o = options.read(who, given, known)
  if o.dim % o.heads ~= 0 then
    core.fail("value", who, ("dim %d, a multiple of heads = %d wanted"):format(o.dim, o.heads))
  end
  read.word(who, o, "activation", activations)
  o.hidden = o.hidden or 4 * o.dim
  o.kv_heads, o.head_dim, o.windows = o.heads, o.dim // o.heads, {}
  o.norm, o.norm_bias, o.norm_place, o.gated, o.causal = "layer", true, place, false, false
  o.bias = { qkv = o.qkv_bias, out = true, mlp = true }
  return o
end

--- Raise unless option `name` is one of these words, or left out.
function read.word(who, o, name, words)
  local value = o[name]
  if value == nil or words[value] then return end
  local list = {}
  for word in pairs(words) do list[#list + 1] = word end
  table.sort(list)
  core.fail("value", who, ("option '%s': one of %s wanted, got %s"):format(name,
    table.concat(list, ", "), options.show(value)))
end

return read
