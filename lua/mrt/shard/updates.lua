--- updates.lua -- an optimizer's updates of parameters in pieces
---
--- A bucket is updated as one vector, of which this rank has a piece; so is the
--- state of its parameters.
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local core = require "mrt.core"
local gradients = require "mrt.shard.gradients"
local retrace = require "mrt.compile.retrace"

local updates = {}

-- By optimizer: the state of each bucket.
local states = setmetatable({}, { __mode = "k" })

-- The state of a bucket: that of its parameters, put into pieces as they are.
local function new_state(optimizer, bucket)
  local state = {}
  for _, slot in ipairs(optimizer:slots_of(optimizer:stands_for(bucket.params[1]))) do
    local s, variables = type(slot) == "table" and slot or { name = slot }, {}
    for i, p in ipairs(bucket.params) do
      variables[i] = optimizer:state_of(p)[s.name]
    end
    state[s.name] = bucket:shard(variables, s.size and Bucket.BLOCK or 1,
      s.initial or optimizer.initial, "." .. s.name)
  end
  return state
end

--- The state of buckets.  A trace cannot make it, so where some is missing the trace
--- is made again.
---@param optimizer mrt.Optimizer
---@param buckets mrt.Bucket[]
---@return table<mrt.Bucket, table<string, mrt.Tensor>>
function updates.states(optimizer, buckets)
  local known, missing = states[optimizer] or {}, {}
  states[optimizer] = known
  for _, b in ipairs(buckets) do
    if not known[b] then table.insert(missing, b) end
  end
  if #missing > 0 then
    retrace.request(function()
      for _, b in ipairs(missing) do known[b] = new_state(optimizer, b) end
    end)
  end
  return known
end

--- Forget the state of buckets that there are no more.
---@param gone table<mrt.Bucket, boolean>
function updates.forget(gone)
  for _, known in pairs(states) do
    for b in pairs(gone) do known[b] = nil end
  end
end

--- This rank's piece of a bucket's gradient.
---
--- Raises: the optimizer does not update all of its parameters alike.
---@param optimizer mrt.Optimizer
---@param b mrt.Bucket
---@param grad_of table<mrt.Tensor, mrt.Tensor>  by parameter
---@return mrt.Tensor
function updates.gradient(optimizer, b, grad_of)
  local grads, kind = {}, optimizer:update_kind(b.params[1])
  for i, p in ipairs(b.params) do
    grads[i] = grad_of[p]
    if not grads[i] or optimizer:update_kind(p) ~= kind then
      core.fail("state", optimizer.name, ("parameter '%s' is in one bucket with '%s', and "
        .. "is not updated here, or otherwise; make the optimizer before the first step")
        :format(p:get_name() or "?", b.params[1]:get_name() or "?"))
    end
  end
  return gradients.piece(b, grads)
end

return updates
