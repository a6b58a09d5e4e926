--- options.lua -- the option `pipeline` of mrt.compile
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local check = require "mrt.pipeline.check"
local communicator = require "mrt.communicator"
local options = require "mrt.util.options"
local schedule = require "mrt.pipeline.schedule"

local pipeline = {}

---@class mrt.PipelineOptions
---@field stages? integer      default: as many as ranks, which it must be
---@field schedule? "gpipe"|"1f1b"|"interleaved"|"zero_bubble"|mrt.PipelineSchedule
---  default "1f1b"
---@field chunks? integer      on each stage; default 1, of "interleaved" 2
---@field begins? string[]     modules with which the parts but the first begin: "blocks.3";
---  by default where the parts have equal work
---@field recompute? boolean   a micro-batch in flight keeps what came into the stage, and
---  B computes the rest again
---@field comm? mrt.Communicator  the stages' ranks in their order; default: all
---@field package mesh? mrt.Mesh  of which the stages are a dimension
---@field replicas? mrt.Communicator  ranks that are the same stage of other pipelines, each
---  with rows of its own: gradients are averaged over them.  Where they share parameters:
---  option `shard`, with `comm`

---@class mrt.PipelineSettings
---@field schedule mrt.PipelineSchedule
---@field v integer
---@field again boolean
---@field p integer?             once the ranks have met
---@field comm mrt.Communicator?  ditto
---@field replicas mrt.Communicator?
---@field stage integer?         ditto: this rank's, from 1
---@field orders table<integer, mrt.PipelineOrder>  by micro-batches
---@field agreed table<string, boolean>  what stages have found that all have (run.describe)
local Settings = {}
Settings.__index = Settings

local function refuse(text, ...) core.fail("value", "pipeline", text:format(...)) end

local function check_beside(own, given)
  if own.shard and given.replicas then
    refuse "replicas beside option 'shard', which has its own: policy.shard.ddp { comm = ... }"
  end
  if math.type(own.accumulate) ~= "integer" or own.accumulate < 2 then
    refuse("option 'accumulate': the number of micro-batches wanted, 2 or more, got %s",
      options.show(own.accumulate))
  end
end

local function read_schedule(given)
  if type(given) == "function" then return given end
  if schedule.named[given] then return schedule.named[given] end
  refuse("schedule %s, \"gpipe\", \"1f1b\", \"interleaved\", \"zero_bubble\" or a function wanted",
    options.show(given))
end

local function read_begins(names)
  for i, name in ipairs(names or {}) do
    if type(name) ~= "string" then
      refuse("option 'begins': the path of a module wanted at %d, got %s", i, options.show(name))
    end
  end
  return names
end

--- Read the option `pipeline` of mrt.compile.
---@param given mrt.PipelineOptions
---@param own table  the other options
---@return mrt.PipelineSettings
function pipeline.read(given, own)
  local o = options.read("pipeline", given, { stages = options.of "size",
    schedule = options.of(nil, "1f1b"), chunks = options.of "size", recompute = false,
    begins = options.of "table", comm = options.none, replicas = options.none,
    mesh = options.none })
  local plan = read_schedule(o.schedule)
  check_beside(own, o)
  return setmetatable({ schedule = plan, again = o.recompute, comm = o.comm,
    replicas = o.replicas, stages = o.stages, mesh = o.mesh, begins = read_begins(o.begins),
    orders = {}, agreed = {},
    v = o.chunks or (plan == schedule.interleaved and 2 or 1) }, Settings)
end

--- Meet the other stages.
function Settings:meet()
  if self.p then return end
  if self.mesh then self.mesh:meet() end
  self.comm = self.mesh and self.mesh.comm.pipeline or self.comm or communicator.create()
  local stages = self.stages or self.comm.size
  if stages ~= self.comm.size then
    refuse("%d stages on %d ranks; a rank is a stage", stages, self.comm.size)
  end
  self.p, self.stage = stages, self.comm.rank + 1
end

--- The schedule of m micro-batches, checked.
---@param m integer
---@return mrt.PipelineOrder
function Settings:order(m)
  self:meet()
  self.orders[m] = self.orders[m] or check.order(self.schedule, self.p, m, self.v)
  return self.orders[m]
end

--- The stage of a part of the layers.
---@param part integer
---@return integer
function Settings:home(part) return (check.home(part, self.p)) end

--- The stages of these parts, ascending, each once.
---@param parts integer[]
---@return integer[]
function Settings:stages_of(parts)
  local seen, out = {}, {}
  for _, part in ipairs(parts) do
    local s = self:home(part)
    if not seen[s] then seen[s], out[#out + 1] = true, s end
  end
  table.sort(out)
  return out
end

return pipeline
