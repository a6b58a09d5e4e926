--- mrt bench plan -- plans beside their bounds; planning time
---
---     mrt bench plan [arena|order|time [N [EFFORT]]]
---
---   arena  the arena's height over the largest live sum: every model, and N
---          (2000) random training steps
---   order  the largest live sum over what any order needs: program order and
---          the chosen one; small graphs against the best of all orders, graphs
---          of 200 nodes against a search that takes 10 times as long, N (4)
---          of each sort
---   time   seconds to trace and to plan, at 1,000, 10,000 and 100,000 nodes,
---          and a step of GPT-3 175B
---
--- Without a name: all.  With EFFORT 1 random graphs are searched as long as ever,
--- without it as long as what may be won is worth the time.  Graphs come from
--- seeds: the same ones every time.
---
--- SPDX-License-Identifier: MIT

local graphs = require "bench.plan.graphs"
local tables = { "arena", "order", "time" }

return function(name, n, effort)
  local count = n and math.tointeger(tonumber(n))
  local known = name == nil
  for _, one in ipairs(tables) do known = known or one == name end
  graphs.effort = effort and math.tointeger(tonumber(effort))
  local wrong = n and not (count and count > 0) or effort and not graphs.effort
  if not known or wrong then
    io.stderr:write("mrt bench plan [", table.concat(tables, "|"), " [N [EFFORT]]]\n")
    os.exit(1, true)
  end
  for _, one in ipairs(tables) do
    if name == nil or name == one then
      require("bench.plan." .. one)(count)
    end
  end
end
