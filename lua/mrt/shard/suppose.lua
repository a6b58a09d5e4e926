--- suppose.lua -- a plan as one of ranks that are not there would have it
---
--- Buckets are made as ever, but nothing is moved into them: the parameters keep their
--- numbers and stay what they are for every other plan.
---
--- SPDX-License-Identifier: MIT

local Bucket = require "mrt.shard.bucket"
local communicator = require "mrt.communicator"
local core = require "mrt.core"
local shard = require "mrt.shard"
local updates = require "mrt.shard.updates"

local function forget(spread)
  local buckets = {}
  for _, s in ipairs(spread) do
    buckets[s.bucket] = true
    for _, v in ipairs(s.variables) do
      core.unsuppose(v)
      Bucket.places[v] = nil
      shard.forget(v)
    end
    s.piece:free()
  end
  updates.forget(buckets)
end

--- Call `plan` with a communicator of `size` ranks, and return what it does.  Plans it
--- makes must be freed when it returns; none may be run.
---@generic T
---@param size integer
---@param plan fun(comm: mrt.Communicator): T
---@return T
return function(size, plan)
  local comm, spread, outer = communicator.supposed(size), {}, Bucket.supposed
  Bucket.supposed = spread
  local ok, result = pcall(plan, comm)
  Bucket.supposed = outer -- a policy that is asked meanwhile may suppose, too
  forget(spread)
  comm:close()
  if not ok then error(result, 0) end
  return result
end
