--- mrt bench time -- steps predicted and measured
--
--     mrt bench time [--cases mlp,gpt,examples/mlp.lua] [--seconds S] [--cpu]
--                    [--precision bf16]
--
-- Each case is a process of its own: a model of mrt/bench/cases.lua, or the
-- first compiled step of a script.  Predicted are times from declared figures,
-- from this machine's measured ones, and after step:profile(); measured is the
-- median of steps for S seconds.  --cpu counts processor time, for one thread on
-- a machine with much else to do.  --precision names a policy for the models.
--
-- SPDX-License-Identifier: MIT

local compile = require "mrt.compile"
local core = require "mrt.core"

local exit, write = os.exit, io.write -- whatever a script does

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Median of calls for some seconds, at least five.
local function time(step, clock, seconds, ...)
  local times, first = {}, core.clock()
  for i = 1, 10000 do
    local began = clock()
    local y = step(...)
    if core.is_tensor(y) then core.eval { y } end
    times[i] = clock() - began
    if i >= 5 and core.clock() - first >= seconds then break end
  end
  return median(times)
end

-- Profile and time a step; print one line and end.
local function measure(step, declared, o, ...)
  compile.planning = nil
  local device = require "mrt.device"
  device.profile { save = false, cpu = o.cpu }
  local again = step:with {} -- planned with the measured figures
  local before = again:plan(...).seconds
  compile.processor_time = o.cpu
  again:profile(...)
  local after = again:plan(...).seconds
  local clock = o.cpu and os.clock or core.clock
  time(again, clock, 0, ...)
  local took = time(again, clock, o.seconds, ...)
  write(("\n{%.9f %.9f %.9f %.9f}\n"):format(declared, before, after, took))
  exit(0, true)
end

-- The first step of a script.
local function of_script(path, o)
  compile.planning = function(plan, step, ...)
    measure(step, plan.seconds, o, ...)
  end
  _G.arg = { [0] = path }
  assert(loadfile(path))()
end

local function in_this_process(case, o)
  if case:find "%.lua$" then return of_script(case, o) end
  local policy = require "mrt".policy.precision[o.precision]
  local step, x, y = require "mrt.bench.cases".make(case, { precision = policy() })
  measure(step, step:plan(x, y).seconds, o, x, y)
end

local function ask(case, o)
  local command = ("'%s' bench time --measure '%s' --precision %s --seconds %g%s 2>&1")
    :format(arg[-1], case, o.precision, o.seconds, o.cpu and " --cpu" or "")
  local pipe <close> = assert(io.popen(command))
  local text = pipe:read "a"
  local numbers = {}
  for number in (text:match "\n{([%d. ]+)}" or ""):gmatch "%S+" do
    numbers[#numbers + 1] = tonumber(number)
  end
  return #numbers == 4 and numbers or nil
end

local taken = { cases = true, measure = true, seconds = true, precision = true }
local precisions = { f32 = true, bf16 = true, f16 = true, fp8 = true }

local function read(args)
  local o = { seconds = 3, precision = "f32", cases = "mlp,gpt-small,gpt,examples/mlp.lua,"
    .. "examples/gpt.lua" }
  local i = 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if name == "cpu" then
      o.cpu, i = true, i + 1
    elseif taken[name] and value and (name ~= "precision" or precisions[value]) then
      o[name], i = value, i + 2
    else
      error("mrt bench time: no option " .. args[i] .. ", or no value", 0)
    end
  end
  o.seconds = tonumber(o.seconds)
  return o
end

local function report(case, numbers)
  if not numbers then print(case .. ": no compiled step was called") return end
  local text, took = ("%-20s"):format(case), numbers[4]
  for i = 1, 3 do
    text = text .. (" %9.3f %6.2f"):format(numbers[i] * 1e3, numbers[i] / took)
  end
  print(("%s %9.3f"):format(text, took * 1e3))
end

return function(...)
  local o = read { ... }
  if o.measure then return in_this_process(o.measure, o) end
  local info = core.info()
  print(("%s, %d threads; ms a step, %s time; ratios to the measured")
    :format(info.isa, info.threads, o.cpu and "processor" or "real"))
  print(("%-20s %9s %6s %9s %6s %9s %6s %9s"):format("case", "declared", "",
    "predicted", "", "profiled", "", "measured"))
  for case in o.cases:gmatch "[^,]+" do
    report(case, ask(case, o))
  end
end
