--- rope.lua -- rotary positions in GGUF
---
--- llama3's scaling is a tensor there, by which each pair's frequency is divided; where its
--- factors are those that published models have, they are read as these, else as longrope's.
--- Longrope's are two, of which llama.cpp takes the long one where its context, not the text, is
--- longer than the first.
---
--- SPDX-License-Identifier: MIT

local rotary = require "mrt.nn.decoder.rotary"

local rope = {}

local FREQS <const> = "rope_freqs.weight"
local LONG <const>, SHORT <const> = "rope_factors_long.weight", "rope_factors_short.weight"

--- The tensors of a file that are no weights.
rope.tensors = { [FREQS] = true, [LONG] = true, [SHORT] = true }

-- By what each pair's plain frequency is divided.
local function factors_of(o, context)
  local scaled = rotary.frequencies(o, context, context)
  local plain = rotary.frequencies({ base = o.base, width = o.width }, context, context)
  local list = {}
  for i, x in ipairs(scaled) do list[i] = plain[i] / x end
  return list
end

local writers = {
  linear = function(s, context, put)
    put("rope.scaling.type", "linear")
    put("rope.scaling.factor", s.factor + 0.0)
    return context
  end,
  yarn = function(s, context, put)
    if not s.truncate then return nil, "yarn without truncate" end
    put("rope.scaling.type", "yarn")
    put("rope.scaling.factor", s.factor + 0.0)
    put("rope.scaling.original_context_length", s.original)
    put("rope.scaling.yarn_beta_fast", s.fast and s.fast + 0.0)
    put("rope.scaling.yarn_beta_slow", s.slow and s.slow + 0.0)
    if s.attention_factor then return nil, "yarn with an attention_factor" end
    return context
  end,
  dynamic = function(s, context) return math.min(context, s.original) end, -- the same until there
  longrope = function() return nil, "longrope scaling, which only phi3 has in GGUF" end,
}

--- Put the keys of rotary positions.
---@param row table
---@param o mrt.nn.DecoderOptions
---@param context integer
---@param put fun(key: string, value: any)
---@param extra table<string, number[]>  tensors of the file
---@return integer? context  within which the function is the same
---@return string? message
function rope.write(row, o, context, put, extra)
  put("rope.dimension_count", o.rope.width)
  put("rope.freq_base", o.rope.base + 0.0)
  if o.rope_local then
    if o.rope_local.scaling or o.rope_local.width ~= o.rope.width then
      return nil, "scaling of the positions of layers with a window"
    end
    put("rope.freq_base_swa", o.rope_local.base + 0.0)
  end
  local s = o.rope.scaling
  if not s then return context end
  if s.kind == "longrope" and row.arch == "phi3" then
    local _, factor = rotary.frequencies(o.rope, o.context, o.context)
    put("rope.scaling.original_context_length", s.original)
    put("rope.scaling.attn_factor", factor + 0.0)
    extra[LONG], extra[SHORT] = s.long, s.short
    return context
  end
  if s.kind == "llama3" then
    if row.arch ~= "llama" then return nil, "llama3 scaling" end
    extra[FREQS] = factors_of(o.rope, context)
    return context
  end
  return writers[s.kind](s, context, put)
end

-- ---- reading -----------------------------------------------------------------

-- Published: factor, low, high, original.
local published = { { 8, 1, 4, 8192 }, { 32, 1, 4, 8192 }, { 16, 1, 1, 8192 }, { 4, 1, 4, 8192 } }

local function agrees(wanted, got)
  for i, x in ipairs(wanted) do
    if math.abs(x - got[i]) > 1e-4 * x then return false end
  end
  return #wanted == #got
end

local function read_factors(k, got)
  for _, p in ipairs(published) do
    local scaling = { kind = "llama3", factor = p[1], low = p[2], high = p[3], original = p[4] }
    local o = { base = k.base, width = k.width, scaling = scaling }
    if agrees(factors_of(o, k.context), got) then
      return { rope_type = "llama3", factor = p[1] + 0.0, low_freq_factor = p[2] + 0.0,
        high_freq_factor = p[3] + 0.0, original_max_position_embeddings = p[4] }
    end
  end
  return { rope_type = "longrope", short_factor = got, long_factor = got, attention_factor = 1.0,
    original_max_position_embeddings = k.context }
end

-- A tensor with a factor for each pair; nil: there is none.
local function pairs_of(k, file, name)
  local info = file:info(name)
  if not info then return nil end
  local x = file:read(name)
  if not x or #info.shape ~= 1 or info.shape[1] ~= k.width // 2 then
    error({ refused = name .. ": a factor for each pair wanted" }, 0)
  end
  return x:totable()
end

-- Longrope's two tensors.
local function read_long(k, take, file)
  local long, short = pairs_of(k, file, LONG), pairs_of(k, file, SHORT)
  local factor = take("rope.scaling.attn_factor", "number", false)
  local original = take("rope.scaling.original_context_length", "size", k.context)
  if not long and not short then
    if factor and factor ~= 1 then
      error({ refused = ("rope.scaling.attn_factor = %g without factors"):format(factor) }, 0)
    end
    return nil
  end
  if not long or not short then error({ refused = LONG .. " and " .. SHORT .. ": both" }, 0) end
  return { rope_type = "longrope", short_factor = short, long_factor = long,
    attention_factor = factor or 1.0, original_max_position_embeddings = original }
end

local function read_scaling(k, take)
  local kind = take("rope.scaling.type", "string", "none")
  local factor = take("rope.scaling.factor", "number", 1)
  local original = take("rope.scaling.original_context_length", "size", k.context)
  local fast = take("rope.scaling.yarn_beta_fast", "number", false)
  local slow = take("rope.scaling.yarn_beta_slow", "number", false)
  if kind == "none" then return nil end
  if kind == "linear" then return { rope_type = "linear", factor = factor } end
  if kind == "yarn" then
    return { rope_type = "yarn", factor = factor, original_max_position_embeddings = original,
      beta_fast = fast or nil, beta_slow = slow or nil }
  end
  error({ refused = ("rope.scaling.type %q"):format(kind) }, 0)
end

--- Take the keys of rotary positions into `k`: base, width, scaling, local_base.
---@param row table
---@param k table
---@param take fun(key: string, kind: string, default: any): any
---@param file mrt.File
function rope.read(row, k, take, file)
  k.width = take("rope.dimension_count", "size", k.head_dim)
  k.base = take("rope.freq_base", "number", 10000)
  k.local_base = take("rope.freq_base_swa", "number", 10000)
  if row.fixed and row.fixed.positions == "learned" then return end
  k.scaling = read_scaling(k, take)
  local long = row.arch == "phi3" and read_long(k, take, file)
  local own = pairs_of(k, file, FREQS)
  if long then k.scaling = long end
  if own then k.scaling = read_factors(k, own) end
end

return rope
