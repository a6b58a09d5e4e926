--- failures.lua -- what commands say of errors
---
--- SPDX-License-Identifier: MIT

local failures = {}

--- Was it Ctrl-C?  Between two steps Lua is stopped, within one the step.
---@param problem any
---@return boolean
function failures.is_interrupted(problem)
  return type(problem) == "table" and problem.code == "interrupted"
    or tostring(problem):find("interrupted!", 1, true) ~= nil
end

--- What an error says; of one of mrt without where it was raised.
---@param problem any
---@return string
function failures.message(problem)
  if type(problem) ~= "table" or not problem.message then return tostring(problem) end
  return problem.message
end

return failures
