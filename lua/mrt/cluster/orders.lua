--- orders.lua -- in which order a stage does its micro-batches
---
--- A schedule is a function of the stage (from 1), how many stages, micro-batches and chunks
--- of layers a stage has; it returns a list of { "F" or "B", micro-batch, chunk }.
---
--- SPDX-License-Identifier: MIT

local orders = {}

--- All forward passes, then all backward passes (Huang et al., GPipe, NeurIPS 2019).
function orders.gpipe(_, _, micros)
  local list = {}
  for i = 1, micros do list[i] = { "F", i, 1 } end
  for i = 1, micros do list[micros + i] = { "B", i, 1 } end
  return list
end

-- The i-th forward or backward pass of chunks that take turns, `stages` micro-batches each.
local function turn(i, stages, chunks, kind)
  local group = stages * chunks
  local round, at = (i - 1) // group, (i - 1) % group
  local chunk = at // stages + 1
  if kind == "B" then chunk = chunks + 1 - chunk end
  return { kind, round * stages + at % stages + 1, chunk }
end

--- One forward, one backward pass after a warm-up (Narayanan et al., SC 2021); with
--- several chunks interleaved, for which `stages` divides `micros`.
function orders.one_f_one_b(stage, stages, micros, chunks)
  chunks = chunks or 1
  local total = micros * chunks
  local ahead = chunks == 1 and stages - stage
    or (stages - stage) * 2 + (chunks - 1) * stages
  ahead = math.min(ahead, total)
  local list = {}
  for i = 1, ahead do list[#list + 1] = turn(i, stages, chunks, "F") end
  for i = 1, total - ahead do
    list[#list + 1] = turn(ahead + i, stages, chunks, "F")
    list[#list + 1] = turn(i, stages, chunks, "B")
  end
  for i = total - ahead + 1, total do list[#list + 1] = turn(i, stages, chunks, "B") end
  return list
end

return orders
