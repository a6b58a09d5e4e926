--- oracle_table.lua -- the lines of oracle.lua as one file, and what is wrong as a table
---
---     mrt scripts/gpu/oracle_table.lua FILE LINES...
---
--- SPDX-License-Identifier: MIT

local json = require "mrt.util.json"
local results = require "results"

local rows, wrong = {}, {}
for i = 2, #arg do
  for text in io.lines(arg[i]) do
    local line = json.decode(text)
    rows[#rows + 1] = line
    if line.failed > 0 then wrong[#wrong + 1] = line end
  end
end
results.write(arg[1], { rows = rows })
for _, line in ipairs(wrong) do
  print(("%-24s %-8s %d of %d, worst %.3g%s: %s"):format(line.op, line.dtype, line.failed,
    line.cases, line.worst, line.broken and ", DEVICE FAILED" or "", line.first or ""))
end
print(("%d of %d operators x dtypes agree with their oracles"):format(#rows - #wrong, #rows))
os.exit(#wrong == 0 and #rows > 0)
