--- folder.lua -- a tokenizer's files, as models keep them
---
--- The tokenizer itself is in tokenizer.json, or else in another program's form; what
--- begins and ends texts, and the chat template, is said in files beside it.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local dkjson = require "dkjson"

local folder = {}

-- Files that belong to a tokenizer, whichever it is opened from.
local names <const> = { "tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt",
  "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja" }
local largest_text <const> = 16 << 20

local function exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil and file:read(0) ~= nil
end

-- A file of JSON beside the tokenizer: an object; {} where there is none.
local function read_json(path)
  if not exists(path) then return {} end
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  if #text > largest_text then return nil, path .. ": larger than any such file", "data" end
  local fine, value, _, why = pcall(dkjson.decode, text, 1, nil, nil)
  if not fine or type(value) ~= "table" then
    return nil, ("%s: %s"):format(path, fine and why or "no JSON of an object"), "data"
  end
  return value
end

-- A special token is a text, or an object that has it as `content`.
local function content_of(value)
  if type(value) == "table" then value = value.content end
  return type(value) == "string" and value or nil
end

local kinds <const> = { bos = "bos_token", eos = "eos_token", pad = "pad_token",
  unk = "unk_token" }

local function name_special(found, config, map)
  for field, key in pairs(kinds) do
    local token = content_of(config[key]) or content_of(map[key])
    found[field] = token and found.core:id(token)
  end
end

-- The template is a text, or a list of named ones, of which "default" is meant.
local function template_of(root, config)
  local path = root .. "/chat_template.jinja"
  if exists(path) then return core.read_file(path) end
  local given = config.chat_template
  if type(given) == "string" then return given end
  for _, one in ipairs(type(given) == "table" and given or {}) do
    if type(one) == "table" and one.name == "default" and type(one.template) == "string" then
      return one.template
    end
  end
  return nil
end

local function read_beside(found, root)
  local config, message, code = read_json(root .. "/tokenizer_config.json")
  if not config then return nil, message, code end
  local map
  map, message, code = read_json(root .. "/special_tokens_map.json")
  if not map then return nil, message, code end
  name_special(found, config, map)
  found.config = config
  found.chat_template, message, code = template_of(root, config)
  if message then return nil, message, code end
  return found
end

local function open_core(root, pattern)
  if exists(root .. "/tokenizer.json") then
    return core.open_tokenizer(root .. "/tokenizer.json")
  end
  local vocab, merges = root .. "/vocab.json", root .. "/merges.txt"
  if exists(vocab) and exists(merges) then return core.open_merges(vocab, merges, pattern) end
  return nil, root .. ": no tokenizer.json, vocab.json and merges.txt in it", "file"
end

--- Open the tokenizer of a folder, of a file in one, or of a GGUF file.
---@param path string
---@param pattern string?
---@return table? found
---@return string? message
---@return string? code
function folder.open(path, pattern)
  if path:find "%.gguf$" then return require "mrt.text.gguf".open(path) end
  local is_folder = core.list_folder(path) ~= nil
  local root = is_folder and path:gsub("(.)/+$", "%1") or path:match "^(.*)/[^/]*$" or "."
  local found = { files = {} }
  local handle, message, code
  if is_folder then
    handle, message, code = open_core(root, pattern)
  else
    handle, message, code = core.open_tokenizer(path)
  end
  if not handle then return nil, message, code end
  found.core = handle
  for _, name in ipairs(names) do
    if exists(root .. "/" .. name) then found.files[#found.files + 1] = root .. "/" .. name end
  end
  return read_beside(found, root)
end

return folder
