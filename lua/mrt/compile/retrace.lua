--- retrace.lua -- a trace that finds out what it should have known
---
--- SPDX-License-Identifier: MIT

local retrace = {}

local Request = {} -- metatable of what ends a trace

--- End the trace that is being made; once `prepare` has been called it is made
--- again.
---@param prepare fun()
function retrace.request(prepare) error(setmetatable({ prepare = prepare }, Request), 0) end

--- Call `trace`, again as often as it asks for it.
---@param trace fun(...: any): any
---@param ... any
---@return any
function retrace.settle(trace, ...)
  local ok, result = pcall(trace, ...)
  while not ok and getmetatable(result) == Request do
    result.prepare()
    ok, result = pcall(trace, ...)
  end
  if not ok then error(result, 0) end
  return result
end

return retrace
