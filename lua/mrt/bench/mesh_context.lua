--- mesh_context.lua -- the section of `mrt bench mesh` about long sequences
---
--- A GPT of two layers of width 64 by AdamW, on one sequence of 2048 tokens, of which ranks
--- have parts: keys and values go round them (ring), or are gathered.
---
---   loss      how far losses are from those of one rank, at most, as a share
---   off       bytes that the rank which is furthest from its plan took besides
---   peak      bytes of a rank as planned, of the largest
---   sent      bytes that a rank gave to others in a step, at most; how many more than the
---             plan says
---   ms        the median of steps on two ranks, both ways in turn, and the quickest
---
--- SPDX-License-Identifier: MIT

local compare = require "mrt.bench.mesh_compare"
local format = require "mrt.util.format"

local TOKENS <const> = 2048
local SCRIPT <const> = "mesh_context_rank.lua"

local function show(r)
  print(("%-9s %-7s %9.1e %6d %10s %10s %+6d"):format("context=" .. r.context, r.way, r.loss,
    r.off, format.bytes(r.peak), format.bytes(r.sent), r.sent - r.wire))
end

local function row_of(context, run, one)
  return { context = context, way = run.way, loss = compare.distance(run, one),
    off = compare.furthest(run), peak = math.max(table.unpack(run.planned)),
    sent = math.max(table.unpack(run.sent)),
    wire = math.floor(math.max(table.unpack(run.wire)) + 0.5), losses = run.losses }
end

local function times_of(run)
  local list = table.move(run.seconds, 2, #run.seconds, 1, {}) -- the first also prepares
  table.sort(list)
  return { way = run.way, median = list[#list // 2 + 1], least = list[1], steps = #list }
end

---@param o {steps: integer}
---@param ranks fun(n: integer, script: string, ...: any): table
---@return table rows
return function(o, ranks)
  local rows = { times = {} }
  print(("\nsequences of %d tokens"):format(TOKENS))
  print(("%-9s %-7s %9s %6s %10s %10s %6s"):format("mesh", "keys", "loss", "off", "peak", "sent",
    "more"))
  local one = ranks(1, SCRIPT, 1, TOKENS, o.steps, "gather")[1]
  for _, context in ipairs { 1, 2, 4 } do
    for _, way in ipairs(context > 1 and { "gather", "ring" } or { "gather" }) do
      local run = context == 1 and one or ranks(context, SCRIPT, context, TOKENS, o.steps, way)[1]
      rows[#rows + 1] = row_of(context, run, one)
      show(rows[#rows])
    end
  end
  for _, run in ipairs(ranks(2, SCRIPT, 2, TOKENS, math.max(o.steps, 4), "gather,ring")) do
    local t = times_of(run)
    rows.times[#rows.times + 1] = t
    print(("context=2 %-7s %.0f ms, least %.0f ms, of %d steps"):format(t.way, 1e3 * t.median,
      1e3 * t.least, t.steps))
  end
  return rows
end
