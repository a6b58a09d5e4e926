--- help.lua -- what an operator or a function does, for `help(x)` and `?x`.
--
-- Operators carry their formula in their row; Lua functions the comment above
-- them in their file.
--
-- SPDX-License-Identifier: MIT

--- The `---` lines right above line `first` of `path`.
local function comment_above(path, first)
  local file = io.open(path)
  if not file then return nil end
  local block, number = {}, 0
  for line in file:lines() do
    number = number + 1
    if number == first then break end
    local text = line:match "^%s*%-%-%-%s?(.*)"
    if text then block[#block + 1] = text else block = {} end
  end
  file:close()
  return block[1] and table.concat(block, "\n")
end

local function describe_function(f)
  local info = debug.getinfo(f, "S")
  local path = info.source:match "^@(.*)"
  local comment = path and comment_above(path, info.linedefined)
  return comment or "a function" .. (path and " of " .. info.short_src or " without a description")
end

--- The value that `name`, a chain of names, has; raw access only.
local function lookup(name)
  local value = _G
  for part in name:gmatch "[%w_]+" do
    if type(value) ~= "table" then return nil end
    value = value[part]
  end
  return value
end

local function describe_operator(name)
  local ok, core = pcall(require, "mrt.core")
  local op = ok and core.op and core.op(name)
  return op and op.doc
end

--- Say what `topic` is: the name of an operator, a global or a value.
---@param topic any
---@return string
return function(topic)
  if type(topic) == "string" then
    local found = describe_operator(topic:match "[%w_]+$" or topic)
    if found then return found end
    local value = lookup(topic)
    if value == nil then return "nothing is known of '" .. topic .. "'" end
    topic = value
  end
  if type(topic) == "function" then return describe_function(topic) end
  return require "mrt.repl.pretty".value(topic)
end
