--- pretty.lua -- values as a person wants to read them.
--
-- Scalars as Lua writes them, values with `__tostring` (tensors, modules) by
-- that, tables by their content: on one line where it fits, else one entry a
-- line, cut in depth and in number.
--
-- SPDX-License-Identifier: MIT

local pretty = {}

local max_depth = 4
local max_entries = 40

local colours = { string = 32, number = 36, boolean = 35, ["nil"] = 35, name = 34 }

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local
  nil not or repeat return then true until while]]):gmatch "%a+" do
  keywords[word] = true
end

--- Is `key` a name that needs no brackets?
local function is_name(key)
  return type(key) == "string" and key:find "^[%a_][%w_]*$" ~= nil and not keywords[key]
end

local function paint(text, kind, options)
  local code = options.colour and colours[kind]
  return code and string.format("\27[%dm%s\27[0m", code, text) or text
end

--- The length that shows, colours apart.
local function shown(text)
  text = text:gsub("\27%[%d*m", "")
  return utf8.len(text) or #text
end

local function quote(text)
  text = text:gsub('[%c"\\]', function(c)
    local short = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }
    return short[c] or string.format("\\%03d", c:byte())
  end)
  return '"' .. text .. '"'
end

--- Numbers first, then strings, then the rest, each in its order.
local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then
    if ta == "number" or tb == "number" then return ta == "number" end
    if ta == "string" or tb == "string" then return ta == "string" end
    return ta < tb
  end
  if ta == "number" or ta == "string" then return a < b end
  return tostring(a) < tostring(b)
end

--- The keys that are not in the sequence 1 .. n, sorted.
local function other_keys(t, n)
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= n) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, before)
  return keys
end

local write

local function write_key(key, options, seen)
  if is_name(key) then return paint(key, "name", options) end
  return "[" .. write(key, options, seen, max_depth) .. "]"
end

local function entries(t, options, seen, depth)
  local list, n = {}, rawlen(t)
  for i = 1, math.min(n, max_entries) do
    list[i] = write(rawget(t, i), options, seen, depth + 1)
  end
  local left = n - #list
  for _, key in ipairs(other_keys(t, n)) do
    if #list < max_entries then
      list[#list + 1] = write_key(key, options, seen) .. " = "
        .. write(rawget(t, key), options, seen, depth + 1)
    else
      left = left + 1
    end
  end
  if left > 0 then list[#list + 1] = string.format("... %d more", left) end
  return list
end

local function write_table(t, options, seen, depth)
  if seen[t] then return "<itself>" end
  if next(t) == nil then return "{}" end
  if depth >= max_depth then return "{...}" end
  seen[t] = true
  local list = entries(t, options, seen, depth)
  seen[t] = nil
  local line = "{ " .. table.concat(list, ", ") .. " }"
  if shown(line) + 2 * depth <= options.width and not line:find "\n" then return line end
  local indent = ("  "):rep(depth)
  return "{\n" .. indent .. "  " .. table.concat(list, ",\n" .. indent .. "  ")
    .. "\n" .. indent .. "}"
end

--- A tensor of many lines inside a table keeps to the table's indent.
local function write_object(value, depth)
  return (tostring(value):gsub("\n", "\n" .. ("  "):rep(depth)))
end

function write(value, options, seen, depth)
  local kind = type(value)
  if kind == "string" then return paint(quote(value), kind, options) end
  local meta = debug.getmetatable(value)
  local named = type(meta) == "table" and (rawget(meta, "__tostring") or rawget(meta, "__name"))
  if kind == "table" and not named then return write_table(value, options, seen, depth) end
  if kind == "table" or kind == "userdata" then return write_object(value, depth) end
  return paint(tostring(value), kind, options)
end

--- Write a value for the prompt. A string stands as it is; inside a table it
--- is quoted.
---@param value any
---@param options {colour: boolean?, width: integer?}?
---@return string
function pretty.value(value, options)
  if type(value) == "string" then return value end
  options = options or {}
  return write(value, { colour = options.colour, width = options.width or 78 }, {}, 0)
end

return pretty
