--- help.lua -- what an operator, a function or a value is, for `help(x)` and `?x`
---
--- SPDX-License-Identifier: MIT

local reference = require "mrt.reference"

-- The value that `name`, a chain of names, has among the globals; raw access only.
local function lookup(name)
  local value = _G
  for part in name:gmatch "[%w_]+" do
    if type(value) ~= "table" then return nil end
    value = value[part]
  end
  return value
end

-- The comment above a function of the user's own.
local function comment_above(f)
  local info = debug.getinfo(f, "S")
  local path = info.source:match "^@(.*)"
  local file = path and io.open(path)
  if not file then return nil end
  local block, number = {}, 0
  for line in file:lines() do
    number = number + 1
    if number == info.linedefined then break end
    local text = line:match "^%s*%-%-+%s?(.*)"
    if text then block[#block + 1] = text else block = {} end
  end
  file:close()
  return block[1] and table.concat(block, "\n")
end

local function describe_value(value, width)
  local text = reference.describe(value, width)
  if text then return text end
  if type(value) == "function" then
    local comment = comment_above(value)
    return comment or "a function of " .. debug.getinfo(value, "S").short_src
  end
  return require "mrt.cli.repl.pretty".value(value)
end

--- Say what `topic` is: a public name, a global, words that a text has, or a value.
---@param topic any
---@param width? integer  of the terminal, default 80
---@return string
return function(topic, width)
  if type(topic) ~= "string" then return describe_value(topic, width) end
  local entry = reference.exact(topic)
  if entry then return reference.describe(entry.name, width) end
  local value = topic:find "^[%w_.]+$" and lookup(topic)
  if value ~= nil and value ~= false then return describe_value(value, width) end
  return reference.describe(topic, width) or reference.apropos(topic, width)
    or "nothing is known of '" .. topic .. "'"
end
