--- templates.lua -- the chat templates of a folder
---
--- One is the default, others have names ("tool_use", "rag").  Later places go before
--- earlier ones: tokenizer_config.json, chat_template.json, chat_template.jinja and
--- additional_chat_templates/NAME.jinja.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local templates = {}

local largest <const>, most <const> = 16 << 20, 256

-- A text is the default; a list has objects of name and template, an object texts by name.
local function put(all, given, where)
  if type(given) == "string" then
    all.default = given
    return true
  elseif type(given) ~= "table" then
    return nil, where .. ": a chat template that is no text", "data"
  end
  for name, one in pairs(given) do
    if type(one) == "table" then name, one = one.name, one.template end
    if type(name) ~= "string" or type(one) ~= "string" then
      return nil, where .. ": a chat template without a name or a text", "data"
    end
    all[name] = one
  end
  return true
end

local function read_text(all, name, path)
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  if #text > largest then return nil, path .. ": larger than any such file", "data" end
  all[name] = text
  return true
end

-- additional_chat_templates/NAME.jinja: their names and paths.
local function additional(root)
  local list, place = {}, root .. "/additional_chat_templates"
  for _, file in ipairs(core.list_folder(place) or {}) do
    local name = file:match "^(.+)%.jinja$"
    if name and #list < most then list[#list + 1] = { name, place .. "/" .. file } end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

local function named_files(root)
  local list = additional(root)
  for _, file in ipairs(core.list_folder(root) or {}) do
    if file == "chat_template.jinja" then
      table.insert(list, 1, { "default", root .. "/" .. file })
    end
  end
  return list
end

--- The paths of a folder's templates that are files of their own.
---@param root string
---@return string[]
function templates.files(root)
  local list = {}
  for i, one in ipairs(named_files(root)) do list[i] = one[2] end
  return list
end

--- Read a folder's templates by name; "default" is the one that has none.
---@param root string
---@param config table   tokenizer_config.json
---@param legacy table   chat_template.json
---@return table<string, string>? all
---@return string? message
---@return string? code
function templates.read(root, config, legacy)
  local all = {}
  for i, given in ipairs { config.chat_template or {}, legacy.chat_template or {} } do
    local fine, message, code = put(all, given, root .. (i == 1 and "/tokenizer_config.json"
      or "/chat_template.json"))
    if not fine then return nil, message, code end
  end
  for _, one in ipairs(named_files(root)) do
    local fine, message, code = read_text(all, one[1], one[2])
    if not fine then return nil, message, code end
  end
  return all
end

return templates
