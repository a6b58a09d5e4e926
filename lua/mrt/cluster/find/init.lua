--- mrt.cluster.find -- the mesh on which a decoder trains quickest
---
---     local found = mrt.cluster "dgx-a100:1024":find { batch = 1536,
---       model = { layers = 96, hidden = 12288, heads = 96, vocab = 51200, seq = 2048 } }
---     print(found.best.seconds, found.best.mesh.tensor)
---
---   method    Branch and bound.  Every candidate has a bound in milliseconds: no schedule of
---             its kind is quicker (step.lua).  They are run through as events in the order of
---             their bounds, until the next bound is above the best: what is found, nothing
---             that was enumerated beats by the model.
---
--- SPDX-License-Identifier: MIT

local candidates = require "mrt.cluster.find.candidates"
local core = require "mrt.core"
local estimate = require "mrt.estimate"
local memory = require "mrt.cluster.find.memory"
local topology = require "mrt.cluster.topology"

local find = {}

---@class mrt.cluster.Candidate
---@field mesh table
---@field rows integer      sequences of a micro-batch
---@field micros integer
---@field chunks integer
---@field zero integer
---@field recompute string
---@field precision string
---@field offload? "state"  moments lie in the host's memory
---@field least number      seconds: no such step is quicker
---@field seconds? number   predicted, where it was run through
---@field told? table       of Cluster:step
---@field memory mrt.cluster.Memory  of the rank that takes most, estimated
---@field exposed? number
---@field bubble? number
---@field mfu? number
---@field over number       bytes that the device lacks; 0 or less: it fits

---@class mrt.cluster.Found
---@field best mrt.cluster.Candidate?  the quickest that fits
---@field front mrt.cluster.Candidate[]  less memory, or less time, than all others have
---@field rivals mrt.cluster.Candidate[]  the best of other meshes, by their bounds
---@field candidates mrt.cluster.Candidate[]  all, by their bounds
---@field tried integer
---@field run integer   of these through events
---@field limit number  bytes of a device
---@field flops number  of the model in a step
---@field peak number   flop/s of all devices

local function software_of(base, precision)
  if precision ~= "f8" then return base end
  return setmetatable({ narrow = "f8" }, { __index = base })
end

local function job_of(o, c, bound)
  return { model = o.model, mesh = c.mesh, rows = c.rows, micros = c.micros, chunks = c.chunks,
    zero = c.zero, recompute = c.recompute, offload = c.offload,
    as_mrt = o.own,
    software = software_of(o.software, c.precision), bound = bound }
end

-- The bound and the memory of one; false: it makes no sense.
local function measure_one(o, c)
  local ok, seconds, told = pcall(o.cluster.step, o.cluster, job_of(o, c, true))
  if not ok and type(seconds) ~= "table" then error(seconds, 0) end
  if not ok then return false end
  local job = job_of(o, c)
  job.cluster = o.cluster
  c.least, c.memory = seconds, memory.of(job, told.stages, o.own)
  c.over = c.memory.peak - o.limit
  return true
end

-- The same with moments in the host's memory, where that makes it fit: it is slower.
local function offloaded(o, c)
  local swap = o.cluster.swap
  if c.over <= 0 or not swap then return nil end
  local other = { offload = "state" }
  for key, value in pairs(c) do other[key] = value end
  local fits = measure_one(o, other) and other.over <= 0 and other.memory.host <= swap.memory
  return fits and other or nil
end

local function measure(o, list)
  local out = {}
  for _, c in ipairs(list) do
    if measure_one(o, c) then
      out[#out + 1] = c
      out[#out + 1] = offloaded(o, c)
    end
  end
  return out
end

local function by_bound(list)
  table.sort(list, function(a, b)
    if a.least ~= b.least then return a.least < b.least end
    return a.memory.peak < b.memory.peak
  end)
  return list
end

local function run_through(o, c, found)
  if c.seconds then return c.seconds end
  c.seconds, c.told = o.cluster:step(job_of(o, c))
  found.run = found.run + 1
  return c.seconds
end

-- The quickest that fits, of a list in the order of bounds.
local function quickest(o, list, found)
  local best
  for _, c in ipairs(list) do
    if best and c.least >= best.seconds then break end
    if c.over <= 0 and (run_through(o, c, found) < (best and best.seconds or math.huge)) then
      best = c
    end
  end
  return best
end

-- By memory, each quicker than all that take less; up to the best.
local function front(o, list, found)
  local sorted, out, best = {}, {}, nil
  for _, c in ipairs(list) do if c.over <= 0 then sorted[#sorted + 1] = c end end
  table.sort(sorted, function(a, b)
    if a.memory.peak ~= b.memory.peak then return a.memory.peak < b.memory.peak end
    return a.least < b.least
  end)
  for _, c in ipairs(sorted) do
    if not best or c.least < best * (1 - o.step) then
      local seconds = run_through(o, c, found)
      if not best or seconds < best * (1 - o.step) or c == found.best then
        best, out[#out + 1] = seconds, c
      end
    end
  end
  return out
end

local function mesh_key(c)
  local m = c.mesh
  return ("%d.%d.%d.%d"):format(m.tensor, m.context, m.expert, m.pipeline)
end

-- The best of other meshes: the quickest that fits, else the one with the least bound.
local function rivals(o, list, found, most)
  local groups, order, out = {}, {}, {}
  for _, c in ipairs(list) do
    local key = mesh_key(c)
    if not groups[key] then
      groups[key] = {}
      order[#order + 1] = key
    end
    table.insert(groups[key], c)
  end
  for _, key in ipairs(order) do
    if #out >= most then break end
    if not found.best or key ~= mesh_key(found.best) then
      local c = quickest(o, groups[key], found) or groups[key][1]
      run_through(o, c, found)
      out[#out + 1] = c
    end
  end
  return out
end

--- Say why a candidate takes as long: `exposed`, seconds of collectives that are behind no
--- computation; `bubble`, the share of the pipeline's time in which the busiest stage waits;
--- `mfu`, flops of the model against those of the devices.
---@param o table  what is searched for, or what was found
---@param c mrt.cluster.Candidate
---@return mrt.cluster.Candidate
function find.explain(o, c)
  if not c.seconds then run_through(o, c, o) end
  local free = topology.unlinked(o.cluster):step(job_of(o, c, true))
  c.exposed = math.max(0, c.least - free)
  c.bubble = c.mesh.pipeline == 1 and 0 or 1 - c.told.busy / c.told.micros
  c.mfu = o.flops / (c.seconds * o.peak)
  return c
end

-- Of the model in a step; in the formula a perceptron is two matrices of 4 times the width.
local function flops_of(model, batch)
  local all = estimate.flops { batch = batch, layers = model.layers, sequence = model.seq,
    dim = model.hidden, vocab = model.vocab }.model
  local h, width = model.hidden, model.ffn * (model.top or 1) + (model.shared or 0)
  local own = (model.gated and 3 or 2) * width + (model.experts or 0)
  return all + 6 * batch * model.layers * model.seq * h * (own - 8 * h)
end

--- Search for the mesh, micro-batches, ZeRO, chunks, recomputation and precision.
---
--- Raises: a batch or a model that nothing divides.
---@param o table  cluster, model, batch, software, precisions, limit
---@return mrt.cluster.Found
function find.search(o)
  local model = o.model
  o.flops = flops_of(model, o.batch)
  o.peak = o.cluster.devices * o.cluster.device.flops.bf16
  local list = by_bound(measure(o, candidates.of(o)))
  if #list == 0 then
    core.fail("value", "cluster", ("find: no mesh of %d ranks divides %d sequences, %d layers, "
      .. "%d heads"):format(o.cluster.devices, o.batch, model.layers, model.heads))
  end
  local found = { tried = #list, run = 0, limit = o.limit, own = o.own, flops = o.flops,
    peak = o.peak,
    candidates = list, cluster = o.cluster, model = o.model, software = o.software }
  o.run = 0
  found.best = quickest(o, list, found)
  found.rivals = rivals(o, list, found, o.rivals)
  found.front = front(o, list, found)
  for _, c in ipairs(found.rivals) do find.explain(o, c) end
  for _, c in ipairs(found.front) do find.explain(o, c) end
  if found.best then find.explain(o, found.best) end
  return found
end

return find
