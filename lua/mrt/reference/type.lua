--- type.lua -- where a LuaCATS type ends, and what it names
---
--- SPDX-License-Identifier: MIT

local M = {}

-- The place after what `open` at `at` begins: (...), {...}, <...>, with strings.
local function past(text, at, open, close)
  local depth, i = 0, at
  while i <= #text do
    local c = text:sub(i, i)
    if c == '"' or c == "'" then
      i = text:find(c, i + 1, true) or #text
    elseif c == open then
      depth = depth + 1
    elseif c == close then
      depth = depth - 1
      if depth == 0 then return i + 1 end
    end
    i = i + 1
  end
  return #text + 1
end

local read

-- What may follow ": " of a function: types between commas.
local function read_results(text, at)
  local from = text:match("^%s*:%s*()", at)
  if not from then return at end
  while true do
    at = read(text, from)
    from = text:match("^,%s*()", at)
    if not from then return at end
  end
end

local brackets = { ["("] = ")", ["{"] = "}" }

-- The place after a name, with what stands in < >.
local function past_name(text, at)
  at = text:match("^%.%.%.()", at) or text:match("^[%w_.%-]+()", at) or at
  return text:sub(at, at) == "<" and past(text, at, "<", ">") or at
end

-- One type without alternatives.
local function read_one(text, at)
  local c = text:sub(at, at)
  if text:find("^fun%(", at) then
    at = read_results(text, past(text, at + 3, "(", ")"))
  elseif brackets[c] then
    at = past(text, at, c, brackets[c])
  elseif c == '"' or c == "'" then
    at = (text:find(c, at + 1, true) or #text) + 1
  else
    at = past_name(text, at)
  end
  while true do
    local on = text:match("^%[%]()", at) or text:match("^%?()", at)
    if not on then return at end
    at = on
  end
end

-- The place after the type at `at`; `at` itself where there is none.
function read(text, at)
  while true do
    at = read_one(text, at)
    local on = text:match("^%s*|%s*()", at)
    if not on then
      -- "mrt.Tensor ..." says that more of them may come.
      return text:match("^ %.%.%.()$", at) or text:match("^ %.%.%.() ", at) or at
    end
    at = on
  end
end

--- Split "number? scale  of a block" into the type and what follows it.
---@param text string
---@return string type
---@return string rest
function M.split(text)
  local past_it = read(text, 1)
  return text:sub(1, past_it - 1), text:sub(past_it)
end

--- Call visit(name) for each name of a class or an alias in a type: "mrt.Tensor".
---@param text string
---@param visit fun(name: string)
function M.each_name(text, visit)
  for name in text:gsub('"[^"]*"', ""):gmatch "mrt%.[%a_][%w_.]*" do
    visit((name:gsub("%.+$", "")))
  end
end

return M
