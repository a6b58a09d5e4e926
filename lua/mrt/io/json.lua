--- json.lua -- numbers, strings, booleans and tables of them, for JSON
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local plain = {}

local types = { number = true, string = true, boolean = true, table = true }

local function hex(c) return ("%02x"):format(c:byte()) end

--- Make ready for JSON, which has no number that is not finite and no bytes: floats go as
--- text with all their bits, strings that are no UTF-8 byte by byte.
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
  if type(value) == "string" and not utf8.len(value) then
    return "bytes " .. (value:gsub(".", hex))
  end
  if type(value) ~= "table" then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = plain.pack(v, ("%s.%s"):format(name, k)) end
  return out
end

local odd = { inf = math.huge, ["-inf"] = -math.huge, nan = 0 / 0,
  ["-nan"] = 0 / 0 }

local function byte_of(digits) return string.char(tonumber(digits, 16)) end

--- What pack has been given.
---@param value any
---@return any
function plain.unpack(value)
  if type(value) == "string" then
    local digits = value:match "^float (.*)$"
    if digits then return odd[digits] or tonumber(digits) or value end
    local bytes = value:match "^bytes (%x+)$"
    return bytes and (bytes:gsub("%x%x", byte_of)) or value
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

return plain
