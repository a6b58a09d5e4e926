--- weights.lua -- which tensor of a file is which of ours
---
--- An entry of a family's names is `{ours, theirs}`: a module or a weight of ours, and
--- of theirs; `#` stands for the layer, which counts from 1 here and from 0 there.  What
--- stands behind the name ("weight", "bias") is the same in both.  An entry may say
---
---     {{"q", "k", "v"}, "qkv"}   theirs holds the rows of several of ours
---     turn = true      their matrix is [inputs, outputs]
---     heads = true     those rows lie by head: q, k, v of head 1, q, k, v of head 2, ...
---     whole = true     ours is a weight, not a module
---     each = true      ours has one tensor of theirs after the other, `*` in their name
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"

local weights = {}

-- "blocks.#.norm1" -> a pattern that gives the layer, and what is behind the name.
local function pattern_of(ours)
  local escaped = ours:gsub("[%.%-]", "%%%0"):gsub("#", "(%%d+)")
  return "^" .. escaped .. "(.*)$", ours:find("#", 1, true) ~= nil
end

-- The layer, and what is behind, of a name that begins as a pattern says.
local function split(ours, name)
  local pattern, layered = pattern_of(ours)
  local a, b = name:match(pattern)
  if layered then return b, tonumber(a) end
  return a
end

-- The place of our name among an entry's; the layer; what is behind.
local function match(entry, name)
  local list = type(entry[1]) == "table" and entry[1] or { entry[1] }
  for part, ours in ipairs(list) do
    local rest, layer = split(ours, name)
    local whole = entry.each or entry.whole
    if rest and (whole and rest == "" or not whole and rest:sub(1, 1) == ".") then
      return part, layer, rest
    end
  end
end

local function their_name(entry, layer, rest)
  local name = entry[2]
  if layer then name = name:gsub("#", tostring(layer - 1)) end
  return name .. rest
end

---@class mrt.pretrained.Place  a tensor of theirs, and what of ours it holds
---@field theirs string
---@field entry table
---@field rest? string    what stands behind the entry's name
---@field expert? integer  from 1: theirs is this part of ours
---@field parts {name: string, variable: mrt.Tensor, owner: table, key: string}[]

-- Name -> variable, owner, key, of a model.
local function variables_of(model)
  local owners = {}
  for path, module in model:modules() do
    for _, field in ipairs(module._fields) do
      owners[path == "" and field or path .. "." .. field] = { module, field }
    end
  end
  local list = {}
  for name, variable in model:named_parameters() do
    local at = owners[name]
    list[#list + 1] = { name = name, variable = variable, owner = at and at[1], key = at and at[2] }
  end
  return list
end

-- The first entry that a name of ours fits, and what `match` says.
local function find(names, name)
  for _, entry in ipairs(names) do
    local part, layer, rest = match(entry, name)
    if part then return entry, part, layer, rest end
  end
end

--- Their name of a weight of ours; nil: the family has none.
---@param family mrt.pretrained.Family
---@param name string
---@return string? theirs
---@return table? entry
---@return integer? part  which of the entry's
function weights.find(family, name)
  local entry, part, layer, rest = find(family.names, name)
  if entry then return their_name(entry, layer, rest), entry, part end
end

-- Places of a variable that theirs has in parts.
local function add_experts(list, entry, theirs, variable)
  for i = 1, variable.variable:size(1) do
    list[#list + 1] = { theirs = theirs:gsub("%*", tostring(i - 1)), entry = entry, expert = i,
      parts = { variable } }
  end
end

--- The tensors of a file that a model is made of, in the order of our names.
---@param model mrt.nn.Module
---@param family mrt.pretrained.Family
---@return mrt.pretrained.Place[]
---@return string[] strange  names of ours for which the family has none
function weights.places(model, family)
  local list, by_name, strange = {}, {}, {}
  for _, variable in ipairs(variables_of(model)) do
    local entry, part, layer, rest = find(family.names, variable.name)
    local theirs = entry and their_name(entry, layer, rest)
    if not entry then
      strange[#strange + 1] = variable.name
    elseif entry.each then
      add_experts(list, entry, theirs, variable)
    else
      local place = by_name[theirs]
      if not place then
        place = { theirs = theirs, entry = entry, rest = rest, parts = {} }
        list[#list + 1], by_name[theirs] = place, place
      end
      place.parts[part] = variable
    end
  end
  return list, strange
end

--- The shape that their tensor has.
---@param place mrt.pretrained.Place
---@return integer[]
function weights.shape(place)
  local dims = place.parts[1].variable:size()
  for i = 2, #place.parts do dims[1] = dims[1] + place.parts[i].variable:size(1) end
  if place.entry.turn and #dims == 2 then dims[1], dims[2] = dims[2], dims[1] end
  if place.entry.each then table.remove(dims, 1) end
  return dims
end

--- [heads, parts, W, ...] -> [parts, heads, W, ...], or back, in the first dimension.
---@param x mrt.Tensor
---@param first integer
---@param second integer
---@return mrt.Tensor
function weights.regroup(x, first, second)
  local dims = x:size()
  local rest, order = { table.unpack(dims, 2) }, { 2, 1, 3 }
  local y = x:reshape(first, second, dims[1] // (first * second), table.unpack(rest))
  for i = 1, #rest do order[#order + 1] = 3 + i end
  return y:permute(order):reshape(dims)
end

--- Their tensor as ours, one for each part of the place.
---@param place mrt.pretrained.Place
---@param x mrt.Tensor
---@param model mrt.nn.Module
---@return mrt.Tensor[]
function weights.take(place, x, model)
  local entry, out, first = place.entry, {}, 1
  if entry.turn and x:dim() == 2 then x = x:t() end
  if #place.parts == 1 then return { x } end
  if entry.heads then x = weights.regroup(x, model.options.heads, #place.parts) end
  for i, part in ipairs(place.parts) do
    local rows = part.variable:size(1)
    out[i] = x:slice(1, first, first + rows - 1)
    first = first + rows
  end
  return out
end

--- The tensor of theirs that these places of ours make: what `take` undoes.
---@param place mrt.pretrained.Place
---@param model mrt.nn.Module
---@return mrt.Tensor
function weights.give(place, model)
  local entry, list = place.entry, {}
  for i, part in ipairs(place.parts) do list[i] = part.variable end
  if place.expert then return list[1]:select(1, place.expert) end
  local x = #list > 1 and mrt.cat(list, 1) or list[1]
  if entry.heads then x = weights.regroup(x, #list, model.options.heads) end
  return entry.turn and x:dim() == 2 and x:t() or x
end

return weights
