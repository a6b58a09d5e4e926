--- mrt.cluster -- machines of many devices, and how long a step takes on them
---
---     local cluster = mrt.cluster "dgx-h100:128"
---     cluster:collective("allreduce", 2^30, { size = 128 })
---     cluster:step { mesh = { tensor = 8, data = 16 }, rows = 1, micros = 8,
---       model = { layers = 32, hidden = 4096, heads = 32, vocab = 50304, seq = 2048 } }
---
--- Nothing runs, and no such device need be here.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local collectives = require "mrt.cluster.collectives"
local machines = require "mrt.cluster.machines"
local read = require "mrt.cluster.read"
local software = require "mrt.cluster.software"

---@class mrt.cluster
local cluster = {}

--- A cluster: figures of its devices, hosts and links, and how many devices.
---@class mrt.Cluster
---@field name string
---@field devices integer
---@field device mrt.cluster.Device
---@field levels mrt.cluster.Level[]
---@field host table<string, number>
---@field overlap number  how much slower kernels are while a collective runs beside them
local Cluster = {}

local function found(name)
  for _, machine in ipairs(machines) do
    if machine.name == name then return machine end
  end
end

--- List the clusters that there are, by name: what they are.
---
---     mrt.cluster.list()["dgx-a100"]
---@return table<string, string>
function cluster.list()
  local out = {}
  for _, machine in ipairs(machines) do out[machine.name] = machine.about end
  return out
end

local function names()
  local out = {}
  for _, machine in ipairs(machines) do out[#out + 1] = machine.name end
  return table.concat(out, ", ")
end

-- name:count, or a file.lua[:count]
local function by_name(text)
  local name, count = text:match "^(.-):(%d+)$"
  name = name or text
  local machine = found(name)
  if not machine and name:find "%.lua$" then
    local source, message = core.read_file(name)
    if not source then core.fail("value", "cluster", message) end
    local chunk, problem = load(source, "@" .. name, "t", {})
    if not chunk then core.fail("value", "cluster", problem) end
    local ok, given = pcall(chunk)
    if not ok or type(given) ~= "table" then
      core.fail("value", "cluster", ("%s returns no table"):format(name))
    end
    machine = read.table(given, found)
  end
  if not machine then
    core.fail("value", "cluster", ("no cluster '%s' (clusters: %s, or a file.lua that returns one)")
      :format(name, names()))
  end
  return machine, math.tointeger(tonumber(count))
end

-- mrt.cluster "dgx-h100:128"
local function make(_, given, devices)
  local machine, count
  if type(given) == "string" then
    machine, count = by_name(given)
  elseif type(given) == "table" then
    machine, count = read.table(given, found), given.devices
  else
    core.fail("value", "cluster", "a name as \"dgx-h100:128\" or a table wanted, got "
      .. type(given))
  end
  count = devices or count or machine.levels[1].size
  if math.type(count) ~= "integer" or count < 1 then
    core.fail("value", "cluster", "so many devices, one or more, wanted: \"dgx-h100:128\"")
  end
  return setmetatable({ devices = count }, { __index = function(_, key)
    if Cluster[key] ~= nil then return Cluster[key] end
    return machine[key]
  end, __name = "mrt.Cluster" })
end

--- Predict how long ranks take for a collective, and by which way.
---
---     mrt.cluster "dgx-a100:64":collective("allreduce", 2^28, { size = 8, stride = 8 })
---
--- Raises: a collective that there is not, a group that is none.
---@param kind "allreduce"|"reduce_scatter"|"allgather"|"broadcast"|"all_to_all"|"shift"
---@param bytes number  of the whole vector
---@param group? {size: integer, stride: integer?}  ranks that stand `stride` apart; default all
---@return number seconds
---@return string? way
function Cluster:collective(kind, bytes, group)
  return collectives.seconds(self.levels, kind, bytes, group or { size = self.devices })
end

--- Predict how long one rank's bytes take to another.
---
---     mrt.cluster "dgx-a100:64":send(2^20, 0, 8)
---@param bytes number
---@param from integer  ranks, from 0
---@param to integer
---@return number seconds
function Cluster:send(bytes, from, to)
  return collectives.send(self.levels, bytes, from, to)
end

--- Predict how long a planned step takes on one of these devices, all its micro-batches, with
--- what ranks do together over all of them.  Launches are those of a recorded step.  Of a stage
--- of a pipeline: how long it works.
---
---     local step = mrt.compile(function(x) return x:matmul(x):sum() end)
---     mrt.cluster "dgx-h100:8":plan(step:plan(mrt.ones(64, 64))) > 0  --> true
---@param plan mrt.Plan
---@return number seconds
function Cluster:plan(plan)
  return require "mrt.cluster.planned".rank(self, plan)
end

local axes <const> = { "tensor", "pipeline", "context", "expert", "data", tensor = true,
  pipeline = true, context = true, expert = true, data = true }

local function offload_of(self, given)
  if given == nil then return nil end
  if given ~= "state" then
    core.fail("value", "cluster", ("offload: \"state\" wanted, got %s"):format(tostring(given)))
  elseif not self.swap then
    core.fail("value", "cluster", ("no figure for 'swap' of %s: what goes to the host")
      :format(self.name))
  end
  return given
end

local function size(value, what, default)
  if value == nil then value = default end
  if math.type(value) ~= "integer" or value < 1 then
    core.fail("value", "cluster", ("%s: a positive integer wanted, got %s"):format(what,
      tostring(value)))
  end
  return value
end

local ways <const> = { none = true, selective = true, half = true, full = true }

-- What a job says besides shapes makes sense.
local function check(job)
  for axis in pairs(job.mesh or {}) do
    if not axes[axis] then
      core.fail("value", "cluster", ("mesh.%s is not predicted (%s are)"):format(tostring(axis),
        table.concat(axes, ", ")))
    end
  end
  if not ways[job.recompute or "none"] then
    core.fail("value", "cluster", ("recompute: none, selective, half or full wanted, got %s")
      :format(tostring(job.recompute)))
  end
  local zero = job.zero or 0
  if math.type(zero) ~= "integer" or zero < 0 or zero > 3 then
    core.fail("value", "cluster", "zero: 0 to 3 wanted, got " .. tostring(zero))
  end
end

local function model_of(given)
  if type(given) ~= "table" then core.fail("value", "cluster", "a model wanted") end
  local m = { gated = given.gated and true or false }
  for _, field in ipairs { "layers", "hidden", "heads", "seq", "vocab" } do
    m[field] = size(given[field], "model." .. field)
  end
  m.kv_heads = size(given.kv_heads, "model.kv_heads", m.heads)
  m.ffn = size(given.ffn, "model.ffn", 4 * m.hidden)
  if given.experts then
    m.experts = size(given.experts, "model.experts")
    m.top = size(given.top, "model.top", 2)
    m.shared = given.shared and size(given.shared, "model.shared")
    if m.top > m.experts then
      core.fail("value", "cluster", ("model.top: %d of %d experts"):format(m.top, m.experts))
    end
  end
  m.bias = given.bias
  if m.bias == nil then m.bias = not m.gated end
  return m
end

local function software_of(given)
  if type(given) == "table" then return given end
  return software[given or "megatron_core"]
    or core.fail("value", "cluster", ("no software '%s'"):format(tostring(given)))
end

--- Predict a training step of a decoder.
---
---     local seconds, told = mrt.cluster "dgx-a100:64":step {
---       model = { layers = 30, hidden = 3072, heads = 32, vocab = 50257, seq = 2048 },
---       mesh = { tensor = 8, data = 8 }, rows = 4, micros = 16, recompute = "full",
---       software = "megatron" }
---
--- Raises: a mesh that does not divide the devices or the model, an option that makes no sense.
---@param job {model: table, mesh: table?, rows: integer?, micros: integer?, chunks: integer?,
---  zero: integer?, recompute: string?, recomputed: integer?, software: string|table|nil,
---  order: mrt.PipelineSchedule?, as_mrt: boolean?, bound: boolean?}
---  model: of experts `experts` in each layer, `ffn` wide each, of which a token goes to `top`
---  (2), and `shared`, the width of a perceptron for all;
---  mesh: tensor, pipeline, context, expert, data; rows: sequences of a micro-batch; chunks: of
---  layers that a stage has in turn; recompute: "none", "selective", "half", "full"; recomputed:
---  layers it is done for; order: a schedule of mrt.pipeline; as_mrt: experts as
---  mrt's ranks share them, whose messages have room for all rows; bound: no schedule is run
---  through, and no such step is quicker
---@return number seconds
---@return table told
function Cluster:step(job)
  check(job)
  local mesh, all = {}, 1
  for _, axis in ipairs(axes) do
    mesh[axis] = size(job.mesh and job.mesh[axis], "mesh." .. axis, 1)
    all = all * mesh[axis]
  end
  if mesh.expert > 1 and (job.model.experts or 1) % mesh.expert ~= 0 then
    core.fail("value", "cluster", ("mesh.expert: %d, of a model with %s"):format(mesh.expert,
      job.model.experts and job.model.experts .. " experts" or "none"))
  end
  if all ~= self.devices then
    core.fail("value", "cluster", ("a mesh of %d ranks, %s has %d devices"):format(all, self.name,
      self.devices))
  end
  return require "mrt.cluster.step".predict { cluster = self, model = model_of(job.model),
    mesh = mesh, rows = size(job.rows, "rows", 1), micros = size(job.micros, "micros", 1),
    chunks = size(job.chunks, "chunks", 1), zero = job.zero or 0, order = job.order,
    offload = offload_of(self, job.offload), as_mrt = job.as_mrt,
    recompute = job.recompute or "none", recomputed = job.recomputed, bound = job.bound,
    software = software_of(job.software) }
end

--- Search for the mesh on which a decoder trains quickest: sizes of tensor, context, expert,
--- pipeline and data, micro-batches, ZeRO's stage, chunks, recomputation, precision, and where else
--- nothing fits, moments in the host's memory.  Nothing that was tried is quicker by this model;
--- memory is estimated.
---
---     mrt.cluster "dgx-a100:64":find { batch = 64,
---       model = { layers = 8, hidden = 1024, heads = 16, vocab = 51200, seq = 1024 } }.best.mesh
---
--- Raises: a batch or a model that no mesh divides.
---@param o {model: table, batch: integer, software: string|table|nil, precisions: string[]?,
---  memory: number?, rivals: integer?, own: boolean?}  batch: sequences of a step, over all
---  ranks; memory: bytes of a device; rivals: so many other meshes; own: memory as mrt's
---  plans have it, which gather weights in f32, and one chunk a stage
---@return mrt.cluster.Found
function Cluster:find(o)
  local reserved = require "mrt.cluster.find.memory".reserved
  return require "mrt.cluster.find".search { cluster = self, model = model_of(o.model),
    batch = size(o.batch, "batch"), software = software_of(o.software),
    precisions = o.precisions or { "bf16" }, limit = (o.memory or self.device.memory) - reserved,
    rivals = o.rivals or 8, own = o.own, step = 0.05 }
end

return setmetatable(cluster, { __call = make })
