--- combine.lua -- a micro plan and a final plan, described as one
---
--- The steps are those of one whole micro-batch and then the final ones; both
--- parts' values lie in one arena.  What is said of bytes holds for the whole
--- step, a smaller last micro-batch included.
---
--- SPDX-License-Identifier: MIT

local persistent = { variable = true, constant = true }

-- Bytes of variables and constants of all plans, each once: accumulators, others.
local function count_persistent(entry, plans)
  local seen, accumulators, others = {}, 0, 0
  for _, plan in ipairs(plans) do
    for _, v in ipairs(plan:values()) do
      if persistent[v.kind] and not seen[v.id] then
        seen[v.id] = true
        if entry.accumulators[v.id] then accumulators = accumulators + v.bytes
        else others = others + v.bytes end
      end
    end
  end
  return accumulators, others
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

local function outputs_of(entry, infos)
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

local function describe(entry, plans)
  local infos = {}
  for i, plan in ipairs(plans) do infos[i] = plan:info() end
  local micro, final = infos[1], infos[#infos]
  local accumulators, others = count_persistent(entry, plans)
  local fixed = accumulators + others + outputs_of(entry, infos)
  local rest = #infos > 2 and infos[2] or { flops = 0, seconds = 0, stall = 0,
    wire = 0, collectives = 0 }
  local full = entry.count - #entry.parts + 1
  local out = { accumulators = accumulators, persistent = accumulators + others,
    outputs = outputs_of(entry, infos), inputs = entry.input_bytes,
    input_count = final.input_count, output_count = #entry.where,
    transient = largest(infos, "transient"), passes = add_passes { micro, final },
    nodes = micro.nodes + final.nodes,
    nodes_traced = micro.nodes_traced + final.nodes_traced,
    flops = full * micro.flops + rest.flops + final.flops,
    seconds = full * micro.seconds + rest.seconds + final.seconds,
    stall = full * micro.stall + rest.stall + final.stall,
    wire = full * micro.wire + rest.wire + final.wire,
    collectives = full * micro.collectives + rest.collectives + final.collectives,
    swapped = swap_bytes(plans, infos), hosted = micro.hosted + final.hosted,
    staging = math.max(micro.staging, final.staging),
    unrecorded = micro.unrecorded or final.unrecorded,
    micro_batches = entry.count, micro_batch = entry.size, batch = entry.rows }
  for _, name in ipairs { "hosted_in", "hosted_out", "copied_in", "copied_out" } do
    out[name] = full * micro[name] + (rest[name] or 0) + final[name]
  end
  out.peak = fixed + out.transient
  for _, bound in ipairs { "lower_bound", "working_set", "order_free_bound" } do
    out[bound] = fixed + largest(infos, bound)
  end
  return out, infos
end

-- ---- steps and values ------------------------------------------------------

local function append(list, more)
  return table.move(more, 1, #more, #list + 1, list)
end

-- What both plans may have: a variable, a constant, a home in the swap tier.
local function is_shared(v)
  return persistent[v.kind] or v.kind == "swapped" and v.id ~= nil
end

-- Both plans' values, those that persist once; `number[p][i]` is value i of plan
-- p among them.
local function merge_values(entry, micro, final)
  local values, number, by_id = {}, { {}, {} }, {}
  local shift, last = #micro:steps(), #micro:steps() + #final:steps()
  for p, plan in ipairs { micro, final } do
    for i, v in ipairs(plan:values()) do
      local known = is_shared(v) and by_id[v.kind .. v.id]
      if not known then
        values[#values + 1] = v
        known = #values
        if p == 2 then v.first, v.last = v.first + shift, v.last + shift end
        if is_shared(v) then
          by_id[v.kind .. v.id], v.first, v.last = known, 1, last
          v.accumulator = entry.accumulators[v.id]
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

local function merge_operands(micro, final, number)
  local out = {}
  for p, plan in ipairs { micro, final } do
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

-- The final graph's values come after the micro graph's, as many as these are in the
-- end, so that each keeps its number through all stages; a variable that both read is
-- the micro graph's.
local function renumbering(planned, number)
  local home, shift = {}, #planned[1].values
  for i, v in ipairs(planned[1].values) do
    if persistent[v.kind] and v.block then home[number[1][v.block]] = i end
  end
  local known = {}
  for i, v in ipairs(planned[2].values) do
    if persistent[v.kind] and v.block then known[i] = home[number[2][v.block]] end
  end
  return { function(i) return i end, function(i) return known[i] or shift + i end }
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
  local out, infos = describe(self.entry, self.plans)
  local micro, final = infos[1], infos[#infos]
  local steps = self:steps()
  local later = micro.nodes + final.peak_step
  local a, b = steps[micro.peak_step], steps[later]
  out.peak_step = (not a or b and b.live > a.live) and later or micro.peak_step
  return out
end

function Combined:steps()
  return append(append({}, self.micro:steps()), self.final:steps())
end

function Combined:values()
  return (merge_values(self.entry, self.micro, self.final))
end

function Combined:operands()
  local _, number = merge_values(self.entry, self.micro, self.final)
  return merge_operands(self.micro, self.final, number)
end

-- Of one micro-batch, then of what runs once.
function Combined:transfers()
  local _, number = merge_values(self.entry, self.micro, self.final)
  local out, shift = {}, #self.micro:steps()
  for p, plan in ipairs { self.micro, self.final } do
    for _, t in ipairs(plan:transfers()) do
      t.value, t.swapped = number[p][t.value], number[p][t.swapped]
      if p == 2 then t.start, t.wait = t.start + shift, t.wait + shift end
      out[#out + 1] = t
    end
  end
  return out
end

function Combined:stalled() return self.micro:stalled() + self.final:stalled() end

function Combined:graph(stage)
  local e = self.entry
  return ("-- %d micro-batches of %d rows, of %d\n%s-- then, once\n%s"):format(
    e.count, e.size, e.rows, self.micro:graph(stage), self.final:graph(stage))
end

function Combined:device() return self.final:device() end

function Combined:stages() return self.micro:stages() end

function Combined:stage(stage)
  local last = #self:stages()
  local _, number = merge_values(self.entry, self.micro, self.final)
  local graphs = { self.micro:stage(stage), self.final:stage(stage) }
  local planned = { self.micro:stage(last), self.final:stage(last) }
  return merge_graphs(graphs, renumbering(planned, number), number)
end

--- Describe an entry of accumulate.trace as the core describes a plan.
---@param entry table
---@return table  info(), steps(), values(), operands(), graph()
return function(entry)
  local plans = append(append({}, entry.parts), { entry.core })
  return setmetatable({ entry = entry, plans = plans, micro = entry.parts[1],
    final = entry.core }, Combined)
end
