--- columns.lua -- names side by side, downwards, as `ls` has them
---
--- SPDX-License-Identifier: MIT

local columns = {}

--- How many columns of the screen a text takes, colours apart.
---@param text string
---@return integer
function columns.shown(text)
  text = text:gsub("\27%[%d*m", "")
  return utf8.len(text) or #text
end

-- The widths of `count` columns; nil where they do not fit.
local function widths(names, count, width)
  local rows, list, sum = (#names + count - 1) // count, {}, 0
  for first = 1, #names, rows do
    local most = 0
    for i = first, math.min(first + rows - 1, #names) do
      most = math.max(most, columns.shown(names[i]))
    end
    list[#list + 1] = most + 2
    sum = sum + most + 2
  end
  if sum - 2 <= width then return list, rows end
end

--- Names in as few lines as fit within a width.
---@param names string[]
---@param width integer
---@param indent? string
---@return string[] lines
function columns.lines(names, width, indent)
  indent = indent or ""
  local list, rows
  for count = math.min(#names, width // 3), 1, -1 do
    list, rows = widths(names, count, width - #indent)
    if list then break end
  end
  list, rows = list or { 0 }, rows or #names
  local lines = {}
  for row = 1, rows do
    local parts = {}
    for column = 1, #list do
      local name = names[(column - 1) * rows + row]
      if name then
        parts[#parts + 1] = name .. (" "):rep(list[column] - columns.shown(name))
      end
    end
    lines[row] = (indent .. table.concat(parts):gsub(" +$", ""))
  end
  return lines
end

return columns
