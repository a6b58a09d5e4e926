--- cache.lua -- the profile of this machine, measured once
---
--- A file of its own for each processor model, instruction set, number of
--- threads and version of mrt, under $XDG_CACHE_HOME/mrt or ~/.cache/mrt.  A
--- reader sees all of it or nothing; one that cannot be read, or was made for
--- something else, is as good as none.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local read = require "mrt.device.read"
local save = require "mrt.plan.report.save"

local cache = {}

local function processor()
  local file = io.open "/proc/cpuinfo"
  if not file then return "unknown" end
  local model = file:read("a"):match "model name%s*:%s*([^\n]+)"
  file:close()
  return model or "unknown"
end

--- What the measured figures hold for.
---@return string
function cache.key()
  local info = core.info()
  return ("%s, %s, %d threads, mrt %s"):format(processor(), info.isa,
    info.threads, info.version)
end

---@return string? folder  nil without a home
local function folder()
  local base = os.getenv "XDG_CACHE_HOME"
  if base and base:sub(1, 1) == "/" then return base .. "/mrt" end
  local home = os.getenv "HOME"
  return home and home ~= "" and home .. "/.cache/mrt" or nil
end

--- Where the profile is, or would be.
---@return string? path  nil without a home
function cache.path()
  local where = folder()
  return where and ("%s/%s.lua"):format(where,
    (cache.key():gsub("[^%w.]+", "-")))
end

-- t with what it lacks of `declared`, times `share`.
local function with_rest(t, declared, share)
  local out = {}
  for name, figure in pairs(declared) do out[name] = share and figure * share or figure end
  for name, figure in pairs(t or {}) do out[name] = figure end
  return out
end

--- Return a profile of this machine with figures that nobody measured when it was
--- made: the declared ones, as much faster as its products of f32 are.  How quick a
--- file takes the 64 MiB that are measured says little of gigabytes a step, with
--- other programs at the same disk: no budget is met by that alone.  Other machines'
--- are returned as they are.
---@param profile mrt.Device
---@param declared table  core.device() where no device has been set
---@return mrt.Device
function cache.completed(profile, declared)
  if profile.key ~= cache.key() then return profile end
  local out, share = {}, profile.flops.f32 / declared.matrix.f32
  for name, value in pairs(profile) do out[name] = value end
  out.flops = with_rest(profile.flops, declared.matrix, share)
  out.rate = with_rest(profile.rate, declared.rate, share)
  if profile.rate and not profile.rate.attention_grad then -- as versions before measured it
    out.rate.attention_grad = out.rate.attention
  end
  out.edge = with_rest(profile.edge, declared.edge)
  if out.epilogues == nil then out.epilogues = declared.epilogues end
  if out.records == nil then out.records = declared.records end
  if out.winograd == nil then out.winograd = declared.winograd end
  if out.spend == nil then out.spend = declared.spend end
  if core.info().device == "cpu" and profile.swap and not profile.swap[1] then
    out.swap = with_rest({ guessed = true }, profile.swap)
  end
  return out
end

--- Return the profile that was measured here, if there is one.
---@return mrt.Device?
function cache.load()
  local path = cache.path()
  local profile = path and read.file(path)
  return profile and profile.key == cache.key() and profile or nil
end

local function write_value(value, indent)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) == "boolean" then return tostring(value) end
  if type(value) == "number" then
    local short = ("%.6g"):format(value)
    return tonumber(short) == value and short or ("%.17g"):format(value)
  end
  local keys, lines = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    lines[#lines + 1] = ("%s%s%s,"):format(indent .. "  ",
      type(key) == "string" and key .. " = " or "",
      write_value(value[key], indent .. "  "))
  end
  return ("{\n%s\n%s}"):format(table.concat(lines, "\n"), indent)
end

--- Return a profile, or figures, as a file that mrt reads.
---@param profile table
---@return string
function cache.text(profile)
  return "return " .. write_value(profile, "") .. "\n"
end

--- Return what `text` has made text of.
---@param text string
---@return table
function cache.value(text) return assert(load(text, "=profile", "t", {}))() end

--- Keep a profile.
---@param profile mrt.Device
---@return string? path
---@return string? message
function cache.save(profile)
  local path = cache.path()
  if not path then return nil, "no home folder" end
  core.make_folders(folder())
  local ok, message = save.write(path, cache.text(profile))
  if not ok then return nil, message end
  return path
end

return cache
