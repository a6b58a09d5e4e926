--- write_json.lua -- JSON as config.json has it: sorted, indented, floats that stay floats
---
--- SPDX-License-Identifier: MIT

local marks = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c)
    return marks[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

-- The shortest digits that give the number back.
local function number(x)
  if math.type(x) == "integer" then return tostring(x) end
  for digits = 1, 17 do
    local text = ("%%.%dg"):format(digits):format(x)
    if tonumber(text) == x then
      return text:find "[%.e]" and text or text .. ".0"
    end
  end
end

local write

local function names_of(value, meta)
  local names = {}
  for name in pairs(value) do names[#names + 1] = name end
  for name in pairs(meta.nulls or {}) do
    if value[name] == nil then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function members(value, indent)
  local meta, parts = getmetatable(value) or {}, {}
  if #value > 0 or next(value) == nil and meta.__jsontype ~= "object" then
    for i, held in ipairs(value) do parts[i] = write(held, indent) end
    return "[", parts, "]"
  end
  for _, name in ipairs(names_of(value, meta)) do
    local held = value[name]
    parts[#parts + 1] = quoted(name) .. ": " .. (held == nil and "null" or write(held, indent))
  end
  return "{", parts, "}"
end

function write(value, indent)
  if type(value) == "string" then return quoted(value) end
  if type(value) == "number" then return number(value) end
  if type(value) ~= "table" then return tostring(value) end
  local open, parts, close = members(value, indent .. "  ")
  if #parts == 0 then return open .. close end
  return ("%s\n%s  %s\n%s%s"):format(open, indent, table.concat(parts, ",\n" .. indent .. "  "),
    indent, close)
end

--- The text of a value of tables, strings, finite numbers and booleans.  A table is a
--- list where it has a first element; an empty one says what it is by its metatable's
--- `__jsontype`; `nulls` of that names what is null.
---@param value any
---@return string
return function(value) return write(value, "") .. "\n" end
