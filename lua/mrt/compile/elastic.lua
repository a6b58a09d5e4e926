--- elastic.lua -- another budget between two steps of a running job
---
--- A plan changes no bit, so neither does another one in its place: random numbers go on
--- where they were, and the arena is given back before the next step takes what it needs.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local accumulate = require "mrt.accumulate"
local ask = require "mrt.policy.ask"
local cache = require "mrt.compile.cache"
local format = require "mrt.util.format"
local show = require "mrt.util.options".show

local elastic = {}

-- Bytes; false: no budget.
local function read(value, who)
  if value == false then return nil end
  local bytes, message = format.read_bytes(value)
  if bytes then return bytes end
  core.fail("value", "budget", ("%s%s; false: no budget"):format(who, message))
end

local fields = { "memory", "process", "bound" }

local function note(self)
  local was = { plans = self.plans, replaced = self.replaced, parts = self.parts }
  for _, name in ipairs(fields) do was[name] = self.options[name] end
  return was
end

local function take_back(self, was)
  for _, name in ipairs(fields) do self.options[name] = was[name] end
  self.plans, self.replaced, self.parts = was.plans, was.replaced, was.parts
end

-- All plans are to be made anew: the one that ran last now, which may fail, the others
-- when they are called.
local function apply(self, memory, replan)
  if memory == self.options.memory and not self.options.process then return end
  local was, last, replaced = note(self), self.plans:latest(), {}
  for key, entry in pairs(self.replaced) do replaced[key] = entry end
  for key, entry in pairs(self.plans.entries) do replaced[key] = entry end
  self.options.memory, self.options.process, self.options.bound = memory, nil, nil
  self.plans, self.replaced, self.parts = cache.new(), replaced, {}
  local entry
  if last then
    local ok, made = pcall(replan, self, last)
    if not ok then
      take_back(self, was)
      error(made, 0)
    end
    entry = made
  end
  core.space_empty(self.space)
  if not entry then return end
  accumulate.start(entry)
  core.space_empty(self.space)
end

--- The method step:budget.
---@param self mrt.Compiled
---@param value any
---@param replan fun(self: mrt.Compiled, entry: table)  plans the call of an entry
function elastic.set(self, value, replan)
  if type(value) == "function" then
    self.asks, self.asked = value, 0
    return
  end
  apply(self, read(value, ""), replan)
  self.asks = nil
end

--- Before a step: ask the function that says what the budget is.
---@param self mrt.Compiled
---@param replan fun(self: mrt.Compiled, entry: table)
function elastic.ask(self, replan)
  self.asked = self.asked + 1
  local value = ask.call("budget", "step " .. self.asked, self.asks, self.asked)
  if value == nil or value == self.refused then return end
  local ok, why = pcall(apply, self, read(value, ask.name(self.asks) .. " gave "
    .. show(value) .. ": "), replan)
  self.refused = not ok and value or nil
  if ok then return end
  if type(why) ~= "table" or why.code ~= "budget" then error(why, 0) end
  warn(("mrt: %s goes on within the budget it had: %s"):format(self.options.name,
    (tostring(why):match "^[^\n]*")))
end

return elastic
