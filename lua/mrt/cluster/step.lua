--- step.lua -- how long a training step takes on a cluster
---
---   input     a job: model, mesh, micro-batches, what the software does, the cluster
---   method    Nodes of a layer, of what comes first and last, are read from plans and become
---             chains (parts.lua).  Stages are sums of them; micro-batches go through them as
---             events (pipeline.lua).  Then gradients are reduced over `data`, and the
---             optimizer passes over its state.
---   order     ranks of tensor stand next to each other, then context, data, pipeline
---
--- SPDX-License-Identifier: MIT

local Chain = require "mrt.cluster.chain"
local Events = require "mrt.cluster.events"
local collectives = require "mrt.cluster.collectives"
local core = require "mrt.core"
local parts = require "mrt.cluster.parts"
local pipeline = require "mrt.cluster.pipeline"

local step = {}

local function divided(a, b, what)
  if a % b ~= 0 then
    core.fail("value", "cluster", ("%s: %d, which %d do not divide"):format(what, a, b))
  end
  return a // b
end

-- A table of 128-token rows, as Megatron pads it, cut over ranks.
local function vocabulary(job)
  local tensor = job.mesh.tensor
  local unit = job.software.padded * tensor
  return math.ceil(job.model.vocab / unit) * unit // tensor
end

-- What pieces are traced with: shapes of this rank.
local function share_of(job)
  local model, software, mesh = job.model, job.software, job.mesh
  local tokens = divided(model.seq, mesh.context, "seq over context")
  local heads = divided(model.heads, mesh.tensor, "heads over tensor")
  return { dtype = "bf16", dropout = software.dropout, rows = job.rows, tokens = tokens,
    tokens_between = software.sequence and divided(tokens, mesh.tensor, "tokens over tensor")
      or tokens,
    tensor = mesh.tensor, vocab = vocabulary(job), attention = software.attention,
    loss = software.loss,
    -- Megatron's kernel takes four rows of heads at a time
    fused_softmax = software.attention ~= "scores"
      or (heads * job.rows % 4 == 0 and model.seq <= software.fused_softmax) }
end

-- Layers of a stage's chunk.
local function layers_of(job, stage, chunk)
  local all, n = job.model.layers, job.mesh.pipeline * job.chunks
  local part = (chunk - 1) * job.mesh.pipeline + stage - 1
  return all * (part + 1) // n - all * part // n
end

-- Chains of each stage and chunk, and parameters of each stage on a rank.
local function stages_of(job)
  local layer, first, last = parts.layer(job), parts.first(job), parts.last(job)
  local P, list = job.mesh.pipeline, {}
  for stage = 1, P do
    local s = { parameters = 0, layers = 0 }
    for chunk = 1, job.chunks do
      local n = layers_of(job, stage, chunk)
      local f, b = layer.forward:times(n), layer.backward:times(n)
      s.parameters, s.layers = s.parameters + n * layer.parameters, s.layers + n
      if stage == 1 and chunk == 1 then
        f, b = first.forward:then_(f), b:then_(first.backward)
        s.parameters = s.parameters + first.parameters
      end
      if stage == P and chunk == job.chunks then
        f, b = f:then_(last.forward), last.backward:then_(b)
        if P > 1 or job.software.untied then s.parameters = s.parameters + last.parameters end
      end
      s[chunk] = { F = f, B = b }
    end
    list[stage] = s
  end
  return list, layer, first, last
end

-- ---- through the pipeline ------------------------------------------------------

-- Bytes from a stage to the next: all ranks of tensor send them, or each its share.
local function sending(job)
  local mesh, levels = job.mesh, job.cluster.levels
  local bytes = 2 * job.share.rows * job.share.tokens * job.model.hidden
  local apart = mesh.tensor * mesh.context * mesh.data
  local inner = { size = mesh.tensor, stride = 1 }
  if job.software.sends_shares then
    local gathered = job.software.sequence and 0
      or collectives.seconds(levels, "allgather", bytes, inner)
    return function(from, to)
      return collectives.send(levels, bytes / mesh.tensor, (from - 1) * apart, (to - 1) * apart)
        + gathered
    end
  end
  return function(from, to)
    return collectives.send(levels, bytes, (from - 1) * apart, (to - 1) * apart)
  end
end

-- One stage: the host runs ahead from one micro-batch to the next, unless timers wait for
-- the device at both ends of a pass.
local function alone(job, s)
  if job.software.blocking then return job.micros * (s[1].F.until_done + s[1].B.until_done) end
  local micro = s[1].F:then_(s[1].B)
  return micro:times(job.micros).until_done
end

-- Seconds of a pass on a stage; a sender that blocks waits until its bytes have arrived.
local function pass_of(job, stages, send)
  local P = job.mesh.pipeline
  return function(kind, stage, chunk)
    local seconds = stages[stage][chunk][kind].until_done
    if not job.software.blocking then return seconds end
    local part = (chunk - 1) * P + stage
    local to = kind == "F" and part + 1 or part - 1
    if to < 1 or to > P * job.chunks then return seconds end
    return seconds + send(stage, (to - 1) % P + 1)
  end
end

-- Each further micro-batch takes as long as the one before when the pipeline is full: many
-- are not simulated one by one.
local FULL <const> = 3

local function piped(job, stages)
  local send, P = sending(job), job.mesh.pipeline
  local pass = pass_of(job, stages, send)
  local function run(micros)
    return (pipeline.run { stages = P, micros = micros, chunks = job.chunks, order = job.order,
      send = function(from, to) return job.software.blocking and 0 or send(from, to) end,
      seconds = pass })
  end
  if job.order or job.micros <= (FULL + 2) * P then return run(job.micros) end
  local least = FULL * P + job.micros % P
  local seconds = run(least)
  return seconds + (run(least + P) - seconds) * (job.micros - least) / P
end

-- ---- data parallelism ----------------------------------------------------------

local function data_group(job)
  return { size = job.mesh.data * job.mesh.context, stride = job.mesh.tensor }
end

-- Gradients of one stage, after all micro-batches.
local function reduced(job, parameters)
  local group, levels = data_group(job), job.cluster.levels
  local bytes = parameters * job.software.gradient
  if job.zero == 0 then return (collectives.seconds(levels, "allreduce", bytes, group)) end
  return collectives.seconds(levels, "reduce_scatter", bytes, group)
    + collectives.seconds(levels, "allgather", parameters * 2, group)
end

-- Tables of the first and the last stage are one: their gradients are added.
local function tied(job, first)
  if job.mesh.pipeline == 1 or job.software.untied then return 0 end
  local apart = job.mesh.tensor * job.mesh.context * job.mesh.data
  return (collectives.seconds(job.cluster.levels, "allreduce",
    first.parameters * job.software.gradient, { size = 2, stride = apart * (job.mesh.pipeline - 1) }))
end

local function updated(job, parameters)
  local mine = job.zero >= 1 and parameters / data_group(job).size or parameters
  return mine * job.software.update / (job.cluster.device.bandwidth
    * job.cluster.device.streams.update)
end

local function through_one_card(levels)
  local out = table.move(levels, 1, #levels, 1, {})
  for i = 2, #out do
    out[i] = setmetatable({ bandwidth = levels[i].bandwidth / levels[1].size },
      { __index = levels[i] })
  end
  return out
end

-- Layer after layer with pieces of parameters: gathers run one layer ahead on a stream of
-- their own, gradients are scattered behind.
local function sharded(job, layer, first, last)
  local levels, group = job.cluster.levels, data_group(job)
  if job.software.one_card then levels = through_one_card(levels) end
  local sim = Events.new()
  local compute = sim:stream "compute"
  local by = job.cluster.overlap
  local gathers = sim:stream("gathers", { slows = compute, by = by })
  if job.software.alone then gathers = compute end
  local scatters = (job.software.one_network or job.software.alone) and gathers
    or sim:stream("scatters", { slows = compute, by = by })
  local L = job.model.layers
  local wide = job.software.gathered or 2
  local function gather(p)
    return (collectives.seconds(levels, "allgather", p.parameters * wide, group))
  end
  local function scatter(p)
    return (collectives.seconds(levels, "reduce_scatter", p.parameters * job.software.gradient, group))
  end
  local units, kept = { first }, job.recomputed and parts.layer(job, "none") or layer
  for i = 1, L do units[#units + 1] = i <= (job.recomputed or L) and layer or kept end
  units[#units + 1] = last
  local gather_again, behind = job.zero == 3, {}
  local g, s = {}, {}
  for _, p in ipairs { first, layer, kept, last } do g[p], s[p] = gather(p), scatter(p) end
  local function visit(kind, i, gathered, scattered)
    local p = units[i]
    local after = { }
    if gathered then
      -- no more than two sets of parameters at a time
      after[1] = sim:task(gathers, g[p], { behind[#behind - 1] })
    end
    local chain = p[kind]
    local id = sim:task(compute, math.max(chain.host, chain.device), after)
    behind[#behind + 1] = id
    if scattered then sim:task(scatters, s[p], { id }) end
  end
  for micro = 1, job.micros do
    local lazy = micro < job.micros and job.zero < 3
    for i = 1, #units do visit("forward", i, gather_again or (micro == 1), false) end
    for i = #units, 1, -1 do visit("backward", i, gather_again and i < #units, not lazy) end
  end
  local total = sim:run()
  return total, first.parameters + L * layer.parameters
end

--- Predict a step.
---@param job mrt.cluster.Job
---@return number seconds
---@return table told  of the step: pipeline, data, update, bubble
function step.predict(job)
  job.share = share_of(job)
  job.chunks = job.chunks or 1
  local fixed = job.cluster.host.step * job.software.host
  if job.zero >= 2 then
    local layer, first, last = parts.layer(job), parts.first(job), parts.last(job)
    if job.mesh.pipeline == 1 then
      local total, parameters = sharded(job, layer, first, last)
      local update = updated(job, parameters)
      return total + update + fixed, { pipeline = total, data = 0, update = update }
    end
  end
  local stages, _, first = stages_of(job)
  local total = job.mesh.pipeline == 1 and alone(job, stages[1]) or piped(job, stages)
  local data, update = 0, 0
  for _, s in ipairs(stages) do
    data = math.max(data, reduced(job, s.parameters))
    update = math.max(update, updated(job, s.parameters))
  end
  data = data * (1 - job.software.hidden_data)
  local tie = tied(job, first)
  return total + data + tie + update + fixed, { pipeline = total, data = data, tie = tie,
    update = update, fixed = fixed }
end

step.Chain = Chain

return step
