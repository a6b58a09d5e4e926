--- pipeline.lua -- stages times micro-batches, as events
---
--- One rank stands for each stage.  A task waits for what it reads: the forward pass of a
--- micro-batch for that of the stage before, the backward pass for that of the stage behind.
--- Schedules are those that steps in stages run by (lua/mrt/pipeline/schedule.lua), of F and B.
--- What is sent takes its time on the way, and with `blocking` the sender's as well.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Events = require "mrt.cluster.events"
local check = require "mrt.pipeline.check"
local schedule = require "mrt.pipeline.schedule"

local pipeline = {}

local function key(kind, part, micro) return ("%s%d.%d"):format(kind, part, micro) end

-- Add a stage's tasks; `made` gets them by kind, part (of all stages and chunks) and
-- micro-batch.
local function add_stage(sim, o, stage, order, made)
  local stream = sim:stream(("stage %d"):format(stage))
  for _, step in ipairs(order) do
    local kind, micro, chunk = step[1], step[2], step[3] or 1
    local part = check.part(stage, chunk, o.stages)
    local name = key(kind, part, micro)
    if made[name] or (kind ~= "F" and kind ~= "B") or micro < 1 or micro > o.micros
      or chunk < 1 or chunk > o.chunks then
      core.fail("value", "cluster", ("schedule of stage %d: %s of micro-batch %d, chunk %d, "
        .. "which is not wanted or is there already"):format(stage, kind, micro, chunk))
    end
    local seconds = o.seconds(kind, stage, chunk)
    made[name] = sim:task(stream, seconds, nil, name)
  end
  return stream
end

-- Bytes on the way are a stream of their own for each pair of neighbours and direction.
local function connect(sim, made, from, to, seconds)
  if not made[from] or not made[to] then return end
  if seconds <= 0 then return sim:wait(made[to], made[from]) end
  local line = sim:stream "line"
  sim:wait(made[to], sim:task(line, seconds, { made[from] }))
end

--- Seconds from the first forward to the last backward pass.
---
---     pipeline.run { stages = 4, micros = 8, chunks = 1,
---       seconds = function(kind) return kind == "F" and 1 or 2 end }
---
--- Raises: a schedule that leaves out or repeats something, one that deadlocks.
---@param o {stages: integer, micros: integer, chunks: integer, order: mrt.PipelineSchedule?,
---  seconds: fun(kind: string, stage: integer, chunk: integer): number,
---  send: (fun(from: integer, to: integer): number)?}
---@return number seconds
---@return number[] busy  seconds of each stage
function pipeline.run(o)
  local sim, made, streams = Events.new(), {}, {}
  local order = o.order or o.chunks > 1 and schedule.interleaved or schedule.one_f_one_b
  for stage, own in ipairs(order(o.stages, o.micros, o.chunks)) do
    streams[stage] = add_stage(sim, o, stage, own, made)
  end
  local parts = o.stages * o.chunks
  local function home(part) return (check.home(part, o.stages)) end
  local function send(a, b) return o.send and o.send(home(a), home(b)) or 0 end
  for part = 1, parts do
    for micro = 1, o.micros do
      local f, b = key("F", part, micro), key("B", part, micro)
      if not made[f] or not made[b] then
        core.fail("value", "cluster", ("schedule of stage %d: micro-batch %d is missing")
          :format(home(part), micro))
      end
      if part < parts then
        connect(sim, made, f, key("F", part + 1, micro), send(part, part + 1))
        connect(sim, made, key("B", part + 1, micro), b, send(part + 1, part))
      else
        sim:wait(made[b], made[f])
      end
    end
  end
  local seconds, busy = sim:run(), {}
  for stage, stream in ipairs(streams) do busy[stage] = sim:busy(stream) end
  return seconds, busy
end

return pipeline
