--- side_by_side.lua -- one step under several policies, as a table
---
---     policy        peak        kept     step  recomputed    time
---     script     1.13 MiB    1.00 MiB   0.9 ms      0.0 ms    1.00x
---     sqrt.lua   369 KiB     128 KiB    1.2 ms      0.3 ms    1.32x
---
--- kept: bytes of the forward pass that the backward pass reads.  Times are
--- predicted; recomputed: what runs again.
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.format"

local function again(plan)
  local seconds = 0
  for _, s in ipairs(plan:steps()) do
    if s.recomputed then seconds = seconds + s.time end
  end
  return seconds
end

local function milliseconds(seconds) return ("%.2f ms"):format(seconds * 1e3) end

--- Times are set against the first plan; an entry may be a message instead.
---@param entries {name: string, plan: mrt.Plan?, message: string?}[]
---@return string
return function(entries)
  local wide, first = 8, entries[1].plan
  for _, e in ipairs(entries) do wide = math.max(wide, #e.name) end
  local row = ("%%-%ds %%11s %%11s %%12s %%12s %%8s"):format(wide)
  local lines = { row:format("policy", "peak", "kept", "step", "recomputed",
    "time") }
  for _, e in ipairs(entries) do
    local p = e.plan
    lines[#lines + 1] = p and row:format(e.name, format.bytes(p.peak),
      format.bytes(p:kept()), milliseconds(p.seconds), milliseconds(again(p)),
      first and ("%.2fx"):format(p.seconds / first.seconds) or "")
      or ("%-" .. wide .. "s %s"):format(e.name, e.message)
  end
  return table.concat(lines, "\n")
end
