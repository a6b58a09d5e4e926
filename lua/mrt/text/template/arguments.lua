--- arguments.lua -- the arguments of a call, by place and by name, under their names
---
--- SPDX-License-Identifier: MIT

local fail = require "mrt.text.template.fail"
local value = require "mrt.text.template.value"

local arguments = {}

--- Read a list of parameters: "old new count?", those with a "?" may be left out.
---@param text string
---@return {names: string[], index: table<string, integer>, wanted: integer}
function arguments.signature(text)
  local names, index, wanted = {}, {}, 0
  for name, optional in text:gmatch "([%w_]+)(%??)" do
    names[#names + 1] = name
    index[name] = #names
    if optional == "" then wanted = #names end
  end
  return { names = names, index = index, wanted = wanted }
end

--- The arguments by their places, nil where one that may be left out is.
---
--- Raises: too many, too few, unknown names, one given twice.
---@param who string
---@param signature table
---@param args table   args.n of them
---@param named table? a dict
---@return table list
function arguments.bind(who, signature, args, named)
  local count = #signature.names
  if args.n > count then
    fail.here("%s takes at most %d arguments, got %d", who, count, args.n)
  end
  local list = table.move(args, 1, args.n, 1, {})
  for _, name in ipairs(named and named.keys or {}) do
    local place = signature.index[name]
    if not place then fail.here("%s takes no argument '%s'", who, name) end
    if list[place] ~= nil then fail.here("%s: '%s' is given twice", who, name) end
    list[place] = value.get(named, name)
  end
  for i = 1, signature.wanted do
    if list[i] == nil then fail.here("%s: '%s' is missing", who, signature.names[i]) end
  end
  return list
end

-- ---- kinds of arguments ----------------------------------------------------

local function refuse(who, wanted, v)
  if value.is_undefined(v) then fail.here(("%s"):format(v.hint)) end
  fail.here("%s: %s is wanted, not %s", who, wanted, value.type(v))
end

--- A string; `default` where it is left out.
---@return string
function arguments.text(who, v, default)
  if v == nil then v = default end
  if value.kind(v) == value.Markup then v = v.text end
  if type(v) == "string" or v == nil then return v end
  return refuse(who, "a string", v)
end

--- A string, nil where it is left out or None.
---@return string?
function arguments.maybe_text(who, v)
  if v ~= value.none then return arguments.text(who, v) end
end

--- An integer; `default` where it is left out.
---@return integer
function arguments.integer(who, v, default)
  if v == nil then return default end
  if v == true then return 1 elseif v == false then return 0 end
  if math.type(v) == "integer" then return v end
  return refuse(who, "an integer", v)
end

--- An integer; `default` where it is left out or None.
---@return integer
function arguments.maybe_integer(who, v, default)
  if v == value.none then return default end
  return arguments.integer(who, v, default)
end

return arguments
