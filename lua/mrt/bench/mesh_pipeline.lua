--- mesh_pipeline.lua -- the section of `mrt bench mesh` about pipelines
---
--- A GPT whose embedding is its head, and an MLP, in stages, by every schedule:
---
---   loss      how far losses are from those of one rank with as many micro-batches, at
---             most, as a share; "same": no bit differs
---   off       bytes that the rank which is furthest from its plan took besides
---   sent      bytes that all ranks gave to others in a step, and how many more than m times
---             what each end of a part carries, forth and back, than gradients of what two
---             stages have, and than the loss for all
---   idle      as the schedule is simulated, a backward twice a forward, and by formula
---   held      micro-batches in flight by stage, and the bytes of the largest
---
--- The MLP is trained by GPipe written by hand, too, with send and recv; and both by two
--- pipelines of two stages, as replicas ("data") and with ZeRO's stages 1 and 3 over these:
--- there `sent` is beside what is planned.
---
--- SPDX-License-Identifier: MIT

local compare = require "mrt.bench.mesh_compare"
local format = require "mrt.util.format"

local MICRO <const> = 8
local WAYS <const> = { "gpipe", "1f1b", "interleaved", "zero_bubble", "recompute" }
local STAGES <const> = { 2, 4 }
local MESHES <const> = { "data", "zero1", "zero3" } -- of 2 x 2 ranks, 1F1B

-- Idle shares, where F, B and W take 1, 1 and 1.
local formulas = {
  gpipe = function(p, m) return (p - 1) / (m + p - 1) end,
  interleaved = function(p, m) return (p - 1) / (2 * m + p - 1) end,
  zero_bubble = function(p, m) return (p - 1) / (3 * m + p - 1) end,
}
formulas["1f1b"], formulas.recompute = formulas.gpipe, formulas.gpipe

-- What must cross the wire: each micro-batch over each end of a part twice, of what two
-- stages have its gradient both ways, and the loss to all others.
local function formula(run, p)
  local parts = p * (run.way == "interleaved" and 2 or 1)
  return 2 * MICRO * (parts - 1) * run.activation + 2 * run.tied + (p - 1) * 4
end

local function show(row)
  local far = row.loss == 0 and "same" or ("%.1e"):format(row.loss)
  print(("%-4s %2d %-12s %9s %5d %9s %+6d  %5.2f %% %5.2f %%  %-8s %9s"):format(row.model,
    row.stages, row.way, far, row.off,
    format.bytes(row.sent), row.sent - row.formula, 100 * row.bubble, 100 * row.expected,
    table.concat(row.in_flight, " "), format.bytes(row.held)))
end

local function row_of(run, one, p)
  local mesh = run.mesh
  return { model = run.model, stages = p, way = run.way, loss = compare.distance(run, one),
    off = compare.furthest(run), sent = compare.sum(run.sent), bubble = run.bubble,
    formula = mesh and (compare.sum(run.wire) + 0.5) // 1 | 0 or formula(run, p),
    expected = (formulas[run.way] or formulas["1f1b"])(p, MICRO // (mesh or 1)),
    in_flight = run.in_flight, held = math.max(table.unpack(run.held)), losses = run.losses,
    planned = run.planned, taken = run.taken }
end

---@param o {steps: integer}
---@param ranks fun(n: integer, script: string, ...: any): table
---@return table rows
return function(o, ranks)
  local rows, function_of = {}, "mesh_pipeline_rank.lua"
  print(("\npipelines of %d micro-batches"):format(MICRO))
  print(("%-7s %-12s %9s %5s %9s %6s  %7s %7s  %-8s %9s"):format("stages", "", "loss", "off",
    "sent", "more", "idle", "formula", "held", "bytes"))
  for _, model in ipairs { "gpt", "mlp" } do
    local one = ranks(1, function_of, model, "one", o.steps, MICRO)
    for _, p in ipairs(STAGES) do
      for _, way in ipairs(WAYS) do
        rows[#rows + 1] = row_of(ranks(p, function_of, model, way, o.steps, MICRO), one, p)
        show(rows[#rows])
      end
      for _, way in ipairs(p == 4 and MESHES or {}) do
        local run = ranks(4, function_of, model, way, o.steps, MICRO)
        rows[#rows + 1] = row_of(run, one, 2)
        show(rows[#rows])
      end
      if model == "mlp" then
        local hand = ranks(p, function_of, model, "hand", o.steps, MICRO)
        local far = compare.distance(hand, one)
        print(("mlp  %2d by hand      %9s"):format(p, far == 0 and "same" or ("%.1e"):format(far)))
        rows[#rows + 1] = { model = model, stages = p, way = "hand", loss = far }
      end
    end
  end
  return rows
end
