--- pretrained -- models as other programs keep them
---
---   load.lua      a folder -> a model; config.lua reads config.json, rope.lua and
---                 windows.lua parts of it; folder.lua finds files; weights.lua names
---   save.lua      a model -> a folder
---   families/     what differs between families: a file each
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"
local load = require "mrt.pretrained.load"
local save_folder = require "mrt.pretrained.save"

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
---
--- Raises: an option of another type; what files lack is returned as a message.
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

--- Write a model as a folder that transformers reads: config.json, model.safetensors (or
--- shards and their index), and what lay beside them where the model came from: tokenizer
--- and generation_config.json.  A path that ends in `.gguf` is written for llama.cpp.
---
---     assert(model:save "mine")
---     assert(nn.Decoder(options):save("new", { family = "llama" }))
---     assert(model:save("model.gguf", { type = "q4_k_m" }))
---
--- Returns nil: a file that cannot be written (code "file"); a model that its family
--- cannot say, or that llama.cpp does not compute, by name; adapters in it; in a folder,
--- quantised weights, a GGUF file's tokenizer that transformers has no form for (code "data").
---@param model mrt.nn.Decoder
---@param path string
---@param given? mrt.nn.SaveOptions  of .gguf {type: string?, name: string?}
---@return true? done
---@return string? message
---@return string? code
function pretrained.save(model, path, given)
  if type(path) ~= "string" then
    core.fail("value", "save", "a path wanted, got " .. options.show(path))
  end
  if not path:find "%.gguf$" then return save_folder(model, path, given) end
  local report, message, code = require "mrt.pretrained.gguf".export(model, path, given)
  if not report then return nil, message, code end
  return true
end

return pretrained
