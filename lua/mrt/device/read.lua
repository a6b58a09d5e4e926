--- read.lua -- a device's profile: what users write, checked
---
---     return {
---       name = "my-card",                     -- required, as what is marked *
---       about = "...", source = "...",
---       align = 256,                          -- bytes; default 64
---       memory = {name = "HBM2", capacity = 40e9, bandwidth = 1.5e12},  -- *
---       cache = {name = "L2", capacity = 40e6, bandwidth = 7e12},
---       swap = {name = "host", capacity = 1e12, read = 25e9, write = 25e9,
---         latency = 1e-5},                    -- or bandwidth for both; guessed = true:
---                                             -- a budget rather recomputes;
---                                             -- or a list of such, quickest first, each
---                                             -- with a name and folder = "/scratch":
---                                             -- a file is made there; without a folder
---                                             -- it is what stands behind the device
---       flops = {f32 = 19.5e12, bf16 = 312e12},   -- *f32; of large products
---       vector = 19.5e12,                     -- of other work; default f32's
---       efficiency = 0.8,                     -- of these figures, in practice
---       rate = {norm = 1e12},                 -- of one kind of work, flop/s
---       edge = {matmul = {64, 64, 32}},       -- core/mrt.h, mrt_device_profile
---       launch = 3e-6, call = 1e-5,           -- seconds a node, a run
---       threads = 1, serial = 0, overhead = 0,  -- bytes of the driver and libraries
---       epilogues = false,                    -- products compute GELU: core/mrt.h
---       records = false,                      -- a run is one launch: inputs are copied
---       winograd = 1.7,                       -- times quicker convolutions of 3 x 3
---                                             -- are by fewer multiplications; 0: not
---       spend = 1 / 64,                       -- of a step, for less memory: core/mrt/device.h
---       links = { {name = "NVLink", ranks = 8, bandwidth = 360e9, latency = 3e-6,
---           ramp = 0},                        -- core/mrt.h, mrt_link: innermost
---         {name = "InfiniBand", bandwidth = 50e9, latency = 1e-5} },  -- first
---     }
---
--- Capacities are bytes, bandwidths bytes a second, times seconds.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local read = {}

local known -- dtypes and kinds of work, as the core has them

local function names()
  known = known or core.device()
  return known
end

---@class mrt.Device
---@field name string
---@field about? string
---@field source? string
---@field memory {name: string?, capacity: number, bandwidth: number}
---@field cache? {name: string?, capacity: number, bandwidth: number}
---@field swap? mrt.SwapTier|mrt.SwapTier[]  quickest first, at most four
---@field flops table<mrt.DType, number>
---@field links? mrt.Link[]  innermost first, at most four; the last may join any number

--- Memory behind the device's own: bytes, bytes a second (bandwidth, or read and write),
--- seconds of a small copy.  A tier with a folder is a file in it.
---@class mrt.SwapTier
---@field name? string
---@field folder? string
---@field capacity? number
---@field bandwidth? number
---@field read? number
---@field write? number
---@field latency? number
---@field guessed? boolean

--- What joins ranks: bytes a second that each gives to others, seconds of a step of a
--- ring, and seconds for each square root of a byte besides.
---@class mrt.Link
---@field name? string
---@field ranks? integer  that it joins, those of the levels below counted
---@field bandwidth number
---@field latency? number
---@field ramp? number

local kinds = {
  name = "string", about = "string", source = "string", key = "string",
  align = "number", threads = "number", vector = "number",
  efficiency = "number", launch = "number", call = "number",
  serial = "number", overhead = "number", memory = "table", cache = "table", swap = "table",
  records = "boolean",
  flops = "table", rate = "table", edge = "table", epilogues = "boolean", links = "table",
  winograd = "number", spend = "number",
}
local tier = { name = "string", capacity = "number", bandwidth = "number" }
local swap_tier = { name = "string", folder = "string", capacity = "number", bandwidth = "number",
  read = "number", write = "number", latency = "number", guessed = "boolean" }

local link = { name = "string", ranks = "number", bandwidth = "number", latency = "number",
  ramp = "number" }
local MOST_LINKS <const> = 4
local MOST_TIERS <const> = 4
local LONGEST <const> = { name = 31, folder = 255 } -- bytes

local function fail(text, ...) error({ profile = text:format(...) }, 0) end

local function list(of)
  local out = {}
  for name in pairs(of) do out[#out + 1] = tostring(name) end
  table.sort(out)
  return table.concat(out, ", ")
end

local function show(value)
  return type(value) == "table" and "a table" or tostring(value)
end

-- The kind that `fields`, a table or a function of the name, wants.
local function wanted_kind(where, name, fields)
  if type(fields) == "table" then
    return fields[name] or fail("no field '%s%s' (fields: %s)", where,
      tostring(name), list(fields))
  end
  return fields(name) or fail("no field '%s%s'", where, tostring(name))
end

-- Every field of `t` is known, of its kind, and a number makes sense.
local function check(t, where, fields)
  for name, value in pairs(t) do
    local wanted = wanted_kind(where, name, fields)
    if type(value) ~= wanted then
      fail("field '%s%s': a %s wanted, got %s", where, name, wanted, show(value))
    elseif wanted == "number" and not (value >= 0 and value < math.huge) then
      fail("field '%s%s': zero or a positive number wanted, got %s", where, name,
        tostring(value))
    end
  end
end

local function positive(value, where)
  if value == nil then fail("field '%s' is missing", where) end
  if value <= 0 then
    fail("field '%s': a positive number wanted, got %s", where, tostring(value))
  end
  return value
end

-- A function of a name: the kind of value it wants in a set of the core's.
local function among(set, kind)
  return function(name) return names()[set][name] and kind end
end

local function tiers_of(p)
  if not p.swap then return {} end
  return p.swap[1] ~= nil and p.swap or { p.swap }
end

local function check_texts(t, where)
  for name, most in pairs(LONGEST) do
    local text = t[name]
    if text and (#text > most or #text == 0 or text:find "%c") then
      fail("field '%s%s': 1 to %d bytes of text wanted", where, name, most)
    end
  end
  if t.name == "keep" or t.name == "swap" then
    fail("field '%sname': '%s' is an answer of policies", where, t.name)
  end
end

-- One of several tiers: it is named, and as quick as it says.
local function check_tier(t, i, names_seen)
  local where = ("swap[%d]."):format(i)
  if type(t) ~= "table" then fail("field 'swap[%d]': a table wanted", i) end
  check(t, where, swap_tier)
  check_texts(t, where)
  if not t.name then fail("field '%sname' is missing", where) end
  if names_seen[t.name] then fail("field '%sname': two tiers are '%s'", where, t.name) end
  names_seen[t.name] = true
  positive(t.read or t.bandwidth, where .. "read")
  positive(t.write or t.bandwidth, where .. "write")
end

local function check_swap(p)
  local tiers = tiers_of(p)
  if tiers[1] == p.swap then
    check(p.swap or {}, "swap.", swap_tier)
    return check_texts(p.swap or {}, "swap.")
  end
  for key in pairs(tiers) do
    if math.type(key) ~= "integer" or key < 1 or key > #tiers then
      fail("field 'swap': a tier or a list of tiers wanted, it has '%s' too", tostring(key))
    end
  end
  if #tiers > MOST_TIERS then fail("field 'swap': %d tiers, at most 4 wanted", #tiers) end
  local seen = {}
  for i, t in ipairs(tiers) do check_tier(t, i, seen) end
end

local function check_tiers(p)
  check(p.memory, "memory.", tier)
  positive(p.memory.bandwidth, "memory.bandwidth")
  positive(p.memory.capacity, "memory.capacity")
  check_swap(p)
  if not p.cache then return end
  check(p.cache, "cache.", tier)
  positive(p.cache.capacity, "cache.capacity")
  positive(p.cache.bandwidth, "cache.bandwidth")
end

local function check_work(p)
  check(p.flops, "flops.", among("matrix", "number"))
  positive(p.flops.f32, "flops.f32")
  check(p.rate or {}, "rate.", among("rate", "number"))
  for name, rate in pairs(p.rate or {}) do positive(rate, "rate." .. name) end
  check(p.edge or {}, "edge.", among("edge", "table"))
  for kind, edge in pairs(p.edge or {}) do
    check(edge, "edge." .. kind .. ".", { "number", "number", "number" })
    if #edge ~= 3 then fail("field 'edge.%s': three numbers wanted", kind) end
  end
  if p.vector then positive(p.vector, "vector") end
end

-- A level that joins more ranks than the ones below; how many that is.
local function check_link(level, i, below, last)
  local where = ("links[%d]"):format(i)
  if type(level) ~= "table" then fail("field '%s': a table wanted", where) end
  check(level, where .. ".", link)
  positive(level.bandwidth, where .. ".bandwidth")
  if level.ranks == nil and not last then fail("field '%s.ranks' is missing", where) end
  local ranks = level.ranks or math.huge
  if ranks <= below or ranks % 1 ~= 0 and ranks < math.huge then
    fail("field '%s.ranks': %s, an integer of more than %d wanted", where, tostring(ranks),
      below)
  end
  return ranks
end

local function check_links(links)
  for key in pairs(links) do
    if math.type(key) ~= "integer" or key < 1 or key > #links then
      fail("field 'links': a list wanted, it has '%s'", tostring(key))
    end
  end
  if #links > MOST_LINKS then fail("field 'links': %d levels, at most 4 wanted", #links) end
  local below = 1
  for i, level in ipairs(links) do
    below = check_link(level, i, below, i == #links)
  end
end

local function check_all(p)
  check(p, "", kinds)
  for _, name in ipairs { "name", "memory", "flops" } do
    if p[name] == nil then fail("field '%s' is missing", name) end
  end
  check_tiers(p)
  check_work(p)
  check_links(p.links or {})
  if p.efficiency and not (p.efficiency > 0 and p.efficiency <= 1) then
    fail("field 'efficiency': more than 0 and at most 1 wanted, got %s",
      tostring(p.efficiency))
  end
end

-- Kinds of work at the rate of products unless said otherwise, and one that is as another.
local of_products = { matmul = true, convolution = true, convolution_dx = true,
  convolution_dw = true, attention = true, attention_grad = true }
local as = { attention_grad = "attention" }

local function of_kind(figures, kind) return figures and (figures[kind] or figures[as[kind]]) end

local function rates(p, share)
  local out = {}
  for kind in pairs(names().rate) do
    local plain = of_products[kind] and p.flops.f32 or p.vector or p.flops.f32
    out[kind] = (of_kind(p.rate, kind) or plain) * share
  end
  return out
end

local function edges(p)
  local out = {}
  for kind in pairs(names().edge) do
    out[kind] = of_kind(p.edge, kind) or { 0, 0, 0 }
  end
  return out
end

-- Every dtype, 0 where the profile has no figure.
local function matrix(p, share)
  local out = {}
  for dtype in pairs(names().matrix) do
    out[dtype] = (p.flops[dtype] or 0) * share
  end
  return out
end

local defaults = { align = 64, threads = 1, efficiency = 1, launch = 0,
  call = 0, serial = 0, overhead = 0, epilogues = false,
  records = false, winograd = 0, spend = 0 }
local no_swap = { capacity = 0, latency = 0, bandwidth = 0 }

-- p's fields, then those of `otherwise`.
local function filled(p, otherwise)
  return setmetatable({}, { __index = function(_, name)
    if p and p[name] ~= nil then return p[name] end
    return otherwise[name]
  end })
end

local function links_of(p)
  local out = {}
  for i, level in ipairs(p.links or {}) do
    out[i] = { ranks = level.ranks or 0, bandwidth = level.bandwidth,
      latency = level.latency or 0, ramp = level.ramp or 0 }
  end
  return out
end

-- The tiers behind the first.
local function slower(tiers)
  local out = {}
  for i = 2, #tiers do
    local t = filled(tiers[i], no_swap)
    out[i - 1] = { name = t.name, folder = t.folder, capacity = t.capacity,
      read = t.read or t.bandwidth, write = t.write or t.bandwidth, latency = t.latency }
  end
  return out
end

local function flat(given)
  local tiers = tiers_of(given)
  local p, swap = filled(given, defaults), filled(tiers[1], no_swap)
  local share, memory = p.efficiency, given.memory
  local cache = p.cache or { capacity = 0, bandwidth = memory.bandwidth }
  return {
    name = p.name, align = p.align, threads = p.threads,
    capacity = memory.capacity, overhead = p.overhead, bandwidth = memory.bandwidth * share,
    cache = cache.capacity, cache_bandwidth = cache.bandwidth * share,
    epilogues = p.epilogues, records = p.records, winograd = p.winograd,
    spend = p.spend,
    launch = p.launch, call = p.call, serial = p.serial,
    matrix = matrix(p, share), rate = rates(p, share), edge = edges(p),
    swap_capacity = swap.capacity, swap_latency = swap.latency,
    swap_read = swap.read or swap.bandwidth,
    swap_write = swap.write or swap.bandwidth,
    swap_known = given.swap ~= nil and not swap.guessed, links = links_of(given),
    swap_name = swap.name or "", swap_folder = swap.folder or "", slower = slower(tiers),
  }
end

--- Check a profile and return it as the core takes it.
---@param profile any
---@return table? flat
---@return string? message  the field, and what was wanted
function read.table(profile)
  if type(profile) ~= "table" then
    return nil, ("a table wanted, got %s"):format(type(profile))
  end
  local ok, result = pcall(function()
    check_all(profile)
    return flat(profile)
  end)
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result.profile
end

--- Read a file that returns a profile.  It sees nothing but its own text.
---@param path string
---@return mrt.Device? profile
---@return string? message
function read.file(path)
  local text, message = core.read_file(path)
  if not text then return nil, message end
  local chunk, problem = load(text, "@" .. path, "t", {})
  if not chunk then return nil, problem end
  local ok, profile = pcall(chunk)
  if not ok then return nil, tostring(profile) end
  local _, bad = read.table(profile)
  if bad then return nil, ("%s: %s"):format(path, bad) end
  return profile
end

return read
