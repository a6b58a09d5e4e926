--- folder.lua -- a folder as other programs keep a model: config.json and safetensors
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local file = require "mrt.io.file"
local json = require "mrt.util.json"

local folder = {}

local LARGEST <const> = 64 * 1024 * 1024 -- of a JSON that is read whole

-- Take null out of a decoded value; the metatable of each table lists its names.
local function strip(value, null)
  if type(value) ~= "table" then return value end
  local meta, nulls = getmetatable(value) or {}, {}
  for name, held in pairs(value) do
    if held == null then nulls[name] = true else strip(held, null) end
  end
  for name in pairs(nulls) do value[name] = nil end
  return setmetatable(value, { __jsontype = meta.__jsontype, nulls = nulls })
end

--- Read a JSON object.  What is null is absent, and `nulls` of the metatable of the
--- table that it was in has its name.
---@param path string
---@return table? value
---@return string? message
---@return string? code
function folder.json(path)
  local text, message, code = core.read_file(path)
  if not text then return nil, message, code end
  if #text > LARGEST then
    return nil, ("%s: %d bytes, at most %d wanted"):format(path, #text, LARGEST), "data"
  end
  local value, why = json.decode(text, { null = json.null })
  if type(value) ~= "table" then
    return nil, path .. ": no JSON object" .. (why and " (" .. why .. ")" or ""), "data"
  end
  return strip(value, json.null)
end

--- The names within a folder, as a set; nil: it cannot be read.
---@param path string
---@return table<string, true>?
function folder.list(path)
  local list = core.list_folder(path)
  if not list then return nil end
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

-- The shards that an index names and the folder lacks.
local function missing_shards(path, present)
  local index, message, code = folder.json(path .. "/model.safetensors.index.json")
  if not index then return nil, message, code end
  local seen, missing = {}, {}
  for _, shard in pairs(type(index.weight_map) == "table" and index.weight_map or {}) do
    if not seen[shard] and not present[shard] then missing[#missing + 1] = tostring(shard) end
    seen[shard] = true
  end
  table.sort(missing)
  return missing
end

--- Open the weights of a folder: model.safetensors, or shards and their index.
---@param path string
---@return mrt.File? opened
---@return string? message
---@return string? code
function folder.open(path)
  local present = folder.list(path)
  if not present then return nil, path .. ": no folder that can be read", "file" end
  if present["model.safetensors.index.json"] then
    local missing, message, code = missing_shards(path, present)
    if not missing then return nil, message, code end
    if #missing > 0 then
      return nil, ("%s: missing: %s"):format(path, table.concat(missing, ", ")), "file"
    end
    return file.open(path .. "/model.safetensors.index.json")
  elseif present["model.safetensors"] then
    return file.open(path .. "/model.safetensors")
  end
  local other = present["pytorch_model.bin"] or present["pytorch_model.bin.index.json"]
  return nil, ("%s: no model.safetensors%s"):format(path,
    other and "; pytorch_model.bin is not read (convert it with safetensors)" or ""), "file"
end

return folder
