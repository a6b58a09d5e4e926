--- declared.lua -- what the files declare: classes, aliases, and each line
---
--- SPDX-License-Identifier: MIT

local source = require "mrt.reference.source"

---@class mrt.reference.Method
---@field name string
---@field colon boolean  is it called with one?
---@field declaration mrt.reference.Declaration

---@class mrt.reference.Class
---@field name string
---@field declarations mrt.reference.Declaration[]  a class may be taken up again
---@field methods mrt.reference.Method[]

---@class mrt.reference.Declared
---@field folder string   of the library
---@field files table<string, mrt.reference.File>
---@field classes table<string, mrt.reference.Class>
---@field aliases table<string, mrt.reference.Declaration>
---@field places table<string, mrt.reference.Declaration>  "nn/linear.lua:25"
---@field made table<string, mrt.reference.Declaration>    "mrt.Tensor.abs": what loops make
local Declared = {}
Declared.__index = Declared

local function class_named(self, name)
  local class = self.classes[name] or { name = name, methods = {}, declarations = {} }
  self.classes[name] = class
  return class
end

-- A function of a table that is a class in this file; one that loops make is found by
-- its name.
local function take_method(self, owner, d, meta)
  local of, name = d.name:match "^([%w_]+)[.:]([%w_]+)$"
  local class = of and owner[of]
  if class and d.params and meta then
    self.made[class.name .. "." .. name] = d
  elseif class and d.params and not d.comment.private then
    table.insert(class.methods, { name = name, declaration = d,
      colon = d.name:find(":", 1, true) ~= nil })
  end
end

local function take(self, path, owner, d)
  local c = d.comment
  if c.class then
    local class = class_named(self, c.class)
    table.insert(class.declarations, d)
    if d.name and not d.params then owner[d.name] = class end
  elseif c.alias then
    self.aliases[c.alias] = d
  end
  if d.name then
    self.places[path .. ":" .. d.line] = d
    take_method(self, owner, d, self.files[path].meta)
  end
end

--- Read the files.
---@return mrt.reference.Declared
function Declared.read()
  local self = setmetatable({ folder = source.folder(), files = source.read(), classes = {},
    aliases = {}, places = {}, made = {} }, Declared)
  local order = {}
  for path in pairs(self.files) do order[#order + 1] = path end
  table.sort(order)
  for _, path in ipairs(order) do
    local owner = {} -- local name -> class
    for _, d in ipairs(self.files[path].declarations) do take(self, path, owner, d) end
  end
  return self
end

--- What is written about a class: of several declarations the one above its table, and
--- of these the one with most text.
---@param class mrt.reference.Class
---@return mrt.reference.Declaration
function Declared.main(class)
  local function weight(d) return (d.name and 1000 or 0) + #d.comment.text end
  local best = class.declarations[1]
  for _, d in ipairs(class.declarations) do
    if weight(d) > weight(best) then best = d end
  end
  return best
end

--- All fields of a class.
---@param class mrt.reference.Class
---@return mrt.reference.Part[]
function Declared.fields(class)
  local list, seen = {}, {}
  for _, d in ipairs(class.declarations) do
    for _, f in ipairs(d.comment.fields) do
      if not seen[f.name] then
        seen[f.name] = true
        list[#list + 1] = f
      end
    end
  end
  return list
end

--- What is written about a field of a class, or of one that the class takes up.
---@param name string  of the class
---@param key string
---@return mrt.reference.Part?
---@return mrt.reference.Declaration?
function Declared:field(name, key)
  local class = self.classes[name]
  local parents = {}
  for _, d in ipairs(class and class.declarations or {}) do
    for _, f in ipairs(d.comment.fields) do
      if f.name == key then return f, d end
    end
    for parent in (d.comment.parents or ""):gmatch "[%w_.]+" do parents[#parents + 1] = parent end
  end
  for _, parent in ipairs(parents) do
    local f, d = self:field(parent, key)
    if f then return f, d end
  end
end

--- The Lua function that a value leads to; none where it is C alone.
---@param f function
---@return table?  as debug.getinfo gives it
function Declared.behind(f)
  local info = debug.getinfo(f, "S")
  if info.what ~= "C" then return info end
  local _, inner = debug.getupvalue(f, 1)
  return type(inner) == "function" and Declared.behind(inner) or nil
end

-- The path below the library's folder of where a function is defined.
local function path_of(self, f)
  local info = Declared.behind(f)
  local path = info and info.source:match "^@(.*)$"
  if path and path:sub(1, #self.folder) == self.folder then
    return path:sub(#self.folder + 2), info.linedefined
  end
end

--- What is written above a function.
---@param f function
---@return mrt.reference.Declaration?
function Declared:of_function(f)
  local path, line = path_of(self, f)
  return path and self.places[path .. ":" .. line]
end

--- What is written above the line of a file that sets a name, which is no function's:
--- `swap.all = of "swap.all"`.
---@param path? string
---@param key string
---@return mrt.reference.Declaration?
function Declared:of_name(path, key)
  for _, d in ipairs(path and self.files[path].declarations or {}) do
    if d.name and not d.params and d.name:match "[%w_]+$" == key then return d end
  end
end

--- What is written above the line that makes a table, in the file that has a function
--- of it, or above what is called when the table is.
---@param key string  the table's name there
---@param value table
---@return mrt.reference.Declaration?
function Declared:of_table(key, value)
  for _, method in next, value do
    local path = type(method) == "function" and path_of(self, method)
    for _, d in ipairs(path and self.files[path].declarations or {}) do
      if (d.name == key or d.quoted == key) and not d.params then return d end
    end
  end
  local meta = getmetatable(value)
  return meta and meta.__call and self:of_function(meta.__call)
end

return Declared
