--- json.lua -- numbers, strings, booleans and tables of them, for JSON
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local plain = {}

local types = { number = true, string = true, boolean = true, table = true }

--- Make ready for JSON, which keeps 14 digits of a float: floats go as text with all
--- their bits.
---
--- Raises: what is no plain value, by its name.
---@param value any
---@param name string
---@return any
function plain.pack(value, name)
  if not types[type(value)] then
    core.fail("value", "snapshots", ("%s is %s, a variable or plain value wanted")
      :format(name, options.show(value)))
  end
  if math.type(value) == "float" then return ("float %a"):format(value) end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = plain.pack(v, ("%s.%s"):format(name, k)) end
  return out
end

local odd = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0,
  ["-nan"] = 0 / 0 }

--- What pack has been given.
---@param value any
---@return any
function plain.unpack(value)
  if type(value) == "string" then
    local digits = value:match "^float (.*)$"
    return digits and (odd[digits] or tonumber(digits)) or value
  end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = plain.unpack(v) end
  return out
end

--- Do two say the same?
---@param a any
---@param b any
---@return boolean
function plain.alike(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do
    if not plain.alike(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

--- What a text of JSON says.
---@param text string?
---@return any value  nil: it says nothing, or too deep a thing
function plain.decode(text)
  if type(text) ~= "string" then return nil end
  local ok, value = pcall(require "dkjson".decode, text)
  return ok and value or nil
end

return plain
