--- timeline.lua -- live bytes over a step, as text
---
--- SPDX-License-Identifier: MIT

local blocks = { [0] = " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }

local timeline = {}

-- The largest live bytes in each of `width` equal spans of the steps.
local function spans(steps, width)
  local columns = {}
  for c = 1, width do
    local from = (c - 1) * #steps // width + 1
    local to = math.max(from, c * #steps // width)
    local most = 0
    for i = from, to do most = math.max(most, steps[i].live) end
    columns[c] = most
  end
  return columns
end

--- Draw the transient bytes alive at each step, `width` by `height` characters:
--- time to the right, bytes upwards, the peak at the top.
---@param steps table[]     of `plan:steps()`
---@param width? integer    default 64
---@param height? integer   default 6
---@return string text
function timeline.draw(steps, width, height)
  width, height = math.min(width or 64, math.max(#steps, 1)), height or 6
  local columns, peak, lines = spans(steps, width), 1, {}
  for _, bytes in ipairs(columns) do peak = math.max(peak, bytes) end
  for row = height, 1, -1 do
    local line = {}
    for c, bytes in ipairs(columns) do
      local eighths = math.floor(bytes / peak * height * 8 + 0.5) - (row - 1) * 8
      line[c] = blocks[math.max(0, math.min(8, eighths))]
    end
    lines[#lines + 1] = (table.concat(line):gsub(" +$", ""))
  end
  return table.concat(lines, "\n")
end

return timeline
