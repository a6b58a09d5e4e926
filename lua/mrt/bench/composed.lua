--- mrt bench composed -- ranks, precision, micro-batches, budgets together: planned
--
--     mrt bench composed [all]
--
-- What one rank takes and gives to others, of GPTs of 2.7, 7.5 and 175 billion
-- parameters and of 12, 24 and 96 layers, all under bf16(); nothing runs.  Told are the
-- peak, what persists, bytes on the wire for each parameter, the largest value of a
-- boundary's size that is kept, and how long it took to plan (under a budget).  `all`:
-- budgets of 50, 75 and 95 % of what moves without one, under every stage (a vocabulary of
-- 512: that of 50,304 alone takes more than half of what 12 layers do).
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"
local format = require "mrt.util.format"

local here = debug.getinfo(1, "S").source:match "^@(.*)composed%.lua$"

-- {ranks, layers, dim, rows, context, stage, gather, reduce, k, every, budget}
local rows = {
  { "7.5B, zero 3, gather", 64, 36, 4096, 1, 1024, 3, "bf16", "-", "-", "-", "-" },
  { "and reduce", 64, 36, 4096, 1, 1024, 3, "bf16", "bf16", "-", "-", "-" },
  { "and memory = 6GiB", 64, 36, 4096, 1, 1024, 3, "bf16", "bf16", "-", "-", "6GiB" },
  { "7.5B, 4 rows, zero 1", 64, 36, 4096, 4, 1024, 1, "bf16", "bf16", "-", "-", "-" },
  { "accumulate = 4", 64, 36, 4096, 4, 1024, 1, "bf16", "bf16", 4, "-", "-" },
  { "7.5B, 4 rows, zero 2", 64, 36, 4096, 4, 1024, 2, "bf16", "bf16", "-", "-", "-" },
  { "accumulate = 4", 64, 36, 4096, 4, 1024, 2, "bf16", "bf16", 4, "-", "-" },
  { "7.5B, 4 rows, zero 3", 64, 36, 4096, 4, 1024, 3, "bf16", "bf16", "-", "-", "-" },
  { "accumulate = 4", 64, 36, 4096, 4, 1024, 3, "bf16", "bf16", 4, "-", "-" },
  { "175B, zero 3, every(1), gather", 1024, 96, 12288, 1, 2048, 3, "bf16", "-", "-", 1, "-" },
  { "and reduce", 1024, 96, 12288, 1, 2048, 3, "bf16", "bf16", "-", 1, "-" },
  { "no policy, memory = 30GiB", 1024, 96, 12288, 1, 2048, 3, "bf16", "bf16", "-", "-",
    "30GiB" },
  { "2.7B, 8 x 2048, every(1)", 64, 32, 2560, 8, 2048, 3, "bf16", "bf16", "-", 1, "-" },
}

local function add_budgets()
  for _, model in ipairs { { 12, 1024, 4, 256 }, { 24, 1024, 4, 256 }, { 96, 1024, 4, 256 } } do
    for stage = 1, 3 do
      for _, part in ipairs { "50%", "75%", "95%" } do
        rows[#rows + 1] = { ("%d x %d, zero %d, %s"):format(model[1], model[2], stage, part), 64,
          model[1], model[2], model[3], model[4], stage, "bf16", "bf16", "-", "-", part, 512 }
      end
    end
  end
end

local function planned(row)
  local words = {}
  for i = 3, #row do words[#words + 1] = ("'%s'"):format(tostring(row[i])) end
  local pipe = assert(io.popen(("'%s' plan --ranks %d '%scomposed_plan.lua' %s 2>&1"):format(
    core.program(), row[2], here, table.concat(words, " "))))
  local text = pipe:read "a"
  pipe:close()
  return json.decode(text:match "{.*}" or "") or { refused = text }
end

return function(what)
  if what == "all" then add_budgets() end
  print(("%-32s %10s %10s %10s %8s %10s %8s"):format("", "peak", "persistent", "transient",
    "wire / P", "kept", "planned"))
  for _, row in ipairs(rows) do
    local p = planned(row)
    print(p.refused and ("%-32s %s (%.1f s)"):format(row[1], p.refused, p.planning or 0)
      or ("%-32s %10s %10s %10s %6.2f B %10s %6.1f s"):format(row[1], format.bytes(p.peak),
        format.bytes(p.persistent), format.bytes(p.transient),
        p.wire / p.parameters * row[2] / (row[2] - 1), format.bytes(p.kept), p.planning))
  end
end
