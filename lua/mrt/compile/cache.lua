--- cache.lua -- the plans of a compiled function
---
--- Kept by use and by bytes: beyond the most of either, the one that has not been
--- used for longest is forgotten.  A function that is traced again and again says
--- so once, by Lua's warnings: which argument does it, and what helps.
---
--- SPDX-License-Identifier: MIT

local accumulate = require "mrt.accumulate"
local signature = require "mrt.compile.signature"

local cache = {}

cache.MOST_PLANS = 128
cache.MOST_BYTES = 64 << 20 -- of plans themselves: their tensors are in one space
cache.OFTEN = 8             -- values of one argument that are no tensors
cache.MANY = 32             -- or shapes of one

---@class mrt.PlanCache
---@field entries table<string, table>  by signature
---@field count integer
---@field bytes integer
---@field clock integer     rises with each use
---@field seen table[]      by argument: the texts it had, and how many
---@field warned boolean
local Cache = {}
Cache.__index = Cache

--- A cache that is empty.
---@return mrt.PlanCache
function cache.new()
  return setmetatable({ entries = {}, count = 0, bytes = 0, clock = 0, seen = {},
    warned = false }, Cache)
end

--- The entry that is there for a signature; it counts as used.
---@param key string
---@return table?
function Cache:get(key)
  local entry = self.entries[key]
  if entry then
    self.clock = self.clock + 1
    entry.used = self.clock
  end
  return entry
end

--- The entry that was used last; nil: there is none.
---@return table?
function Cache:latest()
  local found
  for _, entry in pairs(self.entries) do
    if not found or entry.used > found.used then found = entry end
  end
  return found
end

--- Take an entry out.
---@param key string
---@return table?
function Cache:remove(key)
  local entry = self.entries[key]
  if not entry then return nil end
  self.entries[key] = nil
  self.count, self.bytes = self.count - 1, self.bytes - entry.bytes
  return entry
end

local function bytes_of(entry)
  local bytes = 0
  for _, plan in ipairs(accumulate.plans(entry)) do bytes = bytes + plan:bytes() end
  return bytes
end

local function oldest(self)
  local found
  for _, entry in pairs(self.entries) do
    if not found or entry.used < found.used then found = entry end
  end
  return found
end

--- Put an entry in, by its `key`; `forget(entry)` is told of those that have to go.
---@param entry table
---@param forget fun(entry: table)
function Cache:put(entry, forget)
  entry.bytes = bytes_of(entry)
  self.entries[entry.key] = entry
  self.count, self.bytes = self.count + 1, self.bytes + entry.bytes
  self:get(entry.key)
  while self.count > 1
    and (self.count > cache.MOST_PLANS or self.bytes > cache.MOST_BYTES) do
    forget(self:remove(oldest(self).key))
  end
end

-- ---- traced often ------------------------------------------------------------

local remedies = {
  number = "give it as a tensor (mrt.tensor(x)), or let the function read it at every "
    .. "run with mrt.runtime",
  shape = "pad it to a few shapes, or group batches by length",
  other = "make a compiled function for each",
}

local function kind_of(value)
  if type(value) == "number" then return "number" end
  return (type(value) == "userdata" or type(value) == "table") and "shape" or "other"
end

-- Note what the arguments are; the first that has been too many things, if any.
local function note(self, n, ...)
  local often
  for i = 1, n do
    local value = (select(i, ...))
    local text, seen = signature.of(1, value), self.seen[i] or { count = 0, texts = {} }
    self.seen[i] = seen
    if not seen.texts[text] then
      seen.texts[text], seen.count = true, seen.count + 1
    end
    local most = kind_of(value) == "shape" and cache.MANY or cache.OFTEN
    if seen.count > most and not often then often = { i, kind_of(value), seen.count } end
  end
  return often
end

--- A call is about to be traced: warn, once, when one argument makes that happen
--- often.
---@param name string  the function's
---@param n integer    arguments
---@param ... any
function Cache:tracing(name, n, ...)
  if self.warned then return end
  local often = note(self, n, ...)
  if not often then return end
  self.warned, self.seen = true, {}
  local what = { number = "a number", shape = "a tensor or table", other = "a value" }
  warn(("mrt: %s has been traced and planned for %d values of argument %d, %s: each is a "
    .. "program of its own; %s"):format(name, often[3], often[1], what[often[2]],
    remedies[often[2]]))
end

return cache
