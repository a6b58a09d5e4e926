--- mrt bench ranks -- plans of one of many ranks, beside published steps of GPTs
---
---     mrt bench ranks FILE [word ...]
---
--- FILE: a table of published runs, comma-separated, with the columns model, arch, layers,
--- hidden, heads, ffn, vocab, seq, gpu, n_gpu, tp, pp, cp, ep, zero_stage, mbs, gbs,
--- precision, recompute and step_time_s.  Rows whose ranks share nothing but data and
--- pieces of the state (tp = pp = cp = ep = 1), of GPTs in 16 bits on devices that have
--- a profile, are planned for one of their ranks; nothing runs.  A ratio below 1: predicted
--- quicker than published.  A word keeps the rows that have it in their model or gpu.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local table_rows = require "mrt.bench.cluster_rows"

local here = debug.getinfo(1, "S").source:match "^@(.*)ranks%.lua$"

local devices <const> = { ["A100-40"] = "a100-40", ["A100-80"] = "a100-80", ["H100-80"] = "h100",
  ["H200"] = "h200" }

local numbers <const> = { "layers", "hidden", "heads", "vocab", "seq", "n_gpu", "zero_stage", "mbs",
  "gbs", "step_time_s" }

local function read(row)
  for _, name in ipairs(numbers) do
    row[name] = tonumber(row[name])
    if not row[name] then return false end
  end
  row.k = row.gbs / (row.mbs * row.n_gpu)
  return row.k % 1 == 0 and row.n_gpu > 1 and row.recompute ~= ""
end

-- What a column may say, if anything.
local known <const> = { arch = "gpt", tp = "1", pp = "1", cp = "1", ep = "1",
  precision = "bf16 fp16", recompute = "none full" }

local function fits(row, words)
  for _, word in ipairs(words) do
    if not (row.model .. " " .. row.gpu):lower():find(word:lower(), 1, true) then return false end
  end
  for name, values in pairs(known) do
    if row[name] ~= "" and not values:find(row[name], 1, true) then return false end
  end
  return devices[row.gpu] and read(row) and (row.ffn == "" or tonumber(row.ffn) == 4 * row.hidden)
end

local function planned(row)
  local pipe = assert(io.popen(("'%s' plan --device %s --ranks %d '%sranks_plan.lua' "
    .. "%d %d %d %d %d %d %d %d %s %s 2>&1"):format(core.program(), devices[row.gpu], row.n_gpu,
    here, row.layers, row.hidden, row.heads, row.vocab, row.seq, row.zero_stage, row.mbs, row.k,
    row.recompute, row.precision)))
  local text = pipe:read "a"
  pipe:close()
  return tonumber(text:match "seconds (%S+)"), text
end

local function told(ratios)
  if #ratios == 0 then return print "no row of this kind" end
  table.sort(ratios)
  local squares = 0
  for _, r in ipairs(ratios) do squares = squares + math.log(r) ^ 2 end
  print(("%d rows: median %.2f, least %.2f, most %.2f, root of the mean square of the "
    .. "logarithm %.2f"):format(#ratios, ratios[(#ratios + 1) // 2], ratios[1], ratios[#ratios],
    math.sqrt(squares / #ratios)))
end

return function(path, ...)
  if not path then error("mrt bench ranks FILE: a table of published runs", 0) end
  local ratios = {}
  print(("%-20s %-8s %6s %5s %4s %4s %9s %10s %10s %6s"):format("model", "gpu", "ranks", "zero",
    "rows", "k", "recompute", "published", "predicted", "ratio"))
  for _, row in ipairs(table_rows.of(path)) do
    if fits(row, { ... }) then
      local seconds, text = planned(row)
      local what = ("%-20s %-8s %6d %5d %4d %4d %9s %8.3f s "):format(row.model:sub(1, 20), row.gpu,
        row.n_gpu, row.zero_stage, row.mbs, row.k, row.recompute, row.step_time_s)
      if seconds then ratios[#ratios + 1] = seconds / row.step_time_s end
      print(what .. (seconds and ("%8.3f s %6.2f"):format(seconds, seconds / row.step_time_s)
        or text:match "[^\n]*"))
    end
  end
  told(ratios)
end
