--- pretty.lua -- values as a person wants to read them.
--
-- Scalars as Lua writes them, values with `__tostring` (tensors, modules) by
-- that, functions by their name, tables by their content: on one line where it
-- fits, else one entry a line. Tensors in tables are their types. A table of
-- tensors by name, as a model's state, is a list with its sum; a library, its
-- names in columns.
--
-- All of it is within one budget of entries, fewer the deeper they lie, and the
-- window's width.
--
-- SPDX-License-Identifier: MIT

local columns = require "mrt.cli.repl.columns"
local keywords = require "mrt.cli.repl.lexer".keywords
local library = require "mrt.cli.repl.library"

local pretty = {}

local max_depth <const> = 4
local max_entries <const> = { 40, 20, 10, 6 } -- of a table, by depth
local max_all <const> = 200                   -- of all tables together
local max_string <const> = 200                -- bytes within a table

local shown = columns.shown
local colours = { string = 32, number = 36, boolean = 35, ["nil"] = 35, name = 34 }

--- Is `key` a name that needs no brackets?
local function is_name(key)
  return type(key) == "string" and key:find "^[%a_][%w_]*$" ~= nil and not keywords[key]
end

local function paint(text, kind, options)
  local code = options.colour and colours[kind]
  return code and string.format("\27[%dm%s\27[0m", code, text) or text
end

local function quote(text)
  local rest = #text > max_string and #text - max_string
  if rest then
    local cut = utf8.len(text) and utf8.offset(text, 0, max_string + 1) or max_string + 1
    text = text:sub(1, cut - 1)
  end
  text = text:gsub('[%c"\\]', function(c)
    local short = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }
    return short[c] or string.format("\\%03d", c:byte())
  end)
  return rest and ('"%s"... %d bytes more'):format(text, rest) or '"' .. text .. '"'
end

-- Digits padded, so that "2" comes before "10".
local function natural(text)
  return (text:gsub("%d+", function(digits) return ("0"):rep(12 - #digits) .. digits end))
end

--- Numbers first, then strings, then the rest, each in its order.
local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then
    if ta == "number" or tb == "number" then return ta == "number" end
    if ta == "string" or tb == "string" then return ta == "string" end
    return ta < tb
  end
  if ta == "number" then return a < b end
  if ta == "string" then
    local na, nb = natural(a), natural(b)
    return na < nb or na == nb and a < b
  end
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

-- ---- tensors and functions ---------------------------------------------------

-- Whether this is a tensor; nothing is loaded to know.
local function is_tensor(value)
  local core = type(value) == "userdata" and package.loaded["mrt.core"]
  return core and core.is_tensor(value)
end

local function short_tensor(x)
  local text = require "mrt.tensor.print".short(x)
  local ok, name = pcall(x.get_name, x)
  return ok and name and x:dim() > 0 and ("%s %s"):format(text, name) or text
end

-- A whole tensor, in a window of this width.
local function tensor(x, options)
  local print_tensor = require "mrt.tensor.print"
  local limits = print_tensor.limits
  local back <close> = setmetatable({}, { __close = function() print_tensor.limits = limits end })
  print_tensor.limits = { width = options.width, lines = limits.lines, numbers = limits.numbers }
  return print_tensor.tensor(x), back
end

local own = debug.getinfo(1, "S").source:match "^(.*/)cli/repl/[^/]*$" or "?"

local function arguments(f, info)
  local names = {}
  for i = 1, info.nparams do names[i] = debug.getlocal(f, i) end
  if info.isvararg then names[#names + 1] = "..." end
  return table.concat(names, ", ")
end

local function describe_function(f)
  local told = package.loaded["mrt.util.describe"]
  local text = told and told.of(f)
  if text then return text end
  local name = library.name(f)
  if name then return "function " .. name end
  local info = debug.getinfo(f, "Su")
  if info.what == "C" then return tostring(f) end
  local path = info.source:sub(1, #own) == own and "mrt/" .. info.source:sub(#own + 1)
    or info.short_src
  return ("function(%s) of %s:%d"):format(arguments(f, info), path, info.linedefined)
end

-- ---- tables ------------------------------------------------------------------

local write

local function write_key(key, options, seen)
  if is_name(key) then return paint(key, "name", options) end
  return "[" .. write(key, options, seen, max_depth) .. "]"
end

-- Has the budget room for another entry? Takes it.
local function take(options)
  options.left = options.left - 1
  return options.left >= 0
end

-- The entries as texts; whether they are a sequence of short ones.
local function entries(t, options, seen, depth)
  local list, n, short = {}, rawlen(t), true
  local most = max_entries[depth + 1]
  local function add(text)
    list[#list + 1] = text
    short = short and shown(text) <= 24 and not text:find "\n"
  end
  for i = 1, math.min(n, most * 5) do
    if (not short and #list >= most) or not take(options) then break end
    add(write(rawget(t, i), options, seen, depth + 1))
  end
  local keys, left = other_keys(t, n), n - #list
  for _, key in ipairs(keys) do
    if #list < most and take(options) then
      add(write_key(key, options, seen) .. " = " .. write(rawget(t, key), options, seen, depth + 1))
    else
      left = left + 1
    end
  end
  if left > 0 then list[#list + 1] = string.format("... %d more", left) end
  return list, short and #keys == 0
end

-- Short entries, as many on a line as fit.
local function fill(list, width, indent)
  local lines, line = {}, nil
  for i, text in ipairs(list) do
    if i < #list then text = text .. "," end
    if line and shown(line) + shown(text) + 1 + #indent <= width then
      line = line .. " " .. text
    else
      lines[#lines + 1], line = line, text
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n" .. indent)
end

local function write_table(t, options, seen, depth)
  if seen[t] then return "<itself>" end
  if next(t) == nil then return "{}" end
  if depth >= max_depth or options.left <= 0 then return "{...}" end
  if depth > 0 and library.is(t) then
    local name = library.name(t)
    if name then return "<" .. name .. ">" end
  end
  seen[t] = true
  local list, short = entries(t, options, seen, depth)
  seen[t] = nil
  local line = "{ " .. table.concat(list, ", ") .. " }"
  if shown(line) + 2 * depth <= options.width and not line:find "\n" then return line end
  local indent = ("  "):rep(depth)
  local inner = indent .. "  "
  return "{\n" .. inner .. (short and fill(list, options.width, inner)
    or table.concat(list, ",\n" .. inner)) .. "\n" .. indent .. "}"
end

-- Tensors by name, and nothing else?
local function is_state(t)
  for key, value in next, t do
    if type(key) ~= "string" or not is_tensor(value) then return false end
  end
  return next(t) ~= nil
end

-- A line for each tensor of a state, and what all take.
local function write_state(t, options)
  local keys, lines, all, width = other_keys(t, 0), {}, {}, 0
  for i, key in ipairs(keys) do
    all[i] = t[key]
    if i <= max_entries[1] then width = math.max(width, shown(key)) end
  end
  for i = 1, math.min(#keys, max_entries[1]) do
    local key = keys[i]
    lines[i] = ("%s%s  %s"):format(paint(key, "name", options), (" "):rep(width - shown(key)),
      require "mrt.tensor.print".short(t[key]))
  end
  if #keys > #lines then lines[#lines + 1] = ("... %d more"):format(#keys - #lines) end
  lines[#lines + 1] = require "mrt.util.describe".tensors(all)
  return table.concat(lines, "\n")
end

--- An object of many lines inside a table keeps to the table's indent.
local function write_object(value, options, depth)
  if is_tensor(value) then return depth > 0 and short_tensor(value) or tensor(value, options) end
  return (tostring(value):gsub("\n", "\n" .. ("  "):rep(depth)))
end

-- A table without a text of its own.
local function write_plain(t, options, seen, depth)
  if depth == 0 and library.is(t) then return library.text(t, options.width) end
  if depth == 0 and is_state(t) then return write_state(t, options) end
  return write_table(t, options, seen, depth)
end

local function has_text(value)
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and (rawget(meta, "__tostring") or rawget(meta, "__name"))
end

function write(value, options, seen, depth)
  local kind = type(value)
  if kind == "string" then return paint(quote(value), kind, options) end
  if kind == "function" then return describe_function(value) end
  if kind == "table" and not has_text(value) then
    return write_plain(value, options, seen, depth)
  end
  if kind == "table" or kind == "userdata" then return write_object(value, options, depth) end
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
  return write(value, { colour = options.colour, width = options.width or 78, left = max_all },
    {}, 0)
end

return pretty
