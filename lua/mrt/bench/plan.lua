--- plan.lua -- `mrt bench plan`: how close arenas come to their lower bound.
--
-- The bound is the largest sum of live bytes at any node: no placement of the
-- same lifetimes can be lower.
--
-- SPDX-License-Identifier: MIT

return function()
  local models = require "mrt.bench.models"
  print "model       nodes        arena MiB    bound MiB   arena/bound    peak MiB"
  for _, name in ipairs(models.names) do
    local step, x, y = models.make(name)
    local plan = step:plan(x, y)
    local rest = plan.persistent + plan.outputs
    local bound = plan.lower_bound - rest
    print(("%-10s %6d %16.2f %12.2f %13.4f %11.2f"):format(name, plan.nodes,
      plan.transient / 2 ^ 20, bound / 2 ^ 20,
      bound > 0 and plan.transient / bound or 1, plan.peak / 2 ^ 20))
  end
end
