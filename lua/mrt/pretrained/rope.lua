--- rope.lua -- rotary positions in config.json, in the old form and in the new
---
--- The old form has rope_theta, rope_scaling and partial_rotary_factor; the new one all
--- of them in rope_parameters.  What is written is the old form, which both read.
---
--- SPDX-License-Identifier: MIT

local options = require "mrt.util.options"

local rope = {}

-- Theirs -> ours, of each kind; `true`: has to be there.
local kinds = {
  linear = { factor = true },
  dynamic = { factor = true },
  llama3 = { factor = true, low_freq_factor = true, high_freq_factor = true,
    original_max_position_embeddings = true },
  yarn = { factor = true, beta_fast = false, beta_slow = false, truncate = false,
    attention_factor = false, original_max_position_embeddings = false, mscale = false,
    mscale_all_dim = false },
  longrope = { short_factor = true, long_factor = true, factor = false,
    attention_factor = false, original_max_position_embeddings = false },
}
local ours = { factor = "factor", low_freq_factor = "low", high_freq_factor = "high",
  original_max_position_embeddings = "original", beta_fast = "fast", beta_slow = "slow",
  truncate = "truncate", attention_factor = "attention_factor", short_factor = "short",
  long_factor = "long", mscale = "mscale", mscale_all_dim = "mscale_all" }
local other_names = { su = "longrope", ntk = "dynamic" }
local outside = { rope_theta = true, partial_rotary_factor = true, rope_type = true,
  type = true, original_max_position_embeddings = true }

local types = { truncate = "boolean", short = "table", long = "table" }

local function want_types(c, kind, out)
  for name, value in pairs(out) do
    local wanted = types[name] or "number"
    if type(value) ~= wanted then
      c.refuse("rope_type %s: %s: a %s wanted, got %s", kind, name, wanted, options.show(value))
    end
  end
end

local function want_present(c, kind, given)
  for name, wanted in pairs(kinds[kind]) do
    if wanted and given[name] == nil then c.refuse("rope_type %s: %s is missing", kind, name) end
  end
end

-- Two factors of yarn's scale stand for one.
local function join_scales(out)
  local a, b = out.mscale, out.mscale_all
  out.mscale, out.mscale_all = nil, nil
  if out.attention_factor or not a or not b or a == 0 or b == 0 then return end
  local function scale(m) return out.factor <= 1 and 1 or 0.1 * m * math.log(out.factor) + 1 end
  out.attention_factor = scale(a) / scale(b)
end

local function read_scaling(c, given, context, original)
  local kind = given.rope_type or given.type or "default"
  kind = other_names[kind] or kind
  if kind == "default" then return nil end
  local known = kinds[kind]
  if not known then c.refuse("rope_type %s: no such kind of scaling", options.show(kind)) end
  local out = {}
  for name, value in pairs(given) do
    if known[name] ~= nil then
      out[ours[name]] = value
    elseif not outside[name] then
      c.refuse("%s of rope_type %s is not known", name, kind)
    end
  end
  want_present(c, kind, given)
  out.original = original or out.original or context
  want_types(c, kind, out)
  if kind == "yarn" then join_scales(out) end
  out.kind = kind
  return out
end

--- Read one object of rotary positions.
---@param c mrt.pretrained.Config
---@param given table      rope_parameters, or rope_scaling
---@param o {head_dim: integer, context: integer, base: number, part: number, original: integer?}
---@return mrt.nn.Rope
function rope.of(c, given, o)
  local part = given.partial_rotary_factor or o.part
  local base = given.rope_theta or o.base
  if type(part) ~= "number" or type(base) ~= "number" then
    c.refuse("rope_theta and partial_rotary_factor: numbers wanted")
  end
  return { base = base, width = math.floor(o.head_dim * part),
    scaling = read_scaling(c, given, o.context, o.original) }
end

--- Take the keys of rotary positions.
---@param c mrt.pretrained.Config
---@param o {head_dim: integer, context: integer, base: number?, part: number?, original: integer?}
---@return mrt.nn.Rope
function rope.read(c, o)
  local base = c:take("rope_theta", "number", o.base or 10000)
  local part = c:take("partial_rotary_factor", "number", o.part or 1)
  local old, given = c:maybe("rope_scaling", "map"), c:maybe("rope_parameters", "map") or {}
  if old and next(old) then given = old end
  given = given.full_attention or given -- of a family with two: those that see everything
  return rope.of(c, given, { head_dim = o.head_dim, context = o.context, base = base, part = part,
    original = c:maybe("original_max_position_embeddings", "size") or o.original })
end

--- The context of a model: dynamic scaling goes on beyond max_position_embeddings.
---@param r mrt.nn.Rope
---@param context integer  max_position_embeddings
---@return integer
function rope.context(r, context)
  local s = r.scaling
  return s and s.kind == "dynamic" and math.floor(s.original * s.factor) or context
end

--- The max_position_embeddings of a decoder.
---@param o mrt.nn.DecoderOptions
---@return integer
function rope.original(o)
  local s = o.rope and o.rope.scaling
  return s and s.kind == "dynamic" and s.original or o.context
end

--- The fields of config.json for rotary positions.
---@param r mrt.nn.Rope
---@param head_dim integer
---@param into table
function rope.write(r, head_dim, into)
  into.rope_theta = r.base
  if r.width ~= head_dim then into.partial_rotary_factor = r.width / head_dim end
  if not r.scaling then return end
  local scaling = { rope_type = r.scaling.kind }
  for name in pairs(kinds[r.scaling.kind]) do scaling[name] = r.scaling[ours[name]] end
  into.rope_scaling = scaling
end

return rope
