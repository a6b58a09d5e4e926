--- step.lua -- how long a training step takes on a cluster
---
---   input     a job: model, mesh, micro-batches, what the software does, the cluster
---   method    Nodes of a layer, of what comes first and last, are read from plans and become
---             chains (parts.lua).  Stages are sums of them; micro-batches go through them as
---             events (pipeline.lua).  Then gradients are reduced over `data`, and the
---             optimizer passes over its state.
---   order     ranks of tensor stand next to each other, then context, expert, data, pipeline
---
--- SPDX-License-Identifier: MIT

local check = require "mrt.pipeline.check"
local collectives = require "mrt.cluster.collectives"
local core = require "mrt.core"
local parts = require "mrt.cluster.parts"
local pipeline = require "mrt.cluster.pipeline"
local sharded = require "mrt.cluster.sharded"

local step = {}

---@class mrt.cluster.Job
---@field cluster mrt.Cluster
---@field model mrt.cluster.Model
---@field mesh {tensor: integer, pipeline: integer, context: integer, expert: integer,
---  data: integer}
---@field rows integer
---@field micros integer
---@field chunks integer
---@field zero integer
---@field offload? "state"  moments lie in the host's memory
---@field recompute string
---@field recomputed? integer
---@field software table<string, any>  software.lua
---@field order? mrt.PipelineSchedule
---@field as_mrt? boolean  experts as mrt's ranks share them: messages have room for all rows, and
---  ranks of tensor compute the same rows, whole
---@field share? mrt.cluster.Share
---@field bound? boolean  no events: what micro-batches take at least stands for them

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
    tensor = mesh.tensor, expert = mesh.expert, whole = job.as_mrt and mesh.expert > 1 or nil,
    vocab = vocabulary(job), attention = software.attention,
    loss = software.loss,
    -- Megatron's kernel takes four rows of heads at a time
    fused_softmax = software.attention ~= "scores"
      or (heads * job.rows % 4 == 0 and model.seq <= software.fused_softmax) }
end

-- Layers of a stage's chunk.  Those that do not divide go to the middle: the first and the
-- last have a table of the vocabulary besides.
local function layers_of(job, stage, chunk)
  local all, n = job.model.layers, job.mesh.pipeline * job.chunks
  local part = check.part(stage, chunk, job.mesh.pipeline)
  local rest, before = all % n, (n - all % n + 1) // 2
  return all // n + (part > before and part <= before + rest and 1 or 0)
end

-- Chains of each stage and chunk, and parameters of each stage on a rank.
local function stages_of(job)
  local layer, first, last = parts.layer(job), parts.first(job), parts.last(job)
  local P, list = job.mesh.pipeline, {}
  for stage = 1, P do
    local s = { parameters = 0, experts = 0, layers = 0 }
    for chunk = 1, job.chunks do
      local n = layers_of(job, stage, chunk)
      local f, b = layer.forward:times(n), layer.backward:times(n)
      s.parameters, s.layers = s.parameters + n * layer.parameters, s.layers + n
      s.experts = s.experts + n * layer.experts
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
  return list, first
end

-- ---- through the pipeline ------------------------------------------------------

-- Bytes from a stage to the next: all ranks of tensor send them, or each its share.
local function sending(job)
  local mesh, levels = job.mesh, job.cluster.levels
  local bytes = 2 * job.share.rows * job.share.tokens * job.model.hidden
  local apart = mesh.tensor * mesh.context * mesh.expert * mesh.data
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
    local part = check.part(stage, chunk, P)
    local to = kind == "F" and part + 1 or part - 1
    if to < 1 or to > P * job.chunks then return seconds end
    return seconds + send(stage, (check.home(to, P)))
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

-- No schedule of one_f_one_b's kind is quicker: a stage begins behind the first pass of those
-- before it, is busy with all its passes, and its last backward pass goes back through them.
local function least_of(job, stages)
  local before, most, busy = 0, 0, 0
  for _, s in ipairs(stages) do
    local own = 0
    for chunk = 1, job.chunks do own = own + s[chunk].F.until_done + s[chunk].B.until_done end
    most = math.max(most, before + job.micros * own)
    busy = math.max(busy, job.micros * own)
    before = before + s[1].F.until_done + s[1].B.until_done
  end
  return most, busy
end

-- ---- data parallelism ----------------------------------------------------------

-- Ranks that have the same weights; the same experts, if so asked.
local function data_group(job, experts)
  local mesh = job.mesh
  if experts then
    return { size = mesh.data * mesh.context, stride = mesh.tensor * mesh.expert }
  end
  return { size = mesh.data * mesh.expert * mesh.context, stride = mesh.tensor }
end

-- Gradients of so many parameters, after all micro-batches.
local function reduced(job, parameters, experts)
  local group, levels = data_group(job, experts), job.cluster.levels
  if parameters == 0 then return 0 end
  local bytes = parameters * job.software.gradient
  if job.zero == 0 then return (collectives.seconds(levels, "allreduce", bytes, group)) end
  return collectives.seconds(levels, "reduce_scatter", bytes, group)
    + collectives.seconds(levels, "allgather", parameters * 2, group)
end

-- Tables of the first and the last stage are one: their gradients are added.
local function tied(job, first)
  if job.mesh.pipeline == 1 or job.software.untied then return 0 end
  local apart = job.mesh.tensor * job.mesh.context * job.mesh.expert * job.mesh.data
  return (collectives.seconds(job.cluster.levels, "allreduce",
    first.parameters * job.software.gradient,
    { size = 2, stride = apart * (job.mesh.pipeline - 1) }))
end

--- Bytes of a parameter's moments.
step.moments = 8

-- Moments that lie in the host's memory come and go in parts, both at once: the first has
-- come before anything is updated, and nothing else is computed meanwhile.
local function updated(job, parameters, experts)
  local mine = parameters + experts
  if job.zero >= 1 then
    mine = parameters / data_group(job).size + experts / data_group(job, true).size
  end
  local seconds = mine * job.software.update / (job.cluster.device.bandwidth
    * job.cluster.device.streams.update)
  if not job.offload then return seconds end
  return math.max(seconds, mine * step.moments / job.cluster.swap.bandwidth)
end

--- Predict a step.
---@param job mrt.cluster.Job
---@return number seconds
---@return {micros: number, data: number, tied: number, update: number, busy: number,
---  stages: {parameters: integer, experts: integer, layers: integer}[]} told  its seconds: of
---  micro-batches, of reducing what does not hide behind them, of tables that two stages have, of
---  the optimizer, that the busiest stage works; and what each stage has, experts apart
function step.predict(job)
  job.share, job.chunks = share_of(job), job.chunks or 1
  local fixed = job.cluster.host.step * job.software.host
  if job.zero >= 2 and job.mesh.pipeline == 1 then
    local micros, parameters, experts = sharded.run(job, data_group(job), data_group(job, true))
    local update = updated(job, parameters, experts)
    return micros + update + fixed, { micros = micros, data = 0, tied = 0, update = update,
      stages = { { parameters = parameters, experts = experts, layers = job.model.layers } },
      busy = micros }
  end
  local stages, first = stages_of(job)
  local least, busy = least_of(job, stages)
  local micros = job.mesh.pipeline == 1 and alone(job, stages[1])
    or job.bound and least or piped(job, stages)
  local data, update = 0, 0
  for _, s in ipairs(stages) do
    local all = reduced(job, s.parameters) + reduced(job, s.experts, true)
    data = math.max(data, all * (1 - job.software.hidden_data))
    update = math.max(update, updated(job, s.parameters, s.experts))
  end
  local added = tied(job, first)
  return micros + data + added + update + fixed, { micros = micros, data = data, tied = added,
    update = update, stages = stages, busy = busy }
end

return step
