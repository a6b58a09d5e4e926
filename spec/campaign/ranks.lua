--- ranks.lua -- ranks killed, stopped, late, cut off, at random points
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"

local POINTS <const> = 2 -- of each way
local ways <const> = { faults = 7, lost = 8 }

return {
  about = "ranks that are killed, stopped, late or cut off; nobody hangs, all say who",
  unit = "faults", timeout = 600,
  round = function(seed)
    local part = seed % 2 == 0 and "faults" or "lost"
    local collectives = program.path:gsub("[^/]*$", "spec/collectives")
    local code, out = program.shell(("MRT_SPEC_FAULTS=%d MRT_SPEC_SEED=%d %s %s"):format(
      POINTS, seed, collectives, part))
    return POINTS * ways[part], code ~= 0 and { out } or {}
  end,
}
