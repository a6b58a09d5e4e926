--- hold.lua -- what a stage holds of its micro-batches, and for how long
---
--- Each phase of a part is a plan that reads some values and makes others, which have
--- names:
---
---     in  out   what came from the part before, what goes to the next
---     dy  dx    the gradient of what went out, that of what came in
---     s1 s2 ..  what F saves;  p1 p2 ..  what B hands on to W
---
--- A value goes when the last phase, or message, that wants it is over.  The same walk over
--- the events runs them, or counts their bytes before anything runs: the counting knows
--- that a plan keeps its last result's memory and uses it again once nobody else has it.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local hold = {}

---@class mrt.PipelinePhase
---@field plan userdata
---@field reads string[]
---@field makes string[]
---@field bytes table<string, integer>  of what it makes, as allocated

---@class mrt.PipelinePart
---@field part integer
---@field F mrt.PipelinePhase
---@field B mrt.PipelinePhase?
---@field W mrt.PipelinePhase?
---@field wanted table<string, integer>  how often each value is read or sent

--- Bytes of a tensor as they are allocated.
---@param x mrt.Tensor
---@return integer
function hold.allocated(x)
  local unit = core.info().alignment
  return (x:nbytes() + unit - 1) // unit * unit
end

--- Count who wants each value of a part.
---@param part mrt.PipelinePart
---@param q integer  parts
function hold.count(part, q)
  local wanted = {}
  for _, kind in ipairs { "F", "B", "W" } do
    for _, name in ipairs(part[kind] and part[kind].reads or {}) do
      wanted[name] = (wanted[name] or 0) + 1
    end
  end
  if part.part < q then wanted.out = (wanted.out or 0) + 1 end
  if part.part > 1 then wanted.dx = (wanted.dx or 0) + 1 end
  part.wanted = wanted
end

-- ---- the walk --------------------------------------------------------------------

local Hold = {}
Hold.__index = Hold

local function slot(part, micro, name) return part .. "." .. micro .. "." .. name end

function Hold:put(part, micro, name, value)
  local n = self.parts[part].wanted[name] or 0
  if n == 0 then return self.back.free(value) end
  local key = slot(part, micro, name)
  self.values[key], self.left[key] = value, n
end

function Hold:take(part, micro, name)
  return self.values[slot(part, micro, name)]
end

function Hold:release(part, micro, name)
  local key = slot(part, micro, name)
  self.left[key] = self.left[key] - 1
  if self.left[key] > 0 then return end
  self.back.free(self.values[key])
  self.values[key], self.left[key] = nil, nil
end

-- What a part makes goes to another of this stage: by another name.
function Hold:hand_over(part, micro, name, there, as)
  if not self.parts[part].wanted[name] then return end
  local value = self:take(part, micro, name)
  self:put(there, micro, as, self.back.share(value))
  self:release(part, micro, name)
end

function Hold:act(e)
  local part = self.parts[e.part]
  local phase = part[e.does]
  if not phase then return end
  local given = {}
  for i, name in ipairs(phase.reads) do given[i] = self:take(e.part, e.micro, name) end
  local made = self.back.run(phase, e, given)
  for i, name in ipairs(phase.makes) do self:put(e.part, e.micro, name, made[i]) end
  for _, name in ipairs(phase.reads) do self:release(e.part, e.micro, name) end
  if e.does == "F" and self.parts[e.part + 1] then
    self:hand_over(e.part, e.micro, "out", e.part + 1, "in")
  elseif e.does == "B" and self.parts[e.part - 1] then
    self:hand_over(e.part, e.micro, "dx", e.part - 1, "dy")
  end
end

local there = { act = { "out", "in", 1 }, grad = { "dx", "dy", -1 } }

function Hold:message(e)
  local name, as, way = table.unpack(there[e.does])
  if e.from == self.stage then
    self.back.send(self:take(e.part, e.micro, name), e.to)
    self:release(e.part, e.micro, name)
  else
    self:put(e.part + way, e.micro, as, self.back.recv(e.part + way, as, e.from))
  end
end

--- Do all events of a stage.
---@param stage integer
---@param parts table<integer, mrt.PipelinePart>  those of this stage
---@param events mrt.PipelineEvent[]
---@param back table  run(phase, event, values), send(value, to), recv(part, name, from),
---  free(value), share(value)
function hold.walk(stage, parts, events, back)
  local self = setmetatable({ stage = stage, parts = parts, back = back, values = {}, left = {} },
    Hold)
  for _, e in ipairs(events) do
    if there[e.does] then self:message(e) else self:act(e) end
  end
end

-- ---- counting --------------------------------------------------------------------

local STEPS <const> = 2 -- the second finds what the first has left

local Count = {}
Count.__index = Count

function Count:add(bytes)
  self.now = self.now + bytes
  self.most = math.max(self.most, self.now)
end

-- Memory of the k-th result of a phase: that of its last run, if nobody else has it.
function Count:result(phase, k)
  local mine = self.results[phase]
  local block = mine[k]
  if not block or block.users > 0 then
    if block then block.kept = false end
    block = { bytes = phase.bytes[phase.makes[k]], users = 0, kept = true }
    self:add(block.bytes)
    mine[k] = block
  end
  block.users = 1
  return block
end

--- Count the bytes that a stage holds at most beside its plans' arenas and variables.
---@param stage integer
---@param parts table<integer, mrt.PipelinePart>
---@param events mrt.PipelineEvent[]
---@param came table<string, table>  what messages bring, "in" and "dy" of a part: bytes
---@param behind integer  the largest of what comes behind the events, one after the other
---@return integer
function hold.bytes(stage, parts, events, came, behind)
  local self = setmetatable({ now = 0, most = 0, results = {} }, Count)
  for _, part in pairs(parts) do
    for _, kind in ipairs { "F", "B", "W" } do
      if part[kind] then self.results[part[kind]] = {} end
    end
  end
  local back = {}
  function back.run(phase)
    local made = {}
    for k in ipairs(phase.makes) do made[k] = self:result(phase, k) end
    return made
  end
  function back.send() end
  function back.recv(part, name)
    local block = { bytes = came[slot(part, 0, name)].bytes, users = 1, kept = false }
    self:add(block.bytes)
    return block
  end
  function back.share(block)
    block.users = block.users + 1
    return block
  end
  function back.free(block)
    block.users = block.users - 1
    if block.users == 0 and not block.kept then self.now = self.now - block.bytes end
  end
  for _ = 1, STEPS do hold.walk(stage, parts, events, back) end
  return math.max(self.most, self.now + behind)
end

hold.slot = slot

return hold
