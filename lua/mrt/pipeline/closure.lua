--- closure.lua -- a set of items that wants others with it, of the least cost
---
--- Items have costs, 0 or more, which are paid for those in the set.  Some must be in it,
--- some want others in it too, and of some pairs a cost is paid where the first is in the
--- set and the second is not.  That is a least cut (Picard 1976): items in the set are on
--- the source's side.  Found by Dinic's algorithm (1970): levels from the source, then paths
--- along them until each is blocked.
---
--- SPDX-License-Identifier: MIT

local closure = {}

---@class mrt.Closure
---@field count integer     items; 1 is the source, 2 the sink
---@field first table<integer, integer>  of each: its first arc
---@field to integer[]      arcs: arc and arc ~ 1 are a pair, from 2
---@field next integer[]
---@field room number[]
local Closure = {}
Closure.__index = Closure

local SOURCE <const>, SINK <const> = 1, 2

--- Begin with no items.
---@return mrt.Closure
function closure.new()
  return setmetatable({ count = 2, arcs = 1, first = {}, to = {}, next = {}, room = {} }, Closure)
end

local function half(self, a, b, room)
  self.arcs = self.arcs + 1
  self.to[self.arcs], self.room[self.arcs] = b, room
  self.next[self.arcs], self.first[a] = self.first[a], self.arcs
end

local function arc(self, a, b, room)
  half(self, a, b, room)
  half(self, b, a, 0)
end

--- Add an item.
---@param cost number
---@return integer item
function Closure:item(cost)
  self.count = self.count + 1
  if cost > 0 then arc(self, self.count, SINK, cost) end
  return self.count
end

--- An item must be in the set.
---@param item integer
function Closure:must(item) arc(self, SOURCE, item, math.huge) end

--- With an item goes another.
---@param item integer
---@param other integer
function Closure:wants(item, other) arc(self, item, other, math.huge) end

--- An item costs so much without another.
---@param item integer
---@param other integer
---@param cost number
function Closure:unless(item, other, cost) arc(self, item, other, cost) end

-- How far each item is from the source along arcs with room.
local function levels(self)
  local level, queue, at = { [SOURCE] = 0 }, { SOURCE }, 1
  while queue[at] do
    local a = queue[at]
    local e = self.first[a]
    while e do
      local b = self.to[e]
      if self.room[e] > 0 and not level[b] then
        level[b], queue[#queue + 1] = level[a] + 1, b
      end
      e = self.next[e]
    end
    at = at + 1
  end
  return level
end

-- Fill one path from the source, whose arcs are in `path`; where it went dry first.
local function fill(self, path)
  local least, at = math.huge, 1
  for i, e in ipairs(path) do
    if self.room[e] < least then least, at = self.room[e], i end
  end
  for _, e in ipairs(path) do
    self.room[e], self.room[e ~ 1] = self.room[e] - least, self.room[e ~ 1] + least
  end
  return at
end

-- Fill paths along levels until there is none.
local function block(self, level)
  local now, path, a = {}, {}, SOURCE
  for item, e in pairs(self.first) do now[item] = e end
  while true do
    local e = now[a]
    if a == SINK then
      local at = fill(self, path)
      for i = #path, at, -1 do path[i] = nil end
      a = path[1] and self.to[path[#path]] or SOURCE
    elseif not e then
      if a == SOURCE then return end
      a = self.to[table.remove(path) ~ 1]
      now[a] = self.next[now[a]]
    elseif self.room[e] > 0 and level[self.to[e]] == level[a] + 1 then
      path[#path + 1], a = e, self.to[e]
    else
      now[a] = self.next[e]
    end
  end
end

--- Which items are in the set that costs least; of several the smallest.
---@return table<integer, any>
function Closure:solve()
  local level = levels(self)
  while level[SINK] do
    block(self, level)
    level = levels(self)
  end
  return level
end

return closure
