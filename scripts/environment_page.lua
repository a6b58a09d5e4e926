--- environment_page.lua -- writes manual/12-environment.md, from the list of variables
---
---     build/mrt scripts/environment_page.lua > manual/12-environment.md
---
--- SPDX-License-Identifier: MIT

local groups = require "mrt.cli.environment"

io.write [[
# Environment variables

Everything that mrt reads of its environment; `mrt help environment` prints the same. None
has to be set.

```sh
MRT_THREADS=4 mrt train.lua        # for one run
export MRT_THREADS=4               # for all that follow
```
]]

for _, group in ipairs(groups) do
  io.write(("\n## %s\n\n| | |\n|---|---|\n"):format(group[1]:gsub("^%l", string.upper)))
  local rows = {} -- those that say nothing share the text of the one before
  for _, row in ipairs(group[2]) do
    local name, text = "`" .. row[1] .. "`", row[2]
    if text then
      rows[#rows + 1] = { name, text }
    else
      rows[#rows][1] = rows[#rows][1] .. ", " .. name
    end
  end
  for _, row in ipairs(rows) do io.write(("| %s | %s |\n"):format(row[1], row[2])) end
end
