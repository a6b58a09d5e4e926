--- side_by_side.lua -- one step under several policies, as a table
---
---     policy        peak        kept     step  recomputed    time
---     script     1.13 MiB    1.00 MiB   0.9 ms      0.0 ms    1.00x
---     sqrt.lua   369 KiB     128 KiB    1.2 ms      0.3 ms    1.32x
---
--- kept: bytes of the forward pass that the backward pass reads.  Times are
--- predicted; recomputed: what runs again.  Of several ranks it is what one of them
--- takes, by what it is there for, and what it gives to the others:
---
---     policy     peak   weights optimizer     other     wire      step  recomputed   time
---     ddp    85.1 GiB  27.8 GiB  55.6 GiB  1.78 GiB 54.7 GiB  18684 ms     0.00 ms  1.00x  over
---     zero3  3.85 GiB   444 MiB   889 MiB  2.55 GiB 82.0 GiB  14107 ms     0.06 ms  0.76x
---
--- over: the peak is above the budget, or the memory of the device that is named,
--- whose bytes follow.
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

local function milliseconds(seconds) return ("%.2f ms"):format(seconds * 1e3) end

-- Of one rank, and of one of several: a name, its width, its text.
local alone = {
  { "peak", 11, function(f) return format.bytes(f.peak) end },
  { "kept", 11, function(f) return format.bytes(f.kept) end },
}
local of_many = {
  alone[1],
  { "weights", 11, function(f) return format.bytes(f.weight) end },
  { "optimizer", 11, function(f) return format.bytes(f.optimizer) end },
  { "other", 11, function(f) return format.bytes(f.peak - f.weight - f.optimizer) end },
  { "wire", 11, function(f) return format.bytes(f.wire) end },
}
local times = {
  { "step", 12, function(f) return milliseconds(f.seconds) end },
  { "recomputed", 12, function(f) return milliseconds(f.again) end },
  { "time", 8, function(f, first)
    return first and ("%.2fx"):format(f.seconds / first.seconds) or ""
  end },
}

local about = [[
bytes of one rank of %d, at the peak; weights, optimizer: what stays between steps; other:
weights that are gathered, gradients, activations; wire: given to other ranks in a step.
Times are predicted.]]

--- Times are set against the first entry; one may have a message instead of figures.
---@param entries {name: string, figures: mrt.Figures?, message: string?}[]
---@param ranks integer  how many there are
---@return string
return function(entries, ranks)
  local wide, first, columns = 8, entries[1].figures, {}
  for _, e in ipairs(entries) do wide = math.max(wide, #e.name) end
  for _, list in ipairs { ranks > 1 and of_many or alone, times } do
    table.move(list, 1, #list, #columns + 1, columns)
  end
  local function row(name, text_of)
    local words = { name .. (" "):rep(wide - #name) }
    for i, c in ipairs(columns) do words[i + 1] = ("%" .. c[2] .. "s"):format(text_of(c)) end
    return table.concat(words, " ")
  end
  local lines = { row("policy", function(c) return c[1] end) }
  for i, e in ipairs(entries) do
    local f = e.figures
    lines[i + 1] = not f and ("%-" .. wide .. "s %s"):format(e.name, e.message)
      or row(e.name, function(c) return c[3](f, first) end)
        .. (f.over and "  over " .. format.bytes(f.limit) or "")
  end
  if ranks > 1 then lines[#lines + 1] = about:format(ranks) end
  return table.concat(lines, "\n")
end
