--- mrt bench start -- start-up and planning time, and the size of the program
--
-- Start-up is the time of whole processes, the shell that starts them taken
-- off; planning is trace, rewrites and plan of a step, before anything runs; a
-- node's own cost is what 1,000 more nodes on 4x4 elements add to a step, none fused;
-- with MRT_THREADS=1 and without, more threads are never slower.
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

-- Bytes of a file, or nil.
local function size(path)
  local file = io.open(path)
  local bytes = file and file:seek "end"
  if file then file:close() end
  return bytes
end

-- Nanoseconds that one more `f` costs in a compiled chain.
local function node_cost(f)
  local mrt = require "mrt"
  local function chain(n)
    local step = mrt.compile(function(x)
      for _ = 1, n do x = f(x, mrt) end
      return x
    end, { fuse = false })
    local x = mrt.ones(4, 4)
    step(x)
    return time(function() step(x) end, 201) * 1e6
  end
  return (chain(1010) - chain(10)) / 1000
end

local nodes = {
  { "relu", function(x) return x:relu() end },
  { "softmax", function(x) return x:softmax(2) end },
  { "layer_norm", function(x) return x:layer_norm() end },
  { "cumsum", function(x) return x:cumsum(1) end },
  { "sum", function(x) return x:sum(1, true):expand(4, 4) end },
  { "cat", function(x, mrt)
    return mrt.cat({ x:slice(1, 3, 4), x:slice(1, 1, 2) }, 1)
  end },
  { "matmul", function(x) return x:matmul(x) end },
}

return function()
  local shell = process "true"
  local row = "%-34s %8.2f ms"
  local bytes = size(arg[-1])
  if bytes then print(("%-34s %8.2f MB"):format("the program", bytes / 1e6)) end
  print(row:format("mrt -e ''", process(('"%s" -e ""'):format(arg[-1])) - shell))
  print(row:format("require 'mrt'",
    process(([["%s" -e "require 'mrt'"]]):format(arg[-1])) - shell))
  print(row:format("lua5.4 -e ''", process "lua5.4 -e '' 2>/dev/null" - shell))
  for _, node in ipairs(nodes) do
    print(("%-34s %8.0f ns"):format("one node of " .. node[1],
      node_cost(node[2])))
  end
  local models = require "mrt.bench.cases"
  for _, name in ipairs(models.names) do
    print(row:format("trace and plan " .. name, time(function()
      local step, x, y = models.make(name)
      local began = core.clock()
      step:plan(x, y)
      return core.clock() - began
    end, 3)))
  end
end
