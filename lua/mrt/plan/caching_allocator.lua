--- caching_allocator.lua -- a dynamic caching allocator, simulated over a plan's execution
---
--- The other way to allocate: ask when a value is born, give back after its last
--- use.  Best fit, with splitting and coalescing; what is given back stays in the
--- pool; where nothing fits, the pool asks the device for a new segment.  Only
--- places are simulated, no bytes, so that a plan can say what it saves; the policy
--- policy.place.caching() runs a plan in these places.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"

local pool = {}

---@class mrt.PoolReport
---@field reserved integer  bytes of all segments: never given back
---@field live integer      the most that was alive at once
---@field wasted integer    reserved - live: holes, and ends of segments
---@field calls integer     to allocate and to free
---@field segments integer  calls to the device
---@field microseconds number  of this simulation, on this machine

-- Free blocks are kept in one bin for each size, where the last to be given back
-- is the first to go, and the sizes of bins that are not empty in order.

-- The first place in `sizes` that is not below `bytes`.
local function lower_bound(sizes, bytes)
  local low, high = 1, #sizes + 1
  while low < high do
    local middle = (low + high) // 2
    if sizes[middle] < bytes then low = middle + 1 else high = middle end
  end
  return low
end

local function insert(self, block)
  local bin = self.bins[block.bytes]
  if not bin then
    bin = {}
    self.bins[block.bytes] = bin
    table.insert(self.sizes, lower_bound(self.sizes, block.bytes), block.bytes)
  end
  block.place = #bin + 1 -- nil: not free
  bin[block.place] = block
end

local function remove(self, block)
  local bin = self.bins[block.bytes]
  local last = table.remove(bin)
  if last ~= block then
    bin[block.place], last.place = last, block.place
  elseif #bin == 0 then
    self.bins[block.bytes] = nil
    table.remove(self.sizes, lower_bound(self.sizes, block.bytes))
  end
  block.place = nil
end

-- The smallest free block of at least so many bytes.
local function best_fit(self, bytes)
  local bin = self.bins[self.sizes[lower_bound(self.sizes, bytes)]]
  return bin and bin[#bin]
end

-- A new segment: one block without neighbours.  Segments never touch.
local function grow(self, bytes)
  local block = { bytes = math.max(bytes, self.segment), offset = self.reserved }
  self.reserved, self.segments = self.reserved + block.bytes, self.segments + 1
  insert(self, block)
  return block
end

local function allocate(self, bytes)
  local block = best_fit(self, bytes) or grow(self, bytes)
  remove(self, block)
  if block.bytes > bytes then
    local rest = { bytes = block.bytes - bytes, offset = block.offset + bytes, left = block,
      right = block.right }
    if rest.right then rest.right.left = rest end
    block.right, block.bytes = rest, bytes
    insert(self, rest)
  end
  self.live = self.live + bytes
  self.most = math.max(self.most, self.live)
  return block
end

-- Make `b`, which follows `a`, part of `a`.
local function join(a, b)
  a.bytes, a.right = a.bytes + b.bytes, b.right
  if a.right then a.right.left = a end
end

local function give_back(self, block)
  self.live = self.live - block.bytes
  local left, right = block.left, block.right
  if right and right.place then
    remove(self, right)
    join(block, right)
  end
  if left and left.place then
    remove(self, left)
    join(left, block)
    block = left
  end
  insert(self, block)
end

-- `born`: called with each value and its block.
local function run(self, births, deaths, born)
  local held, calls = {}, 0
  for i = 1, #births do
    for _, v in ipairs(births[i]) do
      held[v] = allocate(self, self.size_of(v))
      born(v, held[v])
    end
    for _, v in ipairs(deaths[i]) do give_back(self, held[v]) end
    calls = calls + #births[i] + #deaths[i]
  end
  return calls
end

local function new_pool(o, size_of)
  return { bins = {}, sizes = {}, reserved = 0, segments = 0, live = 0, most = 0,
    segment = o and o.segment or 4096, size_of = size_of }
end

--- Run the births and deaths of a plan's arena through the pool.
---@param plan mrt.Plan
---@param options? {segment: integer?}  least bytes of a segment, default 4096
---@return mrt.PoolReport
function pool.simulate(plan, options)
  local births, deaths = about.events(plan:values(), plan.nodes)
  local self = new_pool(options, function(v) return v.bytes end)
  local start = os.clock()
  local calls = run(self, births, deaths, function() end)
  return { reserved = self.reserved, live = self.most,
    wasted = self.reserved - self.most, calls = calls, segments = self.segments,
    microseconds = (os.clock() - start) * 1e6 }
end

--- Where the pool puts blocks, and what it reserves: an answer to the option `place`.
---@param blocks mrt.PlacedBlock[]
---@param o {segment: integer}
---@return integer[] offsets
---@return integer reserved
function pool.place(blocks, o)
  local births, deaths, offsets, index, usual = {}, {}, {}, {}, math.huge
  for _, b in ipairs(blocks) do usual = math.min(usual, b.align) end
  for i = 1, blocks.steps do births[i], deaths[i] = {}, {} end
  for i, b in ipairs(blocks) do
    index[b] = i
    table.insert(births[b.first], b)
    table.insert(deaths[b.last], b)
  end
  -- What begins at a larger multiple gets room for that.
  local function size_of(b) return b.bytes + (b.align > usual and b.align or 0) end
  local unit = #blocks > 0 and usual or 1
  local self = new_pool({ segment = (o.segment + unit - 1) // unit * unit }, size_of)
  run(self, births, deaths, function(b, block)
    offsets[index[b]] = (block.offset + b.align - 1) // b.align * b.align
  end)
  return offsets, self.reserved
end

return pool
