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
  if path:find "%.gguf$" then return require "mrt.pretrained.gguf".load(path, given) end
  return load.folder(path, given)
end

--- Write a model with a family to a GGUF file, for llama.cpp.
---
---     assert(model:save("model.gguf", { type = "q4_k_m" }))
---
--- Returns nil: the file cannot be written (code "file"); llama.cpp does not compute what the
--- model does, which is said by name (code "data").
---@param model mrt.nn.Decoder
---@param path string
---@param given? {type: string?, name: string?}
---@return true? done
---@return string? message
---@return string? code
function pretrained.save(model, path, given)
  local report, message, code = require "mrt.pretrained.gguf".export(model, path, given)
  if not report then return nil, message, code end
  return true
end

return pretrained
