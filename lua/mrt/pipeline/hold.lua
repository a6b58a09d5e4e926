--- hold.lua -- what a stage holds of its micro-batches, and for how long
---
--- Each phase of a part is a plan that reads some values and makes others, which have
--- names:
---
---     in1 in2 ..    out1 out2 ..   what came from the part before, what goes to the next
---     dy1 dy2 ..    dx1 dx2 ..     gradients of what went out, of what came in
---     s1 s2 ..                     what F saves;  p1 p2 ..  what B hands on to W
---     row1 ..                      rows of the step's results, which are put there at once
---
--- What a part hands on as it came goes on by another name and is no phase's.
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
---@field passes {[1]: string, [2]: string}[]  what came and goes on: by names of both
---@field blocks integer[]?  planned: results that are one value have one block of memory

---@class mrt.PipelinePart
---@field part integer
---@field F mrt.PipelinePhase
---@field B mrt.PipelinePhase?
---@field W mrt.PipelinePhase?
---@field carries table<string, integer>  how many there are of "in", "out", "dy" and "dx"
---@field wanted table<string, integer>  how often each value is read or sent
---@field packed integer     bytes of what is held compressed of a micro-batch (pack.lua),
---@field packed_to integer  of the codes and scales

--- Bytes as they are allocated.
---@param bytes integer
---@return integer
function hold.rounded(bytes)
  local unit = core.info().alignment
  return (bytes + unit - 1) // unit * unit
end

--- Bytes of a tensor as they are allocated.
---@param x mrt.Tensor
---@return integer
function hold.allocated(x) return hold.rounded(x:nbytes()) end

--- Count who wants each value of a part.
---@param part mrt.PipelinePart
function hold.count(part)
  local wanted = {}
  local function want(name) wanted[name] = (wanted[name] or 0) + 1 end
  for _, kind in ipairs { "F", "B", "W" } do
    local phase = part[kind] or { reads = {}, passes = {} }
    for _, name in ipairs(phase.reads) do want(name) end
    for _, pass in ipairs(phase.passes) do want(pass[1]) end
  end
  for _, name in ipairs { "out", "dx" } do
    for k = 1, part.carries[name] do want(name .. k) end
  end
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

-- A value goes on by another name, in a part of this stage.
function Hold:hand_over(part, micro, name, there, as)
  local value = self:take(part, micro, name)
  self:put(there, micro, as, self.back.share(value))
  self:release(part, micro, name)
end

local there = { act = { "out", "in", 1 }, grad = { "dx", "dy", -1 } }

-- What a phase has made that another part of this stage gets.
function Hold:deliver(e, message)
  local name, as, way = table.unpack(there[message])
  if not self.parts[e.part + way] then return end
  for k = 1, self.parts[e.part].carries[name] do
    self:hand_over(e.part, e.micro, name .. k, e.part + way, as .. k)
  end
end

function Hold:act(e)
  local part = self.parts[e.part]
  local phase = part[e.does]
  if not phase then return end
  local given = {}
  for i, name in ipairs(phase.reads) do given[i] = self:take(e.part, e.micro, name) end
  local made = self.back.run(phase, e, given)
  for i, name in ipairs(phase.makes) do
    if name:find "^row" then self.back.keep(tonumber(name:sub(4)), e, made[i]) end
  end
  for i, name in ipairs(phase.makes) do self:put(e.part, e.micro, name, made[i]) end
  for _, pass in ipairs(phase.passes) do
    self:hand_over(e.part, e.micro, pass[1], e.part, pass[2])
  end
  for _, name in ipairs(phase.reads) do self:release(e.part, e.micro, name) end
  if e.does == "F" then self:deliver(e, "act") elseif e.does == "B" then self:deliver(e, "grad") end
end

function Hold:message(e)
  local name, as, way = table.unpack(there[e.does])
  if e.from == self.stage then
    for k = 1, self.parts[e.part].carries[name] do
      self.back.send(self:take(e.part, e.micro, name .. k), e.to)
      self:release(e.part, e.micro, name .. k)
    end
  else
    local to = e.part + way
    for k = 1, self.parts[to].carries[as] do
      self:put(to, e.micro, as .. k, self.back.recv(to, as .. k, e.from))
    end
  end
end

--- Do all events of a stage.
---@param stage integer
---@param parts table<integer, mrt.PipelinePart>  those of this stage
---@param events mrt.PipelineEvent[]
---@param back table  run(phase, event, values), keep(result, event, value), send(value, to),
---  recv(part, name, from), free(value), share(value)
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

-- Memory of the k-th result of a phase: that of one before that is the same value, or of its
-- last run, if nobody else has it.
function Count:result(phase, k, taken)
  local mine = self.results[phase]
  local at = phase.blocks and phase.blocks[k] or k
  local block = mine[at]
  if taken[at] then
    block.users = block.users + 1
    return block
  end
  taken[at] = true
  if not block or block.users > 0 then
    if block then block.kept = false end
    block = { bytes = phase.bytes[phase.makes[k]], users = 0, kept = true }
    self:add(block.bytes)
    mine[at] = block
  end
  block.users = 1
  return block
end

--- Count the bytes that a stage holds at most beside its plans' arenas and variables.
---@param stage integer
---@param parts table<integer, mrt.PipelinePart>
---@param events mrt.PipelineEvent[]
---@param came table<string, table>  what messages bring, "in1" and "dy1" of a part: bytes
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
    local made, taken = {}, {}
    for k in ipairs(phase.makes) do made[k] = self:result(phase, k, taken) end
    return made
  end
  function back.keep() end
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
