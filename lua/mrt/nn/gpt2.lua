--- gpt2.lua -- GPT-2's published weights in nn.GPT
---
--- Hugging Face's names say which tensor is which.  Their linear layers (Conv1D)
--- keep weights as `[inputs, outputs]`, ours as `[outputs, inputs]`.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local file = require "mrt.io.file"
local GPT = require "mrt.nn.gpt"
local json = require "mrt.util.json"
local options = require "mrt.util.options"

-- Their name within a block -> ours, and whether the matrix is turned.
local parts = {
  ["ln_1.weight"] = { "norm1.weight" }, ["ln_1.bias"] = { "norm1.bias" },
  ["ln_2.weight"] = { "norm2.weight" }, ["ln_2.bias"] = { "norm2.bias" },
  ["attn.c_attn.weight"] = { "attention.qkv.weight", true },
  ["attn.c_attn.bias"] = { "attention.qkv.bias" },
  ["attn.c_proj.weight"] = { "attention.proj.weight", true },
  ["attn.c_proj.bias"] = { "attention.proj.bias" },
  ["mlp.c_fc.weight"] = { "mlp.fc.weight", true },
  ["mlp.c_fc.bias"] = { "mlp.fc.bias" },
  ["mlp.c_proj.weight"] = { "mlp.proj.weight", true },
  ["mlp.c_proj.bias"] = { "mlp.proj.bias" },
}
local whole = {
  ["wte.weight"] = "tokens.weight", ["wpe.weight"] = "positions.weight",
  ["ln_f.weight"] = "norm.weight", ["ln_f.bias"] = "norm.bias",
  ["lm_head.weight"] = "head.weight",
}
-- The causal mask, which is no weight.
local masks = { ["attn.bias"] = true, ["attn.masked_bias"] = true }

-- Our name for theirs, and whether the matrix is turned; false: not a weight.
local function place(name)
  name = name:gsub("^transformer%.", "")
  if whole[name] then return whole[name] end
  local block, part = name:match "^h%.(%d+)%.(.+)$"
  if masks[part] then return false end
  if not parts[part] then return nil end
  return ("blocks.%d.%s"):format(block + 1, parts[part][1]), parts[part][2]
end

-- All tensors under our names, as f32.
local function rename(tensors)
  local state, layers = {}, 0
  for name, t in pairs(tensors) do
    if type(name) ~= "string" or not core.is_tensor(t) then
      core.fail("value", "gpt2", ("tensors by name wanted, got %s = %s")
        :format(options.show(name), options.show(t)))
    end
    local ours, turned = place(name)
    if ours == nil or (turned and t:dim() ~= 2) then
      return nil, ("'%s', %s, is no part of a GPT-2"):format(name, t:type())
    elseif ours then
      state[ours] = (turned and t:t() or t):to "f32"
      layers = math.max(layers, tonumber(ours:match "^blocks%.(%d+)" or 0))
    end
  end
  return state, layers
end

-- A head of its own counts only where its numbers differ from the table's.
local function drop_tied_head(state)
  local head, table_ = state["head.weight"], state["tokens.weight"]
  if head and head:type() == table_:type() and (head - table_):abs():max():item() == 0 then
    state["head.weight"] = nil
  end
end

-- Does the state fit the model?  Says what does not.
local function misfit(model, state)
  local wanted = model:state()
  for name, t in pairs(wanted) do
    local given = state[name]
    if not given then return ("there are no weights for '%s'"):format(name) end
    if given:type() ~= t:type() then
      return ("'%s' is %s, %s wanted"):format(name, given:type(), t:type())
    end
  end
  for name in pairs(state) do
    if not wanted[name] then return ("'%s' has no place"):format(name) end
  end
end

-- What published sizes have; of another width the weights do not say it.
local published = { [768] = 12, [1024] = 16, [1280] = 20, [1600] = 25 }

-- The file config.json beside the weights: its number of heads; nil: there is none, or
-- with a message, it says none.
local function configured(path)
  local folder = path:match "^(.*/)[^/]*$" or ""
  local text, message = core.read_file(folder .. "config.json")
  if not text then return nil, not message:find "No such file" and message or nil end
  local config = json.decode(text)
  local heads = type(config) == "table" and config.n_head
  if math.type(heads) ~= "integer" or heads < 1 then
    return nil, folder .. "config.json: no n_head, as a GPT-2 has it"
  end
  return heads
end

local function heads_of(dim, o)
  local heads = o.heads or published[dim]
  if not heads then
    return nil, ("weights of width %d do not say how many heads there are: give { heads = n }, "
      .. "or keep config.json beside them"):format(dim)
  elseif dim % heads ~= 0 then
    return nil, ("%d is no multiple of %d heads"):format(dim, heads)
  end
  return heads
end

local function build(tensors, o)
  local state, layers = rename(tensors)
  if not state then return nil, layers end
  local words, positions = state["tokens.weight"], state["positions.weight"]
  if not words or not positions or words:dim() ~= 2 or positions:dim() ~= 2
    or layers == 0 then
    return nil, "wte.weight, wpe.weight and blocks wanted"
  end
  local dim = words:size(2)
  local heads, unknown = heads_of(dim, o)
  if not heads then return nil, unknown end
  drop_tied_head(state)
  local model = GPT { vocab = words:size(1), dim = dim, layers = layers,
    heads = heads, context = positions:size(1), dropout = o.dropout,
    tie = state["head.weight"] == nil }
  local problem = misfit(model, state)
  if problem then return nil, problem end
  return model:load_state(state)
end

---@class mrt.nn.GPT2Options
---@field heads? integer    default: config.json beside the file, else as the published
---  model of this width has
---@field dropout? number   default 0

--- Make an nn.GPT with the weights of a GPT-2, as Hugging Face keeps them.
---
---     local model = assert(nn.gpt2 "gpt2/model.safetensors")
---     local bpe = assert(mrt.data.bpe("gpt2/vocab.json", "gpt2/merges.txt"))
---
--- All sizes fit, and models trained on from them; half precision becomes f32.
--- Names may begin with "transformer."; a head that repeats the table of tokens
--- is tied to it.
---
--- Returns nil: a file that cannot be read; weights that are not a GPT-2's.
---
--- Shapes: ids `[B,T]` -> logits `[B,T,vocab]`.
--- Raises: an option that there is not.
---@param source string|table<string, mrt.Tensor>  a path, or what mrt.load gave
---@param given? mrt.nn.GPT2Options
---@return mrt.nn.GPT? model
---@return string? message
---@return string? code
return function(source, given)
  local o = options.read("gpt2", given, { heads = options.of "size", dropout = 0 })
  local tensors = source
  if type(source) == "string" then
    local message, code
    tensors, message, code = file.load(source)
    if not tensors then return nil, message, code end
    if not o.heads then
      o.heads, message = configured(source)
      if message then return nil, message, "data" end
    end
  end
  if type(tensors) ~= "table" then
    core.fail("value", "gpt2", "a path or tensors by name wanted, got "
      .. options.show(tensors))
  end
  local model, problem = build(tensors, o)
  if not model then return nil, problem, "data" end
  return model
end
