--- options.lua -- read a trailing table of options
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

--- A default of `nil` is written `options.none`.
local options = { none = {} }

--- Raise unless `given` is a table whose names are all among those of `known`.
---@param what string  who asks, for the message
---@param given any
---@param known table<string, any>
function options.check_names(what, given, known)
  if type(given) ~= "table" then
    core.fail("value", what, ("a table of options wanted, got %s")
      :format(type(given)))
  end
  for name in pairs(given) do
    if known[name] == nil then
      local names = {}
      for other in pairs(known) do names[#names + 1] = other end
      table.sort(names)
      core.fail("value", what, ("no option '%s' (options: %s)")
        :format(tostring(name), table.concat(names, ", ")))
    end
  end
end

-- A value has the type of its default; a learning rate may be a schedule.
local function check_type(what, name, value, default)
  local wanted = type(default)
  if default == options.none or type(value) == wanted
    or (name == "lr" and type(value) == "function") then
    return
  end
  core.fail("value", what, ("option '%s': a %s wanted, got %s"):format(name,
    wanted, type(value) == "string" and ("%q"):format(value) or tostring(value)))
end

--- Check that `value` is a size: a positive integer.
---@param what string  who asks, for the message
---@param name string
---@param value any
function options.size(what, name, value)
  if math.type(value) ~= "integer" or value < 1 then
    core.fail("value", what, ("%s: a positive integer wanted, got %s")
      :format(name, tostring(value)))
  end
end

--- Return `given` with the defaults filled in.
---
--- Raises: no table; an option that is not among the defaults, by name; one of
--- another type than its default.
---@param what string      who asks, for the message
---@param given table?
---@param defaults table
---@param any_type? boolean  the caller checks types itself
---@return table
function options.read(what, given, defaults, any_type)
  local out = {}
  if given ~= nil then options.check_names(what, given, defaults) end
  for name, value in pairs(defaults) do
    if value ~= options.none then out[name] = value end
  end
  for name, value in pairs(given or {}) do
    if not any_type then check_type(what, name, value, defaults[name]) end
    out[name] = value
  end
  return out
end

return options
