--- parts.lua -- what one rank does for a layer, for what comes first and for what comes last
---
--- Pieces (nodes.lua) become chains of kernels (chain.lua), with the collectives of tensor
--- parallelism where they stand: after the product that ends a piece in the forward pass,
--- after the gradient of its input in the backward pass.  With sequence parallelism each is
--- a reduce_scatter, and an allgather before the next piece.
---
--- SPDX-License-Identifier: MIT

local Chain = require "mrt.cluster.chain"
local collectives = require "mrt.cluster.collectives"
local kernels = require "mrt.cluster.kernels"
local nodes = require "mrt.cluster.nodes"

local parts = {}

--- Axes of a mesh, ranks that stand next to each other first.
parts.order = { "tensor", "context", "expert", "data", "pipeline" }

local together -- below

-- Ranks that a node's group has: those of an axis of the mesh, or all.
local function group_of(job, name)
  if type(name) == "table" then return name end
  local mesh = job.mesh
  local strides, stride = {}, 1
  for _, axis in ipairs(parts.order) do
    strides[axis], stride = stride, stride * (mesh[axis] or 1)
  end
  if strides[name] then return { size = mesh[name] or 1, stride = strides[name] } end
  return { size = stride, stride = 1 }
end

--- One kernel, launched in a phase; or what ranks do together.
---@param job {cluster: mrt.Cluster, mesh: table, software: table}
---@param node mrt.cluster.Node
---@return mrt.cluster.Chain
function parts.launched(job, node)
  if node.kind == "collective" then
    return together(job, node.collective, node.bytes, group_of(job, node.group))
  end
  local host = job.cluster.host
  local seconds = kernels.seconds(job.cluster.device, node)
  return Chain.new((node.phase == "forward" and host.forward or host.backward)
    * job.software.host, seconds)
end

local function join(job, list, phase, keep)
  local out = Chain.new()
  for _, node in ipairs(list) do
    if node.phase == phase and (not keep or keep(node)) then
      out = out:then_(parts.launched(job, node))
    end
  end
  return out
end

-- How much later than the mean the last of p is, in standard deviations (normal; Blom 1958).
local function last_of(p)
  if p < 2 then return 0 end
  local q = (p - 0.375) / (p + 0.25)
  local t = math.sqrt(-2 * math.log(1 - q)) -- Abramowitz and Stegun, 26.2.23
  return t - (2.515517 + 0.802853 * t + 0.010328 * t * t)
    / (1 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t ^ 3)
end

-- A collective waits for the last of its ranks' hosts, which are no equally quick.
function together(job, kind, bytes, group, hidden)
  local seconds = collectives.seconds(job.cluster.levels, kind, bytes, group)
  if seconds == 0 then return Chain.new() end
  local host = job.cluster.host
  return Chain.new((host.collective + host.jitter * last_of(group.size)) * job.software.host,
    seconds * (1 - (hidden or 0)))
end

-- Gradients are added to what they are accumulated in, a kernel for each parameter.
local function accumulated(job, sizes)
  local out = Chain.new()
  if job.software.fused_accumulation then return out end
  local bytes = 2 + 2 * job.software.gradient
  for _, n in ipairs(sizes) do
    out = out:then_(parts.launched(job, { phase = "backward", kind = "memory", class = "pointwise",
      bytes = bytes * n }))
  end
  return out
end

local function sum(sizes)
  local n = 0
  for _, size in ipairs(sizes) do n = n + size end
  return n
end

-- What is computed in 8 bits is rounded first: factors of products with weights.
local function narrowed(job, list)
  if not job.software.narrow then return list end
  local out = {}
  for _, node in ipairs(list) do
    if node.kind == "product" and node.weight then
      local elements = node.m * node.k
      out[#out + 1] = { phase = node.phase, kind = "memory", class = "pointwise",
        bytes = 4 * elements }
      node = setmetatable({ dtype = job.software.narrow }, { __index = node })
    end
    out[#out + 1] = node
  end
  return out
end

-- With context parallelism the queries of a share read the keys of all others; kernels of
-- a program may be slower than the device's best.
local function attended(job, list)
  local c, slower = job.mesh.context, 1 / (job.software.attention_share or 1)
  if c == 1 and slower == 1 then return list end
  local out = {}
  for i, node in ipairs(list) do
    out[i] = node.kind ~= "attention" and node or setmetatable({ flops = c * slower * node.flops,
      bytes = c * node.bytes }, { __index = node })
  end
  return out
end

-- Metrics of each micro-batch read the logits as the loss does.
local function measured(job, list)
  local out = {}
  for _, node in ipairs(list) do
    local again = node.phase == "forward" and node.kind == "memory" and job.software.metrics or 0
    for _ = 0, again do out[#out + 1] = node end
  end
  return out
end

local function is_core(node)
  return node.class == "softmax" or node.class == "dropout"
    or node.kind == "product" and not node.weight
end

-- Its last product, which recomputing leaves out where nothing reads what it gives.
local function last_product(job, list)
  local last
  for _, node in ipairs(list) do
    if node.phase == "forward" and node.kind == "product" then last = node end
  end
  return last and parts.launched(job, last)
end

-- A piece that all ranks of `tensor` share: its chains, and its parameters.
local function piece(job, name, model)
  local list, sizes = nodes.of(name, model or job.model, job.share)
  list = narrowed(job, attended(job, list))
  if name == "head" then list = measured(job, list) end
  return { forward = join(job, list, "forward"), backward = join(job, list, "backward"),
    again = join(job, list, "forward", is_core), last = last_product(job, list),
    accumulated = accumulated(job, sizes),
    parameters = sum(sizes) }
end

-- What is done between pieces, of the tokens of one rank.
local function exchanges(job)
  local tensor = { size = job.mesh.tensor, stride = 1 }
  local bytes = job.share.rows * job.share.tokens * job.model.hidden * 2
  if job.software.sequence then
    local gather, scatter = together(job, "allgather", bytes, tensor),
      together(job, "reduce_scatter", bytes, tensor)
    return { before = gather, after = scatter, again = gather }
  end
  return { before = Chain.new(), after = together(job, "allreduce", bytes, tensor),
    back = together(job, "allreduce", bytes, tensor, job.software.hidden_backward) }
end

local function follow(a, b)
  return { forward = a.forward:then_(b.forward), backward = b.backward:then_(a.backward),
    last = a.last, accumulated = a.accumulated:then_(b.accumulated),
    parameters = a.parameters + b.parameters }
end

-- The perceptron that all tokens go to beside the experts.
local function shared(job)
  local model = {}
  for key, value in pairs(job.model) do model[key] = value end
  model.ffn, model.experts, model.top, model.shared = job.model.shared, nil, nil, nil
  return piece(job, "mlp", model)
end

-- Experts in place of the perceptron: rows go to the ranks that have theirs, and come back, an
-- even share to each.  Of ranks of tensor each sends its part of the rows.
local function experts(job)
  local route, own = piece(job, "route"), piece(job, "experts")
  local m, s = job.model, job.share
  local bytes = 2 * s.rows * s.tokens * m.top * m.hidden
    * (job.as_mrt and job.mesh.expert or 1 / job.mesh.tensor)
  local exchange = together(job, "all_to_all", bytes, group_of(job, "expert"))
  local all = { forward = route.forward:then_(exchange):then_(own.forward):then_(exchange),
    backward = exchange:then_(own.backward):then_(exchange):then_(route.backward),
    last = own.last, accumulated = route.accumulated:then_(own.accumulated),
    parameters = route.parameters }
  if m.shared then all = follow(all, shared(job)) end
  all.experts = own.parameters
  return all
end

local function feed_forward(job)
  return job.model.experts and experts(job) or piece(job, "mlp")
end

-- Context parallelism passes keys and values round the ring beside attention: what of it
-- is longer than attention, and that attention's share of the sequence reads all of it.
local function ring(job, attention)
  local c = job.mesh.context
  if c == 1 then return attention end
  local m, s = job.model, job.share
  local bytes = 2 * 2 * s.rows * s.tokens * m.hidden * m.kv_heads / m.heads / job.mesh.tensor
  local step = collectives.seconds(job.cluster.levels, "allgather", bytes * c,
    { size = c, stride = job.mesh.tensor })
  local exposed = Chain.new(0, step * 0.3)
  attention.forward = attention.forward:then_(exposed)
  attention.backward = attention.backward:then_(exposed):then_(exposed)
  return attention
end

--- A layer: chains of its forward and backward pass, what recomputing adds to the latter,
--- and how many parameters this rank has of it, and besides of its experts.
---@param job mrt.cluster.Job
---@param how? string  another recomputation than the job's
---@return {forward: mrt.cluster.Chain, backward: mrt.cluster.Chain, parameters: integer,
---  experts: integer}
function parts.layer(job, how)
  local between, mlp = piece(job, "between"), feed_forward(job)
  local attention = piece(job, "attention")
  attention = ring(job, attention)
  local e = exchanges(job)
  local forward, backward = Chain.new(), Chain.new()
  for _, p in ipairs { attention, mlp } do
    forward = forward:then_(between.forward):then_(e.before):then_(p.forward):then_(e.after)
    backward = backward:then_(e.again or Chain.new()):then_(p.backward):then_(e.back or e.after)
      :then_(p.accumulated):then_(between.backward):then_(between.accumulated)
  end
  local host = job.cluster.host
  local recompute = how or job.recompute
  if recompute == "full" then
    local again = forward
    if job.software.early_stop then again = again:less(mlp.last) end
    backward = again:then_(Chain.new(host.checkpoint * job.software.host)):then_(backward)
    forward = forward:then_(Chain.new(host.checkpoint * job.software.host))
  elseif recompute == "half" then -- every second product is kept
    backward = Chain.new(forward.host / 2, forward.device / 2):then_(backward)
  elseif recompute == "selective" and job.share.attention == "scores" then
    backward = attention.again:then_(backward)
  end
  return { forward = forward, backward = backward,
    parameters = attention.parameters + mlp.parameters + 2 * between.parameters,
    experts = mlp.experts or 0 }
end

--- What comes before the first layer.
---@param job mrt.cluster.Job
function parts.first(job)
  local p = piece(job, "embedding")
  local bytes = job.share.rows * job.share.tokens * job.model.hidden * 2
  local reduced = together(job, "allreduce", bytes, { size = job.mesh.tensor, stride = 1 })
  return { forward = p.forward:then_(reduced), backward = p.backward:then_(p.accumulated),
    parameters = p.parameters }
end

--- What comes after the last layer: the logits and their loss.
---@param job mrt.cluster.Job
function parts.last(job)
  local p, between = piece(job, "head"), piece(job, "between")
  local bytes = job.share.rows * job.share.tokens * job.model.hidden * 2
  local reduced = together(job, "allreduce", bytes, { size = job.mesh.tensor, stride = 1 })
  return { forward = between.forward:then_(p.forward),
    backward = p.backward:then_(reduced):then_(p.accumulated):then_(between.backward),
    parameters = p.parameters }
end

return parts
