--- mrt.device -- what plans are made for
---
--- Predicted times depend on a device's figures: its own, measured once and kept
--- (`mrt.device.profile()`), declared ones where nobody has measured, or those of
--- a machine that is not here (`mrt plan --device a100-40 script.lua`).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local cache = require "mrt.device.cache"
local figures = require "mrt.device.figures"
local format = require "mrt.util.format"
local measure = require "mrt.device.measure"
local options = require "mrt.util.options"
local together = require "mrt.communicator.sync"

---@class mrt.device
local device = { list = figures.list, find = figures.find, use = figures.use,
  current = figures.current, ready = figures.ready, share = figures.share }

--- The device that tensors are made on from now on, of `mrt.device "gpu:0"`: number 0
--- of what libmrt_gpu.so opens, which lies beside mrt, in its lib or where libraries
--- are, or is named by MRT_GPU.
--- What exists stays where it is (`x:to "gpu:0"` copies); operators take tensors
--- of one device only, and a compiled function runs where it was traced.
---
--- Raises: a device that is not here, saying why.
---@param name? string  "cpu", "gpu" (which is "gpu:0"), "gpu:1"; nil: tell only
---@return string name
local function choose(_, name)
  if name ~= nil and type(name) ~= "string" then
    core.fail("value", "device", "a name wanted, got " .. type(name))
  end
  return core.use_device(name)
end
setmetatable(device, { __call = choose })

--- Measure this machine, which takes about a second, keep the profile for later
--- programs, and make plans with it.  Of several ranks rank 0 measures, for all:
--- they call it together.
---
---     local profile = mrt.device.profile { save = false }
---
--- Raises: an option that there is not.
---@param given? {save: boolean?, cpu: boolean?}  save = false keeps nothing
---@return mrt.Device profile
---@return string? path     where it is kept
---@return string? message  why it is not
function device.profile(given)
  local o = options.read("device.profile", given,
    { save = true, cpu = false })
  local profile = cache.value(together.first(function()
    local measured = measure.run(o)
    measured.key = cache.key()
    device.use(measured)
    return cache.text(measured)
  end))
  device.share()
  if not o.save or together.rank() > 0 then return profile end
  return profile, cache.save(profile)
end

--- Return the bytes that this process can still get, 0 where nobody knows.  A
--- run that must get more is refused before it begins.
---
---     mrt.device.available() > 0  --> true
---
--- Raises: what is no number of bytes.
---@param bytes? integer|string|boolean  so many ("2GiB"), instead of asking the
---  system; false: refuse nothing; true: ask again
---@return integer
function device.available(bytes)
  if bytes == nil or type(bytes) == "boolean" then return core.available(bytes) end
  local size, message = format.read_bytes(bytes)
  if not size then core.fail("value", "device.available", message) end
  return core.available(size)
end

return device
