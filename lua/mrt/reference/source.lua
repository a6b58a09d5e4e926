--- source.lua -- what the files of the library say of what they declare
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local comment = require "mrt.reference.comment"

---@class mrt.reference.Declaration
---@field comment mrt.reference.Comment
---@field name? string      of the code below: "Linear", "Linear:forward", "mrt.cat"
---@field params? string[]  as declared
---@field quoted? string    the first argument of what makes it: Distribution.class("Normal")
---@field file string       below the library's folder: "nn/linear.lua"
---@field line integer      of the code

---@class mrt.reference.File
---@field head mrt.reference.Comment?  what the file is
---@field declarations mrt.reference.Declaration[]
---@field meta? boolean     never loaded: it says what loops elsewhere make

local M = {}

local function names(list)
  local params = {}
  for name in list:gmatch "[%w_.]+" do params[#params + 1] = name end
  return params
end

-- What a line of code declares.
local function declared(code)
  local name, list = code:match "^%s*function%s+([%w_.:]+)%s*(%b())"
  if not name then name, list = code:match "^%s*local function%s+([%w_]+)%s*(%b())" end
  if not name then name, list = code:match "^%s*([%w_.]+)%s*=%s*function%s*(%b())" end
  if not name then
    list = code:match "^%s*return function%s*(%b())"
    name = list and "return" or code:match "^%s*return setmetatable%(([%w_]+)"
  end
  if not name then name = code:match "^%s*local ([%w_]+)" or code:match "^%s*([%w_.]+)[%s,]*=" end
  if not name then -- over several lines
    name = code:match "^%s*function%s+([%w_.:]+)%s*%("
  end
  return name, list and names(list:sub(2, -2))
end

-- What a file says of itself, without its own name and the licence.
local function head(c)
  local text = c.text
  if text[1] then
    text[1] = text[1]:gsub("^[%w_./]+ %-%- (.)", string.upper)
  end
  for i = #text, 1, -1 do
    if text[i]:find "SPDX" then table.remove(text, i) end
  end
  while text[1] and not text[#text]:find "%S" do text[#text] = nil end
  return c
end

-- Read one file; `below` is its path in the library.
local function read(path, below)
  local file <close> = assert(io.open(path))
  local found, lines, number = { declarations = {} }, {}, 0
  local list = found.declarations
  for line in file:lines() do
    number = number + 1
    local text = line:match "^%s*%-%-%-(.*)"
    if text then
      lines[#lines + 1] = text
    elseif lines[1] then
      local name, params = declared(line)
      for _, c in ipairs(comment.read(lines)) do
        list[#list + 1] = { comment = c, name = name, params = params, file = below,
          line = number, quoted = line:match '^%s*[%w_. ]+= [%w_.]+%s*%(?"([%w_]+)"' }
      end
      lines = {}
    end
  end
  found.meta = list[1] and list[1].comment.meta
  if found.meta then table.remove(list, 1) end
  if list[1] and not list[1].name and not list[1].comment.class then
    found.head = head(table.remove(list, 1).comment)
  end
  return found
end

-- Call visit(path, below) for the files of Lua below a folder, in order of name.
local function each_file(folder, prefix, visit)
  local entries = core.list_folder(folder)
  table.sort(entries)
  for _, entry in ipairs(entries) do
    if entry:find "%.lua$" then
      visit(folder .. "/" .. entry, prefix .. entry)
    elseif entry:find "^[%w_]+$" then
      each_file(folder .. "/" .. entry, prefix .. entry .. "/", visit)
    end
  end
end

--- The library's folder.
---@return string
function M.folder()
  return (package.searchpath("mrt", package.path):match "^(.*)[/\\]init%.lua$")
end

--- Read the comments of all files of the library.
---@return table<string, mrt.reference.File>  by path below its folder
function M.read()
  local files = {}
  each_file(M.folder(), "", function(path, below) files[below] = read(path, below) end)
  return files
end

return M
