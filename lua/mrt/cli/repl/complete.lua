--- complete.lua -- completes what is typed at the prompt
--
-- Names, by the value before the last dot or colon: tables and `__index` chains
-- are walked with raw access only, so no code of the user runs because a key was
-- pressed. Parts of mrt that are not loaded yet are loaded. What a call returns is
-- not known, but that tensors' methods make tensors, and classes objects. Within a
-- string, files; in the table of a call, its options; at the beginning of a line,
-- the prompt's own commands.
--
-- SPDX-License-Identifier: MIT

local chain = require "mrt.cli.repl.chain"
local columns = require "mrt.cli.repl.columns"
local lexer = require "mrt.cli.repl.lexer"

local commands <const> = { ":help", ":quit", ":time off", ":time on" }
local MOST <const> = 400 -- names that are shown

local function common_prefix(names)
  local prefix = names[1] or ""
  for _, name in ipairs(names) do
    while name:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

local function begins(name, prefix) return name:sub(1, #prefix) == prefix end

-- Is this a name to offer? Those with a leading _ are the library's own.
local function fits(key, prefix)
  return type(key) == "string" and begins(key, prefix) and key:find "^[%a_][%w_]*$"
    and not lexer.keywords[key] and (begins(prefix, "_") or not begins(key, "_"))
end

-- Names of what a value has; after a colon what can be called alone.
local function fields(value, prefix, calling)
  local names, seen = {}, {}
  chain.each_table(value, calling, function(t)
    for key, item in next, t do
      if not seen[key] and fits(key, prefix) and (not calling or type(item) == "function") then
        seen[key] = true
        names[#names + 1] = key
      end
    end
  end)
  return names
end

-- Names that stand alone: locals of the prompt, globals, Lua's words.
local function alone(scope, prefix)
  local names, seen = {}, {}
  local function add(name)
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  for _, t in ipairs { scope.variables, _G } do
    for key in next, t do
      if fits(key, prefix) then add(key) end
    end
  end
  for word in next, lexer.keywords do
    if prefix ~= "" and begins(word, prefix) then add(word) end
  end
  return names
end

-- Is this a file to offer? Hidden ones where their dot is typed.
local function fits_file(entry, prefix)
  if entry == "." or entry == ".." or entry:find "[%c\"'\\]" then return false end
  return begins(entry, prefix) and (prefix ~= "" or not begins(entry, "."))
end

-- Files whose path begins with this; folders end in a slash.
local function files(path)
  local folder, prefix = path:match "^(.*/)([^/]*)$"
  local place = (folder or ""):gsub("^~", os.getenv "HOME" or "~")
  local core, names = require "mrt.core", {}
  prefix = prefix or path
  for _, entry in ipairs(core.list_folder(place == "" and "." or place) or {}) do
    if fits_file(entry, prefix) then
      local is_folder = core.list_folder(place .. entry) ~= nil
      names[#names + 1] = entry .. (is_folder and "/" or "")
    end
  end
  return names, prefix
end

-- Names for the last word by what stands before it, up to word `at`: within the table of
-- a call its options, if any fits.
local function after(words, at, prefix, scope)
  local mark = words[at] and words[at].text
  if mark == "." or mark == ":" then
    local known, value = chain.value(words, at - 1, scope)
    return known and fields(value, prefix, mark == ":") or {}
  end
  local names = {}
  for name in next, require "mrt.cli.repl.option_names"(words, at, scope) do
    if begins(name, prefix) then names[#names + 1] = name .. " = " end
  end
  return (names[1] or prefix == "") and names or alone(scope, prefix)
end

-- Candidates for the end of a line, which is no space, and how much of them is there.
local function candidates(line, scope)
  if line:find "^%s*:%a*%s?%a*$" then return commands, line:match "^%s*(.*)" end
  line = line:gsub("^%s*%?", " ")
  local words, open = lexer.words(line)
  local last = words[#words]
  if open == "comment" or not last then return {}, "" end
  if open == "string" then return files(last.text:match "^%[=*%[(.*)" or last.text:sub(2)) end
  if last.kind ~= "name" and last.kind ~= "keyword" then
    return after(words, #words, "", scope), ""
  end
  return after(words, #words - 1, last.text, scope), last.text
end

local nothing = { variables = {}, get = function() return false end }

--- Complete the end of `line`.
---@param line string  the text before the cursor
---@param scope? mrt.repl.Chunks  has the prompt's locals
---@param width? integer          of the window
---@return string? insert   what to add at the cursor
---@return string? choices  several candidates, to show
return function(line, scope, width)
  if not line:find "[^%s]$" then return "    " end
  local names, prefix = candidates(line, scope or nothing)
  local list = {}
  for _, name in ipairs(names) do
    if begins(name, prefix) then list[#list + 1] = name end
  end
  table.sort(list)
  local insert = common_prefix(list):sub(#prefix + 1)
  if insert ~= "" or #list < 2 then return insert end
  local more = #list - MOST
  local lines = columns.lines(table.move(list, 1, math.min(#list, MOST), 1, {}), width or 78)
  if more > 0 then lines[#lines + 1] = ("... %d more"):format(more) end
  return nil, table.concat(lines, "\n")
end
