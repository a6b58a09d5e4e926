--- names.lua -- every public name, and what is written about it
---
--- The names are those of the library as it is loaded, found by walking its tables;
--- the texts are found by where a function is defined, and by the names of classes.
--- Of operators the row says what they do.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Declared = require "mrt.reference.declared"
local types = require "mrt.reference.type"

---@class mrt.reference.Entry
---@field name string       "mrt.nn.Linear", "Tensor:sum"
---@field kind "module"|"class"|"function"|"method"|"operator"|"type"|"value"
---@field comment? mrt.reference.Comment
---@field params? string[]  as declared
---@field file? string      below the library's folder
---@field line? integer
---@field operator? table   its row
---@field detail? string[]  of a class: what its file says of itself
---@field value any
---@field fields? mrt.reference.Part[]     of a class
---@field methods? mrt.reference.Entry[]   of a class
---@field also? string[]    other names of the same

---@class mrt.reference.Index
---@field entries mrt.reference.Entry[]    in the order of the tables
---@field by_name table<string, mrt.reference.Entry>
---@field by_value table<any, mrt.reference.Entry>
---@field public table<string, mrt.reference.Entry>  types by their names
---@field unknown table<string, true>  types that are mentioned and nowhere declared
---@field declared mrt.reference.Declared
local Index = {}
Index.__index = Index

-- ---- entries ---------------------------------------------------------------

local function add(self, entry)
  local there = entry.value ~= nil and self.by_value[entry.value]
  if there and there.kind ~= "module" then
    there.also = there.also or {}
    table.insert(there.also, entry.name)
    self.by_name[entry.name] = there
    return there
  end
  self.by_name[entry.name] = entry
  table.insert(self.entries, entry)
  if entry.value ~= nil then self.by_value[entry.value] = entry end
  return entry
end

-- The head of a file that has the entry's name says more: "optim/adam.lua" of adam.
local function detail_of(self, entry)
  local base = entry.file:match "([%w_]+)%.lua$"
  local key = entry.name:match "[%w_]+$"
  if base ~= key and base ~= key:gsub("(%l)(%u)", "%1_%2"):lower() then return nil end
  local head = self.declared.files[entry.file].head
  return head and #head.text > 2 and head.text or nil
end

-- With what a declaration says, if there is one.
local function add_declared(self, entry, d)
  if d then
    entry.comment, entry.params, entry.file, entry.line = d.comment, d.params, d.file, d.line
    entry.detail = entry.kind == "class" and detail_of(self, entry) or nil
  end
  return add(self, entry)
end

-- A field of a class as a declaration of its own.
local function as_declaration(field, at)
  return field and { file = at.file, line = at.line,
    comment = { text = { field.text ~= "" and field.text or nil }, fields = {}, params = {},
      returns = {}, overloads = { field.type }, operators = {} } }
end

-- The file of a module: "plan/init.lua".
local function file_of(self, name)
  local path = name:gsub("^mrt%.?", ""):gsub("%.", "/")
  local files = self.declared.files
  return files[path .. "/init.lua"] and path .. "/init.lua" or files[path .. ".lua"]
    and path .. ".lua" or nil
end

-- What is written about a function: above it; for what loops make, and operators, in a
-- file of their own; or as a field.
local function declaration_of(self, name, f, operator)
  local container, key = name:match "^(.*)[.:]([%w_]+)$"
  if container == "Tensor" then container = "mrt.Tensor" end
  local declared = self.declared
  return declared:of_function(f) or declared.made[container .. "." .. key]
    or declared:of_name(file_of(self, container), key)
    or operator and declared.made["mrt.Tensor." .. operator.name]
    or as_declaration(declared:field(container, key))
end

-- One more name of what is there already; that of the declaration is the first.
local function add_name(self, entry, name, f, d)
  self.by_value[f], self.by_name[name] = entry, entry
  entry.also = entry.also or {}
  local key = entry.operator and entry.operator.name or d and d.name and d.name:match "[%w_]+$"
  if name:match "[%w_]+$" == key and entry.name:match "[%w_]+$" ~= key
    and name:match "^Tensor:" == entry.name:match "^Tensor:" then
    name, entry.name = entry.name, name
  end
  table.insert(entry.also, name)
  return entry
end

local function add_function(self, name, f, kind)
  local operator = self.operators[f]
  local d = declaration_of(self, name, f, operator)
  local there = self.by_value[f] or d and self.by_declaration[d]
  if there then return add_name(self, there, name, f, d) end
  local entry = add_declared(self, { name = name, kind = operator and "operator" or kind, value = f,
    operator = operator }, d)
  if d then self.by_declaration[d] = entry end
  if entry.params and name:find ":" and d.name:find "%." then -- the first is what it is called on
    entry.params = table.move(entry.params, 2, #entry.params, 1, {})
  end
  return entry
end

local function add_methods(self, entry, class, value)
  local short = class.name:match "[%w_]+$"
  for _, m in ipairs(class.methods) do
    if not m.name:find "^_" and m.name ~= "init" then
      local f = type(value) == "table" and rawget(value, m.name) or nil
      table.insert(entry.methods, add_declared(self, { kind = "method",
        name = short .. (m.colon and ":" or ".") .. m.name,
        value = type(f) == "function" and f or nil }, m.declaration))
    end
  end
end

local function add_class(self, name, value, class, kind)
  local new = { name = name, kind = kind or "class", value = value, methods = {},
    fields = Declared.fields(class) }
  local entry = add_declared(self, new, Declared.main(class))
  if entry == new then
    self.public[class.name] = entry
    add_methods(self, entry, class, value)
  end
  return entry
end

-- ---- the tables ------------------------------------------------------------

-- Tables whose fields are read by a function list in `__fields` those they have.
local function keys_of(t)
  local keys, seen = {}, {}
  local function take(from)
    for key in next, from do
      if type(key) == "string" and key:find "^%a[%w_]*$" and not seen[key] then
        seen[key] = true
        keys[#keys + 1] = key
      end
    end
  end
  take(t)
  local meta = getmetatable(t)
  for _, more in ipairs(type(meta) == "table" and rawget(meta, "__fields") or {}) do take(more) end
  table.sort(keys)
  return keys
end

-- The class that a table is, by its name in the sources.
local function class_of(self, name, value)
  local classes = self.declared.classes
  local own = rawget(value, "type") or rawget(value, "name") or rawget(value, "__name")
  if classes[own] then return classes[own] end
  if classes[name] or type(own) ~= "string" then return classes[name] end
  return classes["mrt.nn." .. own] or classes["mrt." .. own]
end

-- Is a table one that is called to make objects?
local function makes_objects(self, name, value)
  if rawget(value, "__index") then return true end
  local meta = getmetatable(value)
  local path = file_of(self, name)
  return type(meta) == "table" and meta.__call ~= nil and not (path and path:find "/init.lua$")
end

local walk

local function add_module(self, name, value)
  local path, class = file_of(self, name), self.declared.classes[name]
  local head = path and self.declared.files[path].head
  add(self, { name = name, kind = "module", value = value, file = path, line = 1,
    comment = head or class and Declared.main(class).comment })
  walk(self, name, value)
end

local function add_table(self, name, value)
  local class = class_of(self, name, value)
  if self.by_value[value] then
    add(self, { name = name, kind = "value", value = value })
  elseif class and rawget(value, "__index") then
    add_class(self, name, value, class)
  elseif makes_objects(self, name, value) then
    local key = name:match "[%w_]+$"
    local made = self.declared:of_table(key, value)
      or self.declared:of_name(file_of(self, name), key)
    add_declared(self, { name = name, kind = "class", value = value, methods = {} }, made)
    if not rawget(value, "__index") then walk(self, name, value) end
  elseif file_of(self, name) or class then
    add_module(self, name, value)
  else
    local container, key = name:match "^(.*)%.([%w_]+)$"
    add_declared(self, { name = name, kind = "value", value = value },
      self.declared:of_name(file_of(self, container), key)
        or as_declaration(self.declared:field(container, key)))
  end
end

function walk(self, prefix, t)
  for _, key in ipairs(keys_of(t)) do
    local value, name = t[key], prefix .. "." .. key
    if type(value) == "function" then
      add_function(self, name, value, "function")
    elseif type(value) == "table" then
      add_table(self, name, value)
    else
      add_declared(self, { name = name, kind = "value" },
        as_declaration(self.declared:field(prefix, key)))
    end
  end
end

-- ---- tensors, and what is mentioned ----------------------------------------

local function add_tensor(self)
  local class = self.declared.classes["mrt.Tensor"]
  local entry = add_declared(self, { name = "Tensor", kind = "class", methods = {}, fields = {} },
    Declared.main(class))
  self.public["mrt.Tensor"], self.by_name["mrt.Tensor"] = entry, entry
  for _, f in ipairs(Declared.fields(class)) do
    if core.methods[f.name] == nil then table.insert(entry.fields, f) end
  end
  for _, name in ipairs(keys_of(core.methods)) do
    local before = #self.entries
    local method = add_function(self, "Tensor:" .. name, core.methods[name], "method")
    if #self.entries > before then table.insert(entry.methods, method) end
  end
end

local function add_type(self, name)
  local class, alias = self.declared.classes[name], self.declared.aliases[name]
  if class then
    add_class(self, name, nil, class, "type")
  elseif alias then
    self.public[name] = add_declared(self, { name = name, kind = "type", methods = {} }, alias)
  else
    self.unknown[name] = true
  end
end

-- Call visit(text) for the types that an entry mentions.
local function each_type(entry, visit)
  local c = entry.comment
  if not c then return end
  for _, list in ipairs { c.params, c.returns, entry.fields or c.fields } do
    for _, part in ipairs(list) do visit(part.type) end
  end
  for _, text in ipairs(c.overloads) do visit(text) end
  visit(c.type or "")
  visit(c.parents or "")
end

-- Classes and aliases that what is public mentions, and those that these do.
local function add_types(self)
  local i = 1
  while i <= #self.entries do
    each_type(self.entries[i], function(text)
      types.each_name(text, function(name)
        if not self.public[name] then add_type(self, name) end
      end)
    end)
    i = i + 1
  end
end

local function operators()
  local by_function = {}
  for _, o in ipairs(core.operators()) do
    if not o.internal then by_function[core.op[o.name]] = o end
  end
  return by_function
end

--- Read the library's files and its tables.
---@return mrt.reference.Index
function Index.read()
  local mrt = require "mrt"
  local self = setmetatable({ entries = {}, by_name = {}, by_value = {}, public = {}, unknown = {},
    by_declaration = {}, declared = Declared.read(), operators = operators() }, Index)
  local files = self.declared.files
  add(self, { name = "mrt", kind = "module", value = mrt, comment = files["init.lua"].head,
    file = "init.lua", line = 1 })
  add_tensor(self)
  walk(self, "mrt", mrt)
  add_types(self)
  return self
end

return Index
