--- stages.lua -- transforms: a stage takes gradients at its ends, and updates what is its own
---
--- `cut` lies inside accumulation: where a micro-batch's gradient is taken, it cuts the
--- loss into parts and takes the gradients of what they hand on, too.  The other lies
--- outside: gradients of parameters of other stages are stand-ins that nobody may read, this
--- rank does not update these parameters, and norms are sums over the stages.
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local core = require "mrt.core"
local cut = require "mrt.pipeline.cut"
local phases = require "mrt.pipeline.phases"
local run = require "mrt.pipeline.run"
local hooks = require "mrt.compile.trace"
local with = require "mrt.util.options".with

local op = core.op

local stages = {}

local weak = { __mode = "k" }
local stand_ins = setmetatable({}, weak) -- by gradient of another stage's parameter

local function refuse(text, ...) core.fail("value", "pipeline", text:format(...)) end

-- ---- where a micro-batch's gradient is taken ---------------------------------

---@class mrt.PipelineTransform: mrt.Transform
---@field settings mrt.PipelineSettings
local Cut = { name = "cut" }
Cut.__index = Cut

local function check_loss(section, ys, o)
  if section.pipeline then refuse "the function takes gradients twice (mrt.grad), once wanted" end
  if #ys ~= 1 or o.grad_outputs then refuse "the gradient of one loss wanted" end
end

-- What the parts before `part` hand on, behind the xs, and the number of the operator behind
-- which the gradient of each is wanted.
local function all_with_ends(made, part, xs)
  local all, behind = table.move(xs, 1, #xs, 1, {}), {}
  for i = 1, #xs do behind[i] = 0 end
  for i = 1, part - 1 do
    for _, node in ipairs(made.ends[i]) do
      all[#all + 1], behind[#behind + 1] = node.x, made.behind[i]
    end
  end
  return all, behind
end

-- Behind all that has been made so far, before all that will be.
local function next_id() return core.id(op.full { shape = {}, value = 0, dtype = "f32" }) end

-- Gradients of `xs` by `take`, which is of something in `part`, and of what the parts before
-- hand on, each once; these go into the graph.
local function with_ends(graph, part, xs, take)
  local sweep = { part = part, from = next_id() }
  local dx, dys, at = take(all_with_ends(graph, part, xs)), {}, #xs
  sweep.to = next_id()
  for i = 1, part - 1 do
    local own = {}
    for k in ipairs(graph.ends[i]) do
      local dy = dx[at + k]
      local id = dy and core.id(dy)
      if dy and not own[id] then own[id], own[#own + 1] = true, dy end
    end
    at, dys[i] = at + #graph.ends[i], own
  end
  for i = #xs + 1, at do dx[i] = nil end
  phases.add(graph, sweep, dys, dx)
  return dx
end

-- A loss that is a function of several sums over the batch has the gradients of these
-- instead of its own, unless those, in `graph`, are read besides; all go from part to part.
local function derive_ends(section, made, graph)
  return function(y, xs, apart, asked)
    graph = graph or phases.graph(made)
    section.pipeline.graph = graph
    return with_ends(graph, phases.part(graph, y), xs, function(all, behind)
      return hooks.derive(y, all, apart, asked, behind)
    end)
  end
end

function Cut:grad(next, ys, xs, o)
  local parts = self.trace.parts
  if not parts or parts.now == parts.whole then return next(ys, xs, o) end
  local section = parts.now
  local made = section.cut
  local graph = phases.graph(made)
  local dx = with_ends(graph, graph.q, xs, function(all, behind)
    return next(ys, all, with(o, "behind", behind))
  end)
  section.pipeline = { graph = graph }
  section.derive = derive_ends(section, made, self.trace.noise and graph)
  return dx
end

-- ---- what is made of gradients -----------------------------------------------------------

---@class mrt.StageTransform: mrt.PipelineTransform
---@field cut mrt.PipelineTransform
---@field holders table<mrt.Tensor, integer[]>  in a trace: the stages of each parameter
---@field lowest table<mrt.Tensor, boolean>     ditto, by gradient: this stage is the lowest
---@field owned {variable: mrt.Tensor, stages: integer[]}[]  ditto: parameters and what
---  optimizers keep of them, alike on all ranks
local Stages = { name = "pipeline" }
Stages.__index = Stages

--- Make the transforms of a compiled function from its option `pipeline`.
---@param settings mrt.PipelineSettings
---@return mrt.StageTransform
function stages.new(settings)
  return setmetatable({ settings = settings, cut = setmetatable({ settings = settings }, Cut) },
    Stages)
end

function Stages:prepare(k)
  if k < 2 then refuse("%d micro-batch, 2 or more wanted", k) end
  self.settings:order(k)
end

--- Whoever asks for the state of a step is about to save it, on all ranks; the first of
--- them writes for all, so its stage gets what the others have.
function Stages:state()
  if self.settings.p and self.settings.p > 1 then run.collect(self.settings, 1) end
end

function Stages:begin(trace)
  self.holders, self.lowest, self.owned = {}, setmetatable({}, weak), {}
  trace.stages = self
  local replicas = self.settings.replicas
  if replicas then -- what is drawn is that of the whole batch
    trace.options.rank, trace.options.ranks = replicas.rank, replicas.size
  end
end

-- Of all replicas of the stage.
local function averaged(self, g)
  local replicas = self.settings.replicas
  if not replicas or replicas.size == 1 then return g end
  return op.allreduce(g, { comm = replicas.number, op = "mean", lazy = true })
end

-- A gradient that only looks like one.  Whoever reads it reads a variable by which that
-- is seen.
local function stand_in(self, p)
  local zeros = op.reshape(op.full { shape = p:get_shape(), value = 0, dtype = p:get_dtype() },
    p:get_shape())
  local mark = core.variable(op.full { shape = p:get_shape(), value = 0, dtype = p:get_dtype() })
  core.trace_replace(zeros, mark)
  stand_ins[zeros] = true
  self.marks = self.marks or {}
  self.marks[core.id(mark)] = { name = p:get_name() or p:type(), variable = mark }
  return zeros
end

-- Where the loss of a micro-batch is cut, and which stages each parameter has: before
-- gradients are taken, for sharding asks whose parameters are whose.
local function cut_section(self, ys, xs, o)
  local parts, settings = self.trace.parts, self.settings
  local section = parts.now
  if section ~= parts.whole then
    check_loss(section, ys, o)
    local made = cut.parts(core.current(ys[1]), xs, settings.p * settings.v, settings.begins)
    section.cut, section.stages_of = made, {}
    for i, x in ipairs(xs) do
      section.stages_of[i] = settings:stages_of(made.parts_of[core.id(core.current(x))] or { 1 })
    end
  end
  for i, x in ipairs(xs) do
    self.holders[x] = parts.sections[1].stages_of[i]
    table.insert(self.owned, { variable = x, stages = self.holders[x], parameter = true })
  end
end

-- Whether a parameter, or one whose piece this is, is another stage's.
local function is_foreign(self, p)
  local list = self.holders[Bucket.wholes[p] or p]
  for _, s in ipairs(list or {}) do
    if s == self.settings.stage then return false end
  end
  return list ~= nil
end

--- Whether a parameter is another stage's.
---@param p mrt.Tensor
---@return boolean
function Stages:is_foreign(p) return is_foreign(self, p) end

--- Of another stage's parameters, stand-ins.
function Stages:grad(next, ys, xs, o)
  cut_section(self, ys, xs, o)
  local dx, own = next(ys, xs, o), self.settings.stage
  for i, x in ipairs(xs) do
    if is_foreign(self, x) then
      dx[i] = stand_in(self, x)
    else
      dx[i] = averaged(self, dx[i])
      self.lowest[dx[i]] = self.holders[x][1] == own
    end
  end
  return dx
end

-- Those of this stage, and where they stand among all.
local function own_of(list, is_other)
  local own, at = {}, {}
  for i, g in ipairs(list) do
    if not is_other(g) then
      own[#own + 1] = g
      at[#own] = i
    end
  end
  return own, at
end

function Stages:map(next, grads, f)
  local own, at = own_of(grads, function(g) return stand_ins[g] end)
  local out = table.move(grads, 1, #grads, 1, {})
  for k, g in ipairs(next(own, f)) do
    out[at[k]] = g
    self.lowest[g] = self.lowest[own[k]]
  end
  return out
end

-- The sum of the squares of gradients of this stage, f64.
local function own_squares(grads)
  local by_dtype, sum = {}, op.full { shape = {}, value = 0, dtype = "f64" }
  for _, g in ipairs(grads) do
    local dtype = g:get_dtype()
    if not by_dtype[dtype] then by_dtype[dtype] = {} table.insert(by_dtype, dtype) end
    table.insert(by_dtype[dtype], g)
  end
  for _, dtype in ipairs(by_dtype) do
    local norm = op.cast(op.global_norm(by_dtype[dtype]), "f64")
    sum = op.add(sum, op.mul(norm, norm))
  end
  return sum
end

--- Each stage's, added up; of a parameter that several have, the lowest counts it.
function Stages:squares(next, grads)
  local own, ours = {}, false
  for _, g in ipairs(grads) do
    ours = ours or stand_ins[g] or self.lowest[g] ~= nil
    if self.lowest[g] then own[#own + 1] = g end
  end
  if not ours then return next(grads) end
  return op.allreduce(#own > 0 and next(own) or own_squares(own),
    { comm = self.settings.comm.number, op = "sum" })
end

function Stages:assign(next, variable, value, when)
  if is_foreign(self, variable) then return variable end
  return next(variable, value, when)
end

local function note_state(self, state, p)
  local names = {}
  for name in pairs(state or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    table.insert(self.owned, { variable = state[name], stages = self.holders[p] })
  end
end

--- Parameters of other stages are not updated.
function Stages:units(next, optimizer, params, grads)
  local own, at = own_of(params, function(p) return is_foreign(self, p) end)
  local own_grads = {}
  for k, i in ipairs(at) do own_grads[k] = grads[i] end
  for k, p in ipairs(params) do
    if self.holders[p] then note_state(self, optimizer.states[k], p) end
  end
  local units = next(optimizer, own, own_grads)
  for _, unit in ipairs(units) do unit.index = at[unit.index] end
  return units
end

-- What this stage cannot do the others may: they are told.
local function refuse_here(settings, text, ...)
  local said = ("stage %d "):format(settings.stage) .. text:format(...)
  if settings.p > 1 then pcall(core.communicator.abort, settings.comm.number, said) end
  refuse("%s", said)
end

--- Raise if the plan of what runs once reads what other stages have.
---@param read table<integer, boolean>  ids of the variables that it reads
function Stages:check_final(read)
  for id, mark in pairs(self.marks or {}) do
    if read[id] then
      refuse_here(self.settings, "reads the gradient of '%s', which another stage has; clipping "
        .. "and optimizers know what to do without it", mark.name)
    end
  end
  for p in pairs(self.holders) do
    if read[core.id(p)] and is_foreign(self, p) then
      refuse_here(self.settings, "reads parameter '%s' behind the gradients, which stage %d has",
        p:get_name() or p:type(), self.holders[p][1])
    end
  end
end

return stages
