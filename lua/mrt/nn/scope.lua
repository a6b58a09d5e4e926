--- scope.lua -- layers of a network, and regions to be recomputed
---
--- Both only mark what is computed between their begin and end; policies and
--- the planner read the marks.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local scope = {}

-- Ends with its block, be it by an error.
local layer_end = setmetatable({}, { __close = function() core.layer_end() end })

--- Call `fn(...)` as one layer of the network: `policy.checkpoint.every(k)` and
--- the like count these.  Inside another layer it is a plain call.  `nn.Sequential`
--- and the blocks of the models here are layers already; a network without any is
--- cut by the planner where few values cross.
---
---     local y = mrt.layer(nn.Linear(2, 3), mrt.ones(1, 2))
---
--- Raises: what cannot be called.
---@param fn function|mrt.nn.Module
---@param ... any
---@return any ...  what fn returns
function scope.layer(fn, ...)
  argument.callable("layer", fn)
  if not core.layer_begin() then return fn(...) end
  local _ <close> = layer_end
  return fn(...)
end

-- DeepSpeed's and PyTorch's knobs that change nothing here.
local accepted = { preserve_rng_state = true, use_reentrant = true }

-- A last table {preserve_rng_state = ...} is no argument of fn.
local function without_options(n, args)
  local last = args[n]
  if type(last) ~= "table" or core.is_tensor(last) then return n end
  local some = false
  for key in pairs(last) do
    if not accepted[key] then return n end
    some = true
  end
  return some and n - 1 or n
end

local Region = { __close = function(self) core.region_end(self.outer) end }

--- Call `fn(...)` so that what it computes on the way is not kept for the backward
--- pass but computed again from what it reads; what it returns is kept.  The
--- gradient is the same to the bit, dropout included: its masks are a function of
--- seed, step and place, so there is no state to preserve.
---
---     x = mrt.checkpoint(block, x)
---
--- A last table may give `preserve_rng_state` and `use_reentrant`, as in PyTorch;
--- they change nothing.
---
--- Raises: what is no function.
---@param fn function|mrt.nn.Module
---@param ... any
---@return any ...  what fn returns
function scope.checkpoint(fn, ...)
  argument.callable("checkpoint", fn)
  local args = { ... }
  local n = without_options(select("#", ...), args)
  local _ <close> = setmetatable({ outer = core.region_begin() }, Region)
  return fn(table.unpack(args, 1, n))
end

--- Run layers one after the other in `segments` parts, each checkpointed but the
--- last, as PyTorch's function of this name.
---
---     mrt.checkpoint_sequential({ nn.Linear(4, 4), nn.Linear(4, 2) }, 2, mrt.ones(3, 4)):type()
---     --> f32[3,2]
---
--- Shapes: `[...]`, as the layers take it.
--- Raises: segments below 1, or more than layers.
---@param layers (function|mrt.nn.Module)[]|mrt.nn.Sequential
---@param segments integer
---@param x mrt.Tensor
---@param o? {preserve_rng_state: boolean?, use_reentrant: boolean?}  change nothing
---@return mrt.Tensor
function scope.checkpoint_sequential(layers, segments, x, o)
  local who = "checkpoint_sequential"
  options.read(who, o, { preserve_rng_state = options.none, use_reentrant = options.none })
  if type(layers) == "table" and layers.layers then layers = layers.layers end
  if type(layers) ~= "table" or #layers == 0 then
    core.fail("value", who, "a list of layers wanted")
  end
  if math.type(segments) ~= "integer" or segments < 1 or segments > #layers then
    core.fail("value", who, ("segments = %s, wanted 1 to %d, the number of layers")
      :format(tostring(segments), #layers))
  end
  local function run(first, last, y)
    for i = first, last do y = scope.layer(layers[i], y) end
    return y
  end
  local size = #layers // segments
  for s = 1, segments - 1 do
    x = scope.checkpoint(run, (s - 1) * size + 1, s * size, x)
  end
  return run((segments - 1) * size + 1, #layers, x)
end

return scope
