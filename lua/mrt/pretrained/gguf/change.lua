--- change.lua -- numbers of a tensor as transformers has them, and as GGUF does
---
--- SPDX-License-Identifier: MIT

local weights = require "mrt.pretrained.weights"

local change = {}

-- [heads, A, B, ...] -> [heads, B, A, ...] within each head's rows: of two halves, whose rows turn
-- together pair by pair, the pairs.
local function swap_within(x, heads, a)
  local dims = x:size()
  local b = dims[1] // (heads * a)
  local rest, order = { table.unpack(dims, 2) }, { 1, 3, 2 }
  for i = 1, #rest do order[#order + 1] = 3 + i end
  return x:reshape(heads, a, b, table.unpack(rest)):permute(order):reshape(dims)
end

--- Does it differ?
---@param entry table
---@param row table  of the architecture
---@return boolean
function change.any(entry, row)
  return entry.turn or entry.heads or entry.rope and row.pairs or entry.plus and row.plus or false
end

--- Their shape in GGUF, or a shape in GGUF as theirs: the same.
---@param entry table
---@param shape integer[]
---@return integer[]
function change.shape(entry, shape)
  if not entry.turn or #shape ~= 2 then return shape end
  return { shape[2], shape[1] }
end

local function heads_of(entry, o) return entry.rope == "k" and o.kv_heads or o.heads end

--- Theirs as GGUF has it.
---@param x mrt.Tensor
---@param entry table
---@param row table
---@param o {heads: integer, kv_heads: integer}
---@return mrt.Tensor
function change.to(x, entry, row, o)
  if entry.turn and x:dim() == 2 then x = x:t() end
  if entry.heads then x = weights.regroup(x, o.heads, 3) end
  if entry.rope and row.pairs then x = swap_within(x, heads_of(entry, o), 2) end
  if entry.plus and row.plus then x = x:to "f32" + 1 end
  return x
end

--- What GGUF has as theirs.
---@param x mrt.Tensor
---@param entry table
---@param row table
---@param o {heads: integer, kv_heads: integer}
---@return mrt.Tensor
function change.from(x, entry, row, o)
  if entry.plus and row.plus then x = x:to "f32" - 1 end
  if entry.rope and row.pairs then
    local heads = heads_of(entry, o)
    x = swap_within(x, heads, x:size(1) // (heads * 2))
  end
  if entry.heads then x = weights.regroup(x, 3, o.heads) end
  if entry.turn and x:dim() == 2 then x = x:t() end
  return x
end

return change
