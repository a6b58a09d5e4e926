--- options.lua -- read a trailing table of options
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

--- A default of `nil` is written `options.none`.
local options = { none = {} }

local function known(defaults)
  local names = {}
  for name in pairs(defaults) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

--- Return `given` with the defaults filled in.
---
--- Raises: no table; an option that is not among the defaults, by name.
---@param what string      who asks, for the message
---@param given table?
---@param defaults table
---@return table
function options.read(what, given, defaults)
  local out = {}
  if given ~= nil and type(given) ~= "table" then
    core.fail("value", what, ("a table of options wanted, got %s")
      :format(type(given)))
  end
  for name, value in pairs(defaults) do
    if value ~= options.none then out[name] = value end
  end
  for name, value in pairs(given or {}) do
    if defaults[name] == nil then
      core.fail("value", what, ("no option '%s', it has %s")
        :format(tostring(name), known(defaults)))
    end
    out[name] = value
  end
  return out
end

return options
