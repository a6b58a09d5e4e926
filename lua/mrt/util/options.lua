--- options.lua -- read a trailing table of options
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local options = {}

---@class mrt.Option
---@field kind string?
---@field default any
---@field required boolean?
local Option = {}

--- What an option is, where its default does not tell: a type of Lua ("function":
--- all that can be called), "integer", "size" (a positive integer), "tensor" or,
--- with nil, anything.
---@param kind string?
---@param default any
---@return mrt.Option
function options.of(kind, default)
  return setmetatable({ kind = kind, default = default }, Option)
end

--- The same for an option that must be given.
---@param kind string?
---@return mrt.Option
function options.want(kind)
  return setmetatable({ kind = kind, required = true }, Option)
end

--- Anything, and no default.
options.none = options.of()

--- What a module of layers is called; nil: it is none.
---@param value any
---@return string?
function options.module_name(value)
  local meta = type(value) == "table" and getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name:match "^mrt%.nn%.(.*)" or nil
end

--- A value, for messages.
---@param value any
---@return string
function options.show(value)
  local kind = type(value)
  if kind == "string" then return ("%q"):format(value) end
  if core.is_tensor(value) then return value:type() end
  if kind == "number" or kind == "boolean" or kind == "nil" then return tostring(value) end
  local module = options.module_name(value)
  if module then return ("a module (%s)"):format(module) end
  return "a " .. kind
end

--- Can it be called?
---@param value any
---@return boolean
function options.is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

local checks = {
  ["function"] = options.is_callable,
  integer = function(value) return math.type(value) == "integer" end,
  size = function(value) return math.type(value) == "integer" and value >= 1 end,
  tensor = core.is_tensor,
}
local words = { integer = "an integer", size = "a positive integer" }

local function refuse(what, name, kind, value)
  core.fail("value", what, ("%s: %s wanted, got %s"):format(name,
    words[kind] or "a " .. kind, options.show(value)))
end

-- A value has the type of its default; a learning rate may be a schedule.
local function check_type(what, name, value, default)
  local wanted = type(default)
  if getmetatable(default) == Option then wanted = default.kind end
  if wanted == nil or (name == "lr" and type(value) == "function") then return end
  local check = checks[wanted]
  if check and not check(value) or not check and type(value) ~= wanted then
    refuse(what, ("option '%s'"):format(name), wanted, value)
  end
end

--- Check that `value` is a size: a positive integer.
---@param what string  who asks, for the message
---@param name string
---@param value any
function options.size(what, name, value)
  if not checks.size(value) then refuse(what, name, "size", value) end
end

local function listed(known)
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  return #names > 0 and (" (options: %s)"):format(table.concat(names, ", ")) or " (there are none)"
end

--- Raise unless `given` is a table whose names are all among those of `known`.
---@param what string  who asks, for the message
---@param given any
---@param known table<string, any>
function options.check_names(what, given, known)
  if type(given) ~= "table" then
    core.fail("value", what, ("a table of options wanted, got %s%s")
      :format(type(given), listed(known)))
  end
  for name in pairs(given) do
    if known[name] == nil then
      local hint = require "mrt.util.hints".option(name)
      core.fail("value", what, ("no option '%s'%s%s"):format(tostring(name), listed(known),
        hint and ": " .. hint or ""))
    end
  end
end

--- Read the sides of a kernel: one size, or a list of two.
---@param what string
---@param name string
---@param value any
---@return integer height
---@return integer width
function options.sides(what, name, value)
  local list = type(value) == "table" and value or { value }
  if type(next(list)) == "string" then
    core.fail("value", what, ("%s: one size or a list of two wanted, got a table of names: "
      .. "options come behind it"):format(name))
  elseif #list > 2 then
    core.fail("value", what, ("%s: one size or two wanted, got %d"):format(name, #list))
  end
  local h, w = list[1], list[2] or list[1]
  options.size(what, name, h)
  options.size(what, name, w)
  return h, w
end

--- Return `given` with the defaults filled in.
---
--- Raises: no table; an option that is not among the defaults, by name; one of
--- another type than its default; one that is wanted and missing.
---@param what string      who asks, for the message
---@param given table?
---@param defaults table   values, or what options.of and options.want return
---@param any_type? boolean  the caller checks types itself
---@return table
function options.read(what, given, defaults, any_type)
  local out, missing = {}, {}
  if given ~= nil then options.check_names(what, given, defaults) end
  for name, default in pairs(defaults) do
    local value = given and given[name]
    if value ~= nil then
      if not any_type then check_type(what, name, value, default) end
      out[name] = value
    elseif getmetatable(default) ~= Option then
      out[name] = default
    elseif default.required then
      missing[#missing + 1] = name
    else
      out[name] = default.default
    end
  end
  if #missing == 0 then return out end
  table.sort(missing)
  core.fail("value", what, ("%s %s missing"):format(table.concat(missing, ", "),
    #missing == 1 and "is" or "are"))
end

--- Options with one of them changed, as a new table.
---@param o table
---@param name string
---@param value any  nil: without it
---@return table
function options.with(o, name, value)
  local out = {}
  for key, own in pairs(o) do out[key] = own end
  out[name] = value
  return out
end

return options
