--- find.lua -- what `mrt plan --find` prints: the winner, the front, why others lose
---
--- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"

local HOUR <const> = 3600

local function how(c)
  local words = { ("%d x %d"):format(c.micros, c.rows) }
  if c.chunks > 1 then words[#words + 1] = c.chunks .. " chunks" end
  words[#words + 1] = c.zero > 0 and "zero " .. c.zero or nil
  words[#words + 1] = c.recompute ~= "none" and "recompute " .. c.recompute or nil
  words[#words + 1] = c.precision
  words[#words + 1] = c.offload and "moments in the host" or nil
  return table.concat(words, ", ")
end

local LINE <const> = "%6s %7s %6s %8s %5s  %-52s %9s %10s %6s %7s %9s %8s"

local function head()
  return (LINE):format("tensor", "context", "expert", "pipeline", "data",
    "micro-batches x sequences, ...", "step", "memory", "MFU", "bubble", "exposed", "to spare")
end

local function line(c)
  local m = c.mesh
  return (LINE):format(m.tensor, m.context, m.expert, m.pipeline, m.data, how(c),
    format.time(c.seconds), format.bytes(math.ceil(c.memory.peak)), ("%.1f %%"):format(100 * c.mfu),
    ("%.1f %%"):format(100 * c.bubble), format.time(c.exposed),
    ("%.1f %%"):format(-100 * c.over / (c.over < 0 and c.memory.peak - c.over or c.memory.peak)))
end

-- Why it is no winner.
local function reason(c, best)
  if c.over > 0 then return ("does not fit by %s"):format(format.bytes(math.ceil(c.over))) end
  if not best then return "fits" end
  local list = { { "bubble", c.bubble * c.seconds - best.bubble * best.seconds },
    { "exposed communication", c.exposed - best.exposed } }
  list[3] = { "more computation, or slower kernels", c.seconds - best.seconds - list[1][2]
    - list[2][2] }
  table.sort(list, function(a, b) return a[2] > b[2] end)
  return ("%s slower: %s, %s"):format(format.time(c.seconds - best.seconds), list[1][1],
    format.time(list[1][2]))
end

local function cost(found, o, devices)
  local steps = o.tokens / o.tokens_of_step
  local hours = steps * found.best.seconds / HOUR
  local text = ("%s tokens are %s steps, %.1f hours on %d devices"):format(format.rate(o.tokens),
    format.count(math.ceil(steps)), hours, devices)
  if not o.price then return text end
  return ("%s: %s dollars"):format(text, format.count(math.ceil(hours * devices * o.price)))
end

-- What it costs, on fewer devices too where there is a deadline: the cheapest first.
local function add_costs(lines, found, o)
  if not o.tokens then return end
  for _, one in ipairs(o.sizes or { { found = found, devices = o.devices } }) do
    lines[#lines + 1] = cost(one.found, o, one.devices)
  end
end

--- The report.
---@param found mrt.cluster.Found
---@param o {cluster: string, devices: integer, tokens: number?, price: number?,
---  tokens_of_step: number, said: table[]?, sizes: table[]?}
---@return string
return function(found, o)
  local best = found.best
  local lines = { ("%s: %d candidates, %d of them as events; memory of a device: %s, less what "
    .. "its driver takes"):format(o.cluster, found.tried, found.run,
      format.bytes(math.floor(found.limit))) }
  if best then
    lines[#lines + 1] = "\nthe quickest that fits\n" .. head()
    lines[#lines + 1] = line(best)
    add_costs(lines, found, o)
    if best.exact then
      lines[#lines + 1] = ("its plan, of the stage that takes most by estimate: %s, exactly")
        :format(format.bytes(best.exact))
    end
  end
  for _, one in ipairs(o.said or {}) do
    lines[#lines + 1] = ("quicker by estimate, but %s\n%s"):format(one.problem
      and "not planned: " .. one.problem or reason(one.candidate), line(one.candidate))
  end
  if #found.front > 0 then
    lines[#lines + 1] = "\nthe front of memory against time, in steps of 5 %\n"
      .. head()
    for _, c in ipairs(found.front) do lines[#lines + 1] = line(c) end
  end
  if #found.rivals > 0 then
    lines[#lines + 1] = "\nother meshes, the best of each\n" .. head()
    for _, c in ipairs(found.rivals) do
      lines[#lines + 1] = line(c) .. "\n" .. (" "):rep(38) .. reason(c, best)
    end
  end
  lines[#lines + 1] = "\nTimes are predicted; no candidate that fits is quicker.  Memory is "
    .. "estimated by formulas (states,\nactivations), of the stage that takes most.  bubble: "
    .. "the busiest stage waits; exposed: collectives\nthat are behind no computation."
  return table.concat(lines, "\n")
end
