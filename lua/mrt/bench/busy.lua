--- Busy loops: processes that each keep a core at work, for measuring beside them.
--
-- SPDX-License-Identifier: MIT

local busy = {}

-- Ends itself when the shell that began it has gone.
local loop = [[while kill -0 $PPID; do
  i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done
done 2>/dev/null]]

--- What `run(...)` returns, called beside that many.
---@param count integer
---@param run fun(...: any): any
---@return any
function busy.beside(count, run, ...)
  local command = {}
  for i = 1, count do command[i] = ("sh -c '%s' & "):format(loop) end
  -- The shell waits for a line, then it and with it the loops end.
  local shell = assert(io.popen(table.concat(command) .. "read line", "w"))
  local good, result = pcall(run, ...)
  shell:close()
  if not good then error(result, 0) end
  return result
end

return busy
