--- parts.lua -- the plans of a part of the layers: F, B and W
---
--- What is handed from one to the next, or to another stage, is stored as it would be
--- without the cut: where a precision policy has all that read it read a narrow float,
--- in that (narrow.lua).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local hold = require "mrt.pipeline.hold"
local keep = require "mrt.pipeline.keep"
local pack = require "mrt.pipeline.pack"
local phases = require "mrt.pipeline.phases"

local op = core.op

---@class mrt.PipelineMaker
---@field state table            of accumulation
---@field settings mrt.PipelineSettings
---@field order mrt.PipelineOrder
---@field graph mrt.PipelineGraph
---@field sums mrt.PipelineSum[]
---@field wanted table<integer, boolean>  ids of variables that what runs once reads
---@field options table          as the planner reads them
---@field space userdata
---@field dtypes table<integer, mrt.DType>  by id: what values are stored in, if not as traced
---@field kept table<integer, mrt.DType>  by id, of what goes to the next part: what it is
---  stored in for the backward pass of its own, if not in that
---@field pieces table<integer, integer>  by id, of what ranks have pieces of: how many
---  elements lie before them, as [:, rank, :] is one of [outer, ranks, inner]
---@field sharers mrt.Communicator?  these ranks
---@field rows {x: mrt.Tensor, part: integer}[]  results with a row for each row of the batch
---@field unrounded table<integer, boolean>  by id: operators of the forward pass read it as it
---  is before it is stored so
---@field formats table<integer, mrt.Format>  by id, of what is saved: what it is packed in
---@field packs boolean?  whether anything of the micro-batch is
---@field scales mrt.PhaseScales?  of f8 numbers, from earlier steps (delayed.lua)
local Maker = {}
Maker.__index = Maker

-- ---- what each phase reads and makes --------------------------------------------

-- What a part adds up: totals, in F; or gradients.
function Maker:adds(part, gradient)
  local out = {}
  for _, sum in ipairs(self.sums) do
    local x = sum.values[part]
    if x and sum.gradient == gradient and (not gradient or self.wanted[core.id(sum.job.into)]) then
      out[#out + 1] = { job = sum.job, x = x, into = sum.into[part] }
    end
  end
  return out
end

local function roots_of(adds, xs)
  local roots = table.move(xs, 1, #xs, 1, {})
  for _, add in ipairs(adds) do roots[#roots + 1] = add.x end
  return roots
end

-- Names of what is read, and the tensors; `names` has those of what was made before.
function Maker:reads(part, needs, names)
  local graph, out = self.graph, {}
  for k, node in ipairs(graph.ends[part - 1] or {}) do
    if needs.inputs[node.id] then out[#out + 1] = { "in" .. k, node.x } end
  end
  for _, x in ipairs(needs.saved) do self:add_forms(out, names[core.id(x)], x) end
  for _, x in ipairs(needs.passed) do out[#out + 1] = { names[core.id(x)], x } end
  for k, dy in ipairs(graph.dys[part] or {}) do
    if needs.dys[core.id(dy)] then out[#out + 1] = { "dy" .. k, dy } end
  end
  return out
end

-- What it hands on as it came: {what came, what goes} by name, and the ids of these.
function Maker:forward_passes(part)
  local came, out, ids = {}, {}, {}
  for k, node in ipairs(self.graph.ends[part - 1] or {}) do came[node.id] = "in" .. k end
  for k, node in ipairs(self.graph.ends[part] or {}) do
    local name = came[node.id]
    if name then out[#out + 1], ids[node.id] = { name, "out" .. k }, true end
  end
  return out, ids
end

-- The same of gradients: there is nothing but a view between the two.
function Maker:backward_passes(part)
  local came, out, ids = {}, {}, {}
  for k, dy in ipairs(self.graph.dys[part] or {}) do came[core.id(dy)] = "dy" .. k end
  for k, dx in ipairs(self.graph.dys[part - 1] or {}) do
    local _, inputs = core.maker(dx)
    local name = came[core.id(inputs[1])]
    if name then out[#out + 1], ids[core.id(dx)] = { name, "dx" .. k }, true end
  end
  return out, ids
end

-- The gradients that it hands back and has made, by name, and the same alone.
function Maker:own_dx(part)
  local _, passed = self:backward_passes(part)
  local out, xs = {}, {}
  for k, dx in ipairs(self.graph.dys[part - 1] or {}) do
    if not passed[core.id(dx)] then
      out[#out + 1], xs[#xs + 1] = { "dx" .. k, dx }, dx
    end
  end
  return out, xs
end

-- What is saved of a value: {name, tensor, true, which of its forms}s.
function Maker:add_forms(out, name, x)
  for i in ipairs(self:forms(x)) do
    out[#out + 1] = { i == 1 and name or name .. "." .. i, x, true, i }
  end
end

-- Values as outputs: {name, tensor}s, and the names by id.
function Maker:name_all(list, letter, names, out)
  for _, x in ipairs(list) do
    local id = core.id(x)
    if not names[id] then
      names[id] = letter .. #out + 1
      if letter == "s" then self:add_forms(out, names[id], x)
      else out[#out + 1] = { names[id], x } end
    end
  end
end

local function joined(a, b)
  local out = table.move(a, 1, #a, 1, {})
  return table.move(b, 1, #b, #out + 1, out)
end

-- B alone, or B and W: what they need, from what they are to make.  The first part, which
-- hands no gradient on, has no W.
function Maker:backward_needs(part, adds, again)
  local graph, _, dx = self.graph, self:own_dx(part)
  if not self.order.split or #dx == 0 then
    return (phases.needs(graph, part, roots_of(adds, dx), { again = again }))
  end
  local b, made = phases.needs(graph, part, dx, { again = again })
  return b, (phases.needs(graph, part, roots_of(adds, {}), { again = again, before = made }))
end

-- What F makes, with the names of it by id.
function Maker:forward_makes(part, saved)
  local out, names = {}, {}
  local _, passed = self:forward_passes(part)
  for k, node in ipairs(self.graph.ends[part] or {}) do
    if not passed[node.id] then
      out[#out + 1] = { "out" .. k, node.x }
      local own = self.kept[node.id] or self.formats[node.id]
      if not own then names[node.id] = "out" .. k end
    end
  end
  self:name_all(saved, "s", names, out)
  for i, row in ipairs(self.rows) do
    if row.part == part then out[#out + 1] = { "row" .. i, row.x, whole = true } end
  end
  return out, names
end

local function yes() return true end
local function no() return false end

--- Who knows what a part may hold.
---@param part integer
---@return mrt.PipelineKeeper
function Maker:keeper(part)
  local b, w = self:backward_needs(part, self:adds(part, true), no)
  return keep.of(part, self.graph.ends[part - 1] or {}, joined(b.nodes, w and w.nodes or {}),
    function(node) return self:saved_bytes(node.x), self.unrounded[node.id] end)
end

--- What the phases of a part read, make and add up: {name, tensor}s.
---@param part integer
---@param choice? mrt.PipelineChoice  what runs again; nil: all
---@return table<string, {reads: table[], makes: table[], adds: table[], passes: table[]}> of
---  F, B, perhaps W; passes: names of what came in and of what that goes on as
function Maker:layout(part, choice)
  local adds, back, came = self:adds(part, true), self:own_dx(part), {}
  for k, node in ipairs(self.graph.ends[part - 1] or {}) do came[k] = { "in" .. k, node.x } end
  local b, w = self:backward_needs(part, adds,
    choice and function(node) return choice.again[node.expression] end or yes)
  local out, names = self:forward_makes(part, w and joined(b.saved, w.saved) or b.saved)
  local layout = {
    F = { key = "F" .. part, reads = came, makes = out, adds = self:adds(part, false),
      passes = self:forward_passes(part) },
    B = { key = "B" .. part, reads = self:reads(part, b, names), makes = back, adds = adds,
      passes = self:backward_passes(part) },
  }
  if w then
    self:name_all(w.passed, "p", names, back)
    layout.W = { key = "W" .. part, reads = self:reads(part, w, names), makes = {}, adds = adds,
      passes = {} }
    layout.B.adds = {}
  end
  return layout
end

-- ---- plans -------------------------------------------------------------------------

--- A value of the trace as it is handed on.
---@param x mrt.Tensor
---@param saved? boolean  to a later phase of the same part
---@return mrt.Tensor
function Maker:stored(x, saved)
  local id, comm = core.id(x), self.sharers
  local dtype, outer = saved and self.kept[id] or self.dtypes[id], self.pieces[id]
  if dtype then x = op.cast(x, dtype) end
  if not outer then return x end
  local piece = op.own_piece(x, { outer = outer, rank = comm.rank, size = comm.size,
    comm = comm.number })
  return op.reshape(piece, { piece:numel() })
end

-- A value as it is saved.
function Maker:forms(x)
  return pack.forms(self:stored(x, true), self.formats[core.id(x)])
end

-- Bytes of that.
function Maker:saved_bytes(x)
  local bytes = 0
  for _, form in ipairs(self:forms(x)) do bytes = bytes + form:nbytes() end
  return bytes
end

-- What a phase reads or makes, as Maker:layout says it: results of the step are as they are.
function Maker:made(r)
  if r.whole then return r[2] end
  return r[4] and self:forms(r[2])[r[4]] or self:stored(r[2], r[3])
end

-- A value of which these are what `stored`, or `forms`, says.
function Maker:whole(x, forms, saved)
  local outer, comm = self.pieces[core.id(x)], self.sharers
  local stored = forms[1]
  if saved then
    stored = pack.whole(forms, self.formats[core.id(x)], self:stored(x, true))
  end
  if not outer then return stored end
  local all = op.allgather(stored, { comm = comm.number, lazy = true })
  all = op.reshape(all, { comm.size, outer, all:numel() // (comm.size * outer) })
  return op.reshape(op.permute(all, { 2, 1, 3 }), x:get_shape())
end

-- A phase without its plan: what it reads and makes, by name, and the bytes of that.
function Maker:sketch_phase(layout)
  local phase = { reads = {}, makes = {}, bytes = {}, passes = layout.passes }
  for i, r in ipairs(layout.reads) do phase.reads[i] = r[1] end
  for i, r in ipairs(layout.makes) do
    phase.makes[i], phase.bytes[r[1]] = r[1], hold.allocated(self:made(r))
  end
  return phase
end

-- Bytes of what F packs, and of what it packs that to.
function Maker:packed(layout)
  local from, to = 0, 0
  for _, r in ipairs(layout.makes) do
    if r[4] and self.formats[core.id(r[2])] then
      to = to + self:made(r):nbytes()
      from = from + (r[4] == 1 and self:stored(r[2], true):nbytes() or 0)
    end
  end
  return from, to
end

--- The phases of a part without their plans: all that is known of what is held.
---@param part integer
---@param layouts table  of Maker:layout
---@return mrt.PipelinePart
function Maker:sketch(part, layouts)
  local graph, made = self.graph, { part = part }
  made.carries = { out = #(graph.ends[part] or {}), ["in"] = #(graph.ends[part - 1] or {}),
    dx = #(graph.dys[part - 1] or {}), dy = #(graph.dys[part] or {}) }
  for _, kind in ipairs { "F", "B", "W" } do
    made[kind] = layouts[kind] and self:sketch_phase(layouts[kind])
  end
  made.packed, made.packed_to = self:packed(layouts.F)
  hold.count(made)
  return made
end

-- Let a value be read as what was handed on of it.  By its name what came as it is may be
-- packed.
function Maker:give(r, forms)
  local x = r[2]
  local packed = r[3] and self.formats[core.id(x)]
  if self.options.compress and not packed then forms[1]:set_name(x:get_name() or "") end
  local whole = self:whole(x, forms, r[3])
  core.trace_replace(x, whole)
  return whole
end

-- Let all that a phase reads be inputs of its plan; values in several forms are several.
-- What keeps them, and the values.
function Maker:give_all(reads)
  local given, values = {}, {}
  for i, r in ipairs(reads) do given[i] = core.trace_input(self:made(r)) end
  for i, r in ipairs(reads) do -- the table keeps what is read instead
    if r[4] ~= 2 then
      local next_form = reads[i + 1] and reads[i + 1][4] == 2 and given[i + 1] or nil
      given[i] = self:give(r, { given[i], next_form })
      values[#values + 1] = r[2]
    end
  end
  return given, values
end

--- Plan a phase.
---
--- Raises: a budget among the options that is too little.
---@param layout table         of the phase
---@param options? table       instead of the maker's own
---@return userdata plan
function Maker:plan_phase(layout, options)
  local traced, outputs = self.state.sections[1].traced, {}
  core.trace_section(0)
  local given, values = self:give_all(layout.reads)
  for i, r in ipairs(layout.makes) do outputs[i] = self:made(r) end
  for _, add in ipairs(layout.adds) do
    core.update("accumulate", { add.into, add.x },
      { scale = add.job.scales[1], largest = add.job.largest })
  end
  options = options or self.options
  if self.scales then options = self.scales:phase(layout.key, options) end
  local ok, plan = pcall(core.trace_plan, #traced.inputs + #traced.runtime + #given, outputs,
    options, self.space, self.state.batches[1])
  for _, x in ipairs(values) do core.trace_replace(x) end
  if ok and self.scales then self.scales:planned(plan, layout.key, options.delayed) end
  return ok and plan or error(plan, 0)
end

--- Plan the phases of a part.
---@param part integer
---@param layouts table  of Maker:layout
---@return mrt.PipelinePart
function Maker:plan(part, layouts)
  local made = self:sketch(part, layouts)
  for _, kind in ipairs { "F", "B", "W" } do
    local phase = made[kind]
    if phase then
      phase.plan = self:plan_phase(layouts[kind])
      phase.blocks = phase.plan:blocks()
    end
  end
  return made
end

return Maker
