--- narrow.lua -- what is stored in narrow floats, or in pieces, where a loss is cut into parts
---
--- A precision policy decides with all of the graph in view: what is stored narrow depends
--- on who reads it.  So the whole micro-batch is planned once, run by nobody, and what parts
--- and phases hand on is looked up in it by name.  A value that is read there as a narrow
--- float only is handed on as one, and what makes it computes as the policy has said with
--- all its readers in view.  Where ranks compute each product together (a mesh's `tensor`),
--- what lies in pieces there is handed on in pieces, each rank its own: holding all of it
--- would take as many times the bytes, and collectives to gather it.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local pack = require "mrt.pipeline.pack"
local with = require "mrt.util.options".with

local narrow = {}

local PREFIX <const> = "handed on "
local NARROW <const> = { bf16 = true, f16 = true }

-- All that parts and phases hand on: what goes between stages, alike on all, and what the
-- phases of this stage's parts do, or may.
local function handed_on(maker, layouts, keepers)
  local list, by_id = {}, {}
  local function add(x, how)
    local id = core.id(x)
    if not by_id[id] then
      by_id[id] = { id = id, x = x }
      list[#list + 1] = by_id[id]
    end
    by_id[id][how] = true
  end
  for part, nodes in ipairs(maker.graph.ends) do
    for _, node in ipairs(nodes) do add(node.x, "goes") end
    for _, dy in ipairs(maker.graph.dys[part]) do add(dy, "goes") end
  end
  for _, layout in pairs(layouts) do
    for _, made in ipairs(layout.F.makes) do
      if made[3] then add(made[2], "saved") end
    end
    for _, read in ipairs(layout.B.reads) do
      if read[3] then add(read[2], "saved") end
    end
    for _, made in ipairs(layout.B.makes) do add(made[2], "goes") end
  end
  for _, keeper in pairs(keepers) do
    for _, node in ipairs(keeper:values()) do add(node.x, "saved") end
  end
  return list
end

local ANSWERS <const> = { "compute", "gradient", "scaled", "output", "accumulate" }

local function copy_answer(from, to)
  for _, field in ipairs(ANSWERS) do to[field] = from[field] end
end

-- The policy, which is shown the names that it knows; then `see(node, key)` of what is
-- handed on.
local function watched(precision, names, see)
  return function(all)
    local keys = {}
    for i, node in ipairs(all) do
      if names[node.name] then keys[i], node.name = node.name, names[node.name].name end
    end
    precision(all)
    for i, node in ipairs(all) do
      if keys[i] then see(node, keys[i]) end
    end
  end
end

-- A plan of the whole micro-batch, quickly.
local function probe(maker, precision, compress)
  local state = maker.state
  local traced = state.sections[1].traced
  core.trace_section(0)
  for _, job in ipairs(state.jobs) do
    core.update("accumulate", { job.into, job.values[1] }, { scale = job.scales[1] })
  end
  local options = with(with(maker.options, "effort", 0), "order", "program")
  options.precision, options.compress = precision, compress
  options.checkpoint, options.handed_on = nil, nil
  local results = {}
  for i, row in ipairs(maker.rows) do results[i] = row.x end
  return core.trace_plan(#traced.inputs + #traced.runtime, results, options, nil,
    state.batches[1])
end

local function stage_of(plan, wanted)
  for i, name in ipairs(plan:stages()) do
    if name == wanted then return plan:stage(i) end
  end
end

local function named(v) return v.name and v.name:find(PREFIX, 1, true) == 1 and v.name end

local function dtype_of(v) return v.type:match "^%w+" end

-- Of a cast between dtypes of one handed-on value: what it reads and makes.
local function cast_of(graph, node)
  local from, to = graph.values[node.reads[1]], graph.values[node.writes[1]]
  if node.op == "cast" and named(from) and from.name == to.name then return from, to end
end

-- f32 values that are a narrow one, widened, and narrow dtypes by name.
local function widenings(graph)
  local wide, dtypes = {}, {}
  for _, v in ipairs(graph.values) do
    if named(v) and NARROW[dtype_of(v)] then dtypes[v.name] = dtype_of(v) end
  end
  for _, node in ipairs(graph.nodes) do
    local from, to = cast_of(graph, node)
    if from and NARROW[dtype_of(from)] then wide[to] = true end
  end
  return wide, dtypes
end

-- By name: the narrow dtype; whether what has not been rounded to it is read, backward or
-- forward.
local function uses(graph)
  local wide, dtypes = widenings(graph)
  local of = {}
  for name, dtype in pairs(dtypes) do of[name] = { dtype = dtype } end
  for _, node in ipairs(graph.nodes) do
    for _, i in ipairs(cast_of(graph, node) and {} or node.reads) do
      local v = graph.values[i]
      local use = named(v) and not v.type:find "^f8" and of[v.name]
      if use and not NARROW[dtype_of(v)] and not wide[v] then
        use[node.backward and "backward" or "forward"] = true
      end
    end
  end
  return of
end

-- By name: what lies before a rank's piece, of values in pieces.
local function cuts(graph)
  local outers = {}
  for _, v in ipairs(graph.values) do
    if named(v) then outers[v.name] = v.outer end
  end
  return outers
end

-- Give what is handed on names; what they were, by these.
local function name_all(list)
  local names = {}
  for i, item in ipairs(list) do
    item.key = PREFIX .. i
    names[item.key] = { x = item.x, name = item.x:get_name() }
    item.x:set_name(item.key)
  end
  return names
end

-- Whether it is stored narrow where it goes to another part or phase, or is saved for the
-- backward pass.
local function is_narrow(item, use, saved)
  local wide = use.backward or not saved and use.forward
  return use.dtype and not wide and item.x:get_dtype() == "f32"
end

-- That it is rounded where it is made, though who has it so may not be in view of a phase.
local function settle(answer, item, use)
  local rounded = is_narrow(item, use, true) and not use.forward
  if not rounded or answer.output then return end
  answer.output, answer.compute = use.dtype, answer.compute or "f32"
end

-- The ranks that compute together what is handed on in pieces; nil: there are none.  What
-- is cut along the sequence, too, is not.
local function sharers(maker)
  local mesh = maker.settings.mesh
  return mesh and mesh.size.context == 1 and mesh.size.tensor > 1 and mesh.comm.tensor or nil
end

-- The policy, whose answers are noted, and then those of the whole; nil where there is none.
local function noted(precision, names, answers)
  if not precision then return nil end
  local probing = watched(precision, names, function(node, key)
    answers[key] = {}
    copy_answer(node, answers[key])
  end)
  local planning = watched(precision, names, function(node, key)
    copy_answer(answers[key] or {}, node)
  end)
  return probing, planning
end

-- A checkpoint policy, which is shown the names that it knows.
local function unnamed(checkpoint, names)
  return checkpoint and function(all)
    for _, value in ipairs(all) do
      local own = names[value.name]
      if own then value.name = own.name end
    end
    return checkpoint(all)
  end
end

-- What values stand for: of all that compute the same, the first.
local Firsts = {} -- `known`, by id; `alike`, lists of firsts by operator and what they read
Firsts.__index = Firsts

-- What an operator and what it reads are called, or an input that is not known yet.
function Firsts:key(name, inputs)
  local words = { name }
  for i, z in ipairs(inputs) do
    words[i + 1] = self.known[core.id(z)]
    if not words[i + 1] then return nil, z end
  end
  return table.concat(words, " ")
end

function Firsts:note(y, key)
  self.alike[key] = self.alike[key] or {}
  for _, z in ipairs(self.alike[key]) do
    if core.alike(y, z) then return core.id(z) end
  end
  table.insert(self.alike[key], y)
  return core.id(y)
end

function Firsts:of(x)
  local stack, known = { x }, self.known
  while #stack > 0 do
    local y = stack[#stack]
    local id, name, inputs = core.id(y), core.maker(y)
    local key, unknown
    if not known[id] and name then key, unknown = self:key(name, inputs) end
    if unknown then
      stack[#stack + 1] = unknown
    else
      known[id] = known[id] or key and self:note(y, key) or id
      table.remove(stack)
    end
  end
  return known[core.id(x)]
end

-- Of several that compute the same the plan has one: what is known of that holds for all.
local function find_firsts(list)
  local firsts = setmetatable({ known = {}, alike = {} }, Firsts)
  for _, item in ipairs(list) do item.first = firsts:of(item.x) end
end

local function share(list, of)
  local by_first = {}
  for _, item in ipairs(list) do
    by_first[item.first] = by_first[item.first] or of[item.key]
  end
  for _, item in ipairs(list) do of[item.key] = of[item.key] or by_first[item.first] end
end

local function note_narrow(maker, list, answers, of)
  share(list, of)
  for _, item in ipairs(list) do
    local use = of[item.key] or {}
    if is_narrow(item, use, not item.goes) then
      maker.dtypes[item.id] = use.dtype
    elseif item.saved and is_narrow(item, use, true) then
      maker.kept[item.id] = use.dtype
    end
    maker.unrounded[item.id] = use.forward
    if answers[item.key] then settle(answers[item.key], item, use) end
  end
end

--- Look up what is handed on in narrow dtypes, in pieces and compressed: `maker.dtypes`,
--- `kept`, `pieces` and `formats` have these by id, and its options policies whose answers
--- are those of the whole.
---@param maker mrt.PipelineMaker
---@param layouts table[]  of this stage's parts
---@param keepers mrt.PipelineKeeper[]  of these: they know what may be held
---@return fun() done  to be called when the parts have been planned
---@return table<string, {name: string?}> names  of values in these plans: what they were
function narrow.look(maker, layouts, keepers)
  maker.dtypes, maker.kept, maker.unrounded, maker.pieces = {}, {}, {}, {}
  maker.formats, maker.sharers = {}, sharers(maker)
  local precision, compress, answers = maker.options.precision, maker.options.compress, {}
  if not precision and not compress and not maker.sharers then return function() end, {} end
  local list = handed_on(maker, layouts, keepers)
  find_firsts(list)
  local names = name_all(list)
  local probing, planning = noted(precision, names, answers)
  local asking, packing, formats = pack.watched(compress, names)
  local plan = probe(maker, probing, asking)
  if precision then note_narrow(maker, list, answers, uses(stage_of(plan, "precision"))) end
  if compress then
    share(list, formats)
    pack.note(maker, list, formats)
  end
  maker.options = with(with(with(maker.options, "handed_on", true), "precision", planning),
    "compress", packing)
  maker.options = with(maker.options, "checkpoint", unnamed(maker.options.checkpoint, names))
  local outers = maker.sharers and cuts(stage_of(plan, "partition")) or {}
  for _, item in ipairs(list) do maker.pieces[item.id] = outers[item.key] end
  maker.packs = plan:info().compressed ~= nil
  plan:free()
  local were = {} -- without the tensors, which are the trace's
  for key, old in pairs(names) do were[key] = { name = old.name } end
  return function()
    for _, old in pairs(names) do old.x:set_name(old.name or "") end
  end, were
end

return narrow
