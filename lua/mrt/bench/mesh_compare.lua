--- mesh_compare.lua -- runs on several ranks beside one
---
--- SPDX-License-Identifier: MIT

local compare = {}

--- How far losses are at most, as a share.
---@param a {losses: number[]}
---@param b {losses: number[]}
---@return number
function compare.distance(a, b)
  local most = 0
  for i, x in ipairs(a.losses) do most = math.max(most, math.abs(x / b.losses[i] - 1)) end
  return most
end

--- What the rank took beyond its plan that is furthest from it, in bytes.
---@param run {planned: integer[], taken: integer[]}
---@return integer
function compare.furthest(run)
  local off = 0
  for r, planned in ipairs(run.planned) do
    local own = run.taken[r] - planned
    if math.abs(own) > math.abs(off) then off = own end
  end
  return off
end

---@param list number[]
---@return number
function compare.sum(list)
  local out = 0
  for _, x in ipairs(list) do out = out + x end
  return out
end

return compare
