--- mrt.device -- what plans are made for
---
--- Predicted times depend on a device's figures: its own, measured once and kept
--- (`mrt.device.profile()`), declared ones where nobody has measured, or those of
--- a machine that is not here (`mrt plan --device a100-40 script.lua`).
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local cache = require "mrt.device.cache"
local format = require "mrt.util.format"
local read = require "mrt.device.read"
local together = require "mrt.communicator.sync"

local device = {}

local chosen = {} -- by device: figures have been set, or looked for

--- The device that tensors are made on from now on, of `mrt.device "cuda:0"`.
--- What exists stays where it is (`x:to "cuda:0"` copies); operators take tensors
--- of one device only, and a compiled function runs where it was traced.
---
--- Raises: a device that is not here, saying why.
---@param name? string  "cpu", "cuda", "cuda:1"; nil: tell only
---@return string name
local function choose(_, name)
  if name ~= nil and type(name) ~= "string" then
    core.fail("value", "device", "a name wanted, got " .. type(name))
  end
  return core.use_device(name)
end
setmetatable(device, { __call = choose })

--- List the shipped profiles.
---@return mrt.Device[]
function device.list() return require "mrt.device.profiles" end

--- Return a shipped profile by name, or the one in a file.
---@param name string  "a100-40", or the path of a Lua file that returns one
---@return mrt.Device? profile
---@return string? message
function device.find(name)
  if type(name) ~= "string" then
    core.fail("value", "device.find", "a name or a path wanted, got " .. type(name))
  end
  local wanted = name:lower():gsub("_", "-")
  local names = {}
  for i, profile in ipairs(device.list()) do
    if profile.name == wanted then return profile end
    names[i] = profile.name
  end
  local file = io.open(name, "rb")
  if not file and not name:find "[./]" then
    return nil, ("no device '%s' (devices: %s, or a file that returns one)")
      :format(name, table.concat(names, ", "))
  end
  if file then file:close() end
  return read.file(name)
end

-- Set what read.table makes of a profile.
local function set(flat, profile)
  core.set_device()
  local whole = cache.completed(profile, core.device())
  core.set_device(whole == profile and flat or (read.table(whole)))
end

--- Make plans for a device from now on.
---
--- Raises: a field of a table that makes no sense.
---@param given string|mrt.Device  a name, a path, or a profile; "declared":
---  this machine with the figures that nobody has measured
---@return mrt.Device|true|nil profile
---@return string? message  no such device, a file that cannot be read
function device.use(given)
  chosen[core.use_device()] = true
  if given == "declared" then return core.set_device() or true end
  local profile = given
  if type(given) == "string" then
    local message
    profile, message = device.find(given)
    if not profile then return nil, message end
  end
  local flat, problem = read.table(profile)
  if not flat then core.fail("value", "device.use", problem) end
  set(flat, profile)
  return profile
end

--- Return the figures of the device that plans are made for.
---@return table
function device.current()
  device.ready()
  return core.device()
end

--- Take this machine's measured profile, if there is one and no other device
--- was chosen.  MRT_DEVICE names one to `use`.  Plans call it.
function device.ready()
  local here = core.use_device()
  if chosen[here] then return end
  chosen[here] = true
  local name = os.getenv "MRT_DEVICE"
  if name and name ~= "" then
    local ok, message = device.use(name)
    if not ok then core.fail("value", "MRT_DEVICE", message) end
    return
  end
  local profile = cache.load()
  if profile then set((read.table(profile)), profile) end
end

--- Measure this machine, which takes about a second, keep the profile for later
--- programs, and make plans with it.  Of several ranks rank 0 measures, for all:
--- they call it together.
---@param options? {save: boolean?, cpu: boolean?}  save = false keeps nothing
---@return mrt.Device profile
---@return string? path     where it is kept
---@return string? message  why it is not
function device.profile(options)
  local o = require "mrt.util.options".read("device.profile", options,
    { save = true, cpu = false })
  local profile = cache.value(together.first(function()
    local measured = require "mrt.device.measure".run(o)
    measured.key = cache.key()
    device.use(measured)
    return cache.text(measured)
  end))
  device.share()
  if not o.save or together.rank() > 0 then return profile end
  return profile, cache.save(profile)
end

--- Make plans with rank 0's figures on all ranks, so that they plan alike:
--- what decides in a plan is this and the script.  All ranks call it;
--- mrt.communicator.create does, when they meet.
function device.share()
  local figures = together.first(function() return cache.text(device.current()) end)
  if together.rank() == 0 then return end
  chosen[core.use_device()] = true
  core.set_device(cache.value(figures))
end

--- Return the bytes that this process can still get, 0 where nobody knows.  A
--- run that must get more is refused before it begins.
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
