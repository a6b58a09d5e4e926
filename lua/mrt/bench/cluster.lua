--- mrt bench cluster -- predicted steps of published runs on clusters, and collectives
---
---     mrt bench cluster FILE [word ...]
---
--- FILE: a table of published runs (columns: lua/mrt/bench/cluster_rows.lua), or one of
--- measured collectives (columns system, collective, algo, n_ranks, bytes, time_us).  Prints
--- the mean absolute error by source, apart for the rows that constants were chosen on and
--- those that were held out.  Words keep the rows that have them in model, gpu or source;
--- the word rows prints each row.
---
--- SPDX-License-Identifier: MIT

local rows = require "mrt.bench.cluster_rows"
local collectives = require "mrt.bench.cluster_collectives"

-- One row of four is what constants may be chosen on.
local function chosen_on(id)
  local hash = 5381
  for i = 1, #id do hash = (hash * 33 + id:byte(i)) % 2 ^ 32 end
  return hash % 4 == 0
end

local function matches(row, words)
  local text = (row.model .. " " .. row.gpu .. " " .. row.source):lower()
  for _, word in ipairs(words) do
    if not text:find(word:lower(), 1, true) then return false end
  end
  return true
end

-- A mean of what is added; of absolute values too.
local function add(stat, error)
  stat.n, stat.sum, stat.absolute = (stat.n or 0) + 1, (stat.sum or 0) + error,
    (stat.absolute or 0) + math.abs(error)
  stat.most = math.max(stat.most or 0, math.abs(error))
end

local function percent(stat, what)
  return stat.n and ("%6.1f"):format(100 * stat[what] / stat.n) or "     -"
end

local function predicted(found)
  local mrt = require "mrt"
  local software = require "mrt.cluster.software"
  local traits = setmetatable({}, { __index = function(_, key)
    local own = found.traits[key]
    if own ~= nil then return own end
    return software[found.software][key]
  end })
  found.job.software = traits
  return mrt.cluster(found.cluster):step(found.job)
end

local function print_row(row, found, seconds)
  local m = found.job.mesh
  print(("%5s %-18s %-20s t%d p%d c%d d%d rows %d x %d  %9.4f s %9.4f s %+6.1f %%"):format(row.id,
    row.model:sub(1, 18), found.cluster, m.tensor, m.pipeline, m.context, m.data, found.job.rows,
    found.job.micros, found.seconds, seconds, 100 * (seconds / found.seconds - 1)))
end

local function told(stats, order)
  print(("%-24s %5s %7s %7s   %5s %7s %7s %7s"):format("source", "rows", "MAPE %", "bias %",
    "held", "MAPE %", "bias %", "most %"))
  for _, name in ipairs(order) do
    local all, held = stats[name].all, stats[name].held
    print(("%-24s %5d %7s %7s   %5d %7s %7s %7s"):format(name, all.n, percent(all, "absolute"),
      percent(all, "sum"), held.n or 0, percent(held, "absolute"), percent(held, "sum"),
      held.most and ("%6.1f"):format(100 * held.most) or "-"))
  end
end

local function print_why(left)
  local list, n = {}, 0
  for why, count in pairs(left) do list[#list + 1], n = ("%d: %s"):format(count, why), n + count end
  table.sort(list)
  if n > 0 then print(("%d rows were left out (%s)"):format(n, table.concat(list, "; "))) end
end

local function group_of(stats, order, name)
  if not stats[name] then
    stats[name], order[#order + 1] = { all = {}, held = {} }, name
  end
  return stats[name]
end

local OTHERS <const>, ALL <const> = "all but vTrain", "all"

local function count(stats, order, found, row, error)
  local names = { found.group, ALL }
  if not found.group:find "^vTrain" then names[3] = OTHERS end
  for _, name in ipairs(names) do
    local s = group_of(stats, order, name)
    add(s.all, error)
    if not chosen_on(row.id) then add(s.held, error) end
  end
end

local function steps(list, words, each)
  local stats, order, left = {}, {}, {}
  for _, row in ipairs(list) do
    if matches(row, words) then
      local found, why = rows.job(row)
      local ok, seconds
      if found then ok, seconds = pcall(predicted, found) end
      if ok then
        if each then print_row(row, found, seconds) end
        count(stats, order, found, row, seconds / found.seconds - 1)
      else
        why = why or type(seconds) == "table" and seconds.message or tostring(seconds)
        left[why] = (left[why] or 0) + 1
      end
    end
  end
  table.sort(order)
  told(stats, order)
  print_why(left)
end

return function(path, ...)
  if not path then
    error("mrt bench cluster FILE: a table of published runs or of collectives", 0)
  end
  local list, words, each = rows.of(path), {}, false
  for _, word in ipairs { ... } do
    if word == "rows" then each = true else words[#words + 1] = word end
  end
  if list[1] and list[1].collective then return collectives(list, each) end
  steps(list, words, each)
end
