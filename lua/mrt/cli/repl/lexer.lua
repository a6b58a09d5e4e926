--- lexer.lua -- the words of a text in Lua, whole or broken off
---
--- Comments are left out; strings, however they are written, are one word each.  What the
--- text breaks off in (a string, a comment) is told, so that a line being typed can be read
--- up to the cursor.
---
--- SPDX-License-Identifier: MIT

---@class mrt.repl.Word
---@field kind "name"|"keyword"|"number"|"string"|"mark"
---@field text string
---@field from integer  where it begins
---@field to integer    its last byte

local lexer = {}

--- Lua's own words.
---@type table<string, boolean>
lexer.keywords = {}
for word in ([[and break do else elseif end false for function goto if in local
  nil not or repeat return then true until while]]):gmatch "%a+" do
  lexer.keywords[word] = true
end

-- The last byte of `[[...]]` that begins at `at`, nil where none does; whether it is open.
local function long_end(text, at)
  local equals = text:match("^%[(=*)%[", at)
  if not equals then return nil end
  local _, to = text:find("]" .. equals .. "]", at + #equals + 2, true)
  return to or #text, to == nil
end

-- The same of '...' and "...".
local function short_end(text, at)
  local quote, i = text:sub(at, at), at + 1
  while true do
    i = text:find('[\\\n' .. quote .. ']', i)
    if not i then return #text, true end
    local c = text:sub(i, i)
    if c == quote then return i, false end
    if c == "\n" then return i - 1, true end
    i = text:sub(i + 1, i + 1) == "z" and (text:find("%S", i + 2) or #text + 1) or i + 2
  end
end

local function comment_end(text, at)
  local to, open = long_end(text, at + 2)
  if to then return to, open end
  local newline = text:find("\n", at, true)
  return newline or #text, newline == nil
end

local function number_end(text, at)
  local _, to = text:find("^0[xX][%x.]*[pP][+-]?%d+", at)
  if not to then _, to = text:find("^0[xX][%x.]*", at) end
  if not to then _, to = text:find("^[%d.]+[eE][+-]?%d+", at) end
  if not to then _, to = text:find("^[%d.]+", at) end
  return to
end

local marks = { ["..."] = true, [".."] = true, ["=="] = true, ["~="] = true, ["<="] = true,
  [">="] = true, ["//"] = true, ["<<"] = true, [">>"] = true, ["::"] = true }

local function mark_end(text, at)
  if text:sub(at, at + 2) == "..." then return at + 2 end
  return marks[text:sub(at, at + 1)] and at + 1 or at
end

-- Kind and last byte of the word at `at`; whether the text breaks off in it.
local function word_at(text, at)
  local c = text:sub(at, at)
  if c:find "[%a_]" then
    local _, to = text:find("^[%w_]+", at)
    return lexer.keywords[text:sub(at, to)] and "keyword" or "name", to
  elseif c:find "%d" or text:find("^%.%d", at) then
    return "number", number_end(text, at)
  elseif c == '"' or c == "'" then
    return "string", short_end(text, at)
  end
  local to, open = long_end(text, at)
  if to then return "string", to, open end
  return "mark", mark_end(text, at)
end

--- The words of a text.
---@param text string
---@return mrt.repl.Word[]
---@return "string"|"comment"|nil open  what it breaks off in; a string is the last word
function lexer.words(text)
  local words, at = {}, 1
  while true do
    at = text:find("%S", at)
    if not at then return words end
    local kind, to, open
    if text:sub(at, at + 1) == "--" then
      to, open = comment_end(text, at)
      if open then return words, "comment" end
    else
      kind, to, open = word_at(text, at)
      words[#words + 1] = { kind = kind, text = text:sub(at, to), from = at, to = to }
      if open then return words, kind end
    end
    at = to + 1
  end
end

return lexer
