--- json.lua -- values as JSON, and read again
---
--- Objects and lists that were read are tables whose metatable says which they are
--- (`__jsontype`, "object" or "array"), so empty ones are written as they were.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local json = {}

--- What stands for null where it is not simply left out: `{ null = json.null }`.
json.null = core.json_null

---@class mrt.JSONWriting
---@field order string[]?   keys that come first in every object, in this order; the others
---  follow by name
---@field indent integer?   spaces of a level; nil: all in one line
---@field lossy boolean?    bytes that are no UTF-8 become "?"

local none <const> = {}

local ranks_of = setmetatable({}, { __mode = "k" }) -- order -> {name = place}

local function ranks(order)
  if not order then return nil end
  local found = ranks_of[order]
  if not found or found.count ~= #order then
    found = { count = #order, of = {} }
    for i = #order, 1, -1 do found.of[order[i]] = i end
    ranks_of[order] = found
  end
  return found.of
end

--- The JSON of a value.  Keys that are numbers become strings; of a table they are a
--- list's where they are 1 to n, or its metatable's `__jsontype` is "array".  A float has
--- the fewest digits that give it back; what is not finite is null.
---
--- Raises (value): functions, userdata and the like; more than 100 levels; text that is no
--- UTF-8, unless it may be `lossy`.
---@param value any
---@param given mrt.JSONWriting?
---@return string
function json.encode(value, given)
  local o = given or none
  local text = core.json_encode(value, core.json_null, ranks(o.order), o.indent)
  local length, bad = utf8.len(text)
  if length then return text end
  if o.lossy then return format.utf8(text) end
  return core.fail("value", "json", ("text that is no UTF-8: %q"):format(
    format.utf8(text:sub(math.max(bad - 20, 1), bad + 20))))
end

---@class mrt.JSONReading
---@field null any          what null becomes; nil: it is left out
---@field ordered boolean?  the metatable of an object lists its keys: `__jsonorder`
---@field unique boolean?   a key that comes twice is refused; else the last one holds

--- Read JSON: one value, in UTF-8, of at most 100 levels.  Integers of 64 bits are exact.
---
--- Returns nil: what is wrong, and in which line and column; "data".
---@param text string
---@param given mrt.JSONReading?
---@return any value
---@return string? message
---@return string? code
function json.decode(text, given)
  local o = given or none
  return core.json_decode(text, o.null, o.ordered, o.unique)
end

local kinds = { array = { __jsontype = "array" }, object = { __jsontype = "object" } }

--- Mark a table as a list, be it empty or not.
---@generic T: table
---@param t T
---@return T
function json.array(t) return setmetatable(t, kinds.array) end

--- Mark a table as an object.
---@generic T: table
---@param t T
---@return T
function json.object(t) return setmetatable(t, kinds.object) end

return json
