--- pretrained -- models as other programs keep them
---
---   load.lua      a folder -> a model; config.lua reads config.json, rope.lua and
---                 windows.lua parts of it; folder.lua finds files; weights.lua names
---   families/     what differs between families: a file each
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local load = require "mrt.pretrained.load"

local pretrained = {}

--- Make a model of a folder with config.json and safetensors, as transformers writes
--- them.
---
---     local model = assert(nn.load "Qwen3-0.6B")
---     local logits = model(tokens)
---
--- The model is an nn.Decoder with `config` (config.json), `family` (its model_type) and
--- `folder`.  Weights keep the dtype that the file has, or take `dtype`.
---
--- Returns nil: a folder or file that cannot be read (code "file"); a config that asks
--- what is not there, by name, or tensors that are missing, of another shape or without
--- a place, all of them listed (code "data").
---@param path string
---@param given? mrt.nn.LoadOptions
---@return mrt.nn.Decoder? model
---@return string? message
---@return string? code
function pretrained.load(path, given)
  if type(path) ~= "string" then
    core.fail("value", "load", "a path wanted, got " .. options.show(path))
  end
  return load.folder(path, given)
end

return pretrained
