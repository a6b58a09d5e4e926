--- keep.lua -- which forward values a part holds for its backward pass, and which it
--- computes again
---
--- What B and W read of F has to be there: held since F, or computed once more of what is.
--- Holding takes bytes for as long as a micro-batch is in flight, computing again takes
--- time.  For a price of a byte, the choice that costs least is a least cut, of the graph in
--- which each value is there or not, and each operator runs again or not:
---
---     held         there, and not run again     price times its bytes
---     run again    all that it reads is there   its work
---
--- With a price rising from 0 the choices are those corners of the front of bytes against
--- work which lie on its convex hull; each recomputes what those before do, and more.
--- Between two corners the operators of a first stretch of the part are chosen as the second
--- has them, which any such stretch may be.  Views take nothing, and casts so little that a
--- value is never held twice for one.
---
---   from  Picard 1976 (a closure of least weight is a least cut); Dinic 1970; as in PyTorch's
---         min-cut partitioner for what is saved between two graphs (He and Yu 2023, MLSys)
---
--- SPDX-License-Identifier: MIT

local cheapest_closure = require "mrt.pipeline.closure"

local keep = {}

local CORNERS <const> = 8   -- cuts that are looked for
local STRETCHES <const> = 6 -- between two of them
local DEAR <const> = 1000   -- times the work of all for all bytes: nothing is held that need
                            -- not be
local UNITS <const> = 2 ^ 24 -- of all work, so that sums are exact
local FREE <const> = 2 ^ -10 -- what a view or cast takes of them

---@class mrt.PipelineChoice  what runs again, by number of the operator (core.work)
---@field again table<integer, boolean>
---@field bytes number  of what is held of a micro-batch, about
---@field work number   of what runs again

--- What a forward value shows, which is held in its stead.
---@param node mrt.PipelineNode
---@return mrt.PipelineNode
function keep.shown(node)
  while node.view and #node.reads == 1 and #node.params == 0 do node = node.reads[1] end
  return node
end

-- The operators of the part above what is wanted, in the order of the program.
local function operators_of(part, came, wanted)
  local list, by_number, stack = {}, {}, {}
  for _, node in ipairs(wanted) do stack[#stack + 1] = keep.shown(node) end
  while #stack > 0 do
    local node = table.remove(stack)
    local number = node.expression
    if not came[node.id] and node.part == part and not by_number[number] then
      local own = { number = number, node = node, reads = {}, results = {} }
      by_number[number], list[#list + 1] = own, own
      for i, y in ipairs(node.reads) do
        own.reads[i] = keep.shown(y)
        stack[#stack + 1] = own.reads[i]
      end
    end
  end
  table.sort(list, function(a, b) return a.number < b.number end)
  return list, by_number
end

---@class mrt.PipelineKeeper
---@field part integer
---@field came table<integer, boolean>  ids of what comes in
---@field wanted mrt.PipelineNode[] what B and W read of F
---@field bytes fun(node: mrt.PipelineNode): number, boolean?  of a value as it is held, and
---  whether that is not what operators of the forward pass read of it
---@field operators table[]
---@field by_number table<integer, table>
local Keeper = {}
Keeper.__index = Keeper

--- Look at a part.
---@param part integer
---@param came mrt.PipelineNode[]  what comes in
---@param wanted mrt.PipelineNode[]
---@param bytes fun(node: mrt.PipelineNode): number, boolean?
---@return mrt.PipelineKeeper
function keep.of(part, came, wanted, bytes)
  local ids = {}
  for _, node in ipairs(came) do ids[node.id] = true end
  local list, by_number = operators_of(part, ids, wanted)
  local self = setmetatable({ part = part, came = ids, wanted = wanted, bytes = bytes,
    operators = list, by_number = by_number, work = 1 }, Keeper)
  for _, own in ipairs(list) do self.work = self.work + own.node.work end
  return self
end

--- All that may be held.
---@return mrt.PipelineNode[]
function Keeper:values()
  local seen, out = {}, {}
  local function add(node)
    if not seen[node.id] then seen[node.id], out[#out + 1] = true, node end
  end
  for _, node in ipairs(self.wanted) do add(keep.shown(node)) end
  for _, own in ipairs(self.operators) do
    for _, y in ipairs(own.reads) do add(y) end
  end
  return out
end

-- Whether it is of the part, and can run again.
function Keeper:own(node) return not self.came[node.id] and self.by_number[node.expression] end

local function is_free(node) return node.view or node.op == "cast" end

-- What an operator costs that runs again, in units.
function Keeper:cost(node, free_only)
  if is_free(node) then return FREE end
  return free_only and math.huge or math.ceil(node.work / self.work * UNITS)
end

-- The problem of a price: values and operators are items of a closure.
function Keeper:problem(price, free_only)
  local closure = cheapest_closure.new()
  local runs, there, as_read = {}, {}, {}
  for _, own in ipairs(self.operators) do
    runs[own.number] = closure:item(self:cost(own.node, free_only))
  end
  local function held(bytes) return math.ceil(price * bytes / self.work * UNITS) end
  -- an item that costs so much unless the operator of the value runs again
  local function item_of(own, cost)
    local item = closure:item(own and 0 or cost)
    if own then closure:unless(item, runs[own.number], cost) end
    return item
  end
  local function value(node)
    if there[node.id] then return there[node.id] end
    local own, bytes, rounded = self:own(node), self.bytes(node)
    there[node.id] = item_of(own, held(bytes))
    as_read[node.id] = there[node.id]
    if own and rounded then
      as_read[node.id] = closure:item(0)
      closure:wants(as_read[node.id], runs[own.number])
    end
    return there[node.id]
  end
  for _, node in ipairs(self.wanted) do closure:must(value(keep.shown(node))) end
  for _, own in ipairs(self.operators) do
    for _, y in ipairs(own.reads) do
      value(y)
      closure:wants(runs[own.number], as_read[y.id])
    end
  end
  return closure, runs
end

--- The choice that costs least at a price of a byte, in work.
---@param price number
---@param free_only? boolean  only casts run again
---@return mrt.PipelineChoice
function Keeper:choose(price, free_only)
  local closure, runs = self:problem(price, free_only)
  local within, again = closure:solve(), {}
  for number, item in pairs(runs) do
    if within[item] then again[number] = true end
  end
  return self:measured(again)
end

-- What a choice holds and computes.
function Keeper:measured(again)
  local seen, bytes, work, stack = {}, 0, 0, {}
  local function read(node, as_read)
    local own, more, rounded = self:own(node), self.bytes(node)
    if not (own and again[own.number]) then
      if as_read and own and rounded then bytes = math.huge end -- which is no choice
      if not seen[node.id] then seen[node.id], bytes = true, bytes + more end
    elseif not seen[own] then
      seen[own] = true
      work = work + (is_free(own.node) and 0 or own.node.work)
      for _, y in ipairs(own.reads) do stack[#stack + 1] = y end
    end
  end
  for _, node in ipairs(self.wanted) do read(keep.shown(node), false) end
  while #stack > 0 do read(table.remove(stack), true) end
  return { again = again, bytes = bytes, work = work }
end

-- Corners of the hull between two of them, in order, added to `out`.
function Keeper:between(a, b, out, left)
  local fewer, more = a.bytes - b.bytes, b.work - a.work
  if left.cuts == 0 or fewer <= 0 or more <= 0 then return end
  left.cuts = left.cuts - 1
  local c = self:choose(more / fewer)
  local above = c.work - a.work - (a.bytes - c.bytes) * more / fewer
  if above >= -1e-9 * more or c.bytes >= a.bytes or c.bytes <= b.bytes then return end
  self:between(a, c, out, left)
  out[#out + 1] = c
  self:between(c, b, out, left)
end

-- What runs again up to an operator as `b` has it, from there on as `a` does.
function Keeper:stretches(a, b, out)
  local changed = {}
  for _, own in ipairs(self.operators) do
    if a.again[own.number] ~= b.again[own.number] then changed[#changed + 1] = own.number end
  end
  for k = 1, STRETCHES - 1 do
    local to, again = changed[#changed * k // STRETCHES], {}
    if to and to ~= changed[#changed] then
      for _, own in ipairs(self.operators) do
        again[own.number] = (own.number <= to and b or a).again[own.number]
      end
      out[#out + 1] = self:measured(again)
    end
  end
end

--- The choice that holds all, but for casts of what is held, which is quickest.
---@return mrt.PipelineChoice
function Keeper:first() return self:choose(self.work / UNITS, true) end

--- Choices from all held to as little as may be, each with fewer bytes and more work than
--- the one before.
---@return mrt.PipelineChoice[]
function Keeper:front()
  local first = self:first()
  local last = self:choose(DEAR * self.work / math.max(1, first.bytes))
  local corners, all = { first }, { first }
  self:between(first, last, corners, { cuts = CORNERS })
  corners[#corners + 1] = last
  for i = 2, #corners do
    local some = {}
    self:stretches(corners[i - 1], corners[i], some)
    some[#some + 1] = corners[i]
    for _, c in ipairs(some) do
      if c.bytes < all[#all].bytes then all[#all + 1] = c end
    end
  end
  return all
end

return keep
