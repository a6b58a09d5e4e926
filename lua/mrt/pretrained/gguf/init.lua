--- gguf -- models in GGUF, for llama.cpp and programs that are made of it
---
---   write.lua  a model, or a folder's, into a file; read here, through view.lua, under the
---              names and in the shapes of transformers
---   archs.lua  what differs between architectures; keys.lua, rope.lua their keys;
---              names.lua, change.lua their tensors; types.lua which type each gets
---   tokens_write.lua, tokens_read.lua  the tokenizer in the keys
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local file = require "mrt.io.file"
local families = require "mrt.pretrained.families"
local keys = require "mrt.pretrained.gguf.keys"
local load = require "mrt.pretrained.load"
local options = require "mrt.util.options"
local types = require "mrt.pretrained.gguf.types"
local view = require "mrt.pretrained.gguf.view"
local write = require "mrt.pretrained.gguf.write"

local gguf = {}

-- Fields of config.json beside the function.
local function complete(config, metadata)
  local family = families.find(config.model_type)
  config.architectures = family and family.architectures
  for _, name in ipairs { "bos", "eos" } do
    config[name .. "_token_id"] = metadata["tokenizer.ggml." .. name .. "_token_id"]
  end
  return config
end

--- Load a GGUF file: see nn.load.
---@param path string
---@param given? mrt.nn.LoadOptions
---@return mrt.nn.Decoder? model
---@return string? message
---@return string? code
function gguf.load(path, given)
  local o = load.options(given)
  local opened, message, code = file.open(path, "gguf")
  if not opened then return nil, message, code end
  local config, row, sizes = keys.read(opened)
  if not config then
    opened:close()
    return nil, ("%s: %s"):format(path, row), "data"
  end
  local seen <close> = view(opened, row, sizes)
  return load.model(path, path, complete(config, opened.metadata), seen, o)
end

-- The type of the file of a model whose own dtype is kept.
local function type_of(model)
  local _, first = model:named_parameters()()
  local own = first and first:get_dtype()
  return (own == "bf16" or own == "f16") and own or "f32"
end

--- Write a model, or that of a folder tensor by tensor.
---
--- `type`: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k_m, q4_k_s, q5_k_m, q5_k_s or q6_k;
--- by default f16 of a folder, and of a model the dtype that it has.  `report` is called before
--- anything is written.
---
--- Returns nil: what cannot be read or written (code "file"), or what llama.cpp does not compute,
--- by name (code "data").
--- Raises: there is no such type; numbers that it cannot hold.
---@param from string|mrt.nn.Decoder
---@param path string  ends in .gguf
---@param given? {type: string?, name: string?, report: fun(report: table, metadata: table)?}
---@return mrt.pretrained.gguf.Report? report
---@return string? message
---@return string? code
function gguf.export(from, path, given)
  local o = options.read("export", given, { type = options.of "string",
    name = options.of "string", report = options.of "function" })
  local is_path = type(from) == "string"
  o.type = types.want("export", o.type or is_path and "f16" or type_of(from))
  if type(path) ~= "string" or not path:find "%.gguf$" then
    core.fail("value", "export", ("%s: a path that ends in .gguf wanted"):format(
      options.show(path)))
  end
  return (is_path and write.folder or write.model)(from, path, o)
end

return gguf
