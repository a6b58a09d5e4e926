--- check.lua -- do any two buffers overlap in time and in space?
--
-- Buffers are rectangles, time by offset.  A line sweeps across them along one
-- axis and keeps those it cuts in a list sorted along the other; a new one
-- that overlaps any must overlap one of its two neighbours there.  The axis is
-- the one along which fewer are cut at once, so this stays near-linear.
--
-- Knows nothing of how offsets are found.  Returns nil, or what is wrong.
--
-- SPDX-License-Identifier: MIT

--- Rectangles as {from, to, low, high, index}, half open: swept along from-to.
local function rectangles(buffers, offsets, along_time)
  local list = {}
  for i, b in ipairs(buffers) do
    local first, past, low, high = b[2], b[3] + 1, offsets[i], offsets[i] + b[1]
    if b[1] > 0 then
      list[#list + 1] = along_time and { first, past, low, high, i }
        or { low, high, first, past, i }
    end
  end
  return list
end

--- The place in `cut` of the first rectangle that begins at `low` or above.
local function place(cut, low)
  local from, to = 1, #cut + 1
  while from < to do
    local middle = (from + to) // 2
    if cut[middle][3] < low then from = middle + 1 else to = middle end
  end
  return from
end

local function sweep(list)
  local ends, cut, over = table.move(list, 1, #list, 1, {}), {}, 1
  table.sort(list, function(a, b) return a[1] < b[1] end)
  table.sort(ends, function(a, b) return a[2] < b[2] end)
  for _, r in ipairs(list) do
    while ends[over][2] <= r[1] do
      table.remove(cut, place(cut, ends[over][3]))
      over = over + 1
    end
    local at = place(cut, r[3])
    local below, above = cut[at - 1], cut[at]
    local other = below and below[4] > r[3] and below or above and above[3] < r[4] and above
    if other then return ("buffers %d and %d overlap"):format(other[5], r[5]) end
    table.insert(cut, at, r)
  end
end

return function(buffers, offsets, height)
  local first, past, area = math.huge, -math.huge, 0
  for i, b in ipairs(buffers) do
    local low = offsets[i]
    if low < 0 or low + b[1] > height then return ("buffer %d lies outside"):format(i) end
    if low % (b[4] or 1) ~= 0 then return ("buffer %d is not aligned"):format(i) end
    first, past = math.min(first, b[2]), math.max(past, b[3] + 1)
    area = area + (b[3] + 1.0 - b[2])
  end
  local alive = area / (past - first) -- on average
  return sweep(rectangles(buffers, offsets, alive * alive <= #buffers))
end
