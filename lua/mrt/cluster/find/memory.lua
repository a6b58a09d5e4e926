--- memory.lua -- what a rank of a mesh takes, by formula: before there is a plan
---
--- Parameters are counted from plans of pieces, activations by Korthikanti et al. 2022
--- (arXiv:2205.05198, mrt.estimate), states as in mixed precision: weights of 16 bits,
--- gradients added up in f32, 12 bytes of master weights and two moments, cut as ZeRO's
--- stage says (Rajbhandari et al. 2019, arXiv:1910.02054).  A plan is exact; this prunes.
---
--- SPDX-License-Identifier: MIT

local estimate = require "mrt.estimate"
local step = require "mrt.cluster.step"

local memory = {}

-- Bytes of a parameter; mrt gathers weights as they are stored, in f32.
local WEIGHT <const>, OWN <const>, GRADIENT <const>, STATE <const> = 2, 4, 4, 12

--- What a device keeps for its context and libraries, which no plan has.
memory.reserved = 2 ^ 30

---@class mrt.cluster.Memory
---@field weights number   bytes of a rank, as all that follow
---@field gradients number
---@field state number
---@field activations number  in flight
---@field buffers number   of collectives
---@field host? number     of the host's memory
---@field peak number      the sum
---@field stage integer    that takes most

-- Bytes that a layer keeps of a micro-batch.
local function layer(job, recompute)
  local model, software = job.model, job.software
  local ffn, routed = model.ffn, 0
  if model.experts then
    ffn = model.top * model.ffn + (model.shared or 0)
    -- rows in the experts' order, and what these made, for each expert that a token goes to
    routed = 4 * job.rows * (model.seq // job.mesh.context) * model.top * model.hidden
      * (job.as_mrt and job.mesh.expert or 1 / job.mesh.tensor)
  end
  if recompute == "full" then routed = 0 end
  return routed + estimate.layer { sequence = model.seq // job.mesh.context, dim = model.hidden,
    heads = model.heads, batch = job.rows, tensor = job.mesh.tensor,
    ff = model.gated and ffn * 3 // 2 or ffn, dropout = software.dropout > 0,
    attention = software.attention == "fused" and "fused" or "explicit",
    recompute = recompute, sequence_parallel = software.sequence and job.mesh.tensor > 1 }
end

-- Boundaries that recomputing leaves are cut over `tensor`, where norms are.
local function boundary(job, bytes)
  return job.recompute == "full" and job.software.sequence and bytes / job.mesh.tensor or bytes
end

-- Micro-batches of which a stage holds activations, in layers: 1F1B, interleaved or not.
local function in_flight(job, stage, layers)
  local P, chunks = job.mesh.pipeline, job.chunks
  if chunks == 1 then return math.min(P - stage + 1, job.micros) * layers end
  local ahead = (P - stage) * 2 + (chunks - 1) * P + 1
  return math.min(ahead, job.micros * chunks) * layers / chunks
end

local function activations(job, stage, layers, kept, whole)
  local P, model = job.mesh.pipeline, job.model
  local bytes = in_flight(job, stage, layers) * kept
  if job.recompute ~= "none" then bytes = bytes + whole end
  if stage == P then -- logits in f32, and their gradient in 16 bits
    bytes = bytes + 6 * job.rows * (model.seq // job.mesh.context) * model.vocab / job.mesh.tensor
  end
  return bytes
end

--- What the stage that takes most takes.
---@param job mrt.cluster.Job
---@param stages {parameters: integer, experts: integer, layers: integer}[]
---@param own? boolean  as mrt's plans have it
---@return mrt.cluster.Memory
function memory.of(job, stages, own)
  local weight = own and OWN or WEIGHT
  local others = job.mesh.data * job.mesh.context -- that have the same experts
  local share = others * job.mesh.expert
  local kept, whole = boundary(job, layer(job, job.recompute)), layer(job, "none")
  local most
  for s, stage in ipairs(stages) do
    local function after(from)
      if job.zero < from then return stage.parameters + stage.experts end
      return stage.parameters / share + stage.experts / others
    end
    local m = { weights = after(3) * weight, gradients = after(2) * GRADIENT,
      state = after(1) * STATE, stage = s, buffers = 0,
      activations = activations(job, s, stage.layers, kept, whole) }
    if job.offload then -- all but two layers' moments
      m.host = after(1) * step.moments
      m.state = m.state - m.host * math.max(0, 1 - 2 / (stage.layers + 1))
    end
    if job.zero >= 2 then -- units that are gathered, and scattered, two at a time
      m.buffers = 2 * (weight + GRADIENT) * after(4) / (stage.layers + 1)
    end
    m.peak = m.weights + m.gradients + m.state + m.activations + m.buffers
    if not most or m.peak > most.peak then most = m end
  end
  return most
end

return memory
