--- shape.lua -- an entry of the reference as its sections, whatever they are shown as
---
--- SPDX-License-Identifier: MIT

local types = require "mrt.reference.type"

---@class mrt.reference.Row
---@field name string      "dim?", or "" of a result without a name
---@field type string
---@field text string

---@class mrt.reference.Section
---@field title string
---@field rows mrt.reference.Row[]
---@field entry? mrt.reference.Entry  the class whose fields these are

---@class mrt.reference.Shape
---@field signatures string[]   "mrt.cat(list, dim?)"
---@field text string[]         lines; examples are indented by four
---@field sections mrt.reference.Section[]
---@field detail? string[]      lines

local M = {}

local function row(part)
  return { name = (part.name or "") .. (part.optional and "?" or ""), type = part.type,
    text = part.text }
end

local function rows(parts)
  local list = {}
  for i, part in ipairs(parts) do list[i] = row(part) end
  return list
end

-- "(list, dim?)": of the comment where it names all, else as the code has it.
local function arguments(entry)
  local c, list = entry.comment, {}
  for i, p in ipairs(c and c.params or {}) do list[i] = row(p).name end
  if not list[1] then
    for _, name in ipairs(entry.params or {}) do list[#list + 1] = name end
  end
  return "(" .. table.concat(list, ", ") .. ")"
end

-- The names of what stands between the brackets of "fun(a: T, b?: U): V".
local function parameters(list)
  local out, at = {}, 1
  while true do
    local word, past = list:match("^%s*([%w_.]+%??)()", at)
    if not word then return out end
    if word ~= "self" then out[#out + 1] = word end
    local colon = list:match("^%s*:%s*()", past)
    if colon then past = colon + #types.split(list:sub(colon)) end
    at = list:match("^%s*,()", past) or #list + 1
  end
end

-- An overload under a name: "name(a, b?)".
local function of_overload(name, text)
  local list = text:match "^fun(%b())"
  return list and name .. "(" .. table.concat(parameters(list:sub(2, -2)), ", ") .. ")"
end

-- A row of an operator tells its inputs only by their number.
local function of_operator(entry)
  local o, list = entry.operator, {}
  for _, option in ipairs(o.options) do
    list[#list + 1] = option.name .. (option.required and "" or "?")
  end
  return entry.name .. "(" .. table.concat(list, ", ") .. ")"
end

local callable = { ["function"] = true, method = true, operator = true }

-- How it is called by its own parameters; nil where only overloads say that.
local function own_signature(entry)
  local c = entry.comment
  if c and c.params[1] or entry.params then return entry.name .. arguments(entry) end
  if not callable[entry.kind] or c and c.overloads[1] then return nil end
  return entry.operator and of_operator(entry) or entry.name .. "()"
end

local function signatures(entry)
  local list, seen = {}, {}
  local function add(text)
    if text and not seen[text] then
      seen[text] = true
      list[#list + 1] = text
    end
  end
  add(own_signature(entry))
  for _, text in ipairs(entry.kind ~= "type" and entry.comment and entry.comment.overloads or {}) do
    add(of_overload(entry.name, text))
  end
  return list
end

-- What a type that is named has to say in place: fields, or what it may be.
local function section_of(class)
  local c = class.comment
  local fields = class.fields or c.fields
  if fields[1] then return { title = class.name, rows = rows(fields), entry = class } end
  return c.alias and { title = class.name, entry = class,
    rows = { { name = "", type = c.type, text = table.concat(c.text, " ") } } }
end

-- The classes of options that parameters name: their fields belong to the page.
local function add_options(index, entry, sections)
  local c, seen = entry.comment, { [entry] = true }
  local function take(text)
    types.each_name(text, function(name)
      local class = index.public[name]
      local told = name:find "%.op%." and c.params[1] -- by the arguments
      if not class or seen[class] or told or class.kind ~= "type" or class.methods[1] then
        return
      end
      seen[class] = true
      sections[#sections + 1] = section_of(class) or nil
    end)
  end
  for _, p in ipairs(c.params) do take(p.type) end
  for _, text in ipairs(c.overloads) do take((text:gsub("%)[^)]*$", ")"))) end
end

-- The first sentence of a text.
local function summary(lines)
  local words = {}
  for _, line in ipairs(lines) do
    if not line:find "%S" then break end
    words[#words + 1] = line
  end
  local text = table.concat(words, " ")
  return text:match "^(.-[.:])%s" or text
end

--- The first sentence of what is written about an entry.
---@param entry mrt.reference.Entry
---@return string
function M.summary(entry)
  local c = entry.comment
  if c and c.text[1] then return summary(c.text) end
  return entry.operator and entry.operator.doc or ""
end

local function method_rows(entry)
  local list = {}
  for i, m in ipairs(entry.methods or {}) do
    list[i] = { name = signatures(m)[1] or m.name, type = "", text = M.summary(m), entry = m }
  end
  return list
end

--- The sections of an entry.
---@param index mrt.reference.Index
---@param entry mrt.reference.Entry
---@return mrt.reference.Shape
function M.of(index, entry)
  local c = entry.comment
  local shape = { signatures = signatures(entry), text = c and c.text or {}, sections = {},
    detail = entry.detail }
  if not shape.text[1] and entry.operator then shape.text = { entry.operator.doc } end
  if not c then return shape end
  local sections = shape.sections
  local function section(title, list)
    if list[1] then sections[#sections + 1] = { title = title, rows = list } end
  end
  section("Arguments", rows(c.params))
  add_options(index, entry, sections)
  section("Returns", rows(c.returns))
  if c.alias then section("One of", { { name = "", type = c.type, text = "" } }) end
  if not callable[entry.kind] then section("Fields", rows(entry.fields or c.fields)) end
  section("Methods", method_rows(entry))
  return shape
end

return M
