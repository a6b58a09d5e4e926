--- mrt bench eager -- what is computed outside compiled steps, beside PyTorch
--
--     mrt bench eager [--rounds N] [--python PROGRAM]
--
-- An addition of two matrices whose result is asked for at once and forgotten:
-- the cost of one operator, and of memory for its result.  Microseconds, the
-- median of N rounds (5), each of them the mean of as many as take 50 ms; both
-- sides in turn, with as many threads.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local SIDES = { 4, 16, 50, 100, 300, 1000, 2000, 5000 }
local LONG, WARM = 0.05, 30 -- seconds of a round; additions before it

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Microseconds of an addition in this process.
local function measure(side)
  local mrt = require "mrt"
  local a, b = mrt.randn(side, side), mrt.randn(side, side)
  mrt.eval(a, b)
  local function some(n)
    local from = core.clock()
    for _ = 1, n do mrt.eval(a + b) end
    return core.clock() - from
  end
  local n = 1
  some(WARM)
  while some(n) < LONG / 4 do n = n * 2 end
  return some(4 * n) / (4 * n) * 1e6
end

local torch = [[
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
a = torch.randn(int(sys.argv[2]), int(sys.argv[2])); b = torch.randn_like(a)
def some(n):
    start = time.perf_counter()
    for _ in range(n): a + b
    return time.perf_counter() - start
n = 1
some(%d)
while some(n) < %g: n *= 2
print(some(4 * n) / (4 * n) * 1e6)
]]

local function ask(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return tonumber(text)
end

local function read(args)
  local o = { rounds = 5, python = "python3" }
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%l+)$", args[i + 1]
    if name == "rounds" or name == "measure" then value = math.tointeger(value) end
    if not value or not (o[name] or name == "measure") then
      error("mrt bench eager: " .. args[i] .. " cannot be " .. tostring(args[i + 1]), 0)
    end
    o[name] = value
  end
  return o
end

return function(...)
  local o = read { ... }
  if o.measure then return print(measure(o.measure)) end
  local info = core.info()
  local has = os.execute(("'%s' -c 'import torch' 2>/dev/null"):format(o.python))
  print(("%s, %d threads; medians of %d rounds; the other side: %s"):format(info.isa,
    info.threads, o.rounds, has and "PyTorch" or "none"))
  print "side       result        us     other   ratio"
  for _, side in ipairs(SIDES) do
    local ours, theirs = {}, {}
    for i = 1, o.rounds do
      ours[i] = ask(('"%s" bench eager --measure %d'):format(arg[-1], side))
      theirs[i] = has and ask(("'%s' -c '%s' %d %d"):format(o.python,
        torch:format(WARM, LONG / 4), info.threads, side))
    end
    local us, other = median(ours), has and median(theirs)
    print(("%-6d %7.1f KiB %9.1f %9s %7s"):format(side, side * side / 256, us,
      other and ("%.1f"):format(other) or "-", other and ("%.2fx"):format(us / other) or "-"))
  end
end
