--- graphs.lua -- random graphs, planned and not, with poison and proof
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"

local GRAPHS <const> = 100

return {
  about = "random graphs planned in many ways give the same bits, memory poisoned",
  unit = "graphs",
  round = function(seed)
    -- Seeds of graphs far from those that the specs take by themselves.
    local code, out = program.shell(("MRT_SPEC_GRAPHS=%d MRT_SPEC_FIRST=%d MRT_THREADS=%d %s "
      .. "/usr/bin/busted --ignore-lua -o plainTerminal spec/plan/random_graph_spec.lua"):format(
      GRAPHS, 100000 + seed * GRAPHS, 1 + seed % 3, program.path))
    return GRAPHS, code ~= 0 and { out } or {}
  end,
}
