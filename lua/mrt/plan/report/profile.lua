--- profile.lua -- what a step took, beside what was predicted and what it could take
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local bound = require "mrt.plan.report.bound"
local core = require "mrt.core"
local options = require "mrt.util.options"

local SHOWN = 15 -- operators at their lines

--- Seconds of a run, as medians.  Each step has op, class, file, line, backward,
--- flops, bytes, `time` (predicted), `measured` and `runs` (in a run: as many as
--- micro-batches of that size, else 1); and `bound`, the least that its arithmetic and its
--- bytes take at the roofs, with `bound_by`: "flops" or "bytes", whichever takes longer (nil
--- of what the device does not compute).
---
--- The roofs are the figures that the plan's predictions use: those of this machine that
--- `mrt info --measure` has kept, else declared ones.  `against` takes others.
---@class mrt.Profile
---@field total number      of a whole run
---@field call number       of that, beside the nodes
---@field runs integer      of plans: one, or one a micro-batch and a final one
---@field rates table?     of the swap tier, where the step copies
---@field predicted number  of a whole run, by the plan that was measured
---@field roofs mrt.Roofs
---@field bound number      of a whole run: the sum of its nodes'
---@field steps table[]
local Profile = {}
Profile.__index = Profile
Profile.__name = "mrt.Profile"

local function new_group(name)
  return { name = name, count = 0, measured = 0, predicted = 0, flops = 0, bytes = 0,
    bound = 0, by = { flops = 0, bytes = 0 } }
end

local function put(g, s)
  g.count, g.measured = g.count + s.runs, g.measured + s.runs * s.measured
  g.predicted, g.flops = g.predicted + s.runs * s.time, g.flops + s.runs * s.flops
  g.bytes, g.bound = g.bytes + s.runs * s.bytes, g.bound + s.runs * s.bound
  if not s.bound_by then return end
  g.by[s.bound_by] = g.by[s.bound_by] + s.runs * s.bound
  g.bound_by = g.by.flops >= g.by.bytes and "flops" or "bytes"
end

-- Steps of one name summed, most time first; if `exact` says the same of all of a name,
-- they are called that.
local function group(steps, name_of, exact)
  local groups, by_name = {}, {}
  for _, s in ipairs(steps) do
    local name, own = name_of(s), exact and exact(s)
    local g = by_name[name]
    if g and own and g.name ~= own then g.name = name end
    if not g then
      g = new_group(own or name)
      by_name[name], groups[#groups + 1] = g, g
    end
    put(g, s)
  end
  table.sort(groups, function(a, b)
    if a.measured ~= b.measured then return a.measured > b.measured end
    return a.name < b.name
  end)
  return groups
end

--- Take other roofs than those of the plan's device: measured ones (`mrt bench step
--- --peaks`), or those that a data sheet says.
---
---     print(profile:against { flops = 118e9, bytes = 14e9 })
---
--- Raises: roofs without flop/s or bytes a second.
---@param roofs mrt.Roofs
---@return mrt.Profile self
function Profile:against(roofs)
  self.roofs, self.bound = bound.read("against", roofs), 0
  for _, s in ipairs(self.steps) do
    s.bound, s.bound_by = bound.of(s, self.roofs)
    self.bound = self.bound + s.runs * s.bound
  end
  return self
end

--- Sum by operator: name, count, measured, predicted, flops, bytes, bound, and bound_by: the
--- roof that most of the bound is due to.
---
---     local rows = profile:by_operator()
---@return table[]
function Profile:by_operator()
  return group(self.steps, function(s) return s.op end)
end

--- Sum by kind of work.
---
---     local rows = profile:by_class()
---@return table[]
function Profile:by_class()
  return group(self.steps, function(s) return s.class end)
end

local function named(s, place)
  return ("%s%s, %s"):format(s.op, s.backward and " (gradient)" or "", place)
end

--- Sum by operator, Lua line and module, those of a list together: blocks.*.fc.
---
---     local rows = profile:by_line()
---@return table[]
function Profile:by_line()
  return group(self.steps, function(s) return named(s, about.places(s)) end,
    function(s) return named(s, about.place(s)) end)
end

--- Sum by module: "blocks.3.fc"; "-": outside of modules.
---
---     local rows = profile:by_module()
---@return table[]
function Profile:by_module()
  return group(self.steps, function(s) return s.module or "-" end)
end

--- Return what plans of the same function take instead of predictions: seconds
--- by key, averaged over nodes of one key.
---
---     local costs = profile:costs()
---
--- Raises: what is no profile.
---@param before? table<integer, number>  of earlier profiles
---@return table<integer, number>
function Profile:costs(before)
  local costs, sum, count = {}, {}, {}
  if before ~= nil and type(before) ~= "table" then
    core.fail("value", "costs", "the costs of earlier profiles wanted, got "
      .. options.show(before))
  end
  for key, seconds in pairs(before or {}) do costs[key] = seconds end
  for _, s in ipairs(self.steps) do
    sum[s.key] = (sum[s.key] or 0) + s.measured
    count[s.key] = (count[s.key] or 0) + 1
  end
  for key, seconds in pairs(sum) do costs[key] = seconds / count[key] end
  costs[0] = self.call / self.runs
  local r = self.rates
  if r then -- core/mrt.h, MRT_MEASURED_LATENCY and the next
    costs[1], costs[2], costs[3] = r.latency, 1 / r.out, 1 / r.out_shared
    costs[4], costs[5] = 1 / r["in"], 1 / r.in_shared
  end
  return costs
end

local function ratio(a, b) return b > 0 and ("%.2f"):format(a / b) or "-" end

local function add(lines, text, ...) lines[#lines + 1] = text:format(...) end

local function rows(lines, title, groups, total)
  add(lines, "%9s %9s %5s %6s %5s %9s %-5s %5s %8s %7s  %s", "measured", "predicted",
    "ratio", "share", "nodes", "bound", "by", "reach", "Gflop/s", "GB/s", title)
  for i = 1, math.min(SHOWN, #groups) do
    local g = groups[i]
    local time = math.max(g.measured, 1e-12)
    add(lines, "%9.3f %9.3f %5s %5.1f%% %5d %9.3f %-5s %5s %8.1f %7.1f  %s",
      g.measured * 1e3, g.predicted * 1e3, ratio(g.predicted, g.measured),
      100 * g.measured / total, g.count, g.bound * 1e3, g.bound_by or "-",
      ratio(g.bound, g.measured), g.flops / time / 1e9, g.bytes / time / 1e9, g.name)
  end
  if #groups > SHOWN then add(lines, "%39d more", #groups - SHOWN) end
end

-- The least that the nodes take at the roofs, and these.
local function about_bound(self)
  local all, r = new_group "", self.roofs
  for _, s in ipairs(self.steps) do put(all, s) end
  return ("its bound is %.3f ms (%s of it), %.3f by flops and %.3f by bytes\nroofs%s: %s")
    :format(self.bound * 1e3, ratio(self.bound, self.total), all.by.flops * 1e3,
      all.by.bytes * 1e3, r.name and " of " .. r.name or "", bound.text(r))
end

--- Return the profile as text, in milliseconds.  The ratio is of what was predicted to what
--- was measured; `reach` is of the bound to it: 1.00 is as quick as the roofs allow.
---
---     print(profile:text())
---@return string
function Profile:text()
  local lines = {}
  add(lines, "a step takes %.3f ms, predicted were %.3f (%s of it)",
    self.total * 1e3, self.predicted * 1e3, ratio(self.predicted, self.total))
  lines[2] = about_bound(self)
  rows(lines, "kind of work", self:by_class(), self.total)
  rows(lines, "operator", self:by_operator(), self.total)
  rows(lines, "line", self:by_line(), self.total)
  return table.concat(lines, "\n")
end

function Profile:__tostring() return self:text() end

--- Wrap what Compiled:measure returns.
---@param measured table  with the device that its plan was made for
---@return mrt.Profile
return function(measured)
  return setmetatable(measured, Profile):against(bound.of_device(measured.device))
end
