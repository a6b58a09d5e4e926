--- puzzles.lua -- packing instances whose optimum is known.
--
-- A rectangle of time by memory is cut into buffers, so its height is the
-- optimum; some buffers are then left out, but none that lives in one of a few
-- chosen moments, so the bound stays equal to it.  The styles:
--
--     blocks    cuts at random places, in both directions, 5% left out
--     slabs     more cuts that part memory: many live long, 6% left out
--     columns   more cuts that part time: many are large, 3% left out
--     cloud     pieces of like size, two fifths left out, most of them early
--     full      as blocks, nothing left out
--     pinwheel  four around a fifth, again and again: no cut goes through
--     lasting   a few live throughout, those between live a moment
--     aligned   as blocks, in units of an alignment
--
-- `make(style, n, seed)` gives a list of {size, first, last, alignment} as
-- core.pack wants it, in no telling order, and the optimum.  It has about n
-- buffers.  The same everywhere.
--
-- SPDX-License-Identifier: MIT

local height = 1 << 20

--- Integers from 1 to n, the same everywhere.
local function generator(seed)
  local state = seed * 0x9e3779b97f4a7c15 + 0x1234567
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return ((state ~ state >> 29) >> 33) % n + 1
  end
end

-- Pieces are {low, high, first, past} in units.

--- Cut a piece in two, or leave it when it is too thin.
local function cut(pieces, at, across, least, random)
  local p = pieces[at]
  local i = across and 1 or 3
  local room = p[i + 1] - p[i] - 2 * least
  if room < 0 then return false end
  local place = p[i] + least + random(room + 1) - 1
  local q = { table.unpack(p) }
  p[i + 1], q[i] = place, place
  pieces[#pieces + 1] = q
  return true
end

--- Four around a fifth.
local function pinwheel(pieces, at, random)
  local low, high, first, past = table.unpack(pieces[at])
  if high - low < 3 or past - first < 3 then return false end
  local y, x = low + random(high - low - 2), first + random(past - first - 2)
  local v, u = y + random(high - y - 1), x + random(past - x - 1)
  if random(2) == 1 then
    pieces[at] = { low, y, first, u }
    pieces[#pieces + 1] = { low, v, u, past }
    pieces[#pieces + 1] = { v, high, x, past }
    pieces[#pieces + 1] = { y, high, first, x }
  else
    pieces[at] = { low, v, first, x }
    pieces[#pieces + 1] = { v, high, first, u }
    pieces[#pieces + 1] = { y, high, u, past }
    pieces[#pieces + 1] = { low, y, x, past }
  end
  pieces[#pieces + 1] = { y, v, x, u }
  return true
end

local function area(p) return (p[2] - p[1]) * (p[4] - p[3]) end

--- A rather large piece.
local function pick(pieces, random, tries)
  local best = random(#pieces)
  for _ = 2, tries do
    local other = random(#pieces)
    if area(pieces[other]) > area(pieces[best]) then best = other end
  end
  return best
end

-- across: of 100 cuts, how many part memory; out: of 100 buffers, how many
-- are left out; tries: how alike the areas are.
local styles = {
  blocks = { across = 50, out = 5, tries = 3 },
  slabs = { across = 75, out = 6, tries = 3 },
  columns = { across = 35, out = 3, tries = 3 },
  cloud = { out = 40, tries = 12, even = true },
  full = { across = 50, out = 0, tries = 3 },
  pinwheel = { across = 50, out = 0, tries = 4, wheels = true },
  lasting = { across = 40, out = 4, tries = 3, lasting = 12 },
  aligned = { across = 50, out = 5, tries = 3, unit = 4096 },
}

--- Cut this piece in the manner of the style, or leave it.
local function divide_piece(pieces, at, style, random)
  local p = pieces[at]
  if style.wheels and random(3) > 1 then
    pinwheel(pieces, at, random)
  elseif style.even then -- the side that is longer, of a piece of like shape
    local across = p[2] - p[1] > 2 * (p[4] - p[3])
    cut(pieces, at, across, ((across and p[2] - p[1] or p[4] - p[3]) + 2) // 3, random)
  else
    cut(pieces, at, random(100) <= style.across, 1, random)
  end
end

local function divide(style, n, high, time, random)
  local pieces = { { 0, high, 0, time } }
  for k = 1, style.lasting or 0 do -- off the top, never cut again
    pieces[1][2] = high - k * high // 50
    pieces[k + 1] = { pieces[1][2], high - (k - 1) * high // 50, 0, time }
  end
  for _ = 1, 50 * n do
    if #pieces >= n then break end
    local at = pick(pieces, random, style.tries)
    if not style.lasting or at == 1 or at > style.lasting + 1 then
      divide_piece(pieces, at, style, random)
    end
  end
  return pieces
end

--- Leave out some, but none alive in one of three moments.
local function thin_out(pieces, style, time, random)
  local moments, kept = { random(time) - 1, random(time) - 1, time - 1 }, {}
  for _, p in ipairs(pieces) do
    local chance = style.out
    if style.even then chance = 2 * chance * (time - p[3]) // time end
    local out = random(100) <= chance
    for _, t in ipairs(moments) do
      if p[3] <= t and t < p[4] then out = false end
    end
    if not out then kept[#kept + 1] = p end
  end
  return kept
end

local function shuffle(list, random)
  for i = #list, 2, -1 do
    local k = random(i)
    list[i], list[k] = list[k], list[i]
  end
end

local function make(name, n, seed)
  local style = styles[name]
  local random = generator(seed)
  local unit = style.unit or n > 600 and 64 or 1024
  local time = math.max(1024, 4 * n)
  local whole = n + n * style.out // 100
  local pieces = thin_out(divide(style, whole, height // unit, time, random), style, time, random)
  shuffle(pieces, random)
  local buffers = {}
  for i, p in ipairs(pieces) do
    buffers[i] = { (p[2] - p[1]) * unit, p[3], p[4] - 1, style.unit }
  end
  return buffers, height
end

local names = {}
for name in pairs(styles) do names[#names + 1] = name end
table.sort(names)

return { make = make, names = names, height = height }
