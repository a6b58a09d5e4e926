--- mrt.prune -- set the least weights to 0, for good, or leave channels and heads out
---
---     local prune = mrt.prune
---     prune.magnitude(model, {share = 0.8})     -- or prune.two_of_four(model)
---     -- train as always: optimizers and averages keep what is pruned at 0
---     print(prune.report(model))
---     prune.remove(model)         -- or prune.pack(model): two of four in half of the bytes
---
--- A pruned layer has a buffer "weight_mask", which `state()` saves; to load such a
--- state, prune the new model first.  Pruning again only adds zeros.
--- `prune.channels` and `prune.heads` make layers smaller instead (structured.lua).
---
--- From: Han et al. 2015 (arXiv:1506.02626), magnitude; Mishra et al. 2021
--- (arXiv:2104.08378), two of four; Zhu & Gupta 2017 (arXiv:1710.01878): masks kept
--- in training, the share raised step by step.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local TwoOfFourLinear = require "mrt.nn.two_of_four_linear"
local edit = require "mrt.nn.edit"
local masks = require "mrt.prune.masks"
local mode = require "mrt.nn.mode"
local options = require "mrt.util.options"
local structured = require "mrt.prune.structured"

---@class mrt.prune
local prune = { pack = require "mrt.prune.pack", channels = structured.channels,
  heads = structured.heads }

---@class mrt.PruneOptions
---@field layers? string|string[]|fun(name: string, layer: mrt.nn.Module): boolean
---  layers with a `weight` of two dimensions or more, by patterns of names or a
---  function; default: all Linear and convolutions

local usual = { Linear = true, Conv2d = true, ConvTranspose2d = true }

local function fail(who, text, ...) core.fail("value", who, text:format(...)) end

local function want_numbers(who, list)
  for _, entry in ipairs(list) do
    if entry.weight:isnan():any():item() then
      fail(who, "%s: weights are not numbers (NaN)", edit.called(entry.name, entry.layer))
    end
  end
end

-- Layers to prune: {name, module, weight}.
local function layers_of(who, model, choice)
  edit.want_module(who, model)
  local wanted, list = edit.chooser(who, "layers", choice, true), {}
  for name, layer in model:modules() do
    local weight = rawget(layer, "weight")
    if core.is_variable(weight) and weight:dim() >= 2
      and (usual[layer.type] or choice ~= nil) and wanted(name, layer) then
      list[#list + 1] = { name = name, layer = layer, weight = weight }
    end
  end
  if #list == 0 then
    fail(who, "no weights to prune in %s(%s)", model.type, model:describe())
  end
  want_numbers(who, list)
  return list
end

-- Prune where `keep` is false, beside what is pruned already.
local function set_mask(entry, keep)
  local layer, weight = entry.layer, entry.weight
  local mask = masks.get(weight) -- of another layer, where the weight is tied
  if mask then
    mask:assign(keep:logical_and(mask))
  else
    mask = mrt.variable(keep)
    masks.set(weight, mask)
    mode.changed() -- what was traced before knows of no mask
  end
  if not rawget(layer, "weight_mask") then layer:register_buffer("weight_mask", mask) end
  masks.restore(weight)
  mrt.eval { mask, weight }
end

-- ---- magnitude -------------------------------------------------------------

local infinity <const> = 0x7f800000

local function float(bits) return (string.unpack("<f", string.pack("<I4", bits))) end

-- The k-th smallest of all elements, which are not negative, by halving the range of
-- f32's patterns, which are in the order of the numbers.
local function smallest(list, k)
  local count = mrt.compile(function(t, ...)
    local total = mrt.zeros({}, { dtype = "i64" })
    for _, x in ipairs { ... } do total = total + x:le(t):to "i64":sum() end
    return total
  end)
  local function at_most(bits)
    return count(mrt.tensor(float(bits), "f32"), table.unpack(list)):item()
  end
  local low, high = 0, infinity
  while low < high do
    local middle = (low + high) // 2
    if at_most(middle) >= k then high = middle else low = middle + 1 end
  end
  return float(low)
end

-- Prune the k smallest of these layers; of equal ones the first.
local function prune_smallest(entries, k)
  local list = {}
  for i, entry in ipairs(entries) do list[i] = entry.weight:detach():abs():to "f32" end
  mrt.eval(list)
  local t = k > 0 and smallest(list, k) or -1
  for _, x in ipairs(list) do k = k - x:lt(t):to "i64":sum():item() end
  for i, x in ipairs(list) do
    local keep, equal = x:gt(t), x:eq(t)
    local count = equal:to "i64":sum():item()
    if count > k then
      local before = equal:reshape(-1):to "i64":cumsum(1):reshape(x:size())
      keep = keep:logical_or(equal:logical_and(before:gt(k)))
    end
    k = math.max(0, k - count)
    set_mask(entries[i], keep)
  end
end

---@class mrt.MagnitudeOptions: mrt.PruneOptions
---@field share number  of the weights that become 0, from 0 to below 1
---@field global? boolean  smallest of all layers together, not of each; default false

--- Prune the weights with the smallest absolute values.
---
--- Raises: no such layer; a weight that is NaN.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     mrt.prune.magnitude(model, { share = 0.5 })
---@param model mrt.nn.Module
---@param given mrt.MagnitudeOptions
---@return mrt.nn.Module model
function prune.magnitude(model, given)
  local who <const> = "prune.magnitude"
  local o = options.read(who, given, { share = options.want "number", global = false,
    layers = options.none })
  if not (o.share >= 0 and o.share < 1) then
    fail(who, "share = %g, wanted 0 <= share < 1", o.share)
  end
  local entries, total = layers_of(who, model, o.layers), 0
  for _, entry in ipairs(entries) do
    local n = entry.weight:numel()
    total = total + n
    if not o.global then prune_smallest({ entry }, math.floor(o.share * n + 0.5)) end
  end
  if o.global then prune_smallest(entries, math.floor(o.share * total + 0.5)) end
  return model
end

-- ---- two of four -----------------------------------------------------------

-- Which two of four columns are largest; of equal ones the first.
local function largest_two(groups)
  local column, keep = {}, {}
  for i = 1, 4 do column[i] = groups:slice(2, i, i) end
  for i = 1, 4 do
    local larger = mrt.zeros(groups:size(1), 1)
    for j = 1, 4 do
      if j < i then larger = larger + column[j]:ge(column[i]):to "f32" end
      if j > i then larger = larger + column[j]:gt(column[i]):to "f32" end
    end
    keep[i] = larger:lt(2)
  end
  return mrt.cat(keep, 2)
end

--- Prune two of each four neighbours: the smallest of a row of the weight, whose
--- other dimensions are taken together.
---
--- Raises: no such layer; a weight that is NaN; rows that are no multiple of 4.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     mrt.prune.two_of_four(model)
---@param model mrt.nn.Module
---@param given? mrt.PruneOptions
---@return mrt.nn.Module model
function prune.two_of_four(model, given)
  local who <const> = "prune.two_of_four"
  local o = options.read(who, given, { layers = options.none })
  local entries = layers_of(who, model, o.layers)
  for _, entry in ipairs(entries) do
    local row = entry.weight:numel() // entry.weight:size(1)
    if row % 4 ~= 0 then
      fail(who, "%s: rows of %d weights, a multiple of 4 wanted (option 'layers')",
        edit.called(entry.name, entry.layer), row)
    end
  end
  for _, entry in ipairs(entries) do
    local keep = largest_two(entry.weight:detach():abs():reshape(-1, 4))
    set_mask(entry, keep:reshape(entry.weight:size()))
  end
  return model
end

-- ---- report and removal ------------------------------------------------------

local Report = {}

function Report:__tostring()
  local lines, width = {}, 5
  for _, layer in ipairs(self.layers) do width = math.max(width, #layer.name) end
  local form = "%-" .. width .. "s %12d of %12d zero  %5.1f %%"
  for i, l in ipairs(self.layers) do
    lines[i] = form:format(l.name, l.zeros, l.count, 100 * l.share)
  end
  lines[#lines + 1] = form:format("all", self.zeros, self.count, 100 * self.share)
  return table.concat(lines, "\n")
end

---@class mrt.Sparsity
---@field name string
---@field zeros integer
---@field count integer
---@field share number

--- Count the zeros in the weights of the pruned layers, packed ones too; prints as a table.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     mrt.prune.two_of_four(model)
---     local report = mrt.prune.report(model)
---
--- Raises: what is no module.
---@param model mrt.nn.Module
---@return {layers: mrt.Sparsity[], zeros: integer, count: integer, share: number}
function prune.report(model)
  edit.want_module("prune.report", model)
  local out = { layers = {}, zeros = 0, count = 0 }
  for name, layer in model:modules() do
    local weight = rawget(layer, "weight_mask") and layer.weight
      or getmetatable(layer) == TwoOfFourLinear and layer:weights()
    if weight then
      local zeros, count = weight:eq(0):to "i64":sum():item(), weight:numel()
      table.insert(out.layers, { name = name, zeros = zeros, count = count,
        share = count > 0 and zeros / count or 0 })
      out.zeros, out.count = out.zeros + zeros, out.count + count
    end
  end
  out.share = out.count > 0 and out.zeros / out.count or 0
  return setmetatable(out, Report)
end

--- Drop the masks: the zeros stay, and training may change them.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     mrt.prune.two_of_four(model)
---     mrt.prune.remove(model)
---
--- Raises: what is no module.
---@param model mrt.nn.Module
---@return mrt.nn.Module model
function prune.remove(model)
  edit.want_module("prune.remove", model)
  for _, layer in model:modules() do
    if rawget(layer, "weight_mask") then
      masks.set(layer.weight, nil)
      layer._buffers.weight_mask = nil
      rawset(layer, "weight_mask", nil)
    end
  end
  mode.changed()
  return model
end

return prune
