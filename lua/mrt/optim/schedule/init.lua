--- schedule -- learning rates as functions of the step
---
--- A schedule is called with the number of the update about to be made, from 1,
--- and returns its learning rate.  Any function will do:
---
---     opt.lr = function(step) return 0.1 / math.sqrt(step) end
---
--- So a schedule has no state but the optimizer's count of updates (plateau, which looks at
--- values, has).
---
--- SPDX-License-Identifier: MIT

local schedule = { plateau = require "mrt.optim.schedule.plateau" }

for _, name in ipairs { "falling", "cycles", "chain" } do
  for key, f in pairs(require("mrt.optim.schedule." .. name)) do schedule[key] = f end
end

return schedule
