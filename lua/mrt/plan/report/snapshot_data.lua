--- snapshot_data.lua -- a plan as a snapshot for PyTorch's memory viewer
---
--- The plan shows as if it had run.  What lives outside the arena is allocated
--- first and stays.
---
---     segments       [{device, address, total_size, allocated_size, active_size,
---                     requested_size, stream, segment_type, frames,
---                     blocks: [{address, size, requested_size, state, frames}]}]
---     device_traces  [[{action, addr, size, stream, frames}]]
---
--- Addresses stay below 2^53, which is what a JavaScript number holds.
---
--- SPDX-License-Identifier: MIT

local about = require "mrt.plan.report.about"
local roles = require "mrt.plan.report.roles"

local ARENA = 1 << 40 -- where the arena begins
local OUTSIDE = 1 << 20 -- where the rest does

local function frames(v)
  return { { filename = v.file, line = v.line,
    name = ("%s%s %s"):format(v.module and v.module .. ": " or "",
      v.name or v.op ~= "" and v.op or v.role, v.type) } }
end

local function event(action, v, address)
  return { action = action, addr = address, size = v.bytes, stream = 0,
    frames = frames(v) }
end

local function segment(address, bytes, active, blocks)
  return { device = 0, address = address, total_size = bytes, stream = 0,
    allocated_size = active, active_size = active, requested_size = active,
    segment_type = "large", frames = {}, blocks = blocks }
end

local function grow(address, bytes)
  return { action = "segment_alloc", addr = address, size = bytes, stream = 0,
    frames = {} }
end

-- Weights, optimizer state, constants, outputs: one block after the other.
local function persistent(values, trace)
  local address, blocks, list = OUTSIDE, {}, {}
  for _, v in ipairs(values) do
    if not roles.in_arena[v.role] and v.role ~= "input" and v.bytes > 0 then
      blocks[#blocks + 1] = { size = v.bytes, requested_size = v.bytes,
        address = address, state = "active_allocated", frames = frames(v) }
      list[#list + 1] = event("alloc", v, address)
      address = address + v.bytes
    end
  end
  if #list == 0 then return nil end
  trace[#trace + 1] = grow(OUTSIDE, address - OUTSIDE)
  table.move(list, 1, #list, #trace + 1, trace)
  return segment(OUTSIDE, address - OUTSIDE, address - OUTSIDE, blocks)
end

local function arena(plan, values, trace)
  if plan.transient == 0 then return nil end
  trace[#trace + 1] = grow(ARENA, plan.transient)
  local births, deaths = about.events(values, plan.nodes)
  for i = 1, plan.nodes do
    for _, v in ipairs(births[i]) do
      trace[#trace + 1] = event("alloc", v, ARENA + v.offset)
    end
    for _, v in ipairs(deaths[i]) do
      trace[#trace + 1] = event("free_requested", v, ARENA + v.offset)
      trace[#trace + 1] = event("free_completed", v, ARENA + v.offset)
    end
  end
  return segment(ARENA, plan.transient, 0, { { size = plan.transient,
    requested_size = 0, address = ARENA, state = "inactive", frames = {} } })
end

---@param plan mrt.Plan
---@return {segments: table[], device_traces: table[][]}
return function(plan)
  local values, trace, segments = plan:values(), {}, {}
  segments[1] = persistent(values, trace)
  segments[#segments + 1] = arena(plan, values, trace)
  return { segments = segments, device_traces = { trace } }
end
