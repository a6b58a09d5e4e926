--- families -- the families of models that are known, by model_type: a file each, or one
--- for those that are nearly alike
---
--- A family is a row:
---
---     model_type, architectures   as config.json has them
---     prefix      what names of the base model begin with, in files of the whole
---     options     of a config (config.lua), the options of nn.Decoder
---     config      of complete options, the fields of config.json that say them
---     names       {ours, theirs, how...}, of modules or weights: `weights.lua`
---
--- SPDX-License-Identifier: MIT

---@class mrt.pretrained.Family
---@field model_type string
---@field architectures string[]
---@field prefix string
---@field options fun(c: mrt.pretrained.Config): table
---@field config fun(o: table): table
---@field names table[]
---@field make? fun(options: table): mrt.nn.Module  default nn.Decoder
---@field complete? fun(options: table): table  those that `make` fills in; default nn.Decoder's
---@field idle? string[]  patterns of tensors in files that the model does without

local families = {}

--- The file of each model_type, and the row's name there.
local files = {
  bert = { "bert", "bert" }, distilbert = { "bert", "distilbert" },
  roberta = { "bert", "roberta" }, ["xlm-roberta"] = { "bert", "xlm_roberta" },
  gemma = { "gemma", "gemma" }, gemma2 = { "gemma", "gemma2" },
  gemma3_text = { "gemma", "gemma3_text" }, gpt2 = { "gpt2", "family" },
  gpt_neox = { "neox", "family" }, llama = { "llama", "family" },
  mistral = { "mistral", "family" }, mixtral = { "mixtral", "family" },
  olmo = { "olmo", "olmo" }, olmo2 = { "olmo", "olmo2" },
  opt = { "opt", "family" }, phi = { "phi", "phi" }, phi3 = { "phi", "phi3" },
  qwen2 = { "qwen", "qwen2" }, qwen3 = { "qwen", "qwen3" },
  qwen2_moe = { "qwen", "qwen2_moe" }, qwen3_moe = { "qwen", "qwen3_moe" },
  vit = { "vit", "family" },
}

--- The family of a model_type.
---@param model_type string
---@return mrt.pretrained.Family?
function families.find(model_type)
  local place = files[model_type]
  return place and require("mrt.pretrained.families." .. place[1])[place[2]]
end

--- All model_types, in order.
---@return string[]
function families.known()
  local list = {}
  for name in pairs(files) do list[#list + 1] = name end
  table.sort(list)
  return list
end

return families
