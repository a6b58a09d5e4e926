--- plan.lua -- what generating takes: weights, cache, arena
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

---@class mrt.generate.Plan
---@field weights integer   bytes of the model's parameters and buffers
---@field cache integer     bytes of keys and values
---@field other integer     bytes of constants, tokens and positions
---@field arena integer     of the largest step; steps take turns in it
---@field outputs integer   of the largest step
---@field swapped integer   bytes of them that a budget keeps in a file
---@field total integer     all of these, or with a budget that swaps the largest peak
---@field batch integer
---@field length integer    tokens of a row
---@field prefill table<integer, mrt.Plan>  by the length of a chunk
---@field first mrt.Plan
---@field decode mrt.Plan
---@field room? mrt.Plan  that layers of a window need now and then
local Plan = {}
Plan.__index = Plan
Plan.__name = "mrt.generate.Plan"

local function weights_of(model)
  local bytes, seen = 0, {}
  for _, x in pairs(model:state()) do
    if not seen[x] then bytes = bytes + x:nbytes() end
    seen[x] = true
  end
  return bytes
end

---@param engine mrt.generate.Engine
---@param prefill table<integer, mrt.Plan>
---@param first mrt.Plan
---@param decode mrt.Plan
---@param room? mrt.Plan
---@return mrt.generate.Plan
function Plan.new(engine, prefill, first, decode, room)
  local self = setmetatable({ prefill = prefill, first = first, decode = decode, room = room,
    batch = engine.batch, length = engine.length, weights = weights_of(engine.model),
    cache = engine.cache:nbytes(), arena = 0, outputs = 0, other = 0,
    swapped = 0 }, Plan)
  local all = { first, decode, room }
  for _, plan in pairs(prefill) do all[#all + 1] = plan end
  local held, peak = 0, 0
  for _, plan in ipairs(all) do
    self.arena = math.max(self.arena, plan.transient)
    self.outputs = math.max(self.outputs, plan.outputs)
    self.swapped = math.max(self.swapped, plan.swapped)
    held, peak = math.max(held, plan.persistent), math.max(peak, plan.peak)
  end
  self.other = math.max(0, held - self.weights - self.cache)
  local sum = self.weights + self.cache + self.other + self.arena + self.outputs
  self.total = self.swapped > 0 and peak or sum
  return self
end

--- One line: what is taken, and for what.
---@param exact? boolean  to the byte
---@return string
function Plan:line(exact)
  local function bytes(n)
    return exact and format.count(n) .. " bytes" or format.bytes(n)
  end
  local text = ("%s: weights %s, cache %s (%s%d tokens), arena %s, other %s"):format(
    bytes(self.total), bytes(self.weights), bytes(self.cache),
    self.batch > 1 and self.batch .. " x " or "", self.length, bytes(self.arena),
    bytes(self.other + self.outputs))
  return self.swapped > 0 and ("%s; %s of it in a file"):format(text, bytes(self.swapped)) or text
end

function Plan:__tostring() return self:line() end

return Plan
