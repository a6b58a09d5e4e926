--- rotary.lua -- rotary positions: frequencies of each kind of scaling
---
--- Su et al. 2021 (arXiv:2104.09864); linear: Chen et al. (arXiv:2306.15595); yarn and
--- dynamic: Peng et al. (arXiv:2309.00071); longrope: Ding et al. (arXiv:2402.13753).
--- Published models were trained with frequencies that are rounded to f32 at each step
--- of their formula, and an angle is a frequency times a position: at position 100,000
--- one that is rounded otherwise is 0.006 off.  So steps are rounded here as they are
--- there.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local rotary = {}

local function f32(x) return (string.unpack("f", string.pack("f", x))) end

-- base^(2 i / width) of each pair.
local function wavelengths(base, width)
  local list = {}
  for i = 0, width // 2 - 1 do list[i + 1] = f32(f32(base) ^ f32(2 * i / width)) end
  return list
end

local function inverse(list, factor)
  local out = {}
  for i, x in ipairs(list) do out[i] = f32(1 / (factor and f32(factor * x) or x)) end
  return out
end

local function linear(o)
  local list = inverse(wavelengths(o.base, o.width))
  for i, x in ipairs(list) do list[i] = f32(x / o.scaling.factor) end
  return list, 1
end

-- A base that grows with the length, beyond the context that the model had.
local function dynamic(o, length)
  local s, base = o.scaling, o.base
  length = math.max(length, s.original)
  local ratio = s.factor * length / s.original - (s.factor - 1)
  base = base * ratio ^ (o.width / (o.width - 2))
  return inverse(wavelengths(base, o.width)), 1
end

local function llama3(o)
  local s, list = o.scaling, inverse(wavelengths(o.base, o.width))
  local longest, shortest = s.original / s.low, s.original / s.high
  for i, x in ipairs(list) do
    local wavelength = f32(2 * math.pi / x)
    if wavelength > longest then
      list[i] = f32(x / s.factor)
    elseif wavelength >= shortest then
      local smooth = f32(f32(f32(s.original / wavelength) - s.low) / (s.high - s.low))
      list[i] = f32(f32(f32(f32(1 - smooth) * x) / s.factor) + f32(smooth * x))
    end
  end
  return list, 1
end

-- The pair that makes so many turns within the original context.
local function pair_of(turns, o)
  return o.width * math.log(o.scaling.original / (turns * 2 * math.pi)) / (2 * math.log(o.base))
end

local function yarn(o)
  local s, waves = o.scaling, wavelengths(o.base, o.width)
  local low, high = pair_of(s.fast or 32, o), pair_of(s.slow or 1, o)
  if s.truncate then low, high = math.floor(low), math.ceil(high) end
  low, high = math.max(low, 0), math.min(high, o.width - 1)
  if low == high then high = high + 0.001 end
  local own, divided = inverse(waves), inverse(waves, s.factor)
  local list = {}
  for i = 1, #waves do
    local ramp = math.min(math.max(f32(f32(i - 1 - low) / (high - low)), 0), 1)
    local keep = f32(1 - ramp)
    list[i] = f32(f32(divided[i] * f32(1 - keep)) + f32(own[i] * keep))
  end
  local factor = s.factor <= 1 and 1 or 0.1 * math.log(s.factor) + 1
  return list, s.attention_factor or factor
end

local function longrope(o, length, context)
  local s, waves, list = o.scaling, wavelengths(o.base, o.width), {}
  local factors = length > s.original and s.long or s.short
  for i, x in ipairs(waves) do list[i] = f32(1 / f32(f32(factors[i]) * x)) end
  local ratio = s.factor or context / s.original
  local factor = ratio <= 1 and 1 or math.sqrt(1 + math.log(ratio) / math.log(s.original))
  return list, s.attention_factor or factor
end

-- ---- of as many tokens as there are ------------------------------------------

-- Base^(2 i / width) grows with the length of each row, [B] -> frequencies [B,width / 2].
local function dynamic_rows(o, whole)
  local s, W, exponents = o.scaling, o.width, {}
  for i = 0, W // 2 - 1 do exponents[i + 1] = 2 * i / W end
  local length = whole:to "f32":maximum(s.original)
  local ratio = length * (s.factor / s.original) - (s.factor - 1)
  local base = ratio ^ (W / (W - 2)) * o.base
  return 1 / base:unsqueeze(2) ^ mrt.tensor(exponents, "f32"):unsqueeze(1)
end

local function longrope_rows(o, whole, context)
  local s = o.scaling
  local short, long = longrope(o, s.original, context), longrope(o, s.original + 1, context)
  return mrt.where(whole:gt(s.original):unsqueeze(2), mrt.tensor(long, "f32"):unsqueeze(1),
    mrt.tensor(short, "f32"):unsqueeze(1))
end

local growing = { dynamic = dynamic_rows, longrope = longrope_rows }

-- A function that turns x [B,T,H,D] by angles [B,T,width / 2].
local function turner(o, angles, scale)
  local c, s = angles:cos():unsqueeze(3) * scale, angles:sin():unsqueeze(3) * scale
  local half, W = o.width // 2, o.width
  return function(x)
    local own, D = x:to "f32", x:size(4)
    local a, b
    if o.interleaved then
      local pairs_ = own:slice(4, 1, W):reshape(x:size(1), x:size(2), x:size(3), half, 2)
      a, b = pairs_:select(5, 1), pairs_:select(5, 2)
    else
      a, b = own:slice(4, 1, half), own:slice(4, half + 1, W)
    end
    local first, second = a * c - b * s, b * c + a * s
    local y = o.interleaved
      and mrt.stack({ first, second }, 5):reshape(x:size(1), x:size(2), x:size(3), W)
      or mrt.cat({ first, second }, 4)
    if D > W then y = mrt.cat({ y, own:slice(4, W + 1, D) }, 4) end
    return y:to(x:get_dtype())
  end
end

local kinds = { linear = linear, dynamic = dynamic, llama3 = llama3, yarn = yarn,
  longrope = longrope }

--- The angle of each pair at position 1, and the factor of all cosines and sines.
---@param o mrt.nn.Rope     complete
---@param length integer    of the sequence: dynamic and longrope depend on it
---@param context integer   of the model
---@return number[] frequencies  width / 2, each an f32
---@return number factor
function rotary.frequencies(o, length, context)
  if o.scaling then return kinds[o.scaling.kind](o, length, context) end
  return inverse(wavelengths(o.base, o.width)), 1
end

--- What `x:rope` takes to turn queries and keys at these positions.
---@param o mrt.nn.Rope
---@param positions? mrt.Tensor  integers `[T]` or `[B,T]`; default 0, 1, ...
---@param length integer
---@param context integer
---@param whole? mrt.Tensor  `[B]` integers, with a cache: how long each row is with these
---  tokens, at most `length`; dynamic and longrope scaling look at it
---@return mrt.RopeOptions|fun(x: mrt.Tensor): mrt.Tensor  for rotary.apply
function rotary.turn(o, positions, length, context, whole)
  local rows = whole and o.scaling and length > o.scaling.original and growing[o.scaling.kind]
  if rows then
    local _, factor = rotary.frequencies(o, length, context)
    local angles = positions:to "f32":unsqueeze(3) * rows(o, whole, context):unsqueeze(2)
    return turner(o, angles, factor)
  end
  local list, scale = rotary.frequencies(o, length, context)
  return { frequencies = mrt.tensor(list, "f32"), positions = positions, width = o.width,
    interleaved = o.interleaved, scale = scale }
end

--- x [B,T,H,D], turned.
---@param x mrt.Tensor
---@param turn mrt.RopeOptions|fun(x: mrt.Tensor): mrt.Tensor
---@return mrt.Tensor
function rotary.apply(x, turn) return type(turn) == "function" and turn(x) or x:rope(turn) end

--- How long a row may be before keys that are in a cache are of no more use: longrope has
--- other frequencies beyond.  (Keys that dynamic scaling has turned stay as they are, as in
--- transformers, whose first forward pass of a prompt has the frequencies of its length.)
---@param ropes (mrt.nn.Rope|false|nil)[]
---@param length integer  of the cache
---@return integer?
function rotary.switch(ropes, length)
  for _, o in pairs(ropes) do
    local s = o and o.scaling
    if s and s.kind == "longrope" and length > s.original then return s.original end
  end
end

--- x [B,T,H,D] turned by its positions: 0, 1, ..., or those that follow what a cache has.
---@param x mrt.Tensor
---@param base number
---@param at? mrt.nn.CacheAt
---@return mrt.Tensor
function rotary.by(x, base, at)
  local places = at and at.start:unsqueeze(2) + mrt.arange(0, x:size(2), { dtype = "i32" })
  return x:rope { base = base, positions = places }
end

return rotary
