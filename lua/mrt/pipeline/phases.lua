--- phases.lua -- what each part computes forward, backward and for its weights, and what
--- of one phase the next has to be given
---
--- A gradient is made by the part that the gradient of its output goes to: the lowest one
--- whose incoming gradient it reads, or that which has what the gradient is of.  Of a
--- parameter that several parts read each of them has a summand.
---
--- What B reads of F is saved, but for views, of which the base is: B makes them again, as
--- it does what depends on no parameter, and what is chosen to be computed again (keep.lua).
--- What W reads of B is handed on likewise.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local keep = require "mrt.pipeline.keep"

local op = core.op

local phases = {}

local function refuse(text, ...) core.fail("value", "pipeline", text:format(...)) end

---@class mrt.PipelineGraph: mrt.PipelineCut
---@field q integer                parts
---@field dys mrt.Tensor[][]       gradients of what the parts hand on, which come back
---@field takes table<integer, integer>  by id of these: the part that gets it
---@field dx table<integer, integer>  by id of a parameter's gradient: the part of what it is of
---@field sweeps {from: integer, to: integer, part: integer}[]  what each has made, by ids, and
---  the part of what it is the gradient of
---@field known table              labels by id

--- The graph of a loss that has been cut, without gradients.
---@param graph mrt.PipelineCut
---@return mrt.PipelineGraph
function phases.graph(graph)
  local out = setmetatable({ q = #graph.ends + 1, dys = {}, dx = {}, sweeps = {}, known = {},
    takes = {} }, { __index = graph })
  for part in ipairs(graph.ends) do out.dys[part] = {} end
  return out
end

--- Take up the gradients of the loss, or of one of the sums that it is a function of.
---@param graph mrt.PipelineGraph
---@param sweep {from: integer, to: integer, part: integer}
---@param dys mrt.Tensor[][]  of its ends
---@param dx (mrt.Tensor|false)[]   of the parameters
function phases.add(graph, sweep, dys, dx)
  table.insert(graph.sweeps, sweep)
  for part, list in pairs(dys) do
    for _, dy in ipairs(list) do
      graph.takes[core.id(dy)] = part
      table.insert(graph.dys[part], dy)
    end
  end
  for _, g in pairs(dx) do
    if g then graph.dx[core.id(g)] = sweep.part end
  end
end

-- The forward value that a tensor is, or nil.  What the loss does not need of what computes
-- it, as statistics of a norm, is one too.
local function forward_of(graph, x, id)
  if graph.by_id[id] or not core.maker(x) then return graph.by_id[id] end
  local _, _, _, expression = core.work(x)
  local sibling = graph.by_expression[expression]
  if not sibling then return nil end
  local node = setmetatable({ id = id, x = x, view = false }, { __index = sibling })
  graph.by_id[id] = node
  return node
end

local function least(a, b) return a and b and math.min(a, b) or a or b end
local function greatest(a, b) return a and b and math.max(a, b) or a or b end

-- The label of what has ones of its own: what comes from another part, or is forward.
local function given(graph, x, id)
  if graph.takes[id] then return { back = graph.takes[id], gradient = graph.takes[id] } end
  local node = forward_of(graph, x, id)
  return node and { part = node.part }
end

-- The part of what it is a gradient of, if it is made by a sweep.
local function swept(graph, id)
  for _, sweep in ipairs(graph.sweeps) do
    if id >= sweep.from and id < sweep.to then return sweep.part end
  end
end

-- Of what it is computed from; nil, with that on the stack, as long as it is not known.
local function combined(graph, x, id, stack)
  local _, inputs = core.maker(x)
  local own, ready = { gradient = graph.dx[id] or inputs and swept(graph, id) }, true
  for _, y in ipairs(inputs or {}) do
    local of = graph.known[core.id(y)]
    if of then
      own.back, own.part = least(own.back, of.back), greatest(own.part, of.part)
      own.gradient = greatest(own.gradient, of.gradient)
    else
      ready, stack[#stack + 1] = false, y
    end
  end
  return ready and own or nil
end

-- Of which part a value is: by gradients that it reads (`back`), or as a forward value;
-- whether gradients are among what it is computed from.
local function label(graph, x)
  local known, stack = graph.known, { x }
  while #stack > 0 do
    local y = stack[#stack]
    local id = core.id(y)
    known[id] = known[id] or given(graph, y, id) or combined(graph, y, id, stack)
    if known[id] then table.remove(stack) end
  end
  return known[core.id(x)]
end

local function part_of(graph, x)
  local of = label(graph, x)
  return of.back or of.gradient or of.part or graph.q
end

--- Of which part a value is.
---@param graph mrt.PipelineGraph
---@param x mrt.Tensor
---@return integer
function phases.part(graph, x) return part_of(graph, x) end

local function wrong_part(graph, node, part)
  local file, line = node.x:origin()
  refuse("%s:%d: %s of part %d of the layers is read for part %d of %d, too", file, line,
    node.x:type(), node.part, part, graph.q)
end

local function has(list, part)
  for _, p in ipairs(list) do if p == part then return true end end
  return false
end

-- All that a value is computed from, down to `came`; `see` gets each once.
local function each_below(x, came, see)
  local seen, stack = {}, { x }
  while #stack > 0 do
    local y = table.remove(stack)
    local id = core.id(y)
    if not seen[id] and not came[id] then
      see(y, id)
      local _, inputs = core.maker(y)
      for _, z in ipairs(inputs or {}) do stack[#stack + 1] = z end
    end
    seen[id] = true
  end
end

-- Where a result is computed of which no value of the loss is part: where a parameter is.
local function part_of_parameters(graph, x)
  local part
  each_below(x, {}, function(_, id)
    local parts = graph.parts_of[id]
    part = parts and greatest(part, parts[1]) or part
  end)
  return part or graph.q
end

local function check_rows(graph, part, x)
  local came = {}
  for _, node in ipairs(graph.ends[part - 1] or {}) do came[node.id] = true end
  each_below(x, came, function(y, id)
    local node, parts = forward_of(graph, y, id), graph.parts_of[id]
    if node and node.part ~= part then wrong_part(graph, node, part) end
    if parts and not has(parts, part) then
      wrong_part(graph, { x = y, part = parts[1] }, part)
    end
  end)
end

--- The part that computes a result of a micro-batch with a row for each of its rows.
---
--- Raises: it is made of gradients, or of values of several parts that do not go on.
---@param graph mrt.PipelineGraph
---@param x mrt.Tensor
---@return integer
function phases.rows(graph, x)
  local of = label(graph, x)
  if of.back or of.gradient then
    local file, line = x:origin()
    refuse("%s:%d: %s, a result with a row for each row of the batch, is made of gradients",
      file, line, x:type())
  end
  local part = of.part or part_of_parameters(graph, x)
  check_rows(graph, part, x)
  return part
end

local function add_to(out, part, x) out[part] = out[part] and op.add(out[part], x) or x end

-- What micro-batches do to a gradient that they add up, by operator: where that stands
-- among the inputs, and the same of a summand.
local LINEAR <const> = {
  cast = { 1, function(y, _, x) return op.cast(y, x:get_dtype()) end },
  mul = { 1, function(y, inputs) return op.mul(y, inputs[2]) end },
  div = { 1, function(y, inputs) return op.div(y, inputs[2]) end },
  where = { 2, function(y, inputs) return op.where(inputs[1], y, 0) end }, -- 0 / 0 is 0
}

-- The summands of a gradient, or of what is added up of several, by the part that has them.
local function summands(graph, x)
  local name, inputs = core.maker(x)
  local out, linear, own = {}, LINEAR[name], swept(graph, core.id(x)) ~= nil
  if linear and (name == "cast" or not own) then
    local inner = summands(graph, inputs[linear[1]])
    if next(inner, next(inner)) then
      for part, y in pairs(inner) do out[part] = linear[2](y, inputs, x) end
      return out
    end
  elseif name == "add"
    and (not own or part_of(graph, inputs[1]) ~= part_of(graph, inputs[2])) then
    for _, y in ipairs(inputs) do
      for part, z in pairs(summands(graph, y)) do add_to(out, part, z) end
    end
    return out
  end
  return { [part_of(graph, x)] = x }
end

--- What of a value that is added up over micro-batches each part has to add.
---@param graph mrt.PipelineGraph
---@param x mrt.Tensor
---@return table<integer, mrt.Tensor> values  by part
---@return boolean gradient  it is one, and belongs to the parts' parameters
function phases.values(graph, x)
  local of = label(graph, x)
  if not of.gradient then return { [part_of(graph, x)] = x }, false end
  return summands(graph, x), true
end

-- ---- what a phase reads of those before ---------------------------------------

---@class mrt.PipelineNeeds
---@field nodes mrt.PipelineNode[]  forward values that are saved, in the order of the program
---@field saved mrt.Tensor[]  the same
---@field inputs table<integer, boolean>  ids of what came in
---@field dys table<integer, boolean>  ids of gradients that came in
---@field passed mrt.Tensor[]  of the phase before, W's of B

local Walk = {}
Walk.__index = Walk

-- A forward value is saved, or is what came in, or is made again.
function Walk:forward(node)
  if self.came[node.id] then
    self.needs.inputs[node.id] = true
  elseif node.part ~= self.part then
    wrong_part(self.graph, node, self.part)
  elseif keep.shown(node) ~= node or self.again(node) then
    return true
  else
    self.saved[node.id] = node
  end
  return false
end

-- What is met on the way; whether to go on below it.
function Walk:visit(x, id)
  local graph = self.graph
  if graph.takes[id] == self.part then
    self.needs.dys[id] = true
    return false
  end
  local node = forward_of(graph, x, id)
  if node then return self:forward(node) end
  if self.before and self.before[id] then
    local _, _, view = core.work(x)
    if not view then
      self.passed[id] = x
      return false
    end
  end
  if core.maker(x) then self.made[id] = true end
  return true
end

local function in_order(by_id, field)
  local ids, out = {}, {}
  for id in pairs(by_id) do ids[#ids + 1] = id end
  table.sort(ids)
  for i, id in ipairs(ids) do out[i] = field and by_id[id][field] or by_id[id] end
  return out
end

--- What `roots`, computed by a part, read of the phases before.
---@param graph mrt.PipelineGraph
---@param part integer
---@param roots mrt.Tensor[]
---@param o {again: fun(node: mrt.PipelineNode): boolean, before: table?}  whether a forward
---  value is computed once more; before: ids of what B has made
---@return mrt.PipelineNeeds
---@return table made  ids of what is made on the way
function phases.needs(graph, part, roots, o)
  local walk = setmetatable({ graph = graph, part = part, again = o.again, before = o.before,
    came = {}, needs = { inputs = {}, dys = {} }, saved = {}, passed = {}, made = {} }, Walk)
  for _, node in ipairs(graph.ends[part - 1] or {}) do walk.came[node.id] = true end
  local seen, stack = {}, {}
  for _, x in ipairs(roots) do stack[#stack + 1] = x end
  while #stack > 0 do
    local x = table.remove(stack)
    local id = core.id(x)
    if not seen[id] then
      seen[id] = true
      if walk:visit(x, id) then
        local _, inputs = core.maker(x)
        for _, y in ipairs(inputs or {}) do stack[#stack + 1] = y end
      end
    end
  end
  walk.needs.nodes = in_order(walk.saved)
  walk.needs.saved, walk.needs.passed = in_order(walk.saved, "x"), in_order(walk.passed)
  return walk.needs, walk.made
end

return phases
