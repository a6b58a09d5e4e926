--- beside.lua -- what lies beside a model's weights: its tokenizer, how it is to generate
---
--- Both are looked for when they are first asked for, in the model's `folder`, and kept
--- in its fields.
---
--- SPDX-License-Identifier: MIT

local folder = require "mrt.pretrained.folder"
local text = require "mrt.text"

local beside = {}

--- The tokenizer of a model; nil: it has none.
---@param model mrt.nn.Module
---@return mrt.text.Tokenizer? tokenizer
---@return string? message  why there is none
function beside.tokenizer(model)
  if model.tokenizer == nil and type(model.folder) == "string" then
    local found, message = text.tokenizer(model.folder)
    rawset(model, "tokenizer", found or false)
    rawset(model, "no_tokenizer", message)
  end
  return model.tokenizer or nil, model.no_tokenizer
end

--- What generation_config.json says, {} where there is none.
---@param model mrt.nn.Module
---@return table
function beside.config(model)
  if model.generation_config == nil then
    local path = type(model.folder) == "string" and model.folder .. "/generation_config.json"
    rawset(model, "generation_config", path and folder.json(path) or {})
  end
  return model.generation_config
end

return beside
