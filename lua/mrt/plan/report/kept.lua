--- kept.lua -- what a plan keeps for the backward pass
---
--- Counted once each: values that the first run of a forward node makes, and
--- that a node of the backward pass reads, or one that runs again for it.
---
--- SPDX-License-Identifier: MIT

local inside = { activation = true, gradient = true } -- a slot's last kind

---@param plan mrt.Plan
---@return integer bytes
return function(plan)
  local steps, values, bytes = plan.core:steps(), plan.core:values(), 0
  local made = {} -- slot -> it holds such a value, not counted yet
  for i, o in ipairs(plan.core:operands()) do
    local s = steps[i]
    for _, v in ipairs(o.reads) do
      if made[v] and (s.backward or s.recomputed) then
        made[v], bytes = false, bytes + values[v].bytes
      end
    end
    for _, v in ipairs(o.writes) do
      made[v] = inside[values[v].kind] and not s.backward and not s.recomputed
    end
  end
  return bytes
end
