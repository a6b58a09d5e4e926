--- plan.lua -- what a planned step takes, and what lives at its peak
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.format"
local timeline = require "mrt.timeline"

--- A finished plan.  Numbers are bytes; peak = persistent + transient +
--- outputs, and a run takes exactly that.
---@class mrt.Plan
---@field peak integer
---@field persistent integer   variables and constants
---@field transient integer    the arena: activations, gradients, workspaces
---@field outputs integer
---@field lower_bound integer  no order of this graph's places could do with less
---@field order_free_bound integer  no order of these nodes could
---@field working_set integer  nor could recomputing: the largest node's needs
---@field inputs integer       the caller's own arguments; not in peak
---@field flops number
---@field nodes integer        in a run
---@field nodes_traced integer before optimisation
---@field peak_step integer    where most bytes live
local Plan = {}
Plan.__index = Plan
Plan.__name = "mrt.Plan"

local SHOWN = 12 -- lines about what is alive at the peak

--- Wrap a plan of the core.
---@param core_plan userdata
---@param name? string
---@return mrt.Plan
function Plan.new(core_plan, name)
  local self = core_plan:info()
  self.core, self.title = core_plan, name
  return setmetatable(self, Plan)
end

--- List the nodes in executing order: op, file, line, backward, flops, bytes,
--- live.
---@return table[]
function Plan:steps() return self.core:steps() end

--- List the blocks of memory: kind, op, name, type, bytes, offset, first and
--- last step, file, line.
---@return table[]
function Plan:values() return self.core:values() end

--- Return the planned graph as text, one node a line.
---@return string
function Plan:graph() return self.core:graph() end

-- ---- the report ------------------------------------------------------------

local in_arena = { activation = true, gradient = true, workspace = true }

local function bytes(n)
  return ("%10s %15s"):format(format.bytes(n), format.count(n))
end

local function place(v)
  return v.line > 0 and ("%s:%d"):format(v.file, v.line) or v.file
end

local function add(lines, text, ...) lines[#lines + 1] = text:format(...) end

local function totals(self, lines)
  local ratio = self.lower_bound > 0 and self.peak / self.lower_bound or 1
  add(lines, "peak        %s bytes", bytes(self.peak))
  add(lines, "  persistent%s  variables and constants", bytes(self.persistent))
  add(lines, "  transient %s  the arena", bytes(self.transient))
  add(lines, "  outputs   %s", bytes(self.outputs))
  add(lines, "lower bound %s  peak is %.3f of it", bytes(self.lower_bound),
    ratio)
  add(lines, "  any order %s", bytes(self.order_free_bound))
  add(lines, "  any node  %s  its working set", bytes(self.working_set))
  add(lines, "inputs      %s  the caller's, not in peak", bytes(self.inputs))
end

local function optimisation(self, lines)
  local parts = { ("traced %d"):format(self.nodes_traced) }
  for _, pass in ipairs(self.passes) do
    parts[#parts + 1] = ("%s %d"):format(pass.name, pass.nodes)
  end
  add(lines, "nodes       %s, in a run %d", table.concat(parts, ", "), self.nodes)
  add(lines, "work        %s flop", self.flops < 1e9
    and format.rate(self.flops) or ("%.2fG"):format(self.flops / 1e9))
end

local function by_kind(values, step)
  local sums, kinds = {}, {}
  for _, v in ipairs(values) do
    if not in_arena[v.kind] or (v.first <= step and step <= v.last) then
      if not sums[v.kind] then kinds[#kinds + 1] = v.kind end
      sums[v.kind] = (sums[v.kind] or 0) + v.bytes
    end
  end
  table.sort(kinds, function(a, b)
    if sums[a] ~= sums[b] then return sums[a] > sums[b] end
    return a < b
  end)
  return kinds, sums
end

local function composition(self, lines, values)
  add(lines, "bytes at the peak, by kind")
  local kinds, sums = by_kind(values, self.peak_step)
  for _, kind in ipairs(kinds) do
    add(lines, "  %-10s%s", kind, bytes(sums[kind]))
  end
end

-- Values alive at a step, those of one line, operator and type together.
local function alive(values, step)
  local out, groups = {}, {}
  for _, v in ipairs(values) do
    if in_arena[v.kind] and v.first <= step and step <= v.last then
      local what = ("%-10s %-14s %-18s %s"):format(v.kind, v.name or v.op,
        v.type, place(v))
      local group = groups[what]
      if not group then
        group = { what = what, bytes = 0, count = 0 }
        groups[what], out[#out + 1] = group, group
      end
      group.bytes, group.count = group.bytes + v.bytes, group.count + 1
    end
  end
  table.sort(out, function(p, q)
    if p.bytes ~= q.bytes then return p.bytes > q.bytes end
    return p.what < q.what
  end)
  return out
end

local function survivors(self, lines, values)
  local list = alive(values, self.peak_step)
  add(lines, "what is alive there, largest first")
  for i = 1, math.min(SHOWN, #list) do
    local group = list[i]
    add(lines, "  %s %4s %s", bytes(group.bytes),
      group.count > 1 and group.count .. " x" or "", group.what)
  end
  local rest = 0
  for i = SHOWN + 1, #list do rest = rest + list[i].bytes end
  if rest > 0 then
    add(lines, "  %s      %d kinds more", bytes(rest), #list - SHOWN)
  end
end

-- The highest step off the hill that the peak stands on: it would be the peak
-- if this one were lowered.
local function next_peak(steps, peak)
  local function foot(step, by)
    while steps[step + by] and steps[step + by].live <= steps[step].live do
      step = step + by
    end
    return step
  end
  local left, right, best = foot(peak, -1), foot(peak, 1), nil
  for i, s in ipairs(steps) do
    if (i < left or i > right) and (not best or s.live > steps[best].live) then
      best = i
    end
  end
  return best
end

local function hills(self, lines, steps)
  local top = steps[self.peak_step]
  if not top then return end
  add(lines, "peak step   %d of %d: %s%s, %s", self.peak_step, #steps, top.op,
    top.backward and " (gradient)" or "", place(top))
  local other = next_peak(steps, self.peak_step)
  if other then
    local s = steps[other]
    add(lines, "next peak   %d of %d: %s%s, %s, %s lower", other, #steps, s.op,
      s.backward and " (gradient)" or "", place(s),
      format.bytes(top.live - s.live))
  end
end

--- Return the report as text: bytes by kind, nodes before and after each
--- optimisation, the peak step, and the largest values alive there with the
--- lines that made them.
---@return string
function Plan:text()
  local lines, values, steps = {}, self:values(), self:steps()
  add(lines, "plan%s", self.title and " of " .. self.title or "")
  totals(self, lines)
  optimisation(self, lines)
  if #steps > 0 then
    hills(self, lines, steps)
    add(lines, "live bytes of the arena, step by step\n%s", timeline.draw(steps))
    composition(self, lines, values)
    survivors(self, lines, values)
  end
  return table.concat(lines, "\n")
end

--- Print the report.
function Plan:report() io.stdout:write(self:text(), "\n") end

function Plan:__tostring()
  return ("mrt.Plan: peak %s = persistent %s + transient %s + outputs %s")
    :format(format.bytes(self.peak), format.bytes(self.persistent),
      format.bytes(self.transient), format.bytes(self.outputs))
end

return Plan
