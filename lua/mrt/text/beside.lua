--- beside.lua -- what files beside a tokenizer say of it
---
--- tokenizer_config.json and special_tokens_map.json: which tokens begin and end texts;
--- added_tokens.json: tokens beside the vocabulary; chat templates (templates.lua).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local json = require "mrt.util.json"
local templates = require "mrt.text.templates"

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

---@class mrt.text.Beside
---@field config table      tokenizer_config.json
---@field map table         special_tokens_map.json
---@field added table       added_tokens.json
---@field legacy table      chat_template.json
---@field templates table<string, string>  chat templates by name

--- Read them all.
---@param root string
---@return mrt.text.Beside? files
---@return string? message
---@return string? code
function beside.read(root)
  local files = {}
  local message, code
  for field, name in pairs { config = "tokenizer_config", map = "special_tokens_map",
    added = "added_tokens", legacy = "chat_template" } do
    files[field], message, code = read_json(("%s/%s.json"):format(root, name))
    if not files[field] then return nil, message, code end
  end
  files.templates, message, code = templates.read(root, files.config, files.legacy)
  if not files.templates then return nil, message, code end
  return files
end

--- Read config.json, of the model: {} where there is none.
---@param root string
---@return table? config
---@return string? message
---@return string? code
function beside.model(root) return read_json(root .. "/config.json") end

local kinds <const> = { bos = "bos_token", eos = "eos_token", pad = "pad_token",
  unk = "unk_token", cls = "cls_token", sep = "sep_token", mask = "mask_token" }

-- The token that has a part: a text, or an object that has it as `content`.
local function part_of(files, field, known)
  local key = kinds[field]
  local given = files.config[key]
  if content_of(given) == nil then given = files.map[key] end
  if content_of(given) == nil then given = known and known[field] end
  return given
end

--- The names of tokens that have a part: bos, eos, pad, unk, cls, sep, mask.
---@param files mrt.text.Beside
---@param known table<string, string>?  what they are where no file says it
---@return table<string, string>
function beside.parts(files, known)
  local parts = {}
  for field in pairs(kinds) do parts[field] = content_of(part_of(files, field, known)) end
  return parts
end

--- Set the ids of tokens that have a part.
---@param found table
---@param files mrt.text.Beside
function beside.name_special(found, files)
  local parts = beside.parts(files, found.known)
  for field in pairs(kinds) do
    found[field] = parts[field] and found.core:id(parts[field]) or nil
  end
end

local flags <const> = { "lstrip", "rstrip", "single_word", "normalized" }

-- A token of a file, with the flags that it is given there.
local function token_of(given, special)
  local token = { content = content_of(given) or "", special = special }
  for _, flag in ipairs(type(given) == "table" and flags or {}) do
    token[flag] = given[flag] == true
  end
  return token
end

-- Tokens that have a part, then others that are special, in transformers' order.
local function each_special(files, add)
  for _, field in ipairs { "bos", "eos", "unk", "sep", "pad", "cls", "mask" } do
    add(part_of(files, field))
  end
  for _, one in ipairs { files.config, files.map } do
    for _, name in ipairs { "additional_special_tokens", "extra_special_tokens" } do
      local more = one[name]
      for _, given in ipairs(type(more) == "table" and more or {}) do add(given) end
    end
  end
end

-- Of tokens that are special: those of the vocabulary at their ids, the others behind all.
local function add_special(list, found, files)
  local ids, behind = {}, found.core:count()
  for id, token in pairs(list) do
    ids[token.content] = id
    behind = math.max(behind, id + 1)
  end
  each_special(files, function(given)
    local text = content_of(given)
    if not text or text == "" then return end
    local id = ids[text] or found.core:id(text)
    if not id then id, behind = behind, behind + 1 end
    ids[text] = id
    if not list[id] then list[id] = token_of(given, true) end
    list[id].special = true
  end)
end

-- id -> {content, special, ...}: those that files beside the vocabulary number.
local function tokens_of(found, files)
  local list = {}
  local function put(id, token) list[math.tointeger(tonumber(id)) or -1] = token end
  for token, id in pairs(found.known and found.known.special or {}) do
    put(id, { content = token, special = true })
  end
  local decoder = files.config.added_tokens_decoder
  for token, id in pairs(not decoder and files.added or {}) do
    put(id, { content = token, normalized = true })
  end
  for id, token in pairs(type(decoder) == "table" and decoder or {}) do
    if type(token) == "table" then put(id, token_of(token, token.special == true)) end
  end
  return list
end

local function special_parts(list, found)
  for field in pairs(kinds) do
    local text = found.known and found.known[field]
    local id = text and found.core:id(text)
    if id and not list[id] then list[id] = { content = text, special = true } end
  end
end

-- Where tokenizer.json has the token, it says the id.
local function settle(list, found)
  local settled = {}
  for id, token in pairs(list) do
    settled[found.core:id(token.content) or id] = token
  end
  return settled
end

--- Add the tokens that are beside the vocabulary; what tokenizer.json has keeps its id.
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
  if not found.plain then list = settle(list, found) end
  add_special(list, found, files)
  special_parts(list, found)
  for id in pairs(list) do ids[#ids + 1] = id end
  table.sort(ids)
  local tokens = {}
  for i, id in ipairs(ids) do
    tokens[i] = list[id]
    tokens[i].id = id
    if found.raw then tokens[i].normalized = nil end
  end
  local fine, message, code = found.core:add(tokens)
  if not fine then return nil, root .. ": " .. message, code end
  return true
end

return beside
