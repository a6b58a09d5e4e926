--- read.lua -- a cluster, as a table that users write, checked
---
---     return {
---       name = "our-lab",
---       device = { name = "H100", units = 132, memory = 80e9, bandwidth = 3.35e12,
---         flops = { f32 = 67e12, bf16 = 989e12 } },    -- the vendor's figures
---       like = "dgx-h100",                -- whose kernels and host these are
---       levels = {                        -- innermost first; the last joins any number
---         { name = "NVLink", size = 8, bandwidth = 360e9, latency = 3e-6,
---           switch = { least = 5, bandwidth = 480e9, latency = 5e-5 } },
---         { name = "InfiniBand", bandwidth = 45e9, latency = 14e-6, oversubscription = 2 },
---       },
---     }
---
--- Bandwidths are bytes a second that a device gives to others, in one direction; a step of
--- a collective takes `latency`, its launch `start` seconds; `swap = { bandwidth, memory }` is the
--- host's memory for each device; `ramp` is what medium sizes lose,
--- seconds for each square root of a byte.  `axes` make a level a torus.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local read = {}

--- Links that join devices, or the units of the level below: README.md says what each costs.
---@class mrt.cluster.Level
---@field name? string
---@field size? integer  devices that it joins, those of the levels below counted; the last: any
---@field bandwidth number  bytes a second that a device gives to others
---@field latency number  seconds of a step
---@field start? number  of a launch
---@field ramp? number  for each square root of a byte
---@field pair? number  share of the bandwidth that two alone reach
---@field oversubscription? number
---@field axes? integer[]  of a torus
---@field switch? {least: integer?, bandwidth: number, latency: number, ramp: number?}

---@class mrt.cluster.Device
---@field name string
---@field units integer  that compute tiles: streaming multiprocessors
---@field bandwidth number
---@field memory number  bytes
---@field flops table<string, number>  by dtype
---@field clock? number  share of these flop/s that it sustains
---@field tiles? number[][]  rows, columns, share of the peak
---@field streams? table<string, number>  share of the bandwidth, by class of kernel

local function fail(name, text, ...)
  core.fail("value", "cluster", ("%s: %s"):format(name, text:format(...)))
end

local function show(value) return type(value) == "table" and "a table" or tostring(value) end

local function positive(name, t, field, where)
  local value = t[field]
  if value == nil then fail(name, "no figure for '%s%s'", where, field) end
  if type(value) ~= "number" or not (value > 0 and value < math.huge) then
    fail(name, "'%s%s': a positive number wanted, got %s", where, field, show(value))
  end
end

local function not_negative(name, t, field, where)
  local value = t[field]
  if value ~= nil and (type(value) ~= "number" or not (value >= 0 and value < math.huge)) then
    fail(name, "'%s%s': zero or a positive number wanted, got %s", where, field, show(value))
  end
end

local function table_of(name, t, field, where)
  if t[field] == nil then fail(name, "no figure for '%s%s'", where, field) end
  if type(t[field]) ~= "table" then
    fail(name, "'%s%s': a table wanted, got %s", where, field, show(t[field]))
  end
  return t[field]
end

local function check_device(name, d)
  for _, field in ipairs { "units", "bandwidth", "memory" } do
    positive(name, d, field, "device.")
  end
  local flops = table_of(name, d, "flops", "device.")
  positive(name, flops, "bf16", "device.flops.")
  for dtype in pairs(flops) do positive(name, flops, dtype, "device.flops.") end
end

local function check_switch(name, level, where)
  local switch = level.switch
  if switch == nil then return end
  if type(switch) ~= "table" then fail(name, "'%sswitch': a table wanted", where) end
  positive(name, switch, "bandwidth", where .. "switch.")
  positive(name, switch, "latency", where .. "switch.")
end

-- What is swapped to; machines need not have it.
local function check_swap(name, given)
  if given.swap == nil then return end
  local swap = table_of(name, given, "swap", "")
  positive(name, swap, "bandwidth", "swap.")
  positive(name, swap, "memory", "swap.")
end

local function check_level(name, levels, i, below)
  local level, where = levels[i], ("levels[%d]."):format(i)
  if type(level) ~= "table" then fail(name, "'levels[%d]': a table wanted", i) end
  positive(name, level, "bandwidth", where)
  positive(name, level, "latency", where)
  for _, field in ipairs { "start", "ramp" } do not_negative(name, level, field, where) end
  local over = level.oversubscription
  if over ~= nil and (type(over) ~= "number" or not (over >= 1 and over < math.huge)) then
    fail(name, "'%soversubscription': 1 or more wanted, got %s", where, show(over))
  end
  check_switch(name, level, where)
  if i == #levels then return end
  if math.type(level.size) ~= "integer" or level.size <= below or level.size % below ~= 0 then
    fail(name, "'%ssize': a multiple of %d, larger, wanted: devices that the level joins, got %s",
      where, below, show(level.size))
  end
end

--- Check a cluster and fill in what it is like another in.
---
--- Raises: a figure that is missing or makes no sense, by name.
---@param given table
---@param find fun(name: string): table?
---@return table
function read.table(given, find)
  local name = type(given.name) == "string" and given.name or "a cluster"
  check_device(name, table_of(name, given, "device", ""))
  check_swap(name, given)
  local levels = table_of(name, given, "levels", "")
  if #levels == 0 then fail(name, "no figure for 'levels': one level of links or more") end
  local below = 1
  for i = 1, #levels do
    check_level(name, levels, i, below)
    below = levels[i].size or below
  end
  local like = find(given.like or "dgx-h100")
  if not like then fail(name, "like '%s', which there is not", show(given.like)) end
  return setmetatable({ name = name, levels = levels,
    device = setmetatable(given.device, { __index = like.device }) }, { __index = function(_, key)
    if given[key] ~= nil or key == "swap" then return given[key] end
    return like[key]
  end })
end

return read
