--- mrt bench step -- training steps: time and memory, beside PyTorch
--
--     mrt bench step [--cases mlp,gpt] [--rounds N] [--seconds S] [--cpu]
--                    [--precision bf16] [--beside N]
--                    [--python PROGRAM | --against "COMMAND {case}"]
--
-- Each measurement is a process of its own: a few steps to warm up, then steps
-- for S seconds, of which it reports the median and the process's growth.  The
-- other side is torch_step.py where PROGRAM (default python3) has PyTorch, or
-- any command that prints one line of JSON with ms_med and rss_growth_MB.  Both
-- run in turn, N rounds; the table shows medians over rounds and their ratio.
-- --cpu counts processor time, for one thread on a machine with much else to do.
-- --beside measures alone and beside N busy loops, in turn.
-- --precision names a policy (f32, bf16, f16, fp8); PyTorch has its autocast around
-- forward pass and loss, of bf16 or f16.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local busy = require "mrt.bench.busy"

local function status(key)
  local file = io.open "/proc/self/status"
  if not file then return 0 end
  local kb = file:read("a"):match(key .. ":%s*(%d+)")
  file:close()
  return (tonumber(kb) or 0) / 1024
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- One case in this process; prints one line of JSON.
local function measure(case, o)
  local mrt = require "mrt"
  local models = require "mrt.bench.cases"
  local base = status "VmRSS"
  local policy = mrt.policy.precision[o.precision]
  local step, x, y = models.make(case, { precision = policy() })
  local began = core.clock()
  local plan = step:plan(x, y)
  local planning = core.clock() - began
  for _ = 1, 3 do step(x, y):item() end
  local clock = o.cpu and os.clock or core.clock
  local times, first = {}, core.clock()
  repeat
    local before = clock()
    step(x, y):item()
    times[#times + 1] = clock() - before
  until #times >= 5 and core.clock() - first >= o.seconds
  io.write(('{"case": "%s", "ms_med": %.3f, "ms_min": %.3f, "steps": %d, '
    .. '"plan_ms": %.1f, "peak": %d, "inputs": %d, "allocated": %d, '
    .. '"gflop": %.3f, "rss_growth_MB": %.1f}\n')
    :format(case, median(times) * 1e3, times[1] * 1e3, #times, planning * 1e3,
      plan.peak, plan.inputs, mrt.memory().peak, plan.flops / 1e9,
      status "VmHWM" - base))
end

-- The command that measures a case in PyTorch; nil where there is none.
local function torch_command(python, o)
  local probe = os.execute(("'%s' -c 'import torch' 2>/dev/null"):format(python))
  if not probe or o.precision == "fp8" then return nil end
  local script = package.searchpath("mrt.bench.step", package.path)
    :gsub("step%.lua$", "torch_step.py")
  return ("'%s' '%s' {case} --threads %d --precision %s%s"):format(python, script,
    core.info().threads, o.precision, o.cpu and " --cpu" or "")
end

local function field(line, name)
  return tonumber(line:match('"' .. name .. '": ([%d.e+-]+)'))
end

-- Run a command and read its line of JSON.
local function ask(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  local line = text:match "({[^\n]*})"
  if not line then error("no measurement from: " .. command, 0) end
  return line
end

local function command_of(case, o)
  return ('"%s" bench step --measure %s --precision %s --seconds %g%s'):format(
    arg[-1], case, o.precision, o.seconds, o.cpu and " --cpu" or "")
end

local function collect(case, o)
  local ours, theirs = {}, {}
  local self = command_of(case, o)
  for round = 1, o.rounds do
    ours[round] = ask(self)
    if o.against then
      theirs[round] = ask((o.against:gsub("{case}", case)))
    end
  end
  return ours, theirs
end

local function middle(lines, name)
  local list = {}
  for i, line in ipairs(lines) do list[i] = field(line, name) end
  return #list > 0 and median(list) or nil
end

local function ratio(a, b) return b and ("%.2fx"):format(a / b) or "-" end
local function number(x, format) return x and format:format(x) or "-" end

local function report(case, ours, theirs)
  local ms, other = middle(ours, "ms_med"), middle(theirs, "ms_med")
  local grown = middle(ours, "rss_growth_MB")
  local other_grown = middle(theirs, "rss_growth_MB")
    or middle(theirs, "peak_rss_over_base_MB")
  local peak = middle(ours, "peak") / 2 ^ 20
  print(("%-10s %9.2f %9s %7s %9.1f %9.1f %9s %7s %8.1f"):format(case, ms,
    number(other, "%.2f"), ratio(ms, other), peak, grown,
    number(other_grown, "%.1f"), ratio(grown, other_grown),
    1e3 * middle(ours, "gflop") / ms))
end

-- Medians of ms alone and beside busy loops, of ours and of the other side.
local function report_beside(case, o)
  local sides = { command_of(case, o), o.against and o.against:gsub("{case}", case) }
  local alone, beside = { {}, {} }, { {}, {} }
  for _ = 1, o.rounds do
    for i, command in ipairs(sides) do
      table.insert(alone[i], field(ask(command), "ms_med"))
      table.insert(beside[i], field(busy.beside(o.beside, ask, command), "ms_med"))
    end
  end
  local function of(lists, i) return #lists[i] > 0 and median(lists[i]) or nil end
  print(("%-10s %9.2f %9s %7s %9.2f %9s %7s %12s"):format(case,
    of(alone, 1), number(of(alone, 2), "%.2f"), ratio(of(alone, 1), of(alone, 2)),
    of(beside, 1), number(of(beside, 2), "%.2f"), ratio(of(beside, 1), of(beside, 2)),
    ratio(of(beside, 1), of(alone, 1))))
end

local precisions = { f32 = "f32", bf16 = "bf16", f16 = "f16", fp8 = "fp8" }

local function word(value) return value end

local kinds = { measure = word, cases = word, against = word, python = word,
  rounds = tonumber, beside = math.tointeger, seconds = tonumber,
  precision = function(name) return precisions[name] end }

local function read(args)
  local o = { rounds = 3, seconds = 5, cases = "mlp,gpt-small,gpt,gpt2,resnet18,lstm",
    python = "python3", precision = "f32" }
  local i = 1
  while i <= #args do
    local name = args[i]:match "^%-%-(%w+)$"
    local value = args[i + 1]
    if name == "cpu" then
      o.cpu, value, i = true, true, i - 1
    elseif kinds[name] then
      o[name] = value and kinds[name](value)
    else
      error("mrt bench step: no option " .. args[i], 0)
    end
    if not value or not o[name] then
      error(("mrt bench step: %s cannot be %s"):format(args[i], tostring(value)), 0)
    end
    i = i + 2
  end
  return o
end

return function(...)
  local o = read { ... }
  if o.measure then return measure(o.measure, o) end
  local info = core.info()
  o.against = o.against or torch_command(o.python, o)
  print(("%s, %d threads, %s; medians of %d rounds; the other side: %s"):format(
    info.isa, info.threads, o.precision, o.rounds, o.against or "none"))
  if o.beside then
    print(("case       ms, alone     other   ratio  beside %d     other   ratio  beside/alone")
      :format(o.beside))
    for case in o.cases:gmatch "[^,]+" do report_beside(case, o) end
    return
  end
  print "case         ms/step     other   ratio  peak MiB    RSS MB     other   ratio  Gflop/s"
  for case in o.cases:gmatch "[^,]+" do report(case, collect(case, o)) end
end
