--- states.lua -- weights, gradients and optimizer state of N parameters
---
--- SPDX-License-Identifier: MIT

local read = require "mrt.estimate.read"

local states = {}

-- Values of each parameter that an optimizer keeps from step to step.
local slots = { sgd = 0, momentum = 1, lion = 1, adam = 2, adamw = 2, lamb = 2 }

---@class mrt.estimate.States
---@field weights integer     bytes
---@field gradients integer   bytes, all of them alive at once
---@field optimizer integer   bytes that persist beside the weights: Adam's 2 N
---@field literature integer  bytes of optimizer and gradients: Adam's "3 N"
---@field persistent integer  bytes of weights and optimizer, mrt's plan.persistent

--- Estimate what training takes for its parameters, in one dtype.
---
--- The literature counts Adam as 3 N: two moments and the gradient.  In mrt the two
--- moments persist and gradients live in the arena while they are needed, at most
--- all N of them at once.
---@param given {parameters: integer, dtype: string?, optimizer: string?}  f32, adamw
---@return mrt.estimate.States
function states.states(given)
  local o = read.options("estimate.states", given, { parameters = read.needed,
    dtype = "f32", optimizer = "adamw" })
  local one = o.parameters * read.bytes("estimate.states", o.dtype)
  local kept = one * slots[read.choice("estimate.states", "optimizer", o.optimizer, slots)]
  return { weights = read.whole(one), gradients = read.whole(one),
    optimizer = read.whole(kept), literature = read.whole(kept + one),
    persistent = read.whole(one + kept) }
end

--- Return the bytes on each of `ranks` ranks of mixed-precision Adam's states: f16
--- weights and gradients, and 12 bytes a parameter in f32 (master weights and two
--- moments), cut by ZeRO's stage 0 to 3.  Rajbhandari et al. 2019
--- (arXiv:1910.02054), section 5.
---@param given {parameters: integer, ranks: integer?, stage: integer?}  one rank, stage 0
---@return integer bytes
function states.zero(given)
  local o = read.options("estimate.zero", given, { parameters = read.needed, ranks = 1,
    stage = 0 }, { stage = true })
  if o.stage > 3 then read.refuse("estimate.zero", "stage = %d, there is 0, 1, 2, 3", o.stage) end
  local whole = ({ [0] = 16, 4, 2, 0 })[math.tointeger(o.stage)]
  return read.whole(o.parameters * (whole + (16 - whole) / o.ranks))
end

return states
