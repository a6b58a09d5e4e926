--- pack.lua -- layers pruned two of four keep the values that are left, and where
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local Linear = require "mrt.nn.linear"
local TwoOfFourLinear = require "mrt.nn.two_of_four_linear"
local edit = require "mrt.nn.edit"
local masks = require "mrt.prune.masks"
local options = require "mrt.util.options"

local op = core.op

-- Are at most two of each four weights not 0?
local function fits(layer)
  local weight = layer.weight:detach()
  if weight:size(2) % 4 ~= 0 then return false end
  local groups = op.ne(weight, 0):to "f32":reshape(-1, 4):sum(2)
  return groups:numel() == 0 or groups:amax():item() <= 2
end

-- Weights that two layers share are packed once.
local function packed_of(layer, done)
  local packed, before = TwoOfFourLinear(layer), done[layer.weight]
  if before then packed.values, packed.codes = before.values, before.codes end
  done[layer.weight] = done[layer.weight] or packed
  return edit.inherit(packed, layer)
end

--- Put packed layers in the place of linear ones that are pruned two of four: their
--- weights, gradients and moments take about half of the bytes, and the results are the
--- same bits.  They are trained on as they are; optimizers are made afterwards.
---
--- To load the state of a packed model, prune and pack a new one first.
---
--- Raises: no such layer; one that 'layers' chooses and that has more weights.
---
---     local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
---     mrt.prune.two_of_four(model)
---     mrt.prune.pack(model)
---@param model mrt.nn.Module
---@param given? mrt.PruneOptions  by default all Linear that are pruned so
---@return mrt.nn.Module model     itself, or what took its place
return function(model, given)
  local who <const> = "prune.pack"
  local o = options.read(who, given, { layers = options.none })
  edit.want_module(who, model)
  local wanted, found, done = edit.chooser(who, "layers", o.layers, true), {}, {}
  for name, layer in model:modules() do
    if getmetatable(layer) == Linear and wanted(name, layer) then
      if fits(layer) then
        found[layer] = true
      elseif o.layers ~= nil then
        core.fail("value", who, ("%s: more than two of four weights are not 0"):format(
          edit.called(name, layer)))
      end
    end
  end
  if next(found) == nil then
    core.fail("value", who, ("no Linear in %s(%s) has two of four weights (prune.two_of_four "
      .. "comes first)"):format(model.type, model:describe()))
  end
  return edit.replace(model, function(_, layer)
    if not found[layer] then return nil end
    local packed = packed_of(layer, done)
    masks.set(layer.weight, nil)
    return packed
  end)
end
