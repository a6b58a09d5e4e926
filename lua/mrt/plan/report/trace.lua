--- trace.lua -- a step as Chrome's trace events, which Perfetto opens
---
--- Every node is a slice as long as it is predicted to take, or was measured to
--- (Profile:save), in lanes for the forward pass, what is computed again, the
--- gradients and the updates; under them a curve of live bytes.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local json = require "mrt.util.json"

local order = { "displayTimeUnit", "traceEvents", "name", "cat", "ph", "pid", "tid", "ts", "dur",
  "args", "module", "line", "flops", "bytes" }

local lanes = { "forward", "again", "gradient", "update" }

local function lane_of(step, updating)
  if step.recomputed then return 2 end
  if step.backward then return 3 end
  return updating and 4 or 1
end

local function slice(step, lane, from, seconds)
  return { name = step.op, cat = step.class, ph = "X", pid = 1, tid = lane,
    ts = from * 1e6, dur = seconds * 1e6, args = { line = about.line(step), module = step.module,
      flops = step.flops, bytes = step.bytes } }
end

--- Write the steps one after the other.
---@param plan mrt.Plan|mrt.Profile
---@return string json
return function(plan)
  local title, steps = plan.title, plan:steps()
  local events = { { name = "process_name", ph = "M", pid = 1, tid = 0,
    args = { name = title } } }
  for i, name in ipairs(lanes) do
    events[#events + 1] = { name = "thread_name", ph = "M", pid = 1, tid = i,
      args = { name = name } }
  end
  local now, updating = 0, false
  for _, step in ipairs(steps) do
    updating = updating or step.backward
    local seconds = step.measured or step.time
    events[#events + 1] = slice(step, lane_of(step, updating), now, seconds)
    events[#events + 1] = { name = "live bytes", ph = "C", pid = 1,
      ts = now * 1e6, args = { bytes = step.live } }
    now = now + seconds
  end
  return json.encode({ displayTimeUnit = "ms", traceEvents = events },
    { order = order, lossy = true }) .. "\n"
end
