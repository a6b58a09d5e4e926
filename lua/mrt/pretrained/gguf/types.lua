--- types.lua -- which type each tensor of a GGUF file gets
---
--- As llama.cpp chooses (llama-quant.cpp): norms, biases, routers and learned positions stay f32;
--- the head, or the table of tokens where it is the head too, gets more bits than the rest; a
--- mixture ("q4_k_m") gives more bits to values and to what ends a layer in the first, the last
--- and every third layer; rows that no block fits get a type of smaller blocks.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local types = {}

-- name = { type of most tensors, code of general.file_type, more: of values and downs }
local kinds = {
  f32 = { "f32", 0 }, f16 = { "f16", 1 }, bf16 = { "bf16", 32 }, q8_0 = { "q8_0", 7 },
  q4_0 = { "q4_0", 2 }, q4_1 = { "q4_1", 3 }, q5_0 = { "q5_0", 8 }, q5_1 = { "q5_1", 9 },
  q4_k_s = { "q4_k", 14 }, q4_k_m = { "q4_k", 15 }, q5_k_s = { "q5_k", 16 },
  q5_k_m = { "q5_k", 17 }, q6_k = { "q6_k", 18 },
}
kinds.q4_k, kinds.q5_k = kinds.q4_k_m, kinds.q5_k_m

local blocks = { q8_0 = 32, q4_0 = 32, q4_1 = 32, q5_0 = 32, q5_1 = 32, q4_k = 256, q5_k = 256,
  q6_k = 256 }
local smaller = { q4_k = "q5_0", q5_k = "q5_1", q6_k = "q8_0" }

--- Check a type's name.
---
--- Raises: there is no such type.
---@param who string
---@param name any
---@return string name
function types.want(who, name)
  if type(name) == "string" and kinds[name] then return name end
  local list = {}
  for known in pairs(kinds) do list[#list + 1] = known end
  table.sort(list)
  core.fail("value", who, ("type %s: one of %s wanted"):format(options.show(name),
    table.concat(list, ", ")))
end

--- The number that general.file_type has for it.
---@param name string
---@return integer
function types.code(name) return kinds[name][2] end

-- The first and the last eighth of n layers, and every third between.
local function needs_more(layer, n)
  local eighth = n // 8
  return layer < eighth or layer >= 7 * n // 8 or (layer - eighth) % 3 == 2
end

-- What mixtures add, by the tensor's kind.
local more = {
  q4_k_m = function(_, layer, n) return needs_more(layer, n) and "q6_k" or nil end,
  q5_k_m = function(_, layer, n) return needs_more(layer, n) and "q6_k" or nil end,
  q4_k_s = function(kind, layer, n)
    local early = layer < (kind:find "^ffn_down" and n // 8 or 4)
    return early and "q5_k" or nil
  end,
}
more.q4_k, more.q5_k = more.q4_k_m, more.q5_k_m

-- Beside eight experts the rest is little: it may take more.
local few = { q4_k = true, q4_k_s = true, q4_k_m = true }
local function beside_eight(kind, type_)
  if kind == "attn_v" or kind == "attn_k" then return "q8_0" end
  return kind == "attn_output" and few[type_] and "q5_k"
end

local special = { attn_v = true, attn_qkv = true, ffn_down = true, ffn_down_exps = true }

local plain = { position_embd = true, ffn_gate_inp = true, ffn_gate_inp_shexp = true }

local function kind_of(name)
  local layer, kind = name:match "^blk%.(%d+)%.([%w_]+)%.weight$"
  if kind then return kind, tonumber(layer) end
  return name:match "^([%w_]+)%.weight$"
end

-- Tensors that are never packed.
local function is_plain(kind, shape)
  return #shape < 2 or not kind or plain[kind] or kind:find "_norm$" ~= nil
end

local function of_head(base) return base == "q8_0" and base or "q6_k" end

-- What is wanted for a tensor, whether or not its rows fit.
local function wanted(name, shape, type_, o)
  local kind, layer = kind_of(name)
  if is_plain(kind, shape) then return "f32" end
  local base = kinds[type_][1]
  if not blocks[base] then return base end
  if kind == "output" or kind == "token_embd" and o.tied then return of_head(base) end
  local extra = o.experts == 8 and beside_eight(kind, type_)
    or special[kind] and more[type_] and more[type_](kind, layer, o.layers)
  return extra or base
end

--- The type of a tensor.
---@param name string    in GGUF
---@param shape integer[]
---@param type_ string    what the file is to be
---@param o {layers: integer, tied: boolean, experts: integer?}
---@return string
function types.of(name, shape, type_, o)
  local chosen = wanted(name, shape, type_, o)
  local row = shape[#shape]
  if blocks[chosen] and row % blocks[chosen] ~= 0 then chosen = smaller[chosen] or "f16" end
  if blocks[chosen] and row % blocks[chosen] ~= 0 then chosen = "f16" end
  return chosen
end

return types
