--- policy -- what the planner may do about memory, as values for mrt.compile
---
---     local policy = mrt.policy
---     mrt.compile(fn, { checkpoint = policy.checkpoint.sqrt() })
---
--- SPDX-License-Identifier: MIT

---@class mrt.policy
---@field checkpoint mrt.policy.checkpoint
---@field swap mrt.policy.swap
local policy = {}

local modules = { checkpoint = true, swap = true, precision = true }

return setmetatable(policy, { __fields = { modules }, __index = function(t, key)
  local name = "mrt.policy." .. tostring(key)
  if not package.searchpath(name, package.path) then return nil end
  local module = require(name)
  rawset(t, key, module)
  return module
end })
