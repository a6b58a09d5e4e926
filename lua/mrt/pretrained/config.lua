--- config.lua -- config.json, read so that nothing it asks is passed over
---
--- A family takes the keys it understands, one by one; `finish` refuses those that are
--- left, by name, unless they say nothing about the function that a model computes.
---
--- SPDX-License-Identifier: MIT

local options = require "mrt.util.options"

---@class mrt.pretrained.Config
---@field values table<string, any>  config.json, decoded
---@field taken table<string, true>
local Config = {}
Config.__index = Config

-- What a config may say beside the function: who wrote it, how it was trained, how text
-- is made with it.
local beside = {}
for name in ([[
  _name_or_path _attn_implementation _attn_implementation_internal
  _attn_implementation_autoset _commit_hash
  activation_dropout architectures attention_dropout attn_pdrop
  auto_map bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout
  decoder_start_token_id dropout dtype embd_pdrop eos_token_id finetuning_task head_dropout
  hidden_dropout id2label init_std initializer_range is_decoder is_encoder_decoder
  is_llama_config keys_to_ignore_at_inference label2id layerdrop mask_token_id max_length
  model_type num_labels output_attentions output_hidden_states output_router_logits
  pad_token_id prefix pretraining_tp problem_type resid_pdrop return_dict
  return_dict_in_generate router_aux_loss_coef router_jitter_noise sep_token_id
  task_specific_params tokenizer_class torch_dtype torchscript transformers_version
  transformers.js_config unk_token_id unsloth_fixed unsloth_version use_bfloat16 use_cache
  use_return_dict
]]):gmatch "%S+" do
  beside[name] = true
end

local Problem = {}

-- Leaves the family's function; `read` returns what is said.
local function refuse(message, ...)
  error(setmetatable({ message = message:format(...) }, Problem), 0)
end
Config.refuse = refuse

-- 0, false, "" and {} ask for nothing.
local function asks(value)
  return not (value == nil or value == false or value == 0 or value == ""
    or type(value) == "table" and next(value) == nil)
end

local kinds = {
  size = function(v) return math.type(v) == "integer" and v >= 1 and v < 2 ^ 40 end,
  integer = function(v) return math.type(v) == "integer" end,
  number = function(v) return type(v) == "number" and v == v and math.abs(v) < math.huge end,
  flag = function(v) return type(v) == "boolean" end,
  word = function(v) return type(v) == "string" end,
  list = function(v) return type(v) == "table" and (#v > 0 or next(v) == nil) end,
  map = function(v) return type(v) == "table" and #v == 0 end,
}
local names = { size = "a positive integer", integer = "an integer", number = "a number",
  flag = "true or false", word = "a word", list = "a list", map = "an object" }

--- Take a key of this kind; where it is absent or null, the default, which if nil means
--- that it must be there.
---@param name string
---@param kind "size"|"integer"|"number"|"flag"|"word"|"list"|"map"
---@param default any
---@return any
function Config:take(name, kind, default)
  local value = self.values[name]
  self.taken[name] = true
  if value == nil then
    if default == nil then refuse("%s is missing", name) end
    return default
  end
  if not kinds[kind](value) then
    refuse("%s: %s wanted, got %s", name, names[kind], options.show(value))
  end
  return value
end

--- The same, nil where it is absent.
function Config:maybe(name, kind)
  local value = self:take(name, kind, false)
  if value == false and kind ~= "flag" then return nil end
  return value
end

--- The same, with a default where it is absent and not null.
function Config:unless_null(name, kind, default)
  local meta = getmetatable(self.values)
  if self.values[name] == nil and not (meta and meta.nulls and meta.nulls[name]) then
    self.taken[name] = true
    return default
  end
  return self:maybe(name, kind)
end

--- Take a key of which only these values are known; absent means the first.
function Config:only(name, ...)
  local value = self.values[name]
  self.taken[name] = true
  local known = { ... }
  if value == nil then return known[1] end
  for _, one in ipairs(known) do
    if value == one then return value end
  end
  refuse("%s = %s is not known for this family", name, options.show(value))
end

--- Take keys that say nothing about the function of this family.
function Config:ignore(...)
  for _, name in ipairs { ... } do self.taken[name] = true end
end

local activations = { silu = "silu", swish = "silu", gelu = "gelu", gelu_new = "gelu_tanh",
  gelu_pytorch_tanh = "gelu_tanh", gelu_fast = "gelu_tanh", relu = "relu", gelu_python = "gelu",
  gelu_accurate = "gelu_tanh", gelu_python_tanh = "gelu_tanh", quick_gelu = "quick_gelu",
  relu2 = "relu2", tanh = "tanh", mish = "mish" }

--- Take the name of an activation.
---@param name string
---@param default string  theirs
---@return string ours
function Config:activation(name, default)
  local theirs = self:take(name, "word", default)
  return activations[theirs] or refuse("%s = %q: no such activation", name, theirs)
end

--- What a family's `options` makes of a config.
---@param family mrt.pretrained.Family
---@param values table
---@param ignored? string[]  keys to pass over
---@return mrt.nn.DecoderOptions? options
---@return string? message
local function read(family, values, ignored)
  local self = setmetatable({ values = values, taken = {} }, Config)
  if ignored then self:ignore(table.unpack(ignored)) end
  local ok, result = pcall(function()
    local o = family.options(self)
    local left = {}
    for name, value in pairs(values) do
      if not self.taken[name] and not beside[name] and asks(value) then
        left[#left + 1] = ("%s = %s"):format(name, options.show(value))
      end
    end
    table.sort(left)
    if #left > 0 then refuse("not known for this family: %s", table.concat(left, ", ")) end
    return o
  end)
  if ok then return result end
  if getmetatable(result) == Problem then return nil, result.message end
  error(result, 0)
end

--- Say that a key of a config to be written is null, where a default would count if it
--- were absent.
---@param out table
---@param name string
local function null(out, name)
  local meta = getmetatable(out)
  if not meta then
    meta = { nulls = {}, __jsontype = "object" }
    setmetatable(out, meta)
  end
  meta.nulls[name] = true
end

return { read = read, null = null }
