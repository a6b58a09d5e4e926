--- combine.lua -- a micro plan and a final plan, described as one
---
--- The steps are those of what is gathered first, if anything is, of one whole
--- micro-batch and then the final ones; all parts' values lie in one arena, and
--- what is gathered beside it for as long as the step.  What is said of bytes holds
--- for the whole step, a smaller last micro-batch included.
---
--- SPDX-License-Identifier: MIT

local persistent = { variable = true, constant = true }

local function append(list, more)
  return table.move(more, 1, #more, #list + 1, list)
end

local function sum_of(list, field)
  local sum = 0
  for _, item in ipairs(list) do sum = sum + item[field] end
  return sum
end

-- Bytes of variables and constants of all plans, each once: accumulators, what is
-- gathered for the step, others.
local function count_persistent(entry, plans)
  local seen, accumulators, gathered, others = {}, 0, 0, 0
  for _, plan in ipairs(plans) do
    for _, v in ipairs(plan:values()) do
      if persistent[v.kind] and not seen[v.id] then
        seen[v.id] = true
        if entry.accumulators[v.id] then accumulators = accumulators + v.bytes
        elseif entry.gathered[v.id] then gathered = gathered + v.bytes
        else others = others + v.bytes end
      end
    end
  end
  return accumulators, gathered, others
end

-- The largest of a bound's share of the arena.
local function largest(infos, field)
  local most = 0
  for _, info in ipairs(infos) do
    local own = field == "transient" and 0 or info.persistent + info.outputs
    most = math.max(most, info[field] - own)
  end
  return most
end

local function add_passes(infos)
  local passes = {}
  for i, pass in ipairs(infos[1].passes) do
    passes[i] = { name = pass.name, nodes = 0 }
    for _, info in ipairs(infos) do
      passes[i].nodes = passes[i].nodes + info.passes[i].nodes
    end
  end
  return passes
end

-- Of a pipeline: what goes from plan to plan and between stages, at most, and the results.
local function outputs_of(entry, infos)
  if entry.held then return entry.held + infos[#infos].outputs end
  local bytes = 0
  for _, info in ipairs(infos) do bytes = bytes + info.outputs end
  return bytes + entry.row_bytes
end

-- Of the file of swapped values: each variable's home once, and what the plans
-- use in turn.
local function swap_bytes(plans, infos)
  local homes, seen, rest = 0, {}, 0
  for p, plan in ipairs(plans) do
    local own = infos[p].swapped
    for _, v in ipairs(plan:values()) do
      if v.kind == "swapped" and v.id then
        local bytes = (v.bytes + 4095) // 4096 * 4096
        own = own - bytes
        if not seen[v.id] then homes = homes + bytes end
        seen[v.id] = true
      end
    end
    rest = math.max(rest, own)
  end
  return homes + rest
end

-- What each tier takes: homes once, and what the plans use in turn; and the bytes that
-- all runs copy.
local function tiers_of(plans, runs)
  local out, seen = plans[1]:tiers(), {}
  local function add(plan, own, count)
    for _, v in ipairs(plan:values()) do
      if v.kind == "swapped" and v.id then
        local bytes, tier = (v.bytes + 4095) // 4096 * 4096, out[v.tier]
        own[v.tier].bytes = own[v.tier].bytes - bytes
        if not seen[v.id] then tier.homes = tier.homes + bytes end
        seen[v.id] = true
      end
    end
    for i, t in ipairs(own) do
      out[i].rest = math.max(out[i].rest, t.bytes)
      out[i].copied_out = out[i].copied_out + count * t.copied_out
      out[i].copied_in = out[i].copied_in + count * t.copied_in
    end
  end
  for _, t in ipairs(out) do t.homes, t.rest, t.copied_out, t.copied_in = 0, 0, 0, 0 end
  for p, plan in ipairs(plans) do add(plan, plan:tiers(), runs[p]) end
  for _, t in ipairs(out) do
    t.bytes, t.homes, t.rest = t.homes + t.rest, nil, nil
  end
  return out
end

-- How often each of the plans runs in a step.
local function runs_of(entry)
  if entry.runs then return entry.runs end
  local runs = append({ entry.first and 1 }, { entry.count - #entry.parts + 1 })
  if entry.parts[2] then runs[#runs + 1] = 1 end
  runs[#runs + 1] = 1
  return runs
end

-- Sums over all runs of all plans, into `out`.
local function add_totals(out, entry, infos)
  local at, runs = entry.first and 2 or 1, runs_of(entry)
  for _, info in ipairs(infos) do
    if info.unlinked then out.unlinked = (out.unlinked or 0) + info.unlinked end
  end
  out.compressed, out.compressed_to = infos[at].compressed, infos[at].compressed_to
  for _, name in ipairs { "flops", "seconds", "stall", "wire", "collectives",
    "hosted_in", "hosted_out", "copied_in", "copied_out" } do
    local sum = 0
    for i, info in ipairs(infos) do sum = sum + runs[i] * info[name] end
    out[name] = sum
  end
end

-- What is gathered, a micro-batch and what runs once, of `list`; all plans of a pipeline.
local function shown_of(entry, list)
  if entry.plans then return list end
  return append({ entry.first and list[1] }, { list[entry.first and 2 or 1], list[#list] })
end

local function describe(entry, plans)
  local infos = {}
  for i, plan in ipairs(plans) do infos[i] = plan:info() end
  local shown = shown_of(entry, infos)
  local micro, final = shown[#shown - 1], shown[#shown]
  local accumulators, gathered, others = count_persistent(entry, plans)
  local fixed = accumulators + gathered + others + outputs_of(entry, infos)
  local out = { accumulators = accumulators, persistent = accumulators + others,
    outputs = outputs_of(entry, infos), inputs = entry.input_bytes,
    input_count = final.input_count, output_count = #entry.where,
    transient = gathered + largest(infos, "transient"),
    gathered = gathered, beside = fixed,
    passes = add_passes(shown),
    nodes = sum_of(shown, "nodes"), nodes_traced = sum_of(shown, "nodes_traced"),
    swapped = swap_bytes(plans, infos), hosted = micro.hosted + final.hosted,
    staging = math.max(micro.staging, final.staging),
    unrecorded = micro.unrecorded or final.unrecorded,
    micro_batches = entry.count, micro_batch = entry.size, batch = entry.rows }
  add_totals(out, entry, infos)
  out.peak = fixed + largest(infos, "transient")
  for _, bound in ipairs { "lower_bound", "working_set", "order_free_bound" } do
    out[bound] = fixed + largest(infos, bound)
  end
  if entry.describe then entry:describe(out) end
  return out
end

-- ---- steps and values ------------------------------------------------------

-- What several plans may have: a variable, a constant, a home in the swap tier.
local function is_shared(v)
  return persistent[v.kind] or v.kind == "swapped" and v.id ~= nil
end

-- How many steps stand before those of each plan, and all.
local function shifts_of(shown)
  local shifts, last = {}, 0
  for p, plan in ipairs(shown) do shifts[p], last = last, last + #plan:steps() end
  return shifts, last
end

-- All plans' values, those that persist once; `number[p][i]` is value i of plan
-- p among them.
local function merge_values(entry, shown)
  local values, number, by_id = {}, {}, {}
  local shifts, last = shifts_of(shown)
  for p, plan in ipairs(shown) do
    number[p] = {}
    for i, v in ipairs(plan:values()) do
      local own = entry.names and entry.names[v.name]
      if own then v.name = own.name end
      local known = is_shared(v) and by_id[v.kind .. v.id]
      if not known then
        values[#values + 1] = v
        known = #values
        v.first, v.last = v.first + shifts[p], v.last + shifts[p]
        if is_shared(v) then
          by_id[v.kind .. v.id], v.first, v.last = known, 1, last
          v.accumulator, v.gathered = entry.accumulators[v.id], entry.gathered[v.id]
        end
      end
      number[p][i] = known
    end
  end
  if entry.row_bytes > 0 then
    values[#values + 1] = { kind = "output", op = "rows of all micro-batches",
      file = "?", line = 0, type = ("[%d]"):format(entry.rows), offset = 0,
      bytes = entry.row_bytes, first = 1, last = last }
  end
  return values, number
end

local function merge_operands(shown, number)
  local out = {}
  for p, plan in ipairs(shown) do
    for _, step in ipairs(plan:operands()) do
      local renamed = {}
      for field, list in pairs(step) do
        renamed[field] = {}
        for i, v in ipairs(list) do renamed[field][i] = number[p][v] end
      end
      out[#out + 1] = renamed
    end
  end
  return out
end

-- A later graph's values come after the ones before, as many as these are in the end,
-- so that each keeps its number through all stages; a variable that several read is
-- that of the first.
local function renumbering(planned, number)
  local home, shift, new = {}, 0, {}
  for p, graph in ipairs(planned) do
    local known, own = {}, shift
    for i, v in ipairs(graph.values) do
      local block = persistent[v.kind] and v.block and number[p][v.block]
      if block then
        known[i] = home[block]
        home[block] = home[block] or own + i
      end
    end
    new[p] = function(i) return known[i] or own + i end
    shift = shift + #graph.values
  end
  return new
end

local function renumber(list, new)
  for i, v in ipairs(list) do list[i] = new(v) end
end

local function merge_graphs(graphs, new, number)
  local out = { nodes = {}, values = {}, outputs = {} }
  for p, graph in ipairs(graphs) do
    while p > 1 and #out.values < new[p](0) do -- what later stages add
      out.values[#out.values + 1] = { kind = "none" }
    end
    for i, v in ipairs(graph.values) do
      local own = new[p](i) == #out.values + 1
      v.block = own and v.block and number[p][v.block] or nil
      v.original = v.original and new[p](v.original)
      out.values[#out.values + 1] = v
    end
    for _, node in ipairs(graph.nodes) do
      renumber(node.reads, new[p])
      renumber(node.writes, new[p])
    end
    renumber(graph.outputs, new[p])
    append(out.nodes, graph.nodes)
    append(out.outputs, graph.outputs)
  end
  return out
end

local Combined = {}
Combined.__index = Combined

function Combined:info()
  local out = describe(self.entry, self.plans)
  local steps, shifts, most = self:steps(), shifts_of(self.shown), -1
  for p, plan in ipairs(self.shown) do
    local at = shifts[p] + plan:info().peak_step
    if steps[at] and steps[at].live > most then out.peak_step, most = at, steps[at].live end
  end
  return out
end

function Combined:steps()
  local out = {}
  for _, plan in ipairs(self.shown) do append(out, plan:steps()) end
  return out
end

--- Each plan, and how often it runs in a step.
function Combined:parts()
  local out, runs = {}, runs_of(self.entry)
  for i, plan in ipairs(self.plans) do out[i] = { plan = plan, runs = runs[i] } end
  return out
end

function Combined:values()
  return (merge_values(self.entry, self.shown))
end

function Combined:operands()
  local _, number = merge_values(self.entry, self.shown)
  return merge_operands(self.shown, number)
end

-- Of what is gathered, of one micro-batch, then of what runs once.
function Combined:transfers()
  local _, number = merge_values(self.entry, self.shown)
  local out, shifts = {}, shifts_of(self.shown)
  for p, plan in ipairs(self.shown) do
    for _, t in ipairs(plan:transfers()) do
      t.value, t.swapped = number[p][t.value], number[p][t.swapped]
      t.start, t.wait = t.start + shifts[p], t.wait + shifts[p]
      out[#out + 1] = t
    end
  end
  return out
end

function Combined:tiers() return tiers_of(self.plans, runs_of(self.entry)) end

function Combined:stalled()
  local sum = 0
  for _, plan in ipairs(self.shown) do sum = sum + plan:stalled() end
  return sum
end

function Combined:graph(stage)
  local e = self.entry
  local first = e.first and "-- first, once\n" .. e.first:graph(stage) or ""
  return ("%s-- %d micro-batches of %d rows, of %d\n%s-- then, once\n%s"):format(
    first, e.count, e.size, e.rows, self.micro:graph(stage), self.final:graph(stage))
end

function Combined:device() return self.final:device() end

function Combined:stages() return self.micro:stages() end

function Combined:stage(stage)
  local last, graphs, planned = #self:stages(), {}, {}
  local _, number = merge_values(self.entry, self.shown)
  for p, plan in ipairs(self.shown) do
    graphs[p], planned[p] = plan:stage(stage), plan:stage(last)
  end
  return merge_graphs(graphs, renumbering(planned, number), number)
end

--- Describe an entry of accumulate.trace as the core describes a plan.
---@param entry table
---@return table  info(), steps(), values(), operands(), graph()
return function(entry)
  local plans = entry.plans or append({ entry.first }, entry.parts)
  if not entry.plans then plans[#plans + 1] = entry.core end
  local shown = shown_of(entry, plans)
  return setmetatable({ entry = entry, plans = plans, shown = shown,
    micro = shown[#shown > 1 and #shown - 1 or 1], final = entry.core }, Combined)
end
