--- mrt bench eager -- what is computed outside compiled steps, beside PyTorch
--
--     mrt bench eager [--rounds N] [--python PROGRAM] [--only WORD]
--
-- Evaluations whose result is asked for at once and forgotten: the cost of an
-- operator, and of memory for its result.  Microseconds of one evaluation, of
-- wall time and of the processor's (all threads'), each the least of N rounds
-- (5) of BATCHES batches; a round is a process of each side in turn, with as many
-- threads.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"

-- Rows, columns, and the same in both languages; of a and b, evaluated.
local CASES = {
  { "add", 4, function(a, b) return a + b end, "a + b" },
  { "add", 50, function(a, b) return a + b end, "a + b" },
  { "add", 100, function(a, b) return a + b end, "a + b" },
  { "add", 300, function(a, b) return a + b end, "a + b" },
  { "add", 1000, function(a, b) return a + b end, "a + b" },
  { "add", 5000, function(a, b) return a + b end, "a + b" },
  { "add a row", 100, function(a, b) return a + b[1] end, "a + b[0]" },
  { "times a number", 4, function(a) return a * 2 end, "a * 2" },
  { "matmul", 4, function(a, b) return a:matmul(b) end, "a @ b" },
  { "matmul", 100, function(a, b) return a:matmul(b) end, "a @ b" },
  { "matmul", 500, function(a, b) return a:matmul(b) end, "a @ b" },
  { "sum", 4, function(a) return a:sum() end, "a.sum()" },
  { "sum", 100, function(a) return a:sum() end, "a.sum()" },
  { "sum", 1000, function(a) return a:sum() end, "a.sum()" },
  { "three pointwise", 4, function(a, b) return (a * b + a):relu() end, "(a * b + a).relu()" },
  { "three pointwise", 100, function(a, b) return (a * b + a):relu() end, "(a * b + a).relu()" },
  { "three pointwise", 1000, function(a, b) return (a * b + a):relu() end, "(a * b + a).relu()" },
}
local LONG, WARM, BATCHES = 0.01, 30, 5 -- seconds of a batch; evaluations before it

local function name_of(case) return ("%s %dx%d"):format(case[1], case[2], case[2]) end

-- Prints seconds of wall and processor time by case.
local function measure(only)
  local mrt = require "mrt"
  local eval, clock = mrt.eval, core.clock
  for _, case in ipairs(CASES) do
    if name_of(case):find(only, 1, true) then
      local f = case[3]
      local a, b = mrt.randn(case[2], case[2]), mrt.randn(case[2], case[2])
      mrt.eval(a, b)
      local function some(n)
        local wall, cpu = clock(), os.clock()
        for _ = 1, n do eval(f(a, b)) end
        return (clock() - wall) / n, (os.clock() - cpu) / n
      end
      local n, least, least_cpu = 1, math.huge, math.huge
      some(case[2] > 1000 and 3 or WARM)
      while some(n) * n < LONG / 2 do n = n * 2 end
      for _ = 1, BATCHES do
        local wall, cpu = some(n)
        least, least_cpu = math.min(least, wall), math.min(least_cpu, cpu)
      end
      print(least, least_cpu)
    end
  end
end

local TORCH = [[
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
def measure(side, f):
    a = torch.randn(side, side); b = torch.randn(side, side)
    def some(n):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(n): f(a, b)
        return (time.perf_counter() - wall) / n, (time.process_time() - cpu) / n
    n = 1
    some(3 if side > 1000 else %d)
    while some(n)[0] * n < %g / 2: n *= 2
    all = [some(n) for _ in range(%d)]
    print(min(x[0] for x in all), min(x[1] for x in all))
]]

local function torch_program(only)
  local lines = { TORCH:format(WARM, LONG, BATCHES) }
  for _, case in ipairs(CASES) do
    if name_of(case):find(only, 1, true) then
      lines[#lines + 1] = ("measure(%d, lambda a, b: %s)\n"):format(case[2], case[4])
    end
  end
  return table.concat(lines)
end

-- The least of what it prints and what was there.
local function ask(command, least)
  local pipe = assert(io.popen(command))
  local i = 0
  for line in pipe:lines() do
    i = i + 1
    local wall, cpu = line:match "(%S+)%s+(%S+)"
    local before = least[i] or { math.huge, math.huge }
    least[i] = { math.min(before[1], tonumber(wall)), math.min(before[2], tonumber(cpu)) }
  end
  pipe:close()
end

local function read(args)
  local o = { rounds = 5, python = "python3", only = "" }
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%l+)$", args[i + 1]
    if name == "rounds" then value = math.tointeger(value) end
    if not value or not (o[name] or name == "measure") then
      error("mrt bench eager: " .. args[i] .. " cannot be " .. tostring(args[i + 1]), 0)
    end
    o[name] = value
  end
  return o
end

local function side_by_side(us, other)
  if not other then return ("%9.1f %9s %7s"):format(us * 1e6, "-", "-") end
  return ("%9.1f %9.1f %6.2fx"):format(us * 1e6, other * 1e6, us / other)
end

return function(...)
  local o = read { ... }
  if o.measure then return measure(o.measure) end
  local info = core.info()
  local has = os.execute(("'%s' -c 'import torch' 2>/dev/null"):format(o.python))
  print(("%s, %d threads; least of %d rounds; the other side: %s"):format(info.isa,
    info.threads, o.rounds, has and "PyTorch" or "none"))
  local ours, theirs = {}, {}
  for _ = 1, o.rounds do
    ask(('"%s" bench eager --measure "%s"'):format(arg[-1], o.only), ours)
    if has then
      ask(("'%s' -c '%s' %d"):format(o.python, torch_program(o.only), info.threads), theirs)
    end
  end
  print(("%-26s %9s %9s %7s %9s %9s %7s"):format("microseconds", "wall", "other", "ratio",
    "processor", "other", "ratio"))
  local i = 0
  for _, case in ipairs(CASES) do
    if name_of(case):find(o.only, 1, true) then
      i = i + 1
      local us, other = ours[i], theirs[i] or {}
      print(("%-26s %s %s"):format(name_of(case), side_by_side(us[1], other[1]),
        side_by_side(us[2], other[2])))
    end
  end
end
