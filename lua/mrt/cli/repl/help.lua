--- help.lua -- what an operator or a function does, for `help(x)` and `?x`.
--
-- Operators carry their formula in their row; Lua functions the comment above
-- them in their file.
--
-- SPDX-License-Identifier: MIT

--- The `---` lines right above the line of `path` for which is_first(line,
--- number) holds.
local function comment_above(path, is_first)
  local file = io.open(path)
  if not file then return nil end
  local block, number = {}, 0
  for line in file:lines() do
    number = number + 1
    if is_first(line, number) then break end
    local text = line:match "^%s*%-%-%-%s?(.*)"
    if text then block[#block + 1] = text else block = {} end
  end
  file:close()
  return block[1] and table.concat(block, "\n")
end

local function describe_function(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" then -- perhaps the front of a Lua function
    local _, behind = debug.getupvalue(f, 1)
    if type(behind) == "function" then info = debug.getinfo(behind, "S") end
  end
  local path = info.source:match "^@(.*)"
  local comment = path and comment_above(path, function(_, number)
    return number == info.linedefined
  end)
  return comment or "a function" .. (path and " of " .. info.short_src or " without a description")
end

--- A class of modules or optimizers: what is said above its own line, in the file
--- that has its methods; some of them may be behind a check from elsewhere.
local function describe_class(class)
  local name = rawget(class, "type") or rawget(class, "name")
  if type(name) ~= "string" then return nil end
  for _, method in next, class do
    local path = type(method) == "function"
      and debug.getinfo(method, "S").source:match "^@(.*)"
    local text = path and comment_above(path, function(line)
      return line:find("^[%w_][%w_. ]-%f[%w_]" .. name .. " = ") ~= nil
    end)
    if text then return text end
  end
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

--- "softmax(tensor, {dim})" from the operator's own description.
local function signature(op)
  local arguments = {}
  for i = 1, op.min_inputs do arguments[i] = "tensor" end
  if op.max_inputs ~= op.min_inputs then arguments[#arguments + 1] = "..." end
  local options = {}
  for i, option in ipairs(op.options) do
    options[i] = option.name .. (option.words and ": " .. option.words:gsub(" ", "|") or "")
  end
  if options[1] then
    arguments[#arguments + 1] = "{" .. table.concat(options, ", ") .. "}"
  end
  return op.name .. "(" .. table.concat(arguments, ", ") .. ")"
end

--- The operator that has this name, or is called by this function.
local function describe_operator(topic)
  local ok, core = pcall(require, "mrt.core")
  if not ok then return nil end
  for _, op in ipairs(core.operators()) do
    if not op.internal and (op.name == topic or core.op[op.name] == topic) then
      return signature(op) .. "\n  " .. op.doc
    end
  end
end

--- Say what `topic` is: the name of an operator or a global, or a value.
---@param topic any
---@return string
return function(topic)
  local name = type(topic) == "string" and (topic:match "[%w_]+$" or topic)
  local operator = describe_operator(name or topic)
  if operator then return operator end
  if name then
    local value = lookup(topic)
    if value == nil then return "nothing is known of '" .. topic .. "'" end
    topic = value
  end
  if type(topic) == "function" then return describe_function(topic) end
  local class = type(topic) == "table" and describe_class(topic)
  if class then return class end
  return require "mrt.cli.repl.pretty".value(topic)
end
