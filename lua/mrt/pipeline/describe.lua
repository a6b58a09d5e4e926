--- describe.lua -- what a plan tells of its stage
---
--- SPDX-License-Identifier: MIT

local hold = require "mrt.pipeline.hold"
local simulate = require "mrt.pipeline.simulate"

---@class mrt.PlanOfStage
---@field stage integer      this one, from 1,
---@field stages integer     of so many
---@field chunks integer     parts of the layers that each has
---@field bubble number      idle share of all stages, where a backward takes two forwards
---@field in_flight integer  micro-batches whose activations it holds at most, of all its parts
---@field held integer       bytes of what it holds for micro-batches, at most; of `outputs`
---@field phases {kind: "F"|"B"|"W", part: integer, seconds: number, saved: integer, sends:
---  integer, plan: userdata}[]  of its parts: predicted, of a micro-batch; bytes that are saved
---  for later phases, that go to another stage; the core's plan

-- Bytes of what a message brings.
local function carried(entry, e)
  if e.does == "act" then return entry.sizes[hold.slot(e.part + 1, 0, "in")] end
  return entry.sizes[hold.slot(e.part - 1, 0, "dy")]
end

-- Bytes that this stage gives to others in messages between parts.
local function sent_between(entry)
  local own, bytes = entry.settings.stage, 0
  for _, e in ipairs(entry.events) do
    if e.to and e.from == own then bytes = bytes + carried(entry, e) end
  end
  return bytes
end

-- And behind the micro-batches: gradients and totals of which others have a part, results.
local function sent_behind(entry)
  local own, others, bytes = entry.settings.stage, entry.settings.p - 1, 0
  for _, t in ipairs(entry.tied) do
    bytes = bytes + t.nbytes * (own == t.stages[1] and #t.stages - 1 or 1)
  end
  for _, t in ipairs(entry.totals) do
    bytes = bytes + (t.root == own - 1 and t.nbytes * others or 0)
  end
  for _, r in ipairs(entry.results_of) do
    bytes = bytes + (r.stage == own and r.nbytes * others or 0)
  end
  return bytes
end

-- Bytes that a phase gives to another stage.
local function sends(entry, kind, part)
  local e = kind == "F" and { does = "act", part = part } or { does = "grad", part = part }
  return kind ~= "W" and carried(entry, e) or 0
end

local function phases_of(entry)
  local out = {}
  for part = entry.settings.stage, entry.order.p * entry.order.v, entry.order.p do
    local of = entry.stages[part]
    for _, kind in ipairs { "F", "B", "W" } do
      local saved = 0
      for _, name in ipairs(of[kind] and of[kind].makes or {}) do
        if name:find "^[sp]%d" or name:find "^out" and of.wanted[name] > 1 then
          saved = saved + of[kind].bytes[name]
        end
      end
      if of[kind] then
        out[#out + 1] = { kind = kind, part = part, seconds = of[kind].plan:info().seconds,
          saved = saved, plan = of[kind].plan, sends = sends(entry, kind, part) }
      end
    end
  end
  return out
end

-- Bytes that are packed for the backward pass of a micro-batch: what is held, and what B and W
-- pack that they compute again.
local function add_packed(entry, out)
  local from, to = 0, 0
  for _, part in pairs(entry.stages) do
    from, to = from + part.packed, to + part.packed_to
    for _, kind in ipairs { "B", "W" } do
      local info = part[kind] and part[kind].plan:info() or {}
      from, to = from + (info.compressed or 0), to + (info.compressed_to or 0)
    end
  end
  if from > 0 then out.compressed, out.compressed_to = from, to end
end

--- Add what is known of the stage to what is told of a plan.
---@param entry table
---@param out table
return function(entry, out)
  local sim, stage = simulate(entry.order), entry.settings.stage
  out.wire = out.wire + sent_between(entry) + sent_behind(entry)
  out.pipeline = { stage = stage, stages = entry.order.p, chunks = entry.order.v,
    bubble = sim.bubble, in_flight = sim.in_flight[stage], held = entry.held,
    phases = phases_of(entry) }
  add_packed(entry, out)
end
