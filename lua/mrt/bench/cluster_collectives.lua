--- cluster_collectives.lua -- measured collectives beside predicted ones
---
--- SPDX-License-Identifier: MIT

-- By a text in the column `system`.
local systems <const> = { { "A100", "dgx-a100" }, { "H200", "dgx-h200" }, { "B200", "dgx-b200" },
  { "H100", "dgx-h100" } }

-- Cards of AWS: what allreduce reaches of them is in the table.
local efa <const> = { name = "EFA", bandwidth = 47.5e9, latency = 20e-6, start = 250e-6 }

local function without_switch(levels)
  local out = table.move(levels, 1, #levels, 1, {})
  out[1] = setmetatable({ switch = false }, { __index = levels[1] })
  return out
end

local function levels_of(mrt, row)
  for _, s in ipairs(systems) do
    if row.system:find(s[1]) then
      local levels = mrt.cluster(s[2]).levels
      if row.system:find "EFA" then levels = { levels[1], efa } end
      return row.algo:find "^ring" and without_switch(levels) or levels
    end
  end
end

local kind_of <const> = { all_reduce = "allreduce", all_gather = "allgather",
  reduce_scatter = "reduce_scatter" }

--- Print the errors by system and collective.
---@param list table<string, string>[]
---@param each boolean  print each row
return function(list, each)
  local mrt = require "mrt"
  local collectives = require "mrt.cluster.collectives"
  local stats, order = {}, {}
  for _, row in ipairs(list) do
    local levels, kind = levels_of(mrt, row), kind_of[row.collective:match "^%S+"]
    if levels and kind then
      local ranks = math.tointeger(tonumber(row.n_ranks))
      local seconds, way = collectives.seconds(levels, kind, tonumber(row.bytes), { size = ranks })
      local error = seconds * 1e6 / tonumber(row.time_us) - 1
      local name = ("%s %s%s"):format(row.system, kind, row.algo:find "^ring" and ", ring" or "")
      if each then
        print(("%-44s %3d ranks %12s bytes %10s us %10.1f us %-9s %+6.1f %%"):format(name, ranks,
          row.bytes, row.time_us, seconds * 1e6, way, 100 * error))
      end
      if not stats[name] then stats[name], order[#order + 1] = { 0, 0, 0, 0, 0 }, name end
      local s = stats[name]
      s[1], s[2], s[3] = s[1] + 1, s[2] + math.abs(error), s[3] + error
      if tonumber(row.bytes) >= 2 ^ 20 then s[4], s[5] = s[4] + 1, s[5] + math.abs(error) end
    end
  end
  table.sort(order)
  print(("%-48s %5s %7s %7s   %10s %7s"):format("system and collective", "rows", "MAPE %", "bias %",
    "from 1 MiB", "MAPE %"))
  for _, name in ipairs(order) do
    local s = stats[name]
    print(("%-48s %5d %7.1f %7.1f   %10d %7.1f"):format(name, s[1], 100 * s[2] / s[1],
      100 * s[3] / s[1], s[4], 100 * s[5] / s[4]))
  end
end
