--- library.lua -- what our tables of functions have, and which of them has a value
---
--- SPDX-License-Identifier: MIT

local columns = require "mrt.cli.repl.columns"

local library = {}

local function is_callable(value)
  local meta = type(value) == "table" and debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__call") ~= nil
end

-- Names of parts that load when they are used.
local function lazy(t)
  local meta = debug.getmetatable(t)
  local fields = type(meta) == "table" and rawget(meta, "__fields")
  return type(fields) == "table" and type(fields[1]) == "table" and fields[1] or {}
end

-- Is this a table of functions and classes by name?
local function has_functions(t)
  local some, others = 0, 0
  for key, value in next, t do
    if type(key) ~= "string" then return false end
    if type(value) == "function" or is_callable(value) then
      some = some + 1
    elseif type(value) ~= "table" or type(debug.getmetatable(value)) == "table" then
      others = others + 1
    end
  end
  return some >= 3 and some > others or next(lazy(t)) ~= nil
end

--- The public names of a table and of what it has loaded: visit(path, value), until it
--- returns something.
local function search(path, t, depth, visit)
  for key, value in next, t do
    if type(key) == "string" and not key:find "^_" then
      local name = ("%s.%s"):format(path, key)
      local found = visit(name, value)
      if not found and depth > 0 and type(value) == "table" and not is_callable(value)
        and has_functions(value) then
        found = search(name, value, depth - 1, visit)
      end
      if found then return found end
    end
  end
end

--- The public name of a function or table of ours: "mrt.nn.Linear".
---@param value any
---@return string?
function library.name(value)
  local mrt = package.loaded.mrt
  if not mrt then return nil end
  if value == mrt then return "mrt" end
  return search("mrt", mrt, 2, function(name, other) return rawequal(value, other) and name end)
end

--- Is this a library: ours, or one of Lua's?
---@param t table
---@return boolean
function library.is(t)
  if t == _G or not has_functions(t) then return false end
  for _, loaded in next, package.loaded do
    if rawequal(t, loaded) then return true end
  end
  return library.name(t) ~= nil
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Names by what they are: what is called, what makes objects, tables with more.
local function kinds(t, without)
  local functions, classes, parts = {}, {}, {}
  for name in pairs(lazy(t)) do parts[name] = true end
  for name, value in next, t do
    if type(name) == "string" and not name:find "^_" and not parts[name] then
      if type(value) == "function" then
        functions[name] = without[name] == nil or nil
      elseif is_callable(value) then
        classes[name] = true
      elseif type(value) == "table" then
        parts[name] = true
      end
    end
  end
  return functions, classes, parts
end

--- What a library has, in columns.
---@param t table
---@param width integer
---@return string
function library.text(t, width)
  local name = library.name(t)
  local methods = t == package.loaded.mrt and require "mrt.core".methods or {}
  local lines = { name or "a library" }
  local functions, classes, parts = kinds(t, methods)
  for word, kind in ipairs { parts, classes, functions } do
    local list = sorted(kind)
    if list[1] then
      lines[#lines + 1] = ({ "modules:", "classes:", "functions:" })[word]
      for _, line in ipairs(columns.lines(list, width, "  ")) do lines[#lines + 1] = line end
    end
  end
  if next(methods) then
    lines[#lines + 1] = "and the methods of tensors as functions"
  end
  if name then lines[#lines + 1] = ("?%s.NAME tells what one does"):format(name) end
  return table.concat(lines, "\n")
end

return library
