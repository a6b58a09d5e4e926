--- draws.lua -- random numbers that depend on a seed and a place alone
---
--- SPDX-License-Identifier: MIT

local draws = {}

-- The finaliser of splitmix64 (Steele et al., OOPSLA 2014).
local function mixed(x)
  x = (x ~ (x >> 30)) * 0xbf58476d1ce4e5b9
  x = (x ~ (x >> 27)) * 0x94d049bb133111eb
  return x ~ (x >> 31)
end

--- A number in [0, 1) with 24 bits: the same for the same seed and position.
---@param seed integer
---@param position integer
---@return number
function draws.at(seed, position)
  local x = mixed(mixed(seed + 0x9e3779b97f4a7c15) + position * 0x9e3779b97f4a7c15)
  return (x >> 40) / 16777216
end

return draws
