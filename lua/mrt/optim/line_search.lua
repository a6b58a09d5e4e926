--- line_search.lua -- how far to go along a direction: the strong Wolfe conditions
---
--- Nocedal & Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6.  A step t is
--- taken whose value has fallen enough and whose slope has become flat enough:
---
---     f(t) <= f(0) + C1 t f'(0),   |f'(t)| <= C2 |f'(0)|
---
--- It is first bracketed, each try further away, then the bracket is narrowed.  Tries lie
--- where the cubic through two values and slopes is least (section 3.5).  A value that is
--- not a number counts as too high.
---
--- SPDX-License-Identifier: MIT

local C1 <const>, C2 <const> = 1e-4, 0.9
local TRIES <const> = 25

local line_search = {}

---@class mrt.LinePoint
---@field t number      how far along the direction
---@field f number      the value there
---@field slope number  its derivative along the direction
---@field g any         what the caller keeps of it

-- Where the cubic through two points is least, between `low` and `high`; their middle
-- where it has no minimum.
local function least_of_cubic(a, b, low, high)
  if a.t > b.t then a, b = b, a end
  local d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
  local square = d1 * d1 - a.slope * b.slope
  local middle = (low + high) / 2
  if not (square >= 0) then return middle end
  local d2 = math.sqrt(square)
  local t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
  if t ~= t then return middle end
  return math.min(math.max(t, low), high)
end

local function fallen(start, p) return p.f <= start.f + C1 * p.t * start.slope end
local function flat(start, p) return math.abs(p.slope) <= -C2 * start.slope end

-- Narrow the bracket: `low` has fallen enough, and is the lowest so far.
local function narrow(start, low, high, try, tries, shortest)
  for _ = 1, tries do
    local from, to = math.min(low.t, high.t), math.max(low.t, high.t)
    local width = to - from
    if width <= shortest then break end
    -- not so near to the ends that nothing is gained
    local p = try(least_of_cubic(low, high, from + 0.1 * width, to - 0.1 * width))
    if not fallen(start, p) or not (p.f < low.f) then
      high = p
    else
      if flat(start, p) then return p end
      if p.slope * (high.t - low.t) >= 0 then high = low end
      low = p
    end
  end
  return low
end

--- Find a step.
---@param start mrt.LinePoint  t = 0, of negative slope
---@param t number             the first try
---@param try fun(t: number): mrt.LinePoint
---@param shortest number      a bracket that is narrower is narrow enough
---@return mrt.LinePoint       the start itself, where nothing is lower
function line_search.strong_wolfe(start, t, try, shortest)
  local before = start
  for i = 1, TRIES do
    local p = try(t)
    if not fallen(start, p) or i > 1 and not (p.f < before.f) then
      return narrow(start, before, p, try, TRIES - i, shortest)
    elseif flat(start, p) then
      return p
    elseif p.slope >= 0 then
      return narrow(start, p, before, try, TRIES - i, shortest)
    end
    t = least_of_cubic(before, p, p.t + 0.01 * (p.t - before.t), p.t * 10)
    before = p
  end
  return before
end

return line_search
