--- place.lua -- where in the arena each block lies
---
---     mrt.compile(step, { place = policy.place.caching() })
---
--- By default the planner looks for the lowest arena. A policy of one's own is a function
--- of all blocks, in the order of their first steps, that returns an offset for each:
---
---     place = function(blocks)          -- one behind the other, nothing shared
---       local at, offsets = 0, {}
---       for i, b in ipairs(blocks) do
---         offsets[i], at = at, at + b.bytes
---       end
---       return offsets
---     end
---
--- Blocks that live at one step must not overlap, and offsets are multiples of `align`:
--- that is checked. Where values lie never changes a bit.
---
--- SPDX-License-Identifier: MIT

local ask = require "mrt.policy.ask"
local core = require "mrt.core"
local options = require "mrt.util.options"

---@class mrt.policy.place
local place = {}
local asked = {} -- by the compiler

--- A block of the arena: a value, with what takes its place later, or a workspace.
---@class mrt.PlacedBlock
---@field op string        the operator that makes it
---@field name? string
---@field bytes integer
---@field align integer    of its offset
---@field first integer    steps, from 1, both included
---@field last integer

--- Offsets in bytes, one for each block; and how large the arena is, if larger than that.
---@alias mrt.PlacePolicy fun(blocks: mrt.PlacedBlock[]): integer[], integer?

--- As a dynamic caching allocator would do it in a first step: best fit among what has
--- been given back, new segments where nothing fits, nothing given back to the device.
--- The arena is then all segments that it reserves, so what such an allocator takes is
--- run and measured, not only simulated (`plan:report()` says what it would take).
---
---     local p = policy.place.caching()
---
--- Raises: an option that there is not.
---@param o? {segment: integer?}  least bytes of a segment, default 4096
---@return mrt.PlacePolicy
function place.caching(o)
  o = options.read("place.caching", o, { segment = 4096 })
  options.size("place.caching", "segment", o.segment)
  return function(blocks)
    return require "mrt.plan.caching_allocator".place(blocks, o)
  end
end

--- One behind the other: no two blocks share a byte.
---
---     local p = policy.place.apart()
---@return mrt.PlacePolicy
function place.apart()
  return function(blocks)
    local at, offsets = 0, {}
    for i, b in ipairs(blocks) do
      at = (at + b.align - 1) // b.align * b.align
      offsets[i], at = at, at + b.bytes
    end
    return offsets
  end
end

local function refuse(policy, ...)
  core.fail("value", "place", ("%s answered %s"):format(ask.name(policy), (...)))
end

-- The answer of a policy, looked at.
local function answer(policy, blocks)
  local offsets, height = ask.call("place", ("%d blocks"):format(#blocks), policy,
    ask.view_all(blocks))
  if type(offsets) ~= "table" then
    refuse(policy, options.show(offsets) .. "; a list of offsets wanted")
  end
  for i = 1, #blocks do
    if math.type(offsets[i]) ~= "integer" or offsets[i] < 0 then
      refuse(policy, ("%s for block %d; an offset in bytes wanted"):format(
        options.show(offsets[i]), i))
    end
  end
  if height ~= nil and (math.type(height) ~= "integer" or height < 0) then
    refuse(policy, ("an arena of %s; bytes wanted"):format(options.show(height)))
  end
  return offsets, height or 0
end

--- What the option `place` of mrt.compile says, as the core asks.
---@param policy mrt.PlacePolicy?
---@return fun(blocks: table): integer[], integer
function asked.decider(policy)
  if policy == nil then return nil end
  ask.refuse_uncalled("compile", "place", policy, place)
  if type(policy) ~= "function" then
    core.fail("value", "compile", ("option 'place': a policy or a function wanted, got %s")
      :format(options.show(policy)))
  end
  return function(blocks) return answer(policy, blocks) end
end

return ask.hide(place, asked)
