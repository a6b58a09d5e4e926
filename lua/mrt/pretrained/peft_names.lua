--- peft_names.lua -- adapters beside linear layers of ours and of theirs
---
--- Where their layer is several of ours (a matrix of queries, keys and values), its
--- adapter y += s (x A') B' is one of each of ours with the same A and its own rows of B.
--- The way back is exact too: trained apart, those of ours are one of theirs whose rank is
--- the sum, A one below the other and B along a diagonal.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local Linear = require "mrt.nn.linear"
local QuantizedLinear = require "mrt.nn.quantized_linear"
local weights = require "mrt.pretrained.weights"

local names = {}

---@class mrt.peft.Target  a linear layer of theirs, and what of ours it is
---@field theirs string
---@field entry table
---@field parts {name: string, layer: mrt.nn.Module, rows: integer, columns: integer}[]

local function size_of(layer)
  local base = rawget(layer, "base") or layer
  if getmetatable(base) == Linear then return base.weight:size(1), base.weight:size(2) end
  return base.outputs, base.inputs
end

local function is_linear(layer)
  local kind = getmetatable(layer)
  return kind == Linear or kind == QuantizedLinear or names.is_adapter(layer)
end

--- Is it an adapter with its base?
---@param layer mrt.nn.Module
---@return boolean
function names.is_adapter(layer) return layer.type == "LoRA" and rawget(layer, "base") ~= nil end

--- The linear layers of a model, by the names of its family, in our order.
---@param model mrt.nn.Module
---@param family mrt.pretrained.Family
---@return mrt.peft.Target[]
---@return string[] strange  names of ours that the family has not
function names.targets(model, family)
  local list, by_name, strange, inside = {}, {}, {}, {}
  for name, layer in model:modules() do
    if is_linear(layer) and not inside[layer] then
      if names.is_adapter(layer) then inside[layer.base] = true end
      local theirs, entry, part = weights.find(family, name .. ".weight")
      theirs = theirs and theirs:gsub("%.weight$", "")
      if not theirs then
        strange[#strange + 1] = name
      else
        local target = by_name[theirs] or { theirs = theirs, entry = entry, parts = {} }
        if not by_name[theirs] then list[#list + 1], by_name[theirs] = target, target end
        local rows, columns = size_of(layer)
        target.parts[part] = { name = name, layer = layer, rows = rows, columns = columns }
      end
    end
  end
  return list, strange
end

--- How many rows their layer has.
---@param target mrt.peft.Target
---@return integer
function names.rows(target)
  local n = 0
  for _, part in ipairs(target.parts) do n = n + part.rows end
  return n
end

--- Their B, cut for each of ours.
---@param target mrt.peft.Target
---@param b mrt.Tensor      `[rows, rank]`
---@param heads integer
---@return mrt.Tensor[]
function names.cut(target, b, heads)
  local out, first = {}, 1
  if #target.parts == 1 then return { b } end
  if target.entry.heads then b = weights.regroup(b, heads, #target.parts) end
  for i, part in ipairs(target.parts) do
    out[i] = b:slice(1, first, first + part.rows - 1)
    first = first + part.rows
  end
  return out
end

local function same(list)
  for i = 2, #list do
    if list[i]:size(1) ~= list[1]:size(1) or list[i]:bytes() ~= list[1]:bytes() then
      return false
    end
  end
  return true
end

-- Rows of zeros before and behind, columns of a block diagonal.
local function along(b, before, all)
  local rows, dtype = b:size(1), b:get_dtype()
  local parts = { b }
  if before > 0 then table.insert(parts, 1, mrt.zeros({ rows, before }, { dtype = dtype })) end
  local after = all - before - b:size(2)
  if after > 0 then parts[#parts + 1] = mrt.zeros({ rows, after }, { dtype = dtype }) end
  return #parts == 1 and b or mrt.cat(parts, 2)
end

-- B of each part, in the columns of the adapter it has, which stand behind each other
-- unless all have the same A.
local function columns_of(target, first, rank, shared)
  local out, at = {}, 0
  for i, part in ipairs(target.parts) do
    local one = part.layer
    if names.is_adapter(one) then
      local b = one.scale == first.scale and one.b or one.b * (one.scale / first.scale)
      out[i] = shared and b or along(b, at, rank)
      at = at + one.rank
    else
      out[i] = mrt.zeros({ part.rows, rank }, { dtype = first.b:get_dtype() })
    end
  end
  return out
end

-- A and B of a target from those of the parts that have an adapter.
local function together(target, adapters, heads)
  local as, rank = {}, 0
  for i, one in ipairs(adapters) do as[i], rank = one.a, rank + one.rank end
  local shared = #adapters == #target.parts and same(as)
  local b = mrt.cat(columns_of(target, adapters[1], rank, shared), 1)
  if target.entry.heads then b = weights.regroup(b, #target.parts, heads) end
  return shared and as[1] or mrt.cat(as, 1), b
end

--- The adapter of one of their layers; nil: none of ours has one.
---@param target mrt.peft.Target
---@param heads integer
---@return {a: mrt.Tensor, b: mrt.Tensor, rank: integer, scale: number}?
function names.adapter(target, heads)
  local list = {}
  for i = 1, #target.parts do
    local layer = target.parts[i].layer
    if names.is_adapter(layer) then list[#list + 1] = layer end
  end
  if #list == 0 then return nil end
  if #target.parts == 1 then
    return { a = list[1].a, b = list[1].b, rank = list[1].rank, scale = list[1].scale }
  end
  local a, b = together(target, list, heads)
  return { a = a, b = b, rank = a:size(1), scale = list[1].scale }
end

--- Raise that the family has no names for these.
---@param who string
---@param strange string[]
function names.refuse(who, strange)
  core.fail("value", who, ("%s: no layer of its own in the family's files"):format(
    table.concat(strange, ", ")))
end

return names
