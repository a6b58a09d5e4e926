--- folder.lua -- a tokenizer's files, as models keep them
---
--- The tokenizer itself is in tokenizer.json, or else in another program's form; what
--- begins and ends texts, and the chat template, is said in files beside it.
---
--- SPDX-License-Identifier: MIT

local beside = require "mrt.text.beside"
local core = require "mrt.core"
local merges = require "mrt.text.merges"
local published = require "mrt.text.published"
local templates = require "mrt.text.templates"
local texts = require "mrt.text.pairs"
local wordpiece = require "mrt.text.wordpiece"

local folder = {}

-- Files that a tokenizer is in, the first that there is.
local models <const> = { "tokenizer.model", "spiece.model", "spm.model",
  "sentencepiece.bpe.model", "sentencepiece.model" }
-- Files that belong to a tokenizer, whichever it is opened from.
local names <const> = { "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt",
  "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.json" }

local exists <const> = beside.exists

-- ---- what is in no file ------------------------------------------------------------

-- A file of ranks or a sentencepiece model.
local function open_model(path, o, files)
  local known = published.of_ranks(path, o.pattern)
  local pattern = known and known.pattern or o.pattern
  local handle, message, code = core.open_tokenizer(path, pattern)
  if not handle then return nil, message, code end
  local ranks = handle:is_bytes()
  if not ranks and published.other_ids[files.class] then
    return nil, ("%s: the ids of %s are not those of its model: a tokenizer.json is wanted")
      :format(path, files.config.tokenizer_class or files.class), "data"
  end
  return { core = handle, plain = true, raw = true, known = ranks and known or nil }
end

-- BERT's vocab.txt.
local function open_words(path, files)
  if not published.wordpiece[files.class] then
    return nil, ("%s: the vocab.txt of %s is not understood: a tokenizer.json is wanted")
      :format(path, files.config.tokenizer_class or files.class), "data"
  end
  local parts = published.parts[files.class] or published.parts.bert
  local text, message, code = wordpiece.json(path, files.config, beside.parts(files, parts))
  if not text then return nil, message, code end
  local handle
  handle, message, code = core.parse_tokenizer(path, text)
  return handle and { core = handle, plain = true, whole = true, known = parts }, message, code
end

-- ---- the folder --------------------------------------------------------------------

local function open_folder(root, o, files)
  if exists(root .. "/tokenizer.json") then
    local handle, message, code = core.open_tokenizer(root .. "/tokenizer.json")
    return handle and { core = handle }, message, code
  end
  for _, name in ipairs(models) do
    if exists(root .. "/" .. name) then return open_model(root .. "/" .. name, o, files) end
  end
  if exists(root .. "/vocab.json") and exists(root .. "/merges.txt") then
    return merges.open(root, o, files.config, files.class)
  end
  for _, name in ipairs(core.list_folder(root)) do
    if name:match "%.tiktoken$" then return open_model(root .. "/" .. name, o, files) end
  end
  if exists(root .. "/vocab.txt") then return open_words(root .. "/vocab.txt", files) end
  return nil, root .. ": no tokenizer.json, tokenizer.model, spiece.model, *.tiktoken, vocab.json "
    .. "and merges.txt, or vocab.txt in it", "file"
end

local function files_of(root, path)
  local list, seen = {}, {}
  local function add(name)
    if not seen[name] and exists(name) then list[#list + 1] = name end
    seen[name] = true
  end
  for _, name in ipairs(names) do add(root .. "/" .. name) end
  for _, name in ipairs(models) do add(root .. "/" .. name) end
  for _, name in ipairs(templates.files(root)) do add(name) end
  for _, name in ipairs(core.list_folder(root) or {}) do
    if name:match "%.tiktoken$" then add(root .. "/" .. name) end
  end
  if path then add(path) end
  return list
end

-- Tokens, and ids around texts, that tokenizer.json says itself.
local function complete(found, root, files)
  if found.plain then found.known = found.known or published.known(files, found.core) end
  local fine, message, code = beside.add_tokens(found, root, files)
  if not fine then return nil, message, code end
  if found.whole or not found.plain then return true end
  beside.name_special(found, files)
  local adds = published.adds[files.class] or {}
  local function wanted(name)
    local said = files.config["add_" .. name .. "_token"]
    if said == nil then said = adds[name] end
    return said and found[name] or nil
  end
  local first, last = wanted "bos", wanted "eos"
  found.core:enclose(first, last)
  found.pair = texts.form(first, last, published.pairs[files.class])
  return true
end

-- A file, whose kind is known by its beginning, but for BERT's by its name.
local function open_file(path, o, files)
  if path:find "vocab%.txt$" then return open_words(path, files) end
  local found, message, code = open_model(path, o, files)
  if not found then return nil, message, code end
  found.plain = not path:find "%.json$"
  return found
end

-- Where the files lie; nil: it is a file.
local function root_of(path)
  if not core.list_folder(path) then return path:match "^(.*)/[^/]*$" or ".", false end
  return (path:gsub("(.)/+$", "%1")), true
end

-- What is said beside the tokenizer, and of which class it is.
local function read_beside(root)
  local files, message, code = beside.read(root)
  if not files then return nil, message, code end
  local model
  model, message, code = beside.model(root)
  if not model then return nil, message, code end
  files.class = published.class(files.config, model)
  return files
end

-- The tokenizer, with what files beside it add to it.
local function open_whole(root, path, o, files)
  local found, message, code
  if path then
    found, message, code = open_file(path, o, files)
  else
    found, message, code = open_folder(root, o, files)
  end
  if not found then return nil, message, code end
  local fine, why, kind = complete(found, root, files)
  if not fine then return nil, why, kind end
  beside.name_special(found, files)
  return found
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
  local files, message, code = read_beside(root)
  if not files then return nil, message, code end
  local found
  found, message, code = open_whole(root, not is_folder and path or nil, o, files)
  if not found then return nil, message, code end
  found.files = files_of(root, not is_folder and path or nil)
  found.config, found.chat_templates = files.config, files.templates
  found.chat_template = files.templates.default
  found.plain, found.known, found.whole, found.raw = nil, nil, nil, nil
  return found
end

return folder
