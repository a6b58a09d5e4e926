--- snapshot_pickle.lua -- the same snapshot as a pickle, to drop on
--- pytorch.org/memory_viz
---
--- Protocol 2 of Python's pickle: a stack machine's program, one opcode a byte.
--- The viewer knows part of it; these opcodes are among them.
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"
local snapshot = require "mrt.plan.report.snapshot_data"

local BATCH = 1000 -- appended at once, as Python does

local function write_text(out, text)
  out[#out + 1] = "X" .. ("<s4"):pack(format.utf8(text)) -- BINUNICODE
end

-- BININT holds 32 bits with a sign, LONG1 what is said before it.
local function write_integer(out, n)
  local small = n >= -(1 << 31) and n < 1 << 31
  out[#out + 1] = small and "J" .. ("<i4"):pack(n) or "\x8a\8" .. ("<i8"):pack(n)
end

local write

local function write_list(out, list)
  out[#out + 1] = "]"
  for from = 1, #list, BATCH do
    out[#out + 1] = "("
    for i = from, math.min(from + BATCH - 1, #list) do write(out, list[i]) end
    out[#out + 1] = "e"
  end
end

local function write_map(out, map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  out[#out + 1] = "}("
  for _, key in ipairs(keys) do
    write_text(out, key)
    write(out, map[key])
  end
  out[#out + 1] = "u"
end

function write(out, value)
  if type(value) == "string" then return write_text(out, value) end
  if type(value) ~= "table" then return write_integer(out, value) end
  if #value > 0 or not next(value) then return write_list(out, value) end
  return write_map(out, value)
end

---@param plan mrt.Plan
---@return string
return function(plan)
  local out = { "\x80\2" }
  write(out, snapshot(plan))
  out[#out + 1] = "."
  return table.concat(out)
end
