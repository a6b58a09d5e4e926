--- folder.lua -- a tokenizer's files, as models keep them
---
--- The tokenizer itself is in tokenizer.json, or else in another program's form; what
--- begins and ends texts, and the chat template, is said in files beside it.
---
--- SPDX-License-Identifier: MIT

local beside = require "mrt.text.beside"
local core = require "mrt.core"
local published = require "mrt.text.published"

local folder = {}

-- Files that belong to a tokenizer, whichever it is opened from.
local names <const> = { "tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt",
  "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja" }

local exists <const> = beside.exists

-- The class without "Tokenizer" and "TokenizerFast".
local function class_of(config)
  local name = config.tokenizer_class
  return type(name) == "string" and name:gsub("Fast$", ""):gsub("Tokenizer$", "") or ""
end

-- ---- what is in no file ------------------------------------------------------------

-- A file of ranks or a sentencepiece model.
local function open_model(path, o, config)
  local known = published.of_ranks(path, o.pattern)
  local pattern = known and known.pattern or o.pattern
  local handle, message, code = core.open_tokenizer(path, pattern)
  if not handle then return nil, message, code end
  local ranks = handle:is_bytes()
  local class = class_of(config)
  if not ranks and published.other_ids[class] then
    return nil, ("%s: the ids of %s are not those of its model: a tokenizer.json is wanted")
      :format(path, config.tokenizer_class), "data"
  end
  return { core = handle, plain = true, known = ranks and known or nil }
end

local function open_merges(root, o, config)
  local class = config.tokenizer_class
  local pattern = o.pattern or published.merges[class]
  local handle, message, code = core.open_merges(root .. "/vocab.json", root .. "/merges.txt",
    pattern)
  if not handle then return nil, message, code end
  if published.merges[class] then handle:compose() end
  return { core = handle, plain = true, known = class == nil and published.gpt2(handle) or nil }
end

-- ---- the folder --------------------------------------------------------------------

local function open_folder(root, o, config)
  if exists(root .. "/tokenizer.json") then
    local handle, message, code = core.open_tokenizer(root .. "/tokenizer.json")
    return handle and { core = handle }, message, code
  end
  if exists(root .. "/tokenizer.model") then
    return open_model(root .. "/tokenizer.model", o, config)
  end
  if exists(root .. "/vocab.json") and exists(root .. "/merges.txt") then
    return open_merges(root, o, config)
  end
  for _, name in ipairs(core.list_folder(root)) do
    if name:match "%.tiktoken$" then return open_model(root .. "/" .. name, o, config) end
  end
  return nil, root .. ": no tokenizer.json, tokenizer.model, *.tiktoken, or vocab.json and "
    .. "merges.txt in it", "file"
end

local function files_of(root, path)
  local list, seen = {}, {}
  local function add(name)
    if not seen[name] and exists(name) then list[#list + 1] = name end
    seen[name] = true
  end
  for _, name in ipairs(names) do add(root .. "/" .. name) end
  for _, name in ipairs(core.list_folder(root) or {}) do
    if name:match "%.tiktoken$" then add(root .. "/" .. name) end
  end
  if path then add(path) end
  return list
end

-- Tokens and ids around texts that tokenizer.json says itself.
local function complete(found, root, files)
  local fine, message, code = beside.add_tokens(found, root, files)
  if not fine then return nil, message, code end
  beside.name_special(found, files)
  local adds = published.adds[class_of(files.config)] or {}
  local function wanted(name)
    local said = files.config["add_" .. name .. "_token"]
    if said == nil then said = adds[name] end
    return said and found[name] or nil
  end
  found.core:enclose(wanted "bos", wanted "eos")
  return true
end

-- A file, whose kind is known by its beginning.
local function open_file(path, o, config)
  local found, message, code = open_model(path, o, config)
  if not found then return nil, message, code end
  found.plain = not path:find "%.json$"
  return found
end

-- Where the files lie; nil: it is a file.
local function root_of(path)
  if not core.list_folder(path) then return path:match "^(.*)/[^/]*$" or ".", false end
  return (path:gsub("(.)/+$", "%1")), true
end

--- Open the tokenizer of a folder, or of a file in one.
---@param path string
---@param o {pattern: string?}
---@return table? found
---@return string? message
---@return string? code
function folder.open(path, o)
  if path:find "%.gguf$" then return require "mrt.text.gguf".open(path) end
  local root, is_folder = root_of(path)
  local files, message, code = beside.read(root)
  if not files then return nil, message, code end
  local found, fine
  found, message, code = (is_folder and open_folder or open_file)(is_folder and root or path, o,
    files.config)
  if not found then return nil, message, code end
  if found.plain then
    fine, message, code = complete(found, root, files)
    if not fine then return nil, message, code end
  end
  beside.name_special(found, files)
  found.files = files_of(root, not is_folder and path or nil)
  found.config, found.chat_template = files.config, files.template
  found.plain, found.known = nil, nil
  return found
end

return folder
