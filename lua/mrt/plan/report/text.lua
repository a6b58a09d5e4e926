--- text.lua -- a plan as lines of text
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local format = require "mrt.util.format"
local lanes = require "mrt.plan.report.lanes"
local roles = require "mrt.plan.report.roles"
local timeline = require "mrt.plan.timeline"

local SHOWN = 12 -- lines about what is alive at the peak
local WAITING = 3 -- copies that stall

local function bytes(n)
  return ("%10s %15s"):format(format.bytes(n), format.count(n))
end

local function add(lines, text, ...) lines[#lines + 1] = text:format(...) end

local function micro_batches(plan, lines)
  if not plan.micro_batches then return end
  add(lines, "%d micro-batches of %d rows, of a batch of %d: the steps are those of "
    .. "one, and then the final ones", plan.micro_batches, plan.micro_batch,
    plan.batch)
  local stage = plan.pipeline
  if stage then
    add(lines, "stage %d of %d: %d micro-batches in flight here take %s; %.1f %% of all stages' "
      .. "time is idle", stage.stage, stage.stages, stage.in_flight, format.bytes(stage.held),
      100 * stage.bubble)
  end
  if (plan.step_options or {}).allow_batch_statistics then
    add(lines, "statistics of the batch (batch norm), if any, are each micro-batch's, as "
      .. "allowed: they change results")
  end
end

-- What is swapped, tier by tier where there are several.
local function swapped(plan, lines)
  if plan.swapped == 0 then return end
  add(lines, "swap tier   %s  swapped, not in peak", bytes(plan.swapped))
  for _, t in ipairs(about.tiers(plan)) do
    add(lines, "  %-9s %s  of %s; %s out and %s back", t.name, bytes(t.bytes),
      t.capacity and format.bytes(t.capacity) or "?", format.bytes(t.copied_out),
      format.bytes(t.copied_in))
  end
  add(lines, "  a step    %s  to %s, and %s back", bytes(plan.copied_out),
    about.tier(), format.bytes(plan.copied_in))
end

local function totals(plan, lines)
  local ratio = plan.lower_bound > 0 and plan.peak / plan.lower_bound or 1
  add(lines, "peak        %s bytes", bytes(plan.peak))
  add(lines, "  persistent%s  variables and constants", bytes(plan.persistent))
  if (plan.accumulators or 0) > 0 then
    add(lines, "    of them %s  accumulators", bytes(plan.accumulators))
  end
  local gathered = plan.gathered or 0
  add(lines, "  transient %s  the arena%s", bytes(plan.transient),
    gathered > 0 and ", and what is gathered for the step" or "")
  if gathered > 0 then
    add(lines, "    of them %s  gathered once for all micro-batches", bytes(gathered))
  end
  if plan.slots then
    add(lines, "    of them %s  where inputs are copied to", bytes(plan.slots))
  end
  add(lines, "  outputs   %s", bytes(plan.outputs))
  add(lines, "lower bound %s  peak is %.3f of it", bytes(plan.lower_bound),
    ratio)
  add(lines, "any order   %s  no order of these steps takes less",
    bytes(plan.order_free_bound))
  add(lines, "working set %s  the largest step alone, and what persists",
    bytes(plan.working_set))
  add(lines, "inputs      %s  the caller's, not in peak", bytes(plan.inputs))
  if plan.device.overhead > 0 then
    add(lines, "overhead    %s  the device's driver and libraries, not in peak; budgets hold both",
      bytes(plan.device.overhead))
  end
  if plan.device.records then
    add(lines, "recording   %s  about (an estimate): what the device takes for the recorded step,"
      .. " in neither", bytes(plan:recording()))
  end
  swapped(plan, lines)
end

local function raised(plan, lines)
  local text = about.raised(plan)
  if text then add(lines, "checkpoint  %s", text) end
end

local function ranks(plan, lines)
  if plan.undivided then add(lines, "whole       %s", plan.undivided) end
  if plan.collectives == 0 then return end
  local options = plan.step_options or {}
  add(lines, "wire        %s  given to other ranks%s, in %d collectives",
    bytes(math.ceil(plan.wire)), options.ranks and (" (this is rank %d of %d)"):format(
      options.rank, options.ranks) or "", plan.collectives)
end

local function copies(plan, lines, values)
  local list = lanes.list(plan, values)
  if #list == 0 then return end
  local moved, hidden = lanes.sums(list)
  local waiting = lanes.stalls(list)
  add(lines, "copies      %s  %d %s; T_swap <= T_compute holds for %d", bytes(moved),
    #list, lanes.scope(plan), hidden)
  add(lines, "stall       %s of a run, predicted; %d copies are waited for",
    format.time(plan.stall), #waiting)
  for i = 1, math.min(WAITING, #waiting) do
    local t = waiting[i]
    add(lines, "  %9s  %-3s %s of %s: %s", format.time(t.stall), t.lane,
      format.bytes(t.bytes), format.shorten(t.what, 50), lanes.compare(t))
  end
end

local HOSTED = 6 -- operators that the device lacks

-- Why the CPU computes them; of `here` because of where their variables are.
local function why_hosted(plan, here)
  if here == plan.hosted then return "whose variables are swapped to the host" end
  local why = ("which %s has no kernels for"):format(plan.device.name)
  return here == 0 and why
    or ("%s, or (%d) whose variables are swapped to the host"):format(why, here)
end

-- What the CPU computes for the device, which has no kernels for it, or because it is
-- swapped to the host's memory.
local function hosted(plan, lines, steps)
  if plan.hosted == 0 then return end
  local times, names, seconds, here = {}, {}, 0, 0
  for _, s in ipairs(steps) do
    if s.hosted then
      here = here + (s.in_tier and 1 or 0)
      if not times[s.op] then names[#names + 1] = s.op end
      times[s.op], seconds = (times[s.op] or 0) + 1, seconds + s.time
    end
  end
  table.sort(names, function(a, b)
    if times[a] ~= times[b] then return times[a] > times[b] end
    return a < b
  end)
  local shown = {}
  for i = 1, math.min(HOSTED, #names) do
    shown[i] = ("%s %d"):format(format.shorten(names[i], 30), times[names[i]])
  end
  if #names > HOSTED then shown[#shown + 1] = ("%d kinds more"):format(#names - HOSTED) end
  add(lines, "on the CPU  %d of %d nodes, %s: %s", plan.hosted, plan.nodes,
    why_hosted(plan, here), table.concat(shown, ", "))
  add(lines, "  staging   %s  of the host's memory, not in peak", bytes(plan.staging))
  add(lines, "  copied    %s  a run, there and back; %s of the step time with the kernels",
    bytes(plan.hosted_in + plan.hosted_out), format.time(seconds))
  if plan.unrecorded then
    add(lines, "  a run is queued step by step and waits for each of them: not recorded")
  end
end

local function optimisation(plan, lines)
  local parts = { ("traced %d"):format(plan.nodes_traced) }
  for _, pass in ipairs(plan.passes) do
    parts[#parts + 1] = ("%s %d"):format(pass.name, pass.nodes)
  end
  add(lines, "nodes       %s, in a run %d", table.concat(parts, ", "), plan.nodes)
  add(lines, "work        %s flop", format.rate(plan.flops))
  add(lines, "step time   %s, predicted for %s%s", format.time(plan.seconds),
    plan.device.name, about.unlinked(plan))
  if plan.device.capacity > 0 then
    add(lines, "device has  %s  the step takes %.1f%% of it",
      bytes(plan.device.capacity), 100 * plan.peak / plan.device.capacity)
  end
end

local products = { matmul = true, convolution = true, attention = true }

-- Which dtypes of 16 bits products read that the device has no instructions for?
local function roundabout(plan, lines, values, steps)
  local found = {}
  for i, touched in ipairs(plan:operands()) do
    for _, v in ipairs(products[steps[i].class] and touched.reads or {}) do
      found[values[v].type:match "^%w+"] = true
    end
  end
  for _, dtype in ipairs { "bf16", "f16" } do
    if found[dtype] and plan.device.matrix[dtype] == 0 then
      add(lines, "precision   %s products go through f32 here: slower, no instructions "
        .. "for them on %s", dtype, plan.device.name)
    end
  end
end

-- Products whose sums are rounded after each term, by dtype.
local function narrow_sums(lines, steps)
  local counts, seconds = {}, {}
  for _, s in ipairs(steps) do
    local dtype = s.accumulate
    if dtype then
      counts[dtype] = (counts[dtype] or 0) + 1
      seconds[dtype] = (seconds[dtype] or 0) + s.time
    end
  end
  for _, dtype in ipairs { "bf16", "f16", "f8_e4m3", "f8_e5m2" } do
    if counts[dtype] then
      add(lines, "precision   %d products add up in %s, rounded after each term: slow (%s), and "
        .. "long sums lose", counts[dtype], dtype, format.time(seconds[dtype]))
    end
  end
end

local function compressed(plan, lines)
  if not plan.compressed then return end
  add(lines, "compressed  %s of the forward pass is kept in %s for the backward pass",
    bytes(plan.compressed), bytes(plan.compressed_to))
end

local function composition(plan, lines, values)
  add(lines, "bytes at the peak, by kind")
  local sums, fixed = roles.sums(values, plan.peak_step), 0
  for _, role in ipairs(roles.order) do
    if sums[role] and not roles.outside[role] then
      add(lines, "  %-16s%s", roles.words[role], bytes(sums[role]))
      if roles.in_arena[role] then fixed = fixed + sums[role] end
    end
  end
  if plan.slots then
    add(lines, "  %-16s%s", "copied inputs", bytes(plan.slots))
    fixed = fixed + plan.slots
  end
  if plan.transient > fixed then
    add(lines, "  %-16s%s", "free in arena", bytes(plan.transient - fixed))
  end
end

local function survivors(plan, lines, values)
  local list = about.alive(values, plan.peak_step)
  add(lines, "what is alive there, largest first")
  for i = 1, math.min(SHOWN, #list) do
    local g = list[i]
    add(lines, "  %s %6s %-10s %-14s %-18s %s", bytes(g.bytes),
      g.count > 1 and g.count .. " x" or "", g.role,
      format.shorten(g.what, 40), g.type, g.place)
  end
  local rest = 0
  for i = SHOWN + 1, #list do rest = rest + list[i].bytes end
  if rest > 0 then
    add(lines, "  %s        %d kinds more", bytes(rest), #list - SHOWN)
  end
end

local function hills(plan, lines, steps)
  local top = steps[plan.peak_step]
  if not top then return end
  add(lines, "peak step   %d of %d: %s%s, %s", plan.peak_step, #steps, top.op,
    top.backward and " (gradient)" or "", about.place(top))
  local other = about.next_peak(steps, plan.peak_step)
  if other then
    local s = steps[other]
    local less = top.live - s.live
    add(lines, "next peak   %d of %d: %s%s, %s, %s", other, #steps, s.op,
      s.backward and " (gradient)" or "", about.place(s),
      less == 0 and "as high" or format.bytes(less) .. " lower")
  end
end

--- Return the report: bytes by kind, nodes before and after each optimisation,
--- the peak step, and the largest values alive there with the lines that made
--- them.
---@param plan mrt.Plan
---@return string
return function(plan)
  local lines, values, steps = {}, plan:values(), plan:steps()
  add(lines, "plan%s", plan.title and " of " .. plan.title or "")
  micro_batches(plan, lines)
  totals(plan, lines)
  raised(plan, lines)
  ranks(plan, lines)
  copies(plan, lines, values)
  hosted(plan, lines, steps)
  optimisation(plan, lines)
  roundabout(plan, lines, values, steps)
  narrow_sums(lines, steps)
  compressed(plan, lines)
  if #steps > 0 then
    hills(plan, lines, steps)
    add(lines, "live bytes of the arena, step by step\n%s", timeline.draw(steps))
    composition(plan, lines, values)
    survivors(plan, lines, values)
  end
  return table.concat(lines, "\n")
end
