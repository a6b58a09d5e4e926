--- states.lua -- weights, gradients and optimizer state of N parameters
---
--- SPDX-License-Identifier: MIT

local optim = require "mrt.optim"
local argument = require "mrt.util.argument"
local read = require "mrt.estimate.read"

local states = {}

-- What the literature calls by a name of its own.
local momentum = { class = optim.sgd, options = { momentum = 0.9 } }

-- All that mrt.optim makes, by name: each knows its state itself.
local function known()
  local list = { momentum = momentum }
  for name, value in pairs(optim) do
    local meta = type(value) == "table" and getmetatable(value)
    if meta and meta.__index == optim.Optimizer then list[name] = { class = value } end
  end
  return list
end

-- A matrix of n elements, for those who know their number alone.
local function matrix(n, dtype)
  return { dtype = dtype, dim = function() return 2 end, numel = function() return n end,
    size = function() return { n, 1 } end }
end

---@class mrt.estimate.States
---@field weights integer     bytes
---@field gradients integer   bytes, all of them alive at once
---@field optimizer integer   bytes that persist beside the weights: Adam's 2 N
---@field literature integer  bytes of optimizer and gradients: Adam's "3 N"
---@field persistent integer  bytes of weights and optimizer, mrt's plan.persistent

---@class mrt.estimate.StatesOptions
---@field parameters integer|mrt.Tensor[]  how many elements; or they themselves
---@field dtype? string      of a number of them; default "f32"
---@field optimizer? string  of mrt.optim, or "momentum": SGD's; default "adamw"
---@field options? table     the optimizer's: {state = "8bit"}

-- The parameters as a list, how many elements they have, bytes of all.
local function counted(o)
  if type(o.parameters) ~= "table" then
    local n = read.count("estimate.states", "parameters", o.parameters, 1)
    local bytes = n * read.bytes("estimate.states", o.dtype)
    return { matrix(n, o.dtype == "f64" and "f64" or "f32") }, bytes
  end
  local bytes = 0.0
  for _, p in ipairs(argument.tensors("estimate.states", o.parameters)) do
    bytes = bytes + p:nbytes()
  end
  return o.parameters, bytes
end

--- Estimate what training takes for its parameters.
---
--- The literature counts Adam as 3 N: two moments and the gradient.  In mrt the two
--- moments persist, in f32 for narrower parameters, and gradients live in the arena
--- while they are needed, at most all N of them at once.  A number of parameters is
--- taken for that of one matrix.
---
---     mrt.estimate.states { parameters = 175e9 }.literature  --> 2100000000000
---
--- Raises: an option that is missing or that there is not.
---@param given mrt.estimate.StatesOptions
---@return mrt.estimate.States
function states.states(given)
  local o = read.options("estimate.states", given, { parameters = read.any,
    dtype = "f32", optimizer = "adamw", options = read.any })
  if o.parameters == nil then read.refuse("estimate.states", "parameters is missing") end
  local list = known()
  local one = list[read.choice("estimate.states", "optimizer", o.optimizer, list)]
  local params, bytes = counted(o)
  local kept = one.class:state_bytes(params, o.options or one.options)
  return { weights = read.whole(bytes), gradients = read.whole(bytes),
    optimizer = read.whole(kept), literature = read.whole(kept + bytes),
    persistent = read.whole(bytes + kept) }
end

--- Return the bytes on each of `ranks` ranks of mixed-precision Adam's states: f16
--- weights and gradients, and 12 bytes a parameter in f32 (master weights and two
--- moments), cut by ZeRO's stage 0 to 3.  Rajbhandari et al. 2019
--- (arXiv:1910.02054), section 5.
---
---     mrt.estimate.zero { parameters = 7.5e9, ranks = 64, stage = 3 }
---
--- Raises: an option that is missing or that there is not.
---@param given {parameters: integer, ranks: integer?, stage: integer?}  one rank, stage 0
---@return integer bytes
function states.zero(given)
  local o = read.options("estimate.zero", given, { parameters = read.needed, ranks = 1,
    stage = 0 }, { stage = true })
  if o.stage > 3 then read.refuse("estimate.zero", "stage = %.0f, there is 0, 1, 2, 3", o.stage) end
  local whole = ({ [0] = 16, 4, 2, 0 })[math.tointeger(o.stage)]
  return read.whole(o.parameters * (whole + (16 - whole) / o.ranks))
end

return states
