--- beside.lua -- what files beside a tokenizer say of it
---
--- tokenizer_config.json and special_tokens_map.json: which tokens begin and end texts;
--- added_tokens.json: tokens beside the vocabulary; chat_template.jinja.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"

local beside = {}

local largest_text <const> = 16 << 20

--- Is there a file that can be read?
---@param path string
---@return boolean
function beside.exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil and file:read(0) ~= nil
end

-- A file of JSON: an object; {} where there is none.
local function read_json(path)
  if not beside.exists(path) then return {} end
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  if #text > largest_text then return nil, path .. ": larger than any such file", "data" end
  local value, why = json.decode(text)
  if type(value) ~= "table" then
    return nil, ("%s: %s"):format(path, why or "no JSON of an object"), "data"
  end
  return value
end

-- A special token is a text, or an object that has it as `content`.
local function content_of(value)
  if type(value) == "table" then value = value.content end
  return type(value) == "string" and value or nil
end

-- The template is a text, or a list of named ones, of which "default" is meant.
local function template_of(root, config)
  local path = root .. "/chat_template.jinja"
  if beside.exists(path) then return core.read_file(path) end
  local given = config.chat_template
  if type(given) == "string" then return given end
  for _, one in ipairs(type(given) == "table" and given or {}) do
    if type(one) == "table" and one.name == "default" and type(one.template) == "string" then
      return one.template
    end
  end
  return nil
end

---@class mrt.text.Beside
---@field config table      tokenizer_config.json
---@field map table         special_tokens_map.json
---@field added table       added_tokens.json
---@field template string?

--- Read them all.
---@param root string
---@return mrt.text.Beside? files
---@return string? message
---@return string? code
function beside.read(root)
  local files = {}
  local message, code
  for field, name in pairs { config = "tokenizer_config", map = "special_tokens_map",
    added = "added_tokens" } do
    files[field], message, code = read_json(("%s/%s.json"):format(root, name))
    if not files[field] then return nil, message, code end
  end
  files.template, message, code = template_of(root, files.config)
  if message then return nil, message, code end
  return files
end

local kinds <const> = { bos = "bos_token", eos = "eos_token", pad = "pad_token",
  unk = "unk_token" }

--- Set the ids of tokens that have a part: bos, eos, pad, unk.
---@param found table
---@param files mrt.text.Beside
function beside.name_special(found, files)
  for field, key in pairs(kinds) do
    local token = content_of(files.config[key]) or content_of(files.map[key])
      or found.known and found.known[field]
    found[field] = token and found.core:id(token) or nil
  end
end

local function add_decoder(list, decoder)
  for id, token in pairs(type(decoder) == "table" and decoder or {}) do
    if type(token) == "table" then list[math.tointeger(tonumber(id)) or -1] = token end
  end
end

-- Those that have a part and are in the vocabulary.
local function add_parts(list, found, files)
  for _, key in pairs(kinds) do
    local token = content_of(files.config[key]) or content_of(files.map[key])
    local id = token and found.core:id(token)
    if id and not list[id] then list[id] = { content = token, special = true } end
  end
end

-- id -> {content, special, ...}
local function tokens_of(found, files)
  local list = {}
  for token, id in pairs(found.known and found.known.special or {}) do
    list[id] = { content = token, special = true }
  end
  for token, id in pairs(files.added) do
    if type(id) == "number" then list[math.tointeger(id) or -1] = { content = token } end
  end
  add_decoder(list, files.config.added_tokens_decoder)
  add_parts(list, found, files)
  return list
end

--- Add the tokens that are beside the vocabulary.
---
--- Returns nil: an id that is another token's.
---@param found table
---@param root string
---@param files mrt.text.Beside
---@return boolean? fine
---@return string? message
---@return string? code
function beside.add_tokens(found, root, files)
  local list, ids = tokens_of(found, files), {}
  for id in pairs(list) do ids[#ids + 1] = id end
  table.sort(ids)
  for _, id in ipairs(ids) do
    local token = list[id]
    local text = content_of(token) or ""
    local fine, message, code = found.core:add(text, id, token)
    if not fine then return nil, root .. ": " .. message, code end
  end
  return true
end

return beside
