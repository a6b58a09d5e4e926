--- save.lua -- a model as a folder that transformers reads
---
--- The weights first, in as many files as they need; then what says how to read them.
--- Tensors are made and written one after the other: a fused one of theirs is joined
--- when its turn comes.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local configs = require "mrt.pretrained.config"
local families = require "mrt.pretrained.families"
local file = require "mrt.io.file"
local folder = require "mrt.pretrained.folder"
local json = require "mrt.io.json"
local options = require "mrt.util.options"
local templates = require "mrt.text.templates"
local weights = require "mrt.pretrained.weights"
local write_json = require "mrt.pretrained.write_json"

local SHARD <const> = 5000000000 -- bytes of a file, as transformers has it

---@class mrt.nn.SaveOptions
---@field family? string   model_type, of a model that was not loaded; default its own
---@field shard? integer   bytes of weights in one file; default 5e9
---@field tokenizer? boolean  false: without the tokenizer of a GGUF file that the model came from

-- What is copied from the folder that a model came from.
local beside = { "generation_config.json", "tokenizer.json", "tokenizer_config.json",
  "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt",
  "tokenizer.model", "spiece.model", "spm.model", "sentencepiece.bpe.model",
  "chat_template.jinja", "chat_template.json" } -- and additional_chat_templates

local dtype_names = { f32 = "float32", f16 = "float16", bf16 = "bfloat16" }

-- ---- config.json ---------------------------------------------------------------

local function copy_of(config)
  local out = {}
  for name, value in pairs(config) do out[name] = value end
  return setmetatable(out, getmetatable(config))
end

-- Options with every name in them, for comparison: what is false is absent.
local function plain(o)
  local out = {}
  for name, value in pairs(o) do
    if type(value) == "table" then value = plain(value) end
    if value ~= false and not (type(value) == "table" and next(value) == nil) then
      out[name] = value
    end
  end
  return out
end

-- The first of our options that a config does not say as the model has it.
local function lost(family, config, model)
  local given, message = configs.read(family, config)
  if not given then return message end
  local ok, read = pcall(family.complete or require "mrt.nn.decoder.options", given)
  if not ok then return read.message or tostring(read) end
  local a, b = plain(read), plain(model.options)
  for name in pairs(b) do a[name] = a[name] or false end
  for name, value in pairs(a) do
    if not json.alike(value, b[name] or false) then return ("option '%s'"):format(name) end
  end
end

-- The config of a model that was loaded as that family, or made by hand.
local function config_of(model, family)
  local config
  if model.config and model.family == family.model_type then
    config = copy_of(model.config)
  else
    config = family.config(model.options)
    config.model_type = family.model_type
    config.architectures = config.architectures or family.architectures
    for _, name in ipairs { "bos_token_id", "eos_token_id", "pad_token_id" } do
      if config[name] == nil then configs.null(config, name) end
    end
    local problem = lost(family, config, model)
    if problem then
      return nil, ("a config of family %s cannot say %s of this model"):format(family.model_type,
        problem), "data"
    end
  end
  local _, first = model:named_parameters()()
  local dtype = dtype_names[first:get_dtype()]
  if config.dtype or not config.torch_dtype then
    config.dtype = dtype
  else
    config.torch_dtype = dtype
  end
  return config
end

-- ---- weights -------------------------------------------------------------------

-- Names and lazy tensors in files of at most `limit` bytes.
local function cut(model, places, limit)
  local files, bytes, total = { {} }, 0, 0
  for _, place in ipairs(places) do
    local x = weights.give(place, model)
    local size = x:nbytes()
    if bytes > 0 and bytes + size > limit then
      files[#files + 1], bytes = {}, 0
    end
    files[#files][place.theirs] = x
    bytes, total = bytes + size, total + size
  end
  return files, total
end

-- Remove what an older model left that would be read in place of this one.
local function remove_old(path, kept)
  for name in pairs(folder.list(path) or {}) do
    local old = name:find "^model%-%d+%-of%-%d+%.safetensors$" or name == "model.safetensors"
      or name == "model.safetensors.index.json"
    if old and not kept[name] then os.remove(path .. "/" .. name) end
  end
end

local function write_weights(path, files, total)
  local kept, map = {}, {}
  for i, tensors in ipairs(files) do
    local name = #files == 1 and "model.safetensors"
      or ("model-%05d-of-%05d.safetensors"):format(i, #files)
    local done, message, code = file.save(path .. "/" .. name, tensors)
    if not done then return nil, message, code end
    kept[name] = true
    for theirs in pairs(tensors) do map[theirs] = name end
  end
  if #files > 1 then
    local name = "model.safetensors.index.json"
    local done, message, code = core.write_file(path .. "/" .. name,
      write_json { metadata = { total_size = total }, weight_map = map })
    if not done then return nil, message, code end
    kept[name] = true
  end
  remove_old(path, kept)
  return true
end

-- ---- the folder ----------------------------------------------------------------

-- The files of a tokenizer that the model had elsewhere than in a folder.
local function made_beside(model, o)
  local from = model.folder
  if not o.tokenizer or type(from) ~= "string" or not from:find "%.gguf$" then return {} end
  return require "mrt.pretrained.gguf.tokens_folder"(from)
end

-- Names below a folder of what is copied from it.
local function names_beside(from, to)
  local names = { table.unpack(beside) }
  if not from or from == to then return names end
  for _, path in ipairs(templates.files(from)) do
    local name = path:sub(#from + 2)
    if name:find "/" then
      core.make_folders(to .. "/additional_chat_templates")
      names[#names + 1] = name
    end
  end
  return names
end

local function write_beside(from, to, made)
  for _, name in ipairs(names_beside(from, to)) do
    local text = made[name] or from and from ~= to and core.read_file(from .. "/" .. name)
    if text then
      local done, message, code = core.write_file(to .. "/" .. name, text)
      if not done then return nil, message, code end
    end
  end
  return true
end

local known = { [""] = true, [".weight"] = true, [".bias"] = true }

-- The places of all weights; a message where the family has none for some.
local function places_of(model, family)
  local places, strange = weights.places(model, family)
  for _, place in ipairs(places) do
    if not known[place.rest or ""] then strange[#strange + 1] = place.parts[1].name end
  end
  if #strange == 0 then return places end
  return nil, ("%s has no place for %s (adapters are merged, quantised weights made whole, "
    .. "before)"):format(family.model_type, table.concat(strange, ", ", 1,
    math.min(#strange, 8))), "data"
end

local function family_of(model, o)
  local name = o.family or model.family
  local family = name and families.find(name)
  if family then return family end
  core.fail("value", "save", ("option 'family': one of %s wanted, got %s"):format(
    table.concat(families.known(), ", "), options.show(name)))
end

--- Save a folder: see Decoder:save.
---@param model mrt.nn.Decoder
---@param path string
---@param given? mrt.nn.SaveOptions
---@return true? done
---@return string? message
---@return string? code
return function(model, path, given)
  local o = options.read("save", given, { family = options.of "string", shard = SHARD,
    tokenizer = true })
  options.size("save", "shard", o.shard)
  local family = family_of(model, o)
  local places, message, code = places_of(model, family)
  if not places then return nil, message, code end
  local config, why, kind = config_of(model, family)
  if not config then return nil, why, kind end
  local made, lost_why, lost_kind = made_beside(model, o)
  if not made then return nil, lost_why, lost_kind end
  core.make_folders(path)
  local done, problem, how = write_weights(path, cut(model, places, o.shard))
  if done then done, problem, how = core.write_file(path .. "/config.json", write_json(config)) end
  if done then done, problem, how = write_beside(model.folder, path, made) end
  if not done then return nil, problem, how end
  return true
end
