--- complete.lua -- completes a name at the prompt.
--
-- Walks tables and `__index` chains with raw access only, so no code of the
-- user runs because a key was pressed.
--
-- SPDX-License-Identifier: MIT

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local
  nil not or repeat return then true until while]]):gmatch "%a+" do
  keywords[word] = true
end

--- The table behind a value's missing fields, or nil.
local function index_table(value)
  local meta = debug.getmetatable(value)
  local index = type(meta) == "table" and rawget(meta, "__index")
  return type(index) == "table" and index or nil
end

--- Where `__index` is a function, the metatable may list in `__fields` tables
--- that have the field names as keys.
local function visit_fields(value, visit)
  local meta = debug.getmetatable(value)
  local fields = type(meta) == "table" and rawget(meta, "__fields")
  if type(fields) ~= "table" then return end
  for _, t in next, fields do visit(t) end
end

--- Call visit(t) for the tables in which a field of `value` is looked up.
local function each_table(value, visit)
  local seen = {}
  if type(value) ~= "table" then
    visit_fields(value, visit)
    value = index_table(value)
  end
  while value ~= nil and not seen[value] do
    seen[value] = true
    visit(value)
    visit_fields(value, visit)
    value = index_table(value)
  end
end

local function field(value, name)
  local found
  each_table(value, function(t)
    if found == nil then found = rawget(t, name) end
  end)
  return found
end

--- Names that begin with `prefix` in `value`; after a colon functions only.
local function names_of(value, prefix, calling)
  local names, seen = {}, {}
  each_table(value, function(t)
    for key, item in next, t do
      if type(key) == "string" and key:sub(1, #prefix) == prefix and not seen[key]
        and key:find "^[%a_][%w_]*$" and not keywords[key]
        and not (calling and type(item) ~= "function")
        and (prefix ~= "" or key:sub(1, 2) ~= "__") then
        seen[key] = true
        names[#names + 1] = key
      end
    end
  end)
  return names
end

local function common_prefix(names)
  local prefix = names[1] or ""
  for _, name in ipairs(names) do
    while name:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

--- Names in columns, as wide as a terminal.
local function columns(names)
  local width = 0
  for _, name in ipairs(names) do width = math.max(width, #name + 2) end
  local per_line = math.max(1, 78 // width)
  local lines, line = {}, {}
  for i, name in ipairs(names) do
    line[#line + 1] = name .. (" "):rep(width - #name)
    if #line == per_line or i == #names then
      lines[#lines + 1] = (table.concat(line):gsub(" +$", ""))
      line = {}
    end
  end
  return table.concat(lines, "\n")
end

local function candidates(path, prefix)
  local value, calling = _G, false
  for name, mark in path:gmatch "([%a_][%w_]*)([.:])" do
    value = field(value, name)
    calling = mark == ":"
    if value == nil then return {} end
  end
  local names = names_of(value, prefix, calling)
  if path == "" then
    for word in next, keywords do
      if word:sub(1, #prefix) == prefix then names[#names + 1] = word end
    end
  end
  table.sort(names)
  return names
end

--- Complete the name at the end of `line`.
---@param line string  the text before the cursor
---@return string? insert   what to add at the cursor
---@return string? choices  several candidates, to show
return function(line)
  local chain = line:match "[%a_][%w_.:]*$" or ""
  if chain == "" then return "    " end
  local path, prefix = chain:match "^(.-)([%w_]*)$"
  local names = candidates(path, prefix)
  local insert = common_prefix(names):sub(#prefix + 1)
  if insert ~= "" or #names < 2 then return insert end
  return nil, columns(names)
end
