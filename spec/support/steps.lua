--- steps.lua -- what a plan runs
---
--- SPDX-License-Identifier: MIT

local steps = {}

--- How many steps of a plan are this operator.
---@param plan mrt.Plan
---@param op string
---@return integer
function steps.count(plan, op)
  local n = 0
  for _, s in ipairs(plan:steps()) do n = n + (s.op == op and 1 or 0) end
  return n
end

return steps
