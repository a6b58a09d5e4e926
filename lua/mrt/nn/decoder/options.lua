--- options.lua -- what a decoder is made of, as data
---
--- Every option is a number, a word or a table of them, so that a decoder can be read
--- from a file and written to one.  What is not given is filled in, and what cannot be
--- is refused by name: what `read` returns is complete, and the layers look at nothing
--- else.
---
--- SPDX-License-Identifier: MIT

local MLP = require "mrt.nn.decoder.mlp"
local core = require "mrt.core"
local options = require "mrt.util.options"

local WHO <const> = "Decoder"

---@class mrt.nn.RopeScaling
---@field kind "linear"|"dynamic"|"llama3"|"yarn"|"longrope"
---@field factor? number          by which the context is longer than it was
---@field original? integer       the context before; default the model's own
---@field low? number             llama3: wavelengths above original / low are divided
---@field high? number            llama3: wavelengths below original / high stay
---@field fast? number            yarn: turns within original from which pairs stay; 32
---@field slow? number            yarn: turns up to which pairs are divided; 1
---@field truncate? boolean       yarn: bounds are whole pairs; default true
---@field attention_factor? number  yarn, longrope: of cosines and sines
---@field short? number[]         longrope: of each pair, up to `original` tokens
---@field long? number[]          longrope: of each pair, beyond

---@class mrt.nn.Rope
---@field base? number          default 10000
---@field width? integer        how much of a head turns; default all of it
---@field interleaved? boolean  neighbours are pairs, not halves
---@field scaling? mrt.nn.RopeScaling

---@class mrt.nn.ExpertOptions
---@field count integer         how many there are
---@field top integer           how many each token is sent to
---@field hidden? integer       of one; default the decoder's
---@field normalize? boolean    weights of those chosen sum to 1; default true
---@field shared? integer       hidden width of one more, which all tokens go to
---@field layers? boolean[]     which layers have experts; default all

---@class mrt.nn.DecoderOptions
---@field vocab integer
---@field dim integer
---@field layers integer
---@field heads integer             of queries; a multiple of kv_heads
---@field context integer           longest sequence, in tokens
---@field kv_heads? integer         default heads
---@field head_dim? integer         default dim / heads
---@field hidden? integer           of the feed-forward half; default 4 dim
---@field norm? "rms"|"rms1"|"layer"|"plain"  rms1: times 1 + weight; plain: a layer norm
---  without weights.  Default rms
---@field norm_bias? boolean        of layer norms; default true
---@field norm_place? "pre"|"post"|"both"|"sum"  before each half, on what it adds, both, or
---  on the sum (which then is normalised no more at the end); default pre
---@field eps? number               default 1e-5
---@field activation? "silu"|"gelu"|"gelu_tanh"|"quick_gelu"|"relu"|"relu2"|"tanh"|"mish"
---  default silu
---@field gated? boolean            act(gate x) * up x; default true
---@field bias? boolean|{qkv: boolean?, out: boolean?, mlp: boolean?, head: boolean?}
---@field qk_norm? "head"|"width"   norms of queries and keys, of each head or of all
---@field clip? number              queries, keys and values are held within +-clip
---@field positions? "rotary"|"learned"  default rotary
---@field position_offset? integer  rows of learned positions before the first; default 0
---@field rope? mrt.nn.Rope
---@field rope_local? mrt.nn.Rope   of layers that have a window; default `rope`
---@field windows? integer|(integer|false)[]  of each layer: how many before its own position
---  a query sees; false: all
---@field softcap? number           scores become cap tanh(score / cap)
---@field final_softcap? number     so do logits
---@field scale? number             of scores; default 1 / sqrt(head_dim)
---@field layer_scale? boolean      scores of layer i are divided by i
---@field embed_scale? number       of the tokens' vectors
---@field embed_dim? integer        of the tokens' vectors, where it is not dim
---@field parallel? false|"one"|"two"  both halves read the same x, through one norm or two
---@field experts? mrt.nn.ExpertOptions
---@field tie? boolean              one table for tokens and head; default false

local size, number = options.want "size", options.of "number"
local defaults = { vocab = size, dim = size, layers = size, heads = size, context = size,
  kv_heads = options.of "size", head_dim = options.of "size", hidden = options.of "size",
  norm = "rms", norm_bias = true, norm_place = "pre", eps = 1e-5, activation = "silu",
  gated = true, bias = options.none, qk_norm = options.of "string", clip = number,
  positions = "rotary", position_offset = options.of("integer", 0),
  rope = options.of "table", rope_local = options.of "table", windows = options.none,
  softcap = number, final_softcap = number, scale = number, layer_scale = false,
  embed_scale = number, embed_dim = options.of "size", parallel = options.none,
  experts = options.of "table", tie = false }

local words = {
  norm = { rms = true, rms1 = true, layer = true, plain = true },
  norm_place = { pre = true, post = true, both = true, sum = true },
  activation = MLP.activations,
  qk_norm = { head = true, width = true },
  positions = { rotary = true, learned = true },
  parallel = { one = true, two = true },
}

local function refuse(message, ...) core.fail("value", WHO, message:format(...)) end

local function listed(set)
  local names = {}
  for name in pairs(set) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

local function want_word(o, name)
  local value = o[name]
  if value and not words[name][value] then
    refuse("option '%s': one of %s wanted, got %s", name, listed(words[name]),
      options.show(value))
  end
end

local function read_bias(bias)
  if bias == nil or type(bias) == "boolean" then
    bias = { qkv = bias or false, out = bias or false, mlp = bias or false }
  end
  return options.read(WHO .. ": bias", bias,
    { qkv = false, out = false, mlp = false, head = false })
end

local kinds = { linear = { "factor" }, dynamic = { "factor" },
  llama3 = { "factor", "low", "high", "original" }, yarn = { "factor", "original" },
  longrope = { "short", "long", "original" } }

local function read_scaling(given, width)
  local who = WHO .. ": rope.scaling"
  local o = options.read(who, given, { kind = options.want "string", factor = number,
    original = options.of "size", low = number, high = number, fast = number, slow = number,
    truncate = true, attention_factor = number, short = options.of "table",
    long = options.of "table" })
  if not kinds[o.kind] then
    core.fail("value", who, ("kind %q, one of %s wanted"):format(o.kind, listed(kinds)))
  end
  for _, name in ipairs(kinds[o.kind]) do
    if o[name] == nil then
      core.fail("value", who, ("kind %s: %s is missing"):format(o.kind, name))
    end
  end
  for _, name in ipairs { "short", "long" } do
    if o[name] and #o[name] ~= width // 2 then
      core.fail("value", who, ("%s: %d factors, %d wanted, one for each pair"):format(name,
        #o[name], width // 2))
    end
  end
  if o.factor and not (o.factor > 0 and o.factor < math.huge) then
    core.fail("value", who, ("factor %s, a positive number wanted"):format(o.factor))
  end
  return o
end

local function read_rope(name, given, head_dim)
  local who = WHO .. ": " .. name
  local o = options.read(who, given, { base = 10000, width = options.of("size", head_dim),
    interleaved = false, scaling = options.of "table" })
  if o.width % 2 ~= 0 or o.width > head_dim then
    core.fail("value", who, ("width %d, an even one of at most head_dim = %d wanted")
      :format(o.width, head_dim))
  end
  if not (o.base > 0 and o.base < math.huge) then
    core.fail("value", who, ("base %s, a positive number wanted"):format(o.base))
  end
  if o.scaling then o.scaling = read_scaling(o.scaling, o.width) end
  return o
end

local function want_window(window)
  if window ~= false and (math.type(window) ~= "integer" or window < 0) then
    refuse("option 'windows': an integer from 0, or false, wanted, got %s", options.show(window))
  end
end

local function read_windows(windows, layers)
  local list = {}
  if type(windows) == "table" then
    if #windows ~= layers then
      refuse("option 'windows': %d of them, one for each of %d layers wanted", #windows, layers)
    end
    table.move(windows, 1, layers, 1, list)
  else
    for i = 1, layers do list[i] = windows or false end
  end
  for _, window in ipairs(list) do want_window(window) end
  return list
end

local function read_experts(given, o)
  local e = options.read(WHO .. ": experts", given, { count = size, top = size,
    hidden = options.of("size", o.hidden), normalize = true, shared = options.of "size",
    layers = options.of "table" })
  if e.top > e.count then
    refuse("experts: top %d of %d, at most all wanted", e.top, e.count)
  end
  local all = {}
  for i = 1, o.layers do all[i] = not e.layers or e.layers[i] == true end
  e.layers = all
  return e
end

local function want_widths(o)
  local whole = o.head_dim or o.dim % o.heads == 0
  o.kv_heads = o.kv_heads or o.heads
  if not whole or o.heads % o.kv_heads ~= 0 then
    refuse("dim %d, heads %d, kv_heads %d: heads of a whole width (or head_dim), and a "
      .. "multiple of kv_heads, wanted", o.dim, o.heads, o.kv_heads)
  end
  o.head_dim = o.head_dim or o.dim // o.heads
  o.hidden = o.hidden or 4 * o.dim
end

--- Fill in what is not given.
---
--- Raises: what a decoder cannot be made of, by the option's name.
---@param given mrt.nn.DecoderOptions
---@return mrt.nn.DecoderOptions
return function(given)
  local o = options.read(WHO, given, defaults)
  for name in pairs(words) do want_word(o, name) end
  want_widths(o)
  o.bias = read_bias(o.bias)
  o.windows = read_windows(o.windows, o.layers)
  o.parallel = o.parallel or false
  if o.positions == "learned" then
    if o.rope or o.rope_local then refuse "rope: positions are learned" end
  else
    o.rope = read_rope("rope", o.rope or {}, o.head_dim)
    o.rope_local = o.rope_local and read_rope("rope_local", o.rope_local, o.head_dim)
  end
  if o.parallel and o.norm_place ~= "pre" then
    refuse("parallel %s with norm_place %s, pre wanted", o.parallel, o.norm_place)
  end
  if o.experts then o.experts = read_experts(o.experts, o) end
  return o
end
