--- keys.lua -- a decoder's options as keys of GGUF, and keys as fields of config.json
---
--- Keys of an architecture that are not known here are refused by name: each may change the
--- function that a model computes.
---
--- SPDX-License-Identifier: MIT

local archs = require "mrt.pretrained.gguf.archs"
local options = require "mrt.util.options"
local rope = require "mrt.pretrained.gguf.rope"

local keys = {}

-- ---- writing -----------------------------------------------------------------

local function is(value, wanted)
  return value == wanted or not value and not wanted
end

-- The first option that the architecture has otherwise.
local function other(row, o)
  local list = {}
  for name in pairs(archs.usual) do list[#list + 1] = name end
  table.sort(list)
  for _, name in ipairs(list) do
    local wanted = archs.usual[name]
    if row.fixed and row.fixed[name] ~= nil then wanted = row.fixed[name] end
    if not (row.free and row.free[name]) and not is(o[name], wanted) then
      return ("%s = %s, which GGUF's architecture %s has as %s"):format(name,
        options.show(o[name]), row.arch, options.show(wanted))
    end
  end
end

local function near(a, b) return math.abs(a - b) <= 1e-6 * math.abs(b) end

-- What llama.cpp takes from the sizes alone: each returns what is otherwise.
local size_checks = {
  function(row, o)
    if row.pairs and o.rope.width ~= o.head_dim then
      return "rotary positions of a part of each head"
    end
  end,
  function(row, o)
    if row.free and row.free.embed_scale and not near(o.embed_scale or 0, o.dim ^ 0.5) then
      return "embed_scale is not the root of dim"
    end
  end,
  function(row, o)
    if not (row.free and row.free.scale and o.scale) then return nil end
    local wanted = (row.large == o.layers and o.dim // o.heads or o.head_dim) ^ -0.5
    if not near(o.scale, wanted) then
      return ("scale = %g of scores, %g wanted"):format(o.scale, wanted)
    end
  end,
  function(row, o)
    if row.experts and row.normalize ~= nil and o.experts.normalize ~= row.normalize then
      return ("experts whose weights are %snormalized"):format(row.normalize and "not " or "")
    end
  end,
  function(_, o)
    for i, has in ipairs(o.experts and o.experts.layers or {}) do
      if not has then return ("layer %d has no experts"):format(i) end
    end
  end,
}

local function check_sizes(row, o)
  for _, check in ipairs(size_checks) do
    local problem = check(row, o)
    if problem then return problem end
  end
end

-- The window of layers that have one; false: there are several.
local function window_of(o)
  local window
  for _, w in ipairs(o.windows) do
    if w and window and window ~= w then return false end
    window = w or window
  end
  return window or nil
end

-- Windows: which layers have one, or a context within which none counts.
local function put_windows(row, o, put)
  local window, same, pattern = window_of(o), true, {}
  if window == false then return nil, "windows of several sizes" end
  for i, w in ipairs(o.windows) do
    pattern[i] = w ~= false
    if row.windows then same = same and pattern[i] == (i % row.windows ~= 0) end
  end
  if row.said then put("attention.sliding_window", window and window + 1 or 0) end
  if not window then return o.context end
  if not row.windows then return math.min(o.context, window + 1) end
  put("attention.sliding_window", window + 1)
  if not same then put("attention.sliding_window_pattern", pattern) end
  return o.context
end

local function put_sizes(row, o, put)
  put("block_count", o.layers)
  put("embedding_length", o.dim)
  put("feed_forward_length", o.hidden)
  put("attention.head_count", o.heads)
  if row.arch ~= "gpt2" then put("attention.head_count_kv", o.kv_heads) end
  put("vocab_size", o.vocab)
  put("attention.key_length", o.head_dim)
  put("attention.value_length", o.head_dim)
  put(row.eps, o.eps + 0.0)
end

local function put_rest(row, o, put)
  put("attn_logit_softcapping", o.softcap and o.softcap + 0.0)
  put("final_logit_softcapping", o.final_softcap and o.final_softcap + 0.0)
  put("attention.clamp_kqv", o.clip and o.clip + 0.0)
  if row.arch == "gptneox" then put("use_parallel_residual", o.parallel == "two") end
  if not o.experts then return end
  put("expert_count", o.experts.count)
  put("expert_used_count", o.experts.top)
  if row.arch ~= "llama" then put("expert_feed_forward_length", o.experts.hidden) end
  put("expert_shared_feed_forward_length", o.experts.shared)
end

--- The keys of a decoder, without those of its tokenizer.
---
--- Returns nil, message: what the architecture does not compute, by name.
---@param row table                   of archs.lua
---@param o mrt.nn.DecoderOptions      complete
---@return table<string, any>? metadata
---@return table|string extra_or_message  tensors that are not the model's: { name = floats }
function keys.write(row, o)
  local problem = other(row, o) or check_sizes(row, o)
  if problem then return nil, problem end
  local out, extra = { ["general.architecture"] = row.arch }, {}
  local function put(key, value) out[row.arch .. "." .. key] = value or value end
  local context, message = put_windows(row, o, put)
  if not context then return nil, message end
  put_sizes(row, o, put)
  if o.rope then
    context, message = rope.write(row, o, context, put, extra)
    if not context then return nil, message end
  end
  put("context_length", context)
  put_rest(row, o, put)
  return out, extra
end

-- ---- reading -----------------------------------------------------------------

local function refuse(message, ...) error({ refused = message:format(...) }, 0) end

-- Keys that say nothing about the function, or what it is anyway.
local beside = { ["rope.scaling.finetuned"] = true, ["attention.causal"] = true,
  ["rope.dimension_sections"] = false }

local fits = {
  size = function(v) return math.type(v) == "integer" and v >= 1 and v < 2 ^ 40 end,
  count = function(v) return math.type(v) == "integer" and v >= 0 and v < 2 ^ 40 end,
  number = function(v) return type(v) == "number" and v == v end,
}
local function same_type(value, kind) return type(value) == kind end

-- Takes keys of one architecture, and knows which are left.
local function taker(arch, metadata)
  local taken = {}
  local function take(key, kind, default)
    local name = arch .. "." .. key
    local value = metadata[name]
    taken[name] = true
    if value == nil then
      if default ~= nil then return default end
      refuse("%s is missing", name)
    end
    if not (fits[kind] or same_type)(value, kind) then
      refuse("%s is %s, a %s wanted", name, options.show(value), kind)
    end
    return value
  end
  local function finish()
    local left = {}
    for name in pairs(metadata) do
      local key = name:sub(1, #arch + 1) == arch .. "." and name:sub(#arch + 2)
      if key and not taken[name] and not beside[key] then left[#left + 1] = name end
    end
    table.sort(left)
    if #left > 0 then refuse("not known: %s", table.concat(left, ", ")) end
  end
  return take, finish
end

local function read_layer_types(row, k, take)
  local pattern = take("attention.sliding_window_pattern", "table", false)
  if not row.windows or not k.window then return nil end
  if pattern and #pattern ~= k.layers then refuse("sliding_window_pattern: one for each layer") end
  local list = {}
  for i = 1, k.layers do
    local has = i % row.windows ~= 0
    if pattern then has = pattern[i] == true end
    list[i] = has and "sliding_attention" or "full_attention"
  end
  return list
end

local function read_experts(k, take)
  local count = take("expert_count", "size", false)
  if not count then return nil end
  return { count = count, top = take("expert_used_count", "size"),
    hidden = take("expert_feed_forward_length", "size", k.hidden),
    shared = take("expert_shared_feed_forward_length", "size", false) or nil }
end

local function read_keys(row, take, file)
  local k = { dim = take("embedding_length", "size"), layers = take("block_count", "size"),
    heads = take("attention.head_count", "size"), hidden = take("feed_forward_length", "size"),
    context = take("context_length", "size"), eps = take(row.eps, "number") }
  k.kv_heads = take("attention.head_count_kv", "size", k.heads)
  k.head_dim = take("attention.key_length", "size", k.dim // k.heads)
  if take("attention.value_length", "size", k.head_dim) ~= k.head_dim then
    refuse("values of another length than keys")
  end
  take("vocab_size", "size", 1)
  k.has = function(name) return file:info(name) ~= nil end
  k.window = take("attention.sliding_window", "count", 0)
  if k.window == 0 then k.window = nil end
  k.layer_types = read_layer_types(row, k, take)
  k.softcap = take("attn_logit_softcapping", "number", false) or nil
  k.final_softcap = take("final_logit_softcapping", "number", false) or nil
  k.clip = take("attention.clamp_kqv", "number", false) or nil
  k.parallel = take("use_parallel_residual", "boolean", true)
  k.experts = read_experts(k, take)
  return k
end

-- The row of a file, by its architecture.
local function row_of(metadata)
  local arch = metadata["general.architecture"]
  if type(arch) ~= "string" then refuse("general.architecture is missing") end
  local count = metadata[arch .. ".expert_count"]
  local row = archs.of_arch(arch, type(count) == "number" and count > 0)
  if row then return row end
  refuse("architecture %s; known are %s", options.show(arch), table.concat(archs.known(), ", "))
end

local function read(file)
  local row = row_of(file.metadata)
  local take, finish = taker(row.arch, file.metadata)
  local k = read_keys(row, take, file)
  rope.read(row, k, take, file)
  finish()
  local table_ = file:info "token_embd.weight"
  if not table_ then refuse("token_embd.weight is missing") end
  local config = { model_type = row.model_types[1], vocab_size = table_.shape[1],
    tie_word_embeddings = not k.has "output.weight" }
  row.config(k, config)
  return config, row, k
end

--- What a file's keys say, as config.json would.
---@param file mrt.File
---@return table? config
---@return table|string row_or_message
---@return table? sizes  heads, kv_heads and others
function keys.read(file)
  local ok, config, row, k = pcall(read, file)
  if ok then return config, row, k end
  if type(config) == "table" and config.refused then return nil, config.refused end
  error(config, 0)
end

return keys
