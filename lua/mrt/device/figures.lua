--- figures.lua -- the figures that plans are made with
---
--- Those of a device that a program has chosen, of this machine where they have
--- been measured and kept, else the declared ones.  What measures lies above, in
--- mrt.device: it compiles programs, and compiled functions ask here.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local cache = require "mrt.device.cache"
local read = require "mrt.device.read"
local together = require "mrt.communicator.sync"

local figures = {}

local chosen = {} -- by device: figures have been set, or looked for

--- List the shipped profiles.
---
---     #mrt.device.list() > 0  --> true
---@return mrt.Device[]
function figures.list() return require "mrt.device.profiles" end

-- The profile with another network between nodes.
local function over(profile, key)
  local card = figures.list().ethernet[key]
  if not card then return nil end
  local out, node = {}, profile.links and profile.links[1]
  for name, value in pairs(profile) do out[name] = value end
  local devices = node and node.ranks or 1
  out.name, out.links = ("%s+%s"):format(profile.name, key), { node }
  table.insert(out.links, { name = card.name, bandwidth = card.bandwidth / devices,
    latency = card.latency })
  return out
end

--- Return a shipped profile by name, or the one in a file.
---
---     mrt.device.find("a100-40").name  --> a100-40
---
--- Raises: what is no text; a name that there is not is a message.
---@param name string  "a100-40", "h100+25gbe", or the path of a Lua file that returns one
---@return mrt.Device? profile
---@return string? message
function figures.find(name)
  if type(name) ~= "string" then
    core.fail("value", "device.find", "a name or a path wanted, got " .. type(name))
  end
  local wanted = name:lower():gsub("_", "-")
  local names = {}
  local base, network = wanted:match "^(.-)%+(.*)$"
  for i, profile in ipairs(figures.list()) do
    local other = profile.name == base and over(profile, network)
    if profile.name == wanted or other then return other or profile end
    names[i] = profile.name
  end
  if not name:find "[./]" and not core.read_file(name) then
    return nil, ("no device '%s' (devices: %s, or a file that returns one)")
      :format(name, table.concat(names, ", "))
  end
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
---
---     mrt.device.use(mrt.device.find "a100-40")
---@param given string|mrt.Device  a name, a path, or a profile; "declared":
---  this machine with the figures that nobody has measured
---@return mrt.Device|true|nil profile
---@return string? message  no such device, a file that cannot be read
function figures.use(given)
  chosen[core.use_device()] = true
  if given == "declared" then return core.set_device() or true end
  local profile = given
  if type(given) == "string" then
    local message
    profile, message = figures.find(given)
    if not profile then return nil, message end
  end
  local flat, problem = read.table(profile)
  if not flat then core.fail("value", "device.use", problem) end
  set(flat, profile)
  return profile
end

--- Return the figures of the device that plans are made for.
---
---     mrt.device.current().name
---@return table
function figures.current()
  figures.ready()
  return core.device()
end

--- Take this machine's measured profile, if there is one and no other device
--- was chosen.  MRT_DEVICE names one to `use`.  Plans call it.
---
---     mrt.device.ready()
function figures.ready()
  local here = core.use_device()
  if chosen[here] then return end
  chosen[here] = true
  local name = os.getenv "MRT_DEVICE"
  if name and name ~= "" then
    local ok, message = figures.use(name)
    if not ok then core.fail("value", "MRT_DEVICE", message) end
    return
  end
  local profile = cache.load()
  if profile then set((read.table(profile)), profile) end
end

--- Make plans with rank 0's figures on all ranks, so that they plan alike:
--- what decides in a plan is this and the script.  All ranks call it;
--- mrt.communicator.create does, when they meet.
---
---     mrt.device.share()
function figures.share()
  local text = together.first(function() return cache.text(figures.current()) end)
  if together.rank() == 0 then return end
  chosen[core.use_device()] = true
  core.set_device(cache.value(text))
end

return figures
