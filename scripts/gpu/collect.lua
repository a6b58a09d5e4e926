--- collect.lua -- the stages' files as one
---
---     mrt scripts/gpu/collect.lua FOLDER FILE
---
--- Of the oracle's rows: how many, those that failed, and the worst errors.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local results = require "results"

local folder, file = arg[1], arg[2]

local function shorten(rows)
  local failed, worst = {}, {}
  for i, row in ipairs(rows) do
    if row.failed > 0 then failed[#failed + 1] = row end
    worst[i] = row
  end
  table.sort(worst, function(a, b) return a.worst > b.worst end)
  return { operators_and_dtypes = #rows, failed = failed,
    worst = table.move(worst, 1, math.min(10, #worst), 1, {}) }
end

local all = {}
for _, name in ipairs(core.list_folder(folder)) do
  local stage = name:match "^(.+)%.json$"
  if stage and not stage:find "^smoke%-" then
    local ok, value = pcall(results.read, folder .. "/" .. name)
    all[stage] = ok and (stage == "oracle" and shorten(value.rows) or value) or tostring(value)
  end
end
results.write(file, all)
