--- fail.lua -- the one error of templates: a message with its line
---
--- Raised as a table of this kind inside, returned as text by the functions that users
--- call.
---
--- SPDX-License-Identifier: MIT

local fail = {}

---@class mrt.template.Error
---@field message string
---@field line integer?

local Error = { __tostring = function(e) return e.message end }

--- Raise, with a line where it is known.
---@param line integer?
---@param text string  a format where values follow
---@param ... any
function fail.at(line, text, ...)
  local message = select("#", ...) > 0 and text:format(...) or text
  error(setmetatable({ message = message, line = line }, Error), 0)
end

--- Raise; whoever runs the template adds the line.
---@param text string  a format where values follow
---@param ... any
function fail.here(text, ...) fail.at(nil, text, ...) end

--- Call, and return what it returns, or nil and the message of an Error.
---
--- Raises: any other error, which is a fault of ours.
---@param line? fun(): integer?  where an error has no line
---@param f function
---@param ... any
---@return any result
---@return string? message
function fail.catch(line, f, ...)
  local result = table.pack(pcall(f, ...))
  if result[1] then return table.unpack(result, 2, result.n) end
  local e = result[2]
  if getmetatable(e) ~= Error then error(e, 0) end
  local at = e.line or line and line()
  return nil, at and ("line %d of the template: %s"):format(at, e.message) or e.message
end

return fail
