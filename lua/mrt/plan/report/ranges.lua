--- ranges.lua -- how large the numbers of a step are, by layer and line
---
---     print(step:ranges(tokens, targets))
---
--- The step runs once in f32, with nothing fused, recomputed or swapped, and changes
--- nothing.  For each operator: the largest number, and which share of those that
--- are not 0 a narrow dtype would lose: they become 0, or infinite (of f8 the largest
--- number there is).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local about = require "mrt.plan.report.about"
local options = require "mrt.util.options"

local SHOWN = 20 -- lines
local MUCH = 0.01 -- a share that is worth a word

local dtypes = core.dtypes()

---@class mrt.Ranges
---@field steps table[]  of the plan but for updates, in order: op, file, line, layer, backward,
---  type, count, zeros, nans, infinities, largest, exponents (e -> how many are
---  2^e or more, below 2^(e + 1))
local Ranges = {}
Ranges.__index = Ranges
Ranges.__name = "mrt.Ranges"

-- Shares that become 0 and infinite in a dtype, each times `scale` first.
local function lost(range, dtype, scale)
  local d = dtypes[dtype]
  local shift = math.log(scale, 2)
  local least = 2 - (1 << d.exponent - 1) - d.fraction - 1 -- half the smallest
  local under, over, all = 0, 0, 0
  local most = math.log(d.largest, 2)
  for e, count in pairs(range.exponents) do
    all = all + count
    if e + shift < least then under = under + count end
    if e + shift >= most then over = over + count end
  end
  if all == 0 then return 0, 0 end
  return under / all, over / all
end

-- Steps of one name together.
local function group(steps, name_of)
  local groups, by_name = {}, {}
  for _, s in ipairs(steps) do
    local name = name_of(s)
    local g = by_name[name]
    if not g then
      g = { name = name, backward = s.backward, count = 0, zeros = 0, nans = 0,
        infinities = 0, largest = 0, exponents = {} }
      by_name[name], groups[#groups + 1] = g, g
    end
    for _, field in ipairs { "count", "zeros", "nans", "infinities" } do
      g[field] = g[field] + s[field]
    end
    g.largest = math.max(g.largest, s.largest)
    for e, n in pairs(s.exponents) do g.exponents[e] = (g.exponents[e] or 0) + n end
  end
  return groups
end

local function judge(groups, dtype, scale)
  for _, g in ipairs(groups) do
    g.under, g.over = lost(g, dtype, g.backward and scale or 1)
    g.wide = g.under > MUCH or g.over > 0 or g.nans > 0
  end
  return groups
end

local function check(who, given)
  local o = options.read(who, given, { dtype = "f16", scale = 1 })
  if not (dtypes[o.dtype] and dtypes[o.dtype].narrow) then
    core.fail("value", who, ("dtype = %s, a narrow float wanted")
      :format(options.show(o.dtype)))
  end
  if not (o.scale > 0) then
    core.fail("value", who, ("scale = %s, a positive number wanted")
      :format(options.show(o.scale)))
  end
  return o
end

---@class mrt.RangeOptions
---@field dtype? mrt.DType  which shares are told of: default "f16"
---@field scale? number     of the loss: gradients are that much larger

--- Sum by layer, forward and backward apart: name, count, zeros, nans, infinities,
--- largest, `under` and `over` (shares that the dtype makes 0 or infinite), and
--- `wide`: whether it wants f32.
---
---     local rows = ranges:by_layer()
---
--- Raises: an option that there is not.
---@param given? mrt.RangeOptions
---@return table[]
function Ranges:by_layer(given)
  local o = check("ranges:by_layer", given)
  return judge(group(self.steps, function(s)
    return ("%s%s"):format(s.layer > 0 and "layer " .. s.layer or "no layer",
      s.backward and ", gradient" or "")
  end), o.dtype, o.scale)
end

--- Sum by operator and Lua line, forward and backward apart.
---
---     local rows = ranges:by_line()
---
--- Raises: an option that there is not.
---@param given? mrt.RangeOptions
---@return table[]
function Ranges:by_line(given)
  local o = check("ranges:by_line", given)
  return judge(group(self.steps, function(s)
    return ("%s%s, %s"):format(s.op, s.backward and " (gradient)" or "", about.place(s))
  end), o.dtype, o.scale)
end

local function table_of(groups, dtype)
  local over = dtypes[dtype].bytes == 1 and "-> max" or "-> inf" -- casts to f8 saturate
  local lines = { ("%10s  %9s  %9s  %s"):format("largest", dtype .. " -> 0", over, "what") }
  for i, g in ipairs(groups) do
    if i > SHOWN then
      lines[#lines + 1] = ("and %d more"):format(#groups - SHOWN)
      break
    end
    lines[#lines + 1] = ("%10.3g  %8.2f%%  %8.2f%%  %s%s%s"):format(g.largest,
      100 * g.under, 100 * g.over, g.name, g.nans > 0 and ", NaN" or "",
      g.wide and "  <- f32" or "")
  end
  return table.concat(lines, "\n")
end

--- A table by layer, and the lines that lose most.
---
---     ranges:report()
---
--- Raises: an option that there is not.
---@param given? mrt.RangeOptions
---@return string
function Ranges:report(given)
  local o = check("ranges:report", given)
  local lines = self:by_line(o)
  table.sort(lines, function(a, b)
    local x, y = a.under + a.over, b.under + b.over
    if x ~= y then return x > y end
    return a.name < b.name
  end)
  return table_of(self:by_layer(o), o.dtype) .. "\n\n" .. table_of(lines, o.dtype)
end

function Ranges:__tostring() return self:report() end

--- Bring a plan's steps and what was seen of each together.
---@param steps table[]
---@param seen table[]
---@return mrt.Ranges
return function(steps, seen)
  local list = {}
  for i, s in ipairs(steps) do
    if seen[i].count > 0 and s.class ~= "update" then
      for name, value in pairs(seen[i]) do s[name] = value end
      list[#list + 1] = s
    end
  end
  return setmetatable({ steps = list }, Ranges)
end
