--- events.lua -- what happens when, in a machine of streams
---
---     local sim = events.new()
---     local compute = sim:stream("compute")
---     local network = sim:stream("network", { slows = compute, by = 0.1 })
---     local a = sim:task(compute, 2)
---     local b = sim:task(network, 1, { a })
---     sim:run()                              --> 3
---
--- A stream does its tasks in the order in which they were given, each as soon as those it
--- waits for are done.  While a stream that slows another is busy, the other works at
--- 1 / (1 + by) of its rate.  Tasks that wait for each other in a circle are found: that is
--- a deadlock, told with its position.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

---@class mrt.cluster.Events
local Events = {}
Events.__index = Events

--- Nothing yet.
---@return mrt.cluster.Events
function Events.new()
  return setmetatable({ streams = {}, tasks = {}, now = 0 }, Events)
end

--- A stream that does its tasks in order.
---@param name string
---@param o? {slows: integer, by: number}
---@return integer
function Events:stream(name, o)
  local s = { name = name, queue = {}, head = 1, slowed = 0, slows = o and o.slows,
    by = o and o.by or 0, busy = 0 }
  self.streams[#self.streams + 1] = s
  return #self.streams
end

--- A task on a stream, after those that it waits for.
---@param stream integer
---@param seconds number
---@param after? integer[]  tasks, which may be given later too: `sim:wait`
---@param name? string      for messages and pictures
---@return integer
function Events:task(stream, seconds, after, name)
  local t = { stream = stream, left = seconds, waits = 0, next = {}, name = name }
  self.tasks[#self.tasks + 1] = t
  local id = #self.tasks
  table.insert(self.streams[stream].queue, id)
  for _, other in ipairs(after or {}) do self:wait(id, other) end
  return id
end

--- Let a task wait for another.
---@param id integer
---@param other integer
function Events:wait(id, other)
  local t, o = self.tasks[id], self.tasks[other]
  if o.finish then return end
  t.waits = t.waits + 1
  o.next[#o.next + 1] = id
end

-- ---- a heap of when tasks end ------------------------------------------------

local function push(heap, at, id, version)
  local i = #heap + 1
  heap[i] = { at, id, version }
  while i > 1 and heap[i // 2][1] > at do
    heap[i], heap[i // 2] = heap[i // 2], heap[i]
    i = i // 2
  end
end

local function pop(heap)
  local top, last = heap[1], table.remove(heap)
  if #heap == 0 then return top end
  local i, n = 1, #heap
  heap[1] = last
  while true do
    local least, l = i, 2 * i
    if l <= n and heap[l][1] < heap[least][1] then least = l end
    if l < n and heap[l + 1][1] < heap[least][1] then least = l + 1 end
    if least == i then return top end
    heap[i], heap[least] = heap[least], heap[i]
    i = least
  end
end

-- ---- streams -----------------------------------------------------------------

local function rate(s) return 1 / (1 + s.slowed) end

-- When the running task of a stream ends, from what is left of it now.
local function schedule(self, s)
  local t = self.tasks[s.running]
  t.version = (t.version or 0) + 1
  push(self.heap, self.now + t.left / rate(s), s.running, t.version)
end

-- What was done of it until now.
local function settle(self, s)
  local t = s.running and self.tasks[s.running]
  if t then t.left = math.max(0, t.left - (self.now - t.since) * rate(s)) t.since = self.now end
end

local function slow(self, s, by)
  local other = s.slows and s.by > 0 and self.streams[s.slows]
  if not other then return end
  settle(self, other)
  other.slowed = math.max(0, other.slowed + by)
  if other.running then schedule(self, other) end
end

local function start(self, s)
  local id = s.queue[s.head]
  if s.running or not id or self.tasks[id].waits > 0 then return end
  local t = self.tasks[id]
  s.head, s.running, t.start, t.since = s.head + 1, id, self.now, self.now
  schedule(self, s)
  slow(self, s, s.by)
end

local function finish(self, id)
  local t = self.tasks[id]
  local s = self.streams[t.stream]
  t.finish, s.running = self.now, nil
  s.busy = s.busy + t.finish - t.start
  slow(self, s, -s.by)
  self.done = self.done + 1
  for _, other in ipairs(t.next) do
    local o = self.tasks[other]
    o.waits = o.waits - 1
    if o.waits == 0 then start(self, self.streams[o.stream]) end
  end
  start(self, s)
end

local function deadlock(self)
  for _, s in ipairs(self.streams) do
    local id = s.queue[s.head]
    if id then
      core.fail("value", "cluster", ("deadlock: %s waits at its task %d%s, with %d tasks to do")
        :format(s.name, s.head, self.tasks[id].name and (" (" .. self.tasks[id].name .. ")") or "",
          #self.tasks - self.done))
    end
  end
end

--- Do all tasks: when the last one ends.
---
--- Raises: tasks that wait for each other, saying which stream stands where.
---@return number seconds
function Events:run()
  self.heap, self.done = {}, 0
  for _, s in ipairs(self.streams) do start(self, s) end
  while #self.heap > 0 do
    local top = pop(self.heap)
    local t = self.tasks[top[2]]
    if not t.finish and t.version == top[3] then
      self.now = top[1]
      finish(self, top[2])
    end
  end
  if self.done < #self.tasks then deadlock(self) end
  return self.now
end

--- When a task began and ended.
---@param id integer
---@return number start
---@return number finish
function Events:of(id)
  local t = self.tasks[id]
  return t.start, t.finish
end

--- How long a stream was busy.
---@param stream integer
---@return number seconds
function Events:busy(stream) return self.streams[stream].busy end

return Events
