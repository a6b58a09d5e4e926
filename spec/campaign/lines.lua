--- lines.lua -- random programs evaluated line by line, without plans and with
---
--- SPDX-License-Identifier: MIT

local program = require "support.program"

local PROGRAMS <const> = 500

return {
  about = "random programs, evaluated in random orders without plans, have the bits of plans",
  unit = "programs",
  round = function(seed)
    local code, out = program.shell(("MRT_SPEC_GRAPHS=%d MRT_SPEC_FIRST=%d %s "
      .. "/usr/bin/busted --ignore-lua -o plainTerminal --filter=whatever "
      .. "spec/run/direct_spec.lua"):format(PROGRAMS, 100000 + seed * PROGRAMS, program.path))
    return PROGRAMS, code ~= 0 and { out } or {}
  end,
}
