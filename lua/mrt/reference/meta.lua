--- meta.lua -- the reference as types that language servers read
---
--- A file for the library and one for each of its modules, in LuaCATS, with the
--- comments: what an editor shows and completes through `require "mrt"`.
---
--- SPDX-License-Identifier: MIT

local shape = require "mrt.reference.shape"
local signature = require "mrt.reference.signature"

local M = {}

local callable = { ["function"] = true, method = true, operator = true }

-- ---- lines -----------------------------------------------------------------

local function comment(out, lines)
  for _, line in ipairs(lines or {}) do
    for part in (line .. "\n"):gmatch "([^\n]*)\n" do
      out[#out + 1] = "---" .. (part ~= "" and " " .. part or "")
    end
  end
end

local function text_of(entry)
  local c = entry.comment
  if c and c.text[1] then return c.text end
  return entry.operator and { entry.operator.doc } or nil
end

local function spaced(text) return text ~= "" and "  " .. text:gsub("%s+", " ") or "" end

local keyword = { ["end"] = true, ["repeat"] = true, ["function"] = true, ["local"] = true }

-- Its parameters, with names that Lua has no other use for.
local function add_params(out, params)
  local names = {}
  for i, p in ipairs(params) do
    names[i] = keyword[p.name] and p.name .. "_" or p.name
    out[#out + 1] = ("---@param %s%s %s%s"):format(names[i],
      p.optional and p.name ~= "..." and "?" or "", p.generic or p.type, spaced(p.text))
  end
  return names
end

local unknown = { params = { { name = "...", type = "any", text = "" } }, returns = {} }

local function add_generics(out, entry)
  for name, kind in pairs(entry.comment and entry.comment.generics or {}) do
    out[#out + 1] = ("---@generic %s: %s"):format(name, kind)
  end
end

-- A function under a name: its first signature, and the others as overloads.
local function add_function(out, entry, name, list)
  if keyword[name:match "[%w_]+$"] then return end
  comment(out, text_of(entry))
  add_generics(out, entry)
  local first = list[1] or unknown
  local names = add_params(out, first.params)
  for _, r in ipairs(first.returns) do
    out[#out + 1] = ("---@return %s%s%s"):format(r.generic or r.type,
      r.name and " " .. r.name or "", spaced(r.text):gsub("^  ", r.name and "  " or " # "))
  end
  for i = 2, #list do out[#out + 1] = "---@overload " .. signature.text(list[i]) end
  out[#out + 1] = ("function %s(%s) end"):format(name, table.concat(names, ", "))
  out[#out + 1] = ""
end

-- ---- names that are called with a tensor in front, or on one ----------------

-- Of a function of any number of tensors, these may be in a list.
local function first_tensor(entry)
  local many = entry.operator and entry.operator.max_inputs < 0
  return { name = "x", type = many and "mrt.Tensor|mrt.Tensor[]" or "mrt.Tensor", text = "" }
end

-- A method's signatures where it is a function: `mrt.sum(x)`; and the other way.
local function turned(entry, list, to_function)
  local out = {}
  for i, s in ipairs(list) do
    local params = table.move(s.params, 1, #s.params, 1, {})
    local own = params[1] and params[1].name == "self"
    if own then table.remove(params, 1) end
    if to_function then
      table.insert(params, 1, first_tensor(entry))
    elseif not own then
      table.remove(params, 1)
    end
    out[i] = { params = params, returns = s.returns }
  end
  return out
end

local function signatures(entry, name)
  local list = signature.all(entry)
  local here, there = name:find(":", 1, true), entry.name:find(":", 1, true)
  if there and not here then return turned(entry, list, true) end
  if here and not there then return turned(entry, list, false) end
  if not here then return list end
  for _, s in ipairs(list) do -- overloads of methods name what they are called on
    if s ~= list[1] and not (s.params[1] and s.params[1].name == "self") then
      table.insert(s.params, 1, { name = "self", type = "any", text = "" })
    end
  end
  return list
end

-- ---- classes ---------------------------------------------------------------

local function add_fields(out, fields, skip)
  for _, f in ipairs(fields or {}) do
    if not skip[f.name] then
      out[#out + 1] = ("---@field %s%s %s%s"):format(f.name, f.optional and "?" or "", f.type,
        spaced(f.text))
    end
  end
end

local layer = { params = { { name = "...", type = "mrt.Tensor", text = "" } },
  returns = { { type = "mrt.Tensor ...", text = "" } } }

-- What an object of a class is when it is called: of layers, `forward`.
local function calls(entry)
  for _, m in ipairs(entry.methods or {}) do
    if m.name:find ":forward$" then return signature.all(m) end
  end
  local c = entry.comment
  return c and c.parents == "mrt.nn.Module" and { layer } or {}
end

-- The name that types have of a class: that of its declaration.
local function class_name(entry)
  return entry.name == "Tensor" and "mrt.Tensor" or entry.comment and entry.comment.class
    or entry.name
end

-- Operators, and how an object is called.
local function add_calls(out, entry, name)
  local c = entry.comment
  for _, text in ipairs(c and c.operators or {}) do out[#out + 1] = "---@operator " .. text end
  if name == "mrt.nn.Module" then
    out[#out + 1] = "---@field [string] any"
    out[#out + 1] = "---@overload fun(...: any): any"
  end
  for _, text in ipairs(entry.kind == "type" and c and c.overloads or {}) do
    out[#out + 1] = "---@overload " .. text
  end
  for _, s in ipairs(calls(entry)) do out[#out + 1] = "---@overload " .. signature.text(s) end
end

-- Methods of tensors under their other names.
local function add_aliases(out, index)
  for other, m in index:names() do
    if other:find "^Tensor:" and other ~= m.name then
      add_function(out, m, "C:" .. other:sub(8), signatures(m, other))
    end
  end
end

local function add_class(out, index, entry)
  local c, name, methods = entry.comment, class_name(entry), entry.methods or {}
  comment(out, text_of(entry))
  out[#out + 1] = "---@class " .. name .. (c and c.parents and ": " .. c.parents or "")
  local skip = {}
  for _, m in ipairs(methods) do skip[m.name:match "[%w_]+$"] = true end
  add_fields(out, entry.fields, skip)
  add_calls(out, entry, name)
  if methods[1] then out[#out + 1] = "local C = {}" end
  out[#out + 1] = ""
  for _, m in ipairs(methods) do
    add_function(out, m, "C" .. m.name:match "([.:][%w_]+)$", signatures(m, m.name))
  end
  if name == "mrt.Tensor" then add_aliases(out, index) end
end

-- ---- modules ---------------------------------------------------------------

-- What has fields, as a class of its own, is found by them.
local function is_class(entry) return entry.fields ~= nil and entry.kind ~= "module" end

-- How a table is called to make an object.
local function makes(entry)
  local list = signature.all(entry)
  if class_name(entry) == "mrt.nn.Module" then
    return { { params = { { name = "name", type = "string", text = "of the class" },
      { name = "...", type = "any", text = "" } },
      returns = { { type = "mrt.nn.Module", text = "" } } } }
  end
  if list[1] or not (entry.comment and entry.comment.class) then return list end
  local _, called = pcall(function() return getmetatable(entry.value).__call end)
  return called and entry.comment.parents and { {
    params = { { name = "...", type = "any", text = "" } },
    returns = { { type = class_name(entry), text = "" } } } } or {}
end

-- What a name of a module is, where it is no function: the type of a field.
local function field_type(entry)
  if entry.kind == "module" then return entry.name end
  if is_class(entry) then return class_name(entry) end
  return entry.comment and entry.comment.overloads[1] or entry.value ~= nil
    and (type(entry.value) == "table" and "table" or type(entry.value)) or "any"
end

local function is_function(entry)
  if callable[entry.kind] then return true end
  return entry.kind == "class" and makes(entry)[1] ~= nil
end

-- What is below a module, in order: its functions, and everything else as fields.
local function members(index, module)
  local fields, functions, own = {}, {}, module.name .. "."
  for name, entry in index:names() do
    local key = name:sub(1, #own) == own and entry.kind ~= "type"
      and entry.name ~= "Tensor" and name:match("^[%w_]+$", #own + 1)
    if key and is_function(entry) then
      functions[#functions + 1] = { key = key, entry = entry, name = name }
    elseif key then
      fields[#fields + 1] = { name = key, type = field_type(entry), text = shape.summary(entry) }
    end
  end
  return fields, functions
end

-- Of a module that is called itself: `mrt.finetune{...}`.
local function add_module_calls(out, index, module)
  local meta = getmetatable(module.value)
  local f = type(meta) == "table" and meta.__call
  local d = type(f) == "function" and index.declared:of_function(f)
  if not d or not d.params then return end
  for _, s in ipairs(signature.all { comment = d.comment,
    params = table.move(d.params, 2, #d.params, 1, {}) }) do
    out[#out + 1] = "---@overload " .. signature.text(s)
  end
end

local function add_module(out, index, module)
  local fields, functions = members(index, module)
  comment(out, text_of(module))
  out[#out + 1] = "---@class " .. module.name
  add_fields(out, fields, {})
  add_module_calls(out, index, module)
  out[#out + 1] = "local M = {}"
  out[#out + 1] = ""
  for _, one in ipairs(functions) do
    add_function(out, one.entry, "M." .. one.key,
      one.entry.kind == "class" and makes(one.entry) or signatures(one.entry, one.name))
  end
end

-- ---- files -----------------------------------------------------------------

-- All names in order, with their entries.
local function index_of(index)
  local order = {}
  for name in pairs(index.by_name) do order[#order + 1] = name end
  table.sort(order)
  return setmetatable({ names = function()
    local i = 0
    return function()
      i = i + 1
      if order[i] then return order[i], index.by_name[order[i]] end
    end
  end }, { __index = index })
end

local function add_type(out, index, entry)
  local c = entry.comment
  if c and c.alias then
    comment(out, c.text)
    out[#out + 1] = ("---@alias %s %s"):format(c.alias, c.type)
    out[#out + 1] = ""
  else
    add_class(out, index, entry)
  end
end

-- The file that an entry is in: that of the module above it.
local function file_of(name)
  local top = name:match "^mrt%.(%l[%w_]*)"
  return top and top ~= "op" and "mrt/" .. top or "mrt"
end

local function block(files, path, add, ...)
  local out = files[path] or { "---@meta _", "" }
  files[path] = out
  out[#out + 1] = "do"
  add(out, ...)
  if out[#out] == "" then out[#out] = nil end
  out[#out + 1] = "end"
  out[#out + 1] = ""
end

--- Write the types.
---@param reference_index mrt.reference.Index
---@return table<string, string> files  texts by path: "mrt.lua", "mrt/nn.lua"
function M.files(reference_index)
  local index, files = index_of(reference_index), {}
  for _, entry in ipairs(index.entries) do
    if entry.kind == "module" then
      block(files, file_of(entry.name), add_module, index, entry)
    elseif entry.kind == "class" and is_class(entry) then
      block(files, file_of(class_name(entry)), add_class, index, entry)
    elseif entry.kind == "type" then
      block(files, file_of(entry.name), add_type, index, entry)
    end
  end
  local texts = {}
  for path, out in pairs(files) do
    if path == "mrt" then
      out[1] = "---@meta mrt"
      out[#out + 1] = "---@type mrt\nlocal mrt\nreturn mrt\n"
    end
    texts[path .. ".lua"] = table.concat(out, "\n")
  end
  return texts
end

return M
