--- closest.lua -- of names that there are, the one that was meant
---
--- SPDX-License-Identifier: MIT

-- How many letters to add, leave out, replace or swap with their neighbour make b of a
-- (the optimal string alignment distance).
local function distance(a, b)
  local before, row, next_row = {}, {}, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    next_row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local d = math.min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        d = math.min(d, before[j - 2] + 1)
      end
      next_row[j] = d
    end
    before, row, next_row = row, next_row, before
  end
  return row[#b]
end

--- The name nearest to `word`, if it is near enough to be a slip: a letter in three,
--- letter case apart.
---@param word string
---@param names string[]|table<string, any>  a list, or a table that has them as keys
---@return string?
return function(word, names)
  local best, least = nil, #word // 3 + 1
  local low = word:lower()
  local function look(name)
    if type(name) ~= "string" or name == word or math.abs(#name - #word) >= least + 1 then
      return
    end
    local d = distance(low, name:lower())
    if d < least or d == least and best and name < best then best, least = name, d end
  end
  if names[1] ~= nil then
    for _, name in ipairs(names) do look(name) end
  else
    for name in next, names do look(name) end
  end
  return best
end
