--- start.lua -- `mrt bench start`: how soon something happens.
--
-- Start-up is the time of whole processes, the shell that starts them taken
-- off; planning is trace, rewrites and plan of a step, before anything runs.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function time(f, times)
  local list = {}
  for i = 1, times do
    local began = core.clock()
    f()
    list[i] = (core.clock() - began) * 1e3
  end
  return median(list)
end

local function process(command)
  return time(function() os.execute(command) end, 21)
end

return function()
  local shell = process "true"
  local row = "%-34s %8.2f ms"
  print(row:format("mrt -e ''", process(('"%s" -e ""'):format(arg[-1])) - shell))
  print(row:format("lua5.4 -e ''", process "lua5.4 -e '' 2>/dev/null" - shell))
  local models = require "mrt.bench.models"
  for _, name in ipairs(models.names) do
    print(row:format("trace and plan " .. name, time(function()
      local step, x, y = models.make(name)
      local began = core.clock()
      step:plan(x, y)
      return core.clock() - began
    end, 3)))
  end
end
