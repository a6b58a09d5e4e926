--- joints.lua -- which channels of a model are seen by nobody else
---
--- A *joint* is where channels go from some layers into one, through layers that keep
--- channels apart: nothing else sees them, so they can be left out of all of these.
---
---     {from = {layer, ...}, through = {layer, ...}, into = layer, span = integer}
---
--- `span`: inputs of `into` that each channel has (an image that is flattened).
---
--- SPDX-License-Identifier: MIT

local Conv2d = require "mrt.nn.conv"
local Linear = require "mrt.nn.linear"

local joints = {}

-- Layers after which each channel is still a function of that channel alone.
local apart = { ReLU = true, GELU = true, SiLU = true, Tanh = true, Sigmoid = true,
  Dropout = true, MaxPool2d = true, AvgPool2d = true, AdaptiveAvgPool2d = true,
  GlobalAvgPool = true, Upsample = true, BatchNorm = true }

local function has_channels(layer)
  local class = getmetatable(layer)
  return class == Linear or class == Conv2d and layer.options.groups == 1
end

-- What becomes of channels in a layer: they end and begin, go on, or meet others.
local function role_of(layer)
  local kind = type(layer) == "table" and layer.type
  if not kind then return "mixes" end
  if has_channels(layer) then return "ends" end
  if kind == "Flatten" then
    return layer.first == 2 and layer.last == -1 and "apart" or "mixes"
  end
  return apart[kind] and "apart" or "mixes"
end

-- The joint of two layers that have channels, if their sizes fit.
local function between(from, through, into)
  local outputs, inputs = from.weight:size(1), into.weight:size(2)
  if inputs % outputs ~= 0 then return nil end
  return { from = { from }, through = through, into = into, span = inputs // outputs }
end

-- Of layers that x goes through one after the other; what else may be there ends a
-- chain and begins none.
local function of_chain(layers)
  local list, from, through = {}, nil, {}
  for _, layer in ipairs(layers) do
    local role = role_of(layer)
    if role == "ends" then
      list[#list + 1] = from and between(from, through, layer)
      from, through = layer, {}
    elseif role == "mixes" then
      from, through = nil, {}
    elseif layer.type == "BatchNorm" then
      through[#through + 1] = layer
    end
  end
  return list
end

-- A Sequential within another one is part of its chain; `done` notes it.
local function flatten(layers, out, done)
  for _, layer in ipairs(layers) do
    if type(layer) == "table" and layer.type == "Sequential" then
      done[layer] = true
      flatten(layer.layers, out, done)
    else
      out[#out + 1] = layer
    end
  end
  return out
end

local kinds = {}

function kinds.Sequential(m, done) return of_chain(flatten({ m }, {}, done)) end

function kinds.MLP(m) return { { from = { m.fc }, through = {}, into = m.proj, span = 1 } } end

function kinds.GatedMLP(m)
  return { { from = { m.gate, m.up }, through = {}, into = m.down, span = 1 } }
end

-- All but the last convolution, whose results are added to what came.
function kinds.ResidualBlock(m)
  local list = {}
  for i = 1, #m.convs - 1 do
    list[i] = { from = { m.convs[i] }, through = { m.norms[i] }, into = m.convs[i + 1],
      span = 1 }
  end
  return list
end

function kinds.PreactivationBlock(m)
  local list = {}
  for i = 1, #m.convs - 1 do
    list[i] = { from = { m.convs[i] }, through = { m.norms[i + 1] }, into = m.convs[i + 1],
      span = 1 }
  end
  return list
end

function kinds.VGG(m, done)
  local chain = flatten(m.stages, {}, done)
  return of_chain(flatten({ m.head }, chain, done))
end

--- List the joints of a model, by its parts' kinds: those of the library, and what a
--- module's own method `joints` returns.
---@param model mrt.nn.Module
---@return table[] list
---@return table<mrt.nn.Module, string> names
function joints.of(model)
  local list, names, done = {}, {}, {}
  for name, m in model:modules() do
    names[m] = name
    local own = not done[m] and (m.joints or kinds[m.type])
    for _, joint in ipairs(own and own(m, done) or {}) do list[#list + 1] = joint end
  end
  return list, names
end

return joints
