--- cache.lua -- keys and values of the tokens that a decoder has read
---
--- Each layer has two variables, `[batch, heads, length, width]`: a head's keys follow
--- one another in memory, as a query reads them.  A step writes the rows of its tokens
--- where they lie (the operator write_rows), nothing else moves,
--- and attention reads no key behind a token's own position: what is not filled yet
--- costs nothing, nor does what lies before a window.  The bytes are known before
--- anything runs, and are part of the plan of every step that reads them.
---
--- Layers that see a window need not keep more (option `slack`): they have room for the
--- window and for so many tokens as are written at once, and whoever writes moves the
--- window to the front (`move`) before there is no more room.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local options = require "mrt.util.options"

---@class mrt.nn.decoder.CacheLayer
---@field heads integer   of keys
---@field width integer   of a key
---@field values? integer  width of a value; default that of a key
---@field window? integer|false  how many before its own position a query sees

---@class mrt.nn.decoder.CacheOptions
---@field batch? integer   samples; default 1
---@field length? integer  tokens of each sample; default as the model says
---@field dtype? mrt.DType  "f32", "bf16" or "f16"; default as the model says
---@field slack? integer   tokens that are written at once at most: layers that see a window
---  keep it and so many; default: all keep `length`

--- Where tokens stand, for `features` of a model.
---@class mrt.nn.CacheAt
---@field cache mrt.nn.decoder.Cache
---@field start mrt.Tensor     `[batch]` integers: the position of each row's first token
---@field lengths? mrt.Tensor  `[batch]` integers: how many tokens of each row count

---@class mrt.nn.decoder.Short  layers that keep a window
---@field window integer
---@field rows integer      for which they have room
---@field base mrt.Tensor   i32 `[batch]`: the position of the first row kept

--- Keys and values of each layer.
---@class mrt.nn.decoder.Cache
---@field batch integer
---@field length integer
---@field dtype mrt.DType
---@field layers {keys: mrt.Tensor, values: mrt.Tensor, short: table?}[]
---@field shorts mrt.nn.decoder.Short[]  of layers that keep less, by their windows
---@field switch? integer  rows that become longer are to be read anew: rotary.switch
local Cache = {}
Cache.__index = Cache
Cache.__name = "mrt.nn.decoder.Cache"

local along <const> = { dim = 3 } -- where the length stands
local dtypes = { f32 = true, bf16 = true, f16 = true }

local function zeros(o, heads, rows, width, name)
  local x = mrt.variable(mrt.zeros({ o.batch, heads, rows, width }, { dtype = o.dtype }))
  x.name = name
  return x
end

-- What layers of a window have in common, in place of `length` rows; nil: those are fewer.
local function short_of(shorts, o, window)
  if not window or not o.slack or window + o.slack >= o.length then return nil end
  for _, short in ipairs(shorts) do
    if short.window == window then return short end
  end
  local base = mrt.variable(mrt.zeros({ o.batch }, { dtype = "i32" }))
  base.name = ("cache.window%d.base"):format(window)
  shorts[#shorts + 1] = { window = window, rows = window + o.slack, base = base }
  return shorts[#shorts]
end

--- Make an empty cache; no byte is taken before a step needs it.
---@param layers mrt.nn.decoder.CacheLayer[]
---@param given mrt.nn.decoder.CacheOptions
---@return mrt.nn.decoder.Cache
---@nodoc
function Cache.new(layers, given)
  local o = options.read("cache", given, { batch = 1, length = options.want "size",
    dtype = "f32", slack = options.of "size" })
  options.size("cache", "batch", o.batch)
  if not dtypes[o.dtype] then
    core.fail("value", "cache", ("dtype %s, f32, bf16 or f16 wanted"):format(
      options.show(o.dtype)))
  end
  local list, shorts = {}, {}
  for i, layer in ipairs(layers) do
    local short = short_of(shorts, o, layer.window)
    local rows = short and short.rows or o.length
    list[i] = { short = short,
      keys = zeros(o, layer.heads, rows, layer.width, ("cache.%d.keys"):format(i)),
      values = zeros(o, layer.heads, rows, layer.values or layer.width,
        ("cache.%d.values"):format(i)) }
  end
  return setmetatable({ batch = o.batch, length = o.length, dtype = o.dtype, layers = list,
    shorts = shorts }, Cache)
end

--- Make one for a model: by default as long as its context, in its weights' dtype.
---@param model mrt.nn.Module  with a `context`
---@param layers mrt.nn.decoder.CacheLayer[]
---@param given? mrt.nn.decoder.CacheOptions
---@return mrt.nn.decoder.Cache
---@nodoc
function Cache.beside(model, layers, given)
  local o = options.read("cache", given, { batch = 1,
    length = options.of("size", model.context), dtype = options.of "string",
    slack = options.of "size" })
  local _, first = model:named_parameters()()
  local own = first and first:get_dtype()
  o.dtype = o.dtype or dtypes[own] and own or "f32"
  return Cache.new(layers, o)
end

--- Write the keys and values of tokens, and say what their queries attend to.
---
--- Rows beyond the cache's end are not written; what stands behind a sample's own
--- tokens is never read.
---@param layer integer       from 1
---@param k mrt.Tensor        `[batch,T,heads,width]`, turned by their positions
---@param v mrt.Tensor
---@param at {start: mrt.Tensor, lengths: mrt.Tensor?}  `[batch]` integers: where each
---  sample's first token stands, and how many of them count
---@return mrt.Tensor keys    those before, and these
---@return mrt.Tensor values
---@return mrt.AttentionOptions how
---@nodoc
function Cache:put(layer, k, v, at)
  local own, start = self.layers[layer], at.start
  if own.short then start = start - own.short.base end
  core.update("write_rows", { own.keys, k:transpose(2, 3), start }, along)
  core.update("write_rows", { own.values, v:transpose(2, 3), start }, along)
  return own.keys:transpose(2, 3), own.values:transpose(2, 3),
    { causal = true, offset = start, lengths = at.lengths }
end

-- x [B,H,R,W] with each sample's rows so many further to the front.
local function moved(x, by)
  local B, H, R, W = x:size(1), x:size(2), x:size(3), x:size(4)
  local rows = (mrt.arange(0, R, { dtype = "i32" }):unsqueeze(1) + by:unsqueeze(2)):clamp(0, R - 1)
  local first = mrt.arange(0, B * H * R, R, { dtype = "i32" }):reshape(B, H, 1)
  return x:reshape(B * H * R, W):embedding((rows:unsqueeze(2) + first):reshape(-1))
    :reshape(B, H, R, W)
end

--- Move what layers of a window keep to the front, in a step of its own.
---@param bases mrt.Tensor  i32 `[shorts, batch]`: positions of the first rows from then on
---@param by mrt.Tensor     i32 `[shorts, batch]`: how far rows move
---@nodoc
function Cache:move(bases, by)
  for i, short in ipairs(self.shorts) do
    for _, layer in ipairs(self.layers) do
      if layer.short == short then
        layer.keys:assign(moved(layer.keys, by:select(1, i)))
        layer.values:assign(moved(layer.values, by:select(1, i)))
      end
    end
    short.base:assign(bases:select(1, i))
  end
end

--- The bytes of all keys and values.
---
---     local model = nn.Decoder { vocab = 32, layers = 2, heads = 2, dim = 8, context = 16 }
---     model:cache { batch = 1, length = 16 }:nbytes()  --> 2048
---@return integer
function Cache:nbytes()
  local bytes = 0
  for _, layer in ipairs(self.layers) do
    bytes = bytes + layer.keys:nbytes() + layer.values:nbytes()
  end
  return bytes
end

--- The keys and values of each layer, `[batch,heads,length,width]`, in order.
---
---     local model = nn.Decoder { vocab = 32, layers = 2, heads = 2, dim = 8, context = 16 }
---     #model:cache():variables()  --> 4
---@return mrt.Tensor[]
function Cache:variables()
  local list = {}
  for _, layer in ipairs(self.layers) do
    list[#list + 1] = layer.keys
    list[#list + 1] = layer.values
  end
  return list
end

function Cache:__tostring()
  return ("%s: %d layers, %d x %d tokens, %s, %d bytes"):format(Cache.__name, #self.layers,
    self.batch, self.length, self.dtype, self:nbytes())
end

return Cache
