--- process.lua -- `memory = { process = "2GiB" }`: a bound on the whole process
---
--- What counts is what the process has in memory, VmRSS of /proc/self/status: the
--- program, its libraries and its stacks, Lua, and all tensors.  What a step may take
--- is what the bound leaves beside that, what the step itself has there already
--- (variables, the arena) counted as its own.  Where the kernel limits the process,
--- what is left of that limit bounds the step too: of address space (`ulimit -v`;
--- VmSize) and of data (`ulimit -d`; VmData), which counts what is reserved, stacks
--- of threads to come among it.
---
--- RESERVE is left for what no plan counts: threads, Lua's garbage, tensors of a few
--- bytes; one mini-batch more for who makes the next before the last one is freed.
--- Bytes of files that the kernel keeps count for a container, and not here.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local process = {}

local RESERVE <const> = 16 << 20 -- bytes; and of what the step takes
local SHARE <const> = 1.03
local WORKER <const> = 2 << 20   -- address space of a thread that computes,
local OTHERS <const> = 18 << 20  -- and of those that read ahead and swap
local SPARE <const> = 8 << 20    -- that is kept beside an arena

-- A file of /proc; nil where there is none.
local function read(name)
  local file <close> = io.open("/proc/self/" .. name)
  return file and file:read "a"
end

local function bytes_of(status, name)
  return math.tointeger(status:match("%f[%w]" .. name .. ":%s*(%d+) kB")) * 1024
end

--- Read the option; nil where it is no table.
---@param value any
---@param who string  for messages
---@return integer? bytes
function process.read(value, who)
  if type(value) ~= "table" then return nil end
  local name = next(value)
  if name ~= "process" or next(value, name) ~= nil then
    local _, message = format.read_bytes(value)
    core.fail("value", who, ("option 'memory': %s, and { process = \"6GiB\" }"):format(message))
  end
  local bytes, message = format.read_bytes(value.process)
  if not bytes then core.fail("value", who, "option 'memory': process = " .. message) end
  if not read "status" then
    core.fail("value", who, "option 'memory': process = is for systems with /proc")
  elseif core.info().device ~= "cpu" then
    core.fail("value", who, ("option 'memory': process = bounds the host's memory, "
      .. "the step's is on %s: memory = bytes wanted"):format(core.info().device))
  end
  return bytes
end

-- What may still be taken, and the bound that says so.
local function room(limit)
  local status, limits = read "status", read "limits" or ""
  local threads = tonumber(status:match "Threads:%s*(%d+)")
  local missing = core.info().threads - threads
  local stacks = missing >= 0 and missing * WORKER + OTHERS or 0
  local best = { left = limit - bytes_of(status, "VmRSS"),
    what = ("%s for the process, %s of it in memory"):format(format.bytes(limit),
      format.bytes(bytes_of(status, "VmRSS"))) }
  local function kernel(pattern, name, what)
    local most = math.tointeger(limits:match(pattern .. "%s+(%d+)"))
    local left = most and most - bytes_of(status, name) - stacks
    if left and left < best.left then
      best = { left = left, what = ("%s of %s that the kernel allows, %s of it taken")
        :format(format.bytes(most), what, format.bytes(bytes_of(status, name) + stacks)) }
    end
  end
  kernel("Max address space", "VmSize", "address space")
  kernel("Max data size", "VmData", "data")
  return best
end

local function here(plan)
  local bytes = 0
  for _, v in ipairs(plan:values()) do bytes = bytes + (v.here and v.bytes or 0) end
  return bytes
end

--- What a step may take so that the process stays within its bound: a budget as
--- `memory = bytes` is.
---
--- Raises: nothing is left.
---@param limit integer   bytes
---@param plan userdata   of the step, under no budget; or of its micro-batches
---@param space userdata  whose arena it will use
---@return integer bytes
---@return string what    the bound and what is taken
function process.left(limit, plan, space)
  collectgarbage()
  core.trim() -- of a plan that was made, some 50 MB where there are thousands of nodes
  local found, spare = room(limit), core.info().bytes_spare
  local own = here(plan) + core.space_bytes(space) + math.max(0, spare - SPARE)
  local left = (found.left + own - RESERVE - plan:info().inputs) // SHARE
  if left >= 1 then return math.tointeger(left), found.what end
  core.fail("budget", "compile", ("memory = { process = %s }: nothing is left for the "
    .. "step; %s, and %s are left for growth"):format(format.bytes(limit), found.what,
    format.bytes(RESERVE + plan:info().inputs)))
end

return process
