--- bound.lua -- how quick the nodes of a plan could be
---
--- No node is quicker than its arithmetic at the rate of the best large products, nor
--- than its bytes at the rate of memory: a roofline (Williams, Waterman, Patterson,
--- CACM 52(4), 2009).  Flops are nominal; `speed` says how much faster than plain products
--- in f32 they may be done, in a narrow dtype or with multiplications saved.  Bytes are
--- those of its inputs and outputs; the first that a cache holds come at the cache's rate,
--- as predictions have it (core/plan/cost.c), for what the node before has written may
--- still be there.  The rates, the roofs, are the figures of the device that a plan was
--- made for, or others: measured ones.
---
--- A node that is quicker than its bound shows that a figure is low: declared ones may be.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local options = require "mrt.util.options"

local bound = {}

--- What a machine reaches at most.
---@class mrt.Roofs
---@field name? string         whose they are
---@field flops number         flop/s of large products in f32
---@field bytes number         bytes a second of memory
---@field cache? number        of a node's bytes, so many come at
---@field cache_bytes? number  bytes a second; default 0 at `bytes`

--- The roofs that a device's figures say.
---@param device table  as core.device() has it
---@return mrt.Roofs
function bound.of_device(device)
  return { name = device.name, flops = device.matrix.f32, bytes = device.bandwidth,
    cache = device.cache, cache_bytes = device.cache_bandwidth }
end

--- Roofs that somebody gives, checked and completed.
---@param who string
---@param given mrt.Roofs
---@return mrt.Roofs
function bound.read(who, given)
  if type(given) ~= "table" then
    core.fail("value", who, "roofs wanted, a table with flops and bytes, got "
      .. options.show(given))
  end
  local out = { name = given.name, cache = given.cache or 0 }
  out.flops, out.bytes, out.cache_bytes = given.flops, given.bytes,
    given.cache_bytes or given.bytes
  for _, name in ipairs { "flops", "bytes", "cache_bytes" } do
    if type(out[name]) ~= "number" or not (out[name] > 0) then
      core.fail("value", who, ("%s: a positive number wanted, got %s"):format(name,
        options.show(out[name])))
    end
  end
  return out
end

--- The least seconds of a node, and which roof says so; 0 and nil of what is not the
--- device's work.
---@param step table  of Plan:steps()
---@param roofs mrt.Roofs
---@return number seconds
---@return "flops"|"bytes"|nil by
function bound.of(step, roofs)
  if step.speed == 0 then return 0 end
  local near = math.min(step.bytes, roofs.cache)
  local bytes = near / roofs.cache_bytes + (step.bytes - near) / roofs.bytes
  local flops = step.flops / (roofs.flops * step.speed)
  if flops >= bytes then return flops, flops > 0 and "flops" or nil end
  return bytes, "bytes"
end

--- Roofs as text.
---@param r mrt.Roofs
---@return string
function bound.text(r)
  local cached = r.cache > 0 and r.cache_bytes ~= r.bytes
    and (", %.1f GB/s of a node's first %.1f MB"):format(r.cache_bytes / 1e9, r.cache / 1e6) or ""
  return ("%.1f Gflop/s in f32, %.1f GB/s%s"):format(r.flops / 1e9, r.bytes / 1e9, cached)
end

return bound
