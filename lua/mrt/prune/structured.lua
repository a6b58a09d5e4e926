--- structured.lua -- whole channels and heads left out: smaller layers
---
--- A channel, or head, is left out of the layers that make it and of the one that reads
--- it, which computes what it did with 0 in the columns that read it.  Those go first
--- through which least can come: the norm of the weights that make it times the norm of
--- those that read it.
---
---   from  Li et al. 2017 (arXiv:1608.08710), filters of convolutions; Liu et al. 2017
---         (arXiv:1708.06519), the factor of a batch norm as the size of its channel;
---         Michel et al. 2019 (arXiv:1905.10650), heads
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local cut = require "mrt.prune.cut"
local edit = require "mrt.nn.edit"
local joints = require "mrt.prune.joints"
local mode = require "mrt.nn.mode"
local options = require "mrt.util.options"

local structured = {}

---@class mrt.StructuredOptions
---@field share? number     of the channels, or heads, of each layer that go, from 0 to
---  below 1
---@field multiple? integer  as many stay as are a multiple of this, or all; default 1
---@field layers? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean
---  of the layers that make channels, or of attention; default all
---@field kept? table<string, integer[]>  instead of share: what stays, as a call before
---  returned it

local function fail(who, text, ...) core.fail("value", who, text:format(...)) end

local function read(who, given)
  local o = options.read(who, given, { share = options.of "number",
    multiple = options.of("size", 1), layers = options.none, kept = options.of "table" })
  if (o.share == nil) == (o.kept == nil) then
    fail(who, "share or kept wanted, got %s", o.share and "both" or "neither")
  end
  if o.share and not (o.share >= 0 and o.share < 1) then
    fail(who, "share = %g, wanted 0 <= share < 1", o.share)
  end
  return o
end

-- ---- which stay ------------------------------------------------------------

-- Sums of squares of blocks of a parameter along its dimension: n of them.
local function squares(weight, dim, n)
  local x = weight:detach():to "f64"
  local outer = dim == 2 and weight:size(1) or 1
  return x:reshape(outer, n, -1):square():sum({ 1, 3 })
end

-- The n - share n that are largest, of equal ones the first.
local function largest(scores, o)
  local n, order = #scores, {}
  for i = 1, n do order[i] = i end
  table.sort(order, function(a, b)
    return scores[a] > scores[b] or scores[a] == scores[b] and a < b
  end)
  local count = math.max(1, n - math.floor(o.share * n + 0.5))
  count = math.min(n, (count + o.multiple - 1) // o.multiple * o.multiple)
  local kept = table.move(order, 1, count, 1, {})
  table.sort(kept)
  return kept
end

-- What a caller says stays.
local function given_kept(who, name, kept, n)
  local before = 0
  if type(kept) ~= "table" or #kept == 0 then
    fail(who, "kept: a list for '%s' wanted, got %s", name, options.show(kept))
  end
  for _, i in ipairs(kept) do
    if math.type(i) ~= "integer" or i <= before or i > n then
      fail(who, "kept: '%s' has 1 to %d, rising, got %s", name, n, options.show(i))
    end
    before = i
  end
  return kept
end

local function choose(who, name, sizes, n, o)
  if o.kept then return given_kept(who, name, o.kept[name], n) end
  local scores = sizes():totable()
  for _, score in ipairs(scores) do
    if score ~= score then fail(who, "'%s': weights are not numbers (NaN)", name) end
  end
  return largest(scores, o)
end

-- How often each layer and each variable is held by a part of the model.
local function held_by(model)
  local held = {}
  local function count(value)
    if type(value) == "table" and not getmetatable(value) then
      for _, item in ipairs(value) do count(item) end
    else
      held[value] = (held[value] or 0) + 1
    end
  end
  for _, layer in model:modules() do
    for _, field in ipairs(layer._fields) do
      local value = rawget(layer, field)
      if value ~= nil then count(value) end
    end
  end
  return held
end

-- Raise if a layer, or its weight, is somewhere else too, where it would keep its size.
local function want_alone(who, model, layers, names)
  local held = held_by(model)
  for _, layer in ipairs(layers) do
    local weight = rawget(layer, "weight")
    if (held[layer] or 0) > 1 or weight and held[weight] > 1 then
      fail(who, "'%s' is there twice, or shares its weights (option 'layers')", names[layer])
    end
  end
end

-- Does `kept` name it, or `layers` choose it?
local function chooser(who, o)
  if o.kept then return function(name) return o.kept[name] ~= nil end end
  return edit.chooser(who, "layers", o.layers, true)
end

-- Choose in all parts, {name, n, layers, sizes(), cut(kept)}; then, as nothing can fail
-- any more, cut them.
local function cut_all(who, model, parts, o, what)
  local kept, names = {}, {}
  for name, layer in model:modules() do names[layer] = name end
  for _, part in ipairs(parts) do
    want_alone(who, model, part.layers, names)
    kept[part.name] = choose(who, part.name, part.sizes, part.n, o)
  end
  for name in pairs(o.kept or {}) do
    if not kept[name] then fail(who, "kept: there is no %s '%s'", what, name) end
  end
  if #parts == 0 then
    fail(who, "no %s in %s(%s) that can be left out", what, model.type, model:describe())
  end
  for _, part in ipairs(parts) do
    if #kept[part.name] < part.n then part.cut(kept[part.name]) end
  end
  mode.changed()
  return model, kept
end

-- ---- channels --------------------------------------------------------------

-- How much can go through each channel of a joint, squared: with a batch norm its
-- factor says how large a channel is.
local function through(joint, n)
  local size
  for _, layer in ipairs(joint.through) do
    if rawget(layer, "weight") then size = squares(layer.weight, 1, n) end
  end
  for _, layer in ipairs(size and {} or joint.from) do
    local own = squares(layer.weight, 1, n)
    if rawget(layer, "bias") then own = own + squares(layer.bias, 1, n) end
    size = size and size * own or own
  end
  return size * squares(joint.into.weight, 2, n)
end

local function shrink(joint, kept)
  for _, layer in ipairs(joint.from) do cut.outputs(layer, kept) end
  for _, layer in ipairs(joint.through) do cut.outputs(layer, kept) end
  cut.inputs(joint.into, kept, joint.span)
end

--- Leave channels out: of the hidden half of MLPs, of linear layers and convolutions in
--- a Sequential or a VGG that another one reads, inside the blocks of a ResNet.
---
---     local _, kept = prune.channels(model, { share = 0.5 })
---     prune.channels(other, { kept = kept })      -- the same ones, to load a state
---
--- The layers are smaller afterwards, with new parameters: optimizers are made then.
--- A module of one's own says with a method `joints` what can go: see prune/joints.lua.
---
--- Raises: nothing that can be left out; weights that are NaN, or another layer's too.
---@param model mrt.nn.Module
---@param given mrt.StructuredOptions
---@return mrt.nn.Module model
---@return table<string, integer[]> kept  which stay, by the layer that makes them
function structured.channels(model, given)
  local who <const> = "prune.channels"
  local o = read(who, given)
  edit.want_module(who, model)
  local list, names = joints.of(model)
  local wanted, parts = chooser(who, o), {}
  for _, joint in ipairs(list) do
    local first = joint.from[1]
    local name, n = names[first], first.weight:size(1)
    if wanted(name, first) then
      parts[#parts + 1] = { name = name, n = n,
        layers = { joint.into, table.unpack(joint.from) },
        sizes = function() return through(joint, n) end,
        cut = function(kept) shrink(joint, kept) end }
    end
  end
  return cut_all(who, model, parts, o, "channels")
end

-- ---- heads -----------------------------------------------------------------

-- By kind of attention: how many can go, how large each is, how to leave them out.
local attention = {}

local function both(values, projection, n)
  return squares(values, 1, n) * squares(projection, 2, n)
end

attention.CausalSelfAttention = {
  linear = function(m) return { m.qkv, m.proj } end,
  count = function(m) return m.heads end,
  sizes = function(m)
    local inner = m.heads * m.head_dim
    local values = m.qkv.weight:detach():slice(1, 2 * inner + 1, 3 * inner)
    return both(values, m.proj.weight, m.heads)
  end,
  -- Queries, keys and values lie one after the other.
  cut = function(m, kept)
    local all = {}
    for part = 0, 2 do
      for _, h in ipairs(kept) do all[#all + 1] = part * m.heads + h end
    end
    cut.outputs(m.qkv, all, m.head_dim)
    cut.inputs(m.proj, kept, m.head_dim)
    m.heads = #kept
  end,
}

-- Heads of keys and values go with all heads of queries that read them.
attention.GroupedAttention = {
  linear = function(m) return { m.q, m.k, m.v, m.proj } end,
  count = function(m) return m.kv_heads end,
  sizes = function(m) return both(m.v.weight, m.proj.weight, m.kv_heads) end,
  cut = function(m, kept)
    local each = m.heads // m.kv_heads
    cut.outputs(m.q, kept, each * m.head_dim)
    cut.outputs(m.k, kept, m.head_dim)
    cut.outputs(m.v, kept, m.head_dim)
    cut.inputs(m.proj, kept, each * m.head_dim)
    m.heads, m.kv_heads = each * #kept, #kept
  end,
}

--- Leave heads of attention out: of nn.GPT's layers, and of Llama's with all heads of
--- queries that share keys and values.
---
---     prune.heads(model, { share = 0.25 })
---
--- As for `channels`, of which it has the options and the results.
---
--- Raises: a model without attention, a share outside of 0 to 1.
---@param model mrt.nn.Module
---@param given mrt.StructuredOptions
---@return mrt.nn.Module model
---@return table<string, integer[]> kept  which stay, by the name of the attention
function structured.heads(model, given)
  local who <const> = "prune.heads"
  local o = read(who, given)
  edit.want_module(who, model)
  local wanted, parts = chooser(who, o), {}
  for name, layer in model:modules() do
    local kind = attention[layer.type]
    if kind and wanted(name, layer) then
      parts[#parts + 1] = { name = name, n = kind.count(layer), layers = kind.linear(layer),
        sizes = function() return kind.sizes(layer) end,
        cut = function(kept) kind.cut(layer, kept) end }
    end
  end
  return cut_all(who, model, parts, o, "heads")
end

return structured
