--- slots.lua -- what the state of a parameter is stored as, by the options `state` and
--- `master`
---
--- SPDX-License-Identifier: MIT

local slots = { BLOCK = 256 } -- elements in 8 bits with one scale

local LEAST <const>, BLOCK <const> = 4096, slots.BLOCK -- elements in 8 bits
local ZERO <const> = 127 -- the code of 0 where there is a sign; v, of squares, has none

-- A code for each element of each slot, and scales.
local function in_8_bits(names, p)
  local out, scales = {}, { (p:numel() + BLOCK - 1) // BLOCK }
  for _, name in ipairs(names) do
    out[#out + 1] = { name = name, dtype = "u8", initial = name == "v" and 0 or ZERO }
    out[#out + 1] = { name = name .. "_scale", size = scales }
  end
  return out
end

-- Each slot in this dtype, and the rest of a weight in f32.
local function in_floats(names, dtype, master)
  local out = {}
  for i, name in ipairs(names) do
    out[i] = dtype == "f32" and name or { name = name, dtype = dtype }
  end
  for _, name in ipairs(master and { "high", "low" } or {}) do
    out[#out + 1] = { name = name, dtype = "u8", initial = 0 }
  end
  return out
end

--- The slots of a parameter's state.
---@param names (string|mrt.Slot)[]  of one that is stored as it is computed
---@param p mrt.Tensor
---@param state "f32"|"bf16"|"8bit"
---@param master? boolean
---@return (string|mrt.Slot)[]
function slots.of(names, p, state, master)
  if not master and state == "f32" or p.dtype == "f64" then return names end
  if state == "8bit" then return p:numel() < LEAST and names or in_8_bits(names, p) end
  return in_floats(names, state, master)
end

return slots
