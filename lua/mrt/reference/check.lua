--- check.lua -- what the reference does not say of public names
---
--- Of everything that is called: what it does, an example, the shapes of tensors that
--- it takes or gives, and what it raises where it takes anything.  Of the rest, what it
--- is.
---
--- SPDX-License-Identifier: MIT

local shape = require "mrt.reference.shape"

local M = {}

local callable = { ["function"] = true, method = true, operator = true }

-- All that is written about an entry, in one text.
local function all_text(entry)
  local c, out = entry.comment, {}
  if not c then return "" end
  for _, line in ipairs(c.text) do out[#out + 1] = line end
  for _, list in ipairs { c.params, c.returns } do
    for _, part in ipairs(list) do out[#out + 1] = part.type .. " " .. part.text end
  end
  return table.concat(out, "\n")
end

local function has_example(entry)
  for _, line in ipairs(entry.comment and entry.comment.text or {}) do
    if line:find "^    +%S" then return true end
  end
  return false
end

local function mentions_tensors(entry)
  local c = entry.comment
  if not c then return false end
  for _, list in ipairs { c.params, c.returns } do
    for _, part in ipairs(list) do
      if part.type:find "mrt%.Tensor" or part.type:find "mrt%.Operand" then return true end
    end
  end
  for _, text in ipairs(c.overloads) do
    if text:find "mrt%.Tensor" then return true end
  end
  return false
end

-- Shapes are written `[N,C]`, or in these words.
local words = { "scalar", "shape", "same size", "elementwise", "broadcast", "of its", "one number",
  "dimension" }

local function says_shapes(text)
  if text:find "%[[%w.,%s*/+'()-]+%]" then return true end
  for _, word in ipairs(words) do
    if text:lower():find(word, 1, true) then return true end
  end
  return false
end

local function takes_anything(entry)
  local c = entry.comment
  return c ~= nil and (c.params[1] ~= nil or entry.params ~= nil and entry.params[1] ~= nil)
end

-- Errors are raised, or returned as a message.
local function says_errors(text)
  return text:find "[Rr]aises" ~= nil or text:find "[Ee]rror" ~= nil
    or text:find "string%? *message" ~= nil or text:find "is no error" ~= nil
end

-- Of what is called.
local function lacking_of_call(entry, list)
  local text = all_text(entry)
  if not has_example(entry) then list[#list + 1] = "example" end
  if mentions_tensors(entry) and not says_shapes(text) then list[#list + 1] = "shapes" end
  if takes_anything(entry) and not says_errors(text) then list[#list + 1] = "errors" end
end

local function lacking(entry)
  local list = {}
  if entry.kind == "method" and entry.name:find ":forward$" then return list end -- its class's
  if shape.summary(entry) == "" and not (entry.kind == "type" and entry.comment) then
    list[1] = "text"
  end
  if callable[entry.kind] then
    lacking_of_call(entry, list)
  elseif entry.kind == "class" and entry.value ~= nil and not has_example(entry) then
    list[#list + 1] = "example"
  end
  return list
end

--- List what is not said, entry by entry: {entry, what...}.
---@param index mrt.reference.Index
---@return {entry: mrt.reference.Entry, lacks: string[]}[]
function M.list(index)
  local found = {}
  for _, entry in ipairs(index.entries) do
    local lacks = lacking(entry)
    if lacks[1] then found[#found + 1] = { entry = entry, lacks = lacks } end
  end
  return found
end

return M
