--- comment.lua -- a documentation comment as its parts
---
--- The lines of a comment are text and LuaCATS tags.  A line that is indented below
--- a tag goes on with it; one that is not is text again.
---
--- SPDX-License-Identifier: MIT

local types = require "mrt.reference.type"

---@class mrt.reference.Part
---@field name? string
---@field optional? boolean
---@field type string
---@field text string
---@field generic? string  the name that stands for the type

---@class mrt.reference.Comment
---@field text string[]     lines; examples are indented by four
---@field class? string
---@field parents? string
---@field alias? string
---@field type? string      of an alias
---@field fields mrt.reference.Part[]
---@field params mrt.reference.Part[]
---@field returns mrt.reference.Part[]
---@field overloads string[]
---@field operators string[]
---@field generics table<string, string>  the type that each may be
---@field private? boolean
---@field meta? boolean      of a file that is never loaded: what loops make

local M = {}

local function trimmed(text) return (text:match "^%s*(.-)%s*$":gsub("  +", " ")) end

-- "name? type  text"
local function named(rest)
  local name, optional, tail = rest:match "^(%S-)(%??)%s+(.*)$"
  if not name then return { name = trimmed(rest), type = "any", text = "" } end
  local kind, text = types.split(tail)
  return { name = name, optional = optional == "?", type = kind, text = trimmed(text) }
end

local tags = {}

function tags.param(c, rest) c.params[#c.params + 1] = named(rest) end
function tags.field(c, rest)
  rest = rest:gsub("^public%s+", "")
  if not rest:find "^private%s" and not rest:find "^protected%s" then
    local part = named(rest)
    local key, kind = rest:match "^(%b[])%s+(.*)$"
    if key then
      part.name, part.optional = key, false
      part.type, part.text = types.split(kind)
      part.text = trimmed(part.text)
    end
    c.fields[#c.fields + 1] = part
  end
end

-- "type name  text", where the name is after one space and the text after two.
tags["return"] = function(c, rest)
  local kind, tail = types.split(rest)
  local name, text = tail:match "^ ([%a_][%w_]*)%f[%s\0]%s*(.*)$"
  if not name or tail:find "^ [%a_][%w_]* %S" then name, text = nil, tail end
  while true do -- "boolean, string?"
    local more = tail:match "^,%s*(.*)$"
    if not more then break end
    c.returns[#c.returns + 1] = { type = kind, text = "" }
    kind, tail = types.split(more)
    name, text = nil, tail
  end
  c.returns[#c.returns + 1] = { type = kind, name = name, text = trimmed(text) }
end
function tags.class(c, rest)
  local name, tail = rest:match "^([%w_.]+)%s*:?%s*(.*)$"
  local parents, more = {}, tail
  repeat -- "mrt.make, mrt.derivatives  what it is"
    local kind
    kind, tail = types.split(more)
    parents[#parents + 1] = kind ~= "" and kind or nil
    more = tail:match "^,%s*(.*)$"
  until not more
  c.class, c.parents = name, parents[1] and table.concat(parents, ", ")
  if trimmed(tail) ~= "" then c.text[#c.text + 1] = trimmed(tail) end
end
function tags.alias(c, rest)
  local name, tail = rest:match "^([%w_.]+)%s*(.*)$"
  c.alias, c.type = name, tail
  local kind, text = types.split(tail)
  c.type = kind
  text = trimmed(text)
  if text ~= "" then c.text[#c.text + 1] = text end
end
function tags.type(c, rest) c.overloads[#c.overloads + 1] = (types.split(rest)) end
function tags.overload(c, rest) c.overloads[#c.overloads + 1] = rest end
function tags.generic(c, rest)
  local name, kind = rest:match "^([%w_]+)%s*:?%s*(.*)$"
  c.generics[name] = kind ~= "" and kind or "any"
end
function tags.operator(c, rest) c.operators[#c.operators + 1] = rest end
function tags.private(c) c.private = true end
function tags.nodoc(c) c.private = true end
function tags.meta(c) c.meta = true end

-- An alias goes on with lines of "| value".
local function alternative(c, text)
  c.type = (c.type ~= "" and c.type .. "|" or "") .. types.split(trimmed(text:sub(2)))
end

local function new()
  return { text = {}, fields = {}, params = {}, returns = {}, overloads = {}, operators = {},
    generics = {} }
end

local function close(c)
  for _, list in ipairs { c.params, c.returns } do
    for _, part in ipairs(list) do
      local kind = c.generics[part.type]
      if kind then part.generic, part.type = part.type, kind end
    end
  end
  while c.text[1] and not c.text[1]:find "%S" do table.remove(c.text, 1) end
  while c.text[1] and not c.text[#c.text]:find "%S" do c.text[#c.text] = nil end
  return c
end

-- Tags with the lines that go on with them: {tag, rest}; text: {nil, line}.
local function logical(lines)
  local list = {}
  for _, line in ipairs(lines) do
    local tag, rest = line:match "^%s?@(%a+)%s*(.*)$"
    local last = list[#list]
    if tag then
      list[#list + 1] = { tag, rest }
    elseif last and last[1] and line:find "^%s%s+%S" then
      last[2] = last[2] .. "  " .. trimmed(line)
    elseif last and last[1] == "alias" and line:find "^%s?|" then
      last.more = last.more or {}
      table.insert(last.more, line:match "^%s?(.*)$")
    else
      list[#list + 1] = { nil, (line:gsub("^%s", "", 1)) }
    end
  end
  return list
end

-- What goes on may belong to a type that is open: then one space is enough.
local function joined(rest) return (rest:gsub("([,(:|{])  ", "%1 ")) end

--- Read the lines of a comment, without the dashes.  A second class or alias begins
--- a comment of its own.
---@param lines string[]
---@return mrt.reference.Comment[]
function M.read(lines)
  local list = { new() }
  for _, part in ipairs(logical(lines)) do
    local c, tag, rest = list[#list], part[1], part[2]
    if not tag then
      c.text[#c.text + 1] = rest
    elseif tags[tag] then
      if (tag == "class" or tag == "alias") and (c.class or c.alias) then
        list[#list + 1] = new()
        c = list[#list]
      end
      tags[tag](c, joined(rest))
      for _, text in ipairs(part.more or {}) do alternative(c, text) end
    end
  end
  for _, c in ipairs(list) do close(c) end
  return list
end

return M
