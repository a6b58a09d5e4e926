--- mrt bench step -- training steps: time and memory, beside PyTorch
---
---     mrt bench step [--cases mlp,gpt] [--rounds N | --turns N] [--seconds S] [--cpu]
---                    [--precision bf16] [--beside N] [--peaks]
---                    [--peers eager,fused,...] [--python PROGRAM]
---                    [--against "COMMAND {case}"]
---
--- Each measurement is a process of its own: a few steps to warm up, then steps for S
--- seconds, of which it reports the least and the process's growth.  Peers are ways to
--- take the same step in PyTorch, where PROGRAM (default python3) has it (torch_step.py):
--- eager; fused, with the optimizer's fused kernel; compile, that by torch.compile;
--- channels-last, of convolutions, and compile-channels-last.  Or, with --against, any
--- command that prints one line of JSON with ms_min (or ms_med) and rss_growth_MB: the
--- build before is "BUILD/mrt bench step --measure {case}".
---
--- All run in turn, N rounds.  The table has the least of all rounds, the ratio to the
--- quickest peer (*), growths, ours and the least of the peers', and the geometric means of
--- the ratios.  Where parameters are not as many as a peer's, nothing is compared.
---
--- With --turns they run side by side and take N steps each, one after the other
--- (turns.lua); the ratio is the median of those of each turn, to the peer where it is the
--- largest.  It holds on a machine with much else to do.  The other command is given
--- --in-turn.
---
--- --cases takes names of cases.lua and heldout.lua and groups of them: usual (the
--- default), held-out, all.  --cpu counts processor time, for one thread on a machine with
--- much else to do.  --beside measures alone and beside N busy loops, in turn; it shows
--- medians.  --precision names a policy (f32, bf16, f16, fp8); PyTorch has its autocast
--- around forward pass and loss, of bf16 or f16.
---
--- --peaks measures this machine's roofs instead of peers (peaks.lua: flop/s of large
--- products, bytes a second of memory and of the cache), and says of each case: all its
--- flops at the roof, in ms and as a share of the time; all its bytes at memory's rate,
--- the same; the bound, which is the sum over nodes of the larger of flops at the roof and
--- bytes at the rates, and how much of it is due to flops; the least time, and the bound
--- over it: 1.00 is as quick as the roofs allow.
---
--- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local busy = require "mrt.bench.busy"
local core = require "mrt.core"
local describe = require "mrt.util.describe"
local peers = require "mrt.bench.peers"
local turns = require "mrt.bench.turns"

local function status(key)
  local file <close> = io.open "/proc/self/status"
  return file and (tonumber(file:read("a"):match(key .. ":%s*(%d+)")) or 0) / 1024 or 0
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- ---- one case in this process ------------------------------------------------------

-- Seconds of steps, the least first.
local function times_of(o, step, x, y)
  for _ = 1, 3 do step(x, y):item() end
  local clock = o.cpu and os.clock or core.clock
  local times, first = {}, core.clock()
  if o.in_turn then
    times = turns.take(clock, function() step(x, y):item() end)
  else
    repeat
      local before = clock()
      step(x, y):item()
      times[#times + 1] = clock() - before
    until #times >= 5 and core.clock() - first >= o.seconds
  end
  table.sort(times)
  return times
end

local function count(params)
  local sum = 0
  for _, p in ipairs(params) do sum = sum + p:numel() end
  return sum
end

-- What the roofs say of a plan: one line of JSON.
local function at_roofs(plan, roofs)
  local list = {}
  for name, value in pairs(require "mrt.bench.peaks".of(plan, roofs)) do
    list[#list + 1] = ('"%s": %.4f'):format(name, value)
  end
  table.sort(list)
  io.write("{", table.concat(list, ", "), "}\n")
end

-- Prints one line of JSON: what steps take or, with roofs, what they take at least.
local function measure(case, o)
  local mrt = require "mrt"
  local models = require "mrt.bench.cases"
  local base = status "VmRSS"
  local policy = mrt.policy.precision[o.precision]
  local step, x, y, params = models.make(case, { precision = policy() })
  local began = core.clock()
  local plan = step:plan(x, y)
  local planning = core.clock() - began
  if o.roofs then return at_roofs(plan, o.roofs) end
  local times = times_of(o, step, x, y)
  io.write(('{"case": "%s", "ms_med": %.3f, "ms_min": %.3f, "steps": %d, '
    .. '"plan_ms": %.1f, "peak": %d, "inputs": %d, "allocated": %d, "params": %d, '
    .. '"gflop": %.3f, "rss_growth_MB": %.1f}\n')
    :format(case, median(times) * 1e3, times[1] * 1e3, #times, planning * 1e3,
      plan.peak, plan.inputs, mrt.memory().peak, count(params), plan.flops / 1e9,
      status "VmHWM" - base))
end

-- ---- beside the peers --------------------------------------------------------------

local function our_command(case, o, more)
  return ('"%s" bench step --measure %s --precision %s --seconds %g%s%s')
    :format(arg[-1], case, o.precision, o.seconds, o.cpu and " --cpu" or "", more)
end

local function ours(case, o, roofs)
  local command = our_command(case, o, roofs and " --roofs " .. roofs or "")
  return peers.run(command) or error("no measurement from: " .. command, 0)
end

-- The least of some results' field; nil: none has it.
local function least(results, name, other)
  local value
  for _, r in ipairs(results) do
    local one = r[name] or other and r[other]
    if one and (not value or one < value) then value = one end
  end
  return value
end

local function ratio(a, b) return a and b and ("%.2fx"):format(a / b) or "-" end

-- Four digits or so, in seven places.
local function number(x)
  return not x and "-" or (x < 100 and "%.2f" or "%.1f"):format(x)
end

-- Our results of a case and, by peer, those of the peers.
local function collect(case, o)
  local own, theirs = {}, {}
  for i in ipairs(o.list) do theirs[i] = {} end
  for _ = 1, o.rounds do
    own[#own + 1] = ours(case, o)
    for i, peer in ipairs(o.list) do
      theirs[i][#theirs[i] + 1] = peers.ask(peer, case)
    end
  end
  return own, theirs
end

-- The same of steps taken in turn; and the largest ratio of ours to a peer's.
local function collect_turns(case, o)
  local list, theirs, largest = { turns.start(our_command(case, o, " --in-turn")) }, {}, nil
  for i, peer in ipairs(o.list) do
    theirs[i] = {}
    local process = peers.start(peer, case)
    if process then
      process.peer = i
      list[#list + 1] = process
    end
  end
  local times = turns.run(list, o.turns)
  local own = list[1]:finish() or error("no measurement of ours of " .. case, 0)
  for k = 2, #list do
    local i = list[k].peer
    theirs[i][1] = peers.finish(o.list[i], list[k])
    local one = theirs[i][1] and turns.ratio(times[1], times[k])
    if one and (not largest or one > largest) then largest = one end
  end
  return { own }, theirs, largest
end

-- What keeps a case from being compared; nil: nothing.
local function difference(own, theirs, list)
  for i, results in ipairs(theirs) do
    local params = results[1] and results[1].params
    if params and params ~= own.params then
      return ("%d parameters, %d in %s: not compared"):format(own.params, params, list[i].name)
    end
  end
end

local function notes(case, problem, list)
  if problem then print(("  %s: %s"):format(case, problem)) end
  for _, peer in ipairs(list) do
    if peer.failed then print(("  %s: %s failed: %s"):format(case, peer.name, peer.failed)) end
    peer.failed = nil
  end
end

local function smaller(a, b) return a and b and math.min(a, b) or a or b end

-- Of all peers: the least times by peer, the least of these, the least growth.
local function summary(theirs)
  local times, best, grown = {}, nil, nil
  for i, results in ipairs(theirs) do
    times[i] = least(results, "ms_min", "ms_med")
    best = smaller(best, times[i])
    grown = smaller(grown, least(results, "rss_growth_MB", "peak_rss_over_base_MB"))
  end
  return times, best, grown
end

-- A row; our ratio to the quickest peer, and of growths to the least.
local function report(case, o)
  local own, theirs, largest = (o.turns and collect_turns or collect)(case, o)
  local ms, grown = least(own, "ms_min"), least(own, "rss_growth_MB")
  local times, best, other_grown = summary(theirs)
  local row = { ("%-10s %7s"):format(case, number(ms)) }
  for i in ipairs(o.list) do
    local mark = best and times[i] == best and "*" or " "
    row[#row + 1] = (" %7s%s"):format(number(times[i]), mark)
  end
  local problem = difference(own[1], theirs, o.list)
  if problem then best, other_grown, largest = nil, nil, nil end
  local factor = largest or best and ms / best
  row[#row + 1] = (" %6s %7s %7s %7.1f"):format(ratio(factor, 1), number(grown),
    number(other_grown), 1e3 * own[1].gflop / ms)
  print(table.concat(row))
  notes(case, problem, o.list)
  return factor, other_grown and grown / other_grown
end

local function mean(logs) return math.exp(logs.sum / logs.count) end

local function add(logs, x)
  if x then logs.sum, logs.count = logs.sum + math.log(x), logs.count + 1 end
end

local function compare(o)
  local head = { ("%-10s %7s"):format("case, ms", "mrt") }
  for _, peer in ipairs(o.list) do head[#head + 1] = (" %7s "):format(peer.head) end
  print(table.concat(head) .. (" %6s %7s %7s %7s"):format("ratio", "MiB", "least", "Gflop/s"))
  local time, growth = { sum = 0, count = 0 }, { sum = 0, count = 0 }
  for _, case in ipairs(o.cases) do
    local t, g = report(case, o)
    add(time, t)
    add(growth, g)
  end
  if time.count == 0 then return end
  print(("geometric means of %d: %.2fx the time of the quickest peer%s"):format(time.count,
    mean(time), growth.count > 0 and (", %.2fx the least growth"):format(mean(growth)) or ""))
end

-- ---- beside busy loops -------------------------------------------------------------

-- Median over rounds alone and beside loops, of what `measured` returns.
local function with_loops(o, measured)
  local alone, beside = {}, {}
  for _ = 1, o.rounds do
    local a, b = measured(), busy.beside(o.beside, measured)
    if not a or not b then return nil end
    alone[#alone + 1], beside[#beside + 1] = a.ms_med, b.ms_med
  end
  return median(alone), median(beside)
end

local function report_beside(case, o)
  local alone, beside = with_loops(o, function() return ours(case, o) end)
  local other, other_beside
  for _, peer in ipairs(o.list) do
    local a, b = with_loops(o, function() return peers.ask(peer, case) end)
    if a then
      other, other_beside = smaller(other, a), smaller(other_beside, b)
    end
  end
  print(("%-10s %9.2f %9s %7s %9.2f %9s %7s %12s"):format(case, alone, number(other),
    ratio(alone, other), beside, number(other_beside), ratio(beside, other_beside),
    ratio(beside, alone)))
  notes(case, nil, o.list)
end

local function compare_beside(o)
  print(("case       ms, alone     other   ratio  beside %d     other   ratio  beside/alone")
    :format(o.beside))
  for _, case in ipairs(o.cases) do report_beside(case, o) end
end

-- ---- the whole ---------------------------------------------------------------------

local function described(o)
  if o.against then return o.against end
  local names = {}
  for i, peer in ipairs(o.list) do
    names[i] = peer.name .. (peer.head ~= peer.name and " (" .. peer.head .. ")" or "")
  end
  return #names > 0 and "PyTorch " .. table.concat(names, ", ") or "none"
end

-- Names of cases, groups taken apart.
local function read_cases(text)
  local models = require "mrt.bench.cases"
  local groups, names = models.groups, {}
  for name in text:gmatch "[^,]+" do
    local list = groups[name] or { name }
    if name == "all" then
      list = table.move(groups["held-out"], 1, #groups["held-out"], #groups.usual + 1,
        { table.unpack(groups.usual) })
    end
    table.move(list, 1, #list, #names + 1, names)
  end
  return names
end

local function check(o)
  if o.turns and (o.beside or o.peaks) then
    error("mrt bench step: --turns is not for --beside or --peaks", 0)
  end
end

-- What the first line says of how often.
local function counted(o)
  return o.turns and describe.count(o.turns, "step") .. " in turn"
    or describe.count(o.rounds, "round")
end

local function run(o)
  if o.measure then return measure(o.measure, o) end
  check(o)
  local info = core.info()
  local about = ("%s, %s, %s"):format(info.isa, describe.count(info.threads, "thread"),
    o.precision)
  o.cases = o.cases or read_cases "usual"
  if o.peaks then
    print(("%s; the least of %s"):format(about, describe.count(o.rounds, "round")))
    return require "mrt.bench.peaks".compare(o, function(case, roofs)
      return ours(case, o, roofs)
    end)
  end
  o.list = peers.list(o)
  print(("%s; %s of %s\npeers: %s"):format(about, o.beside and "medians" or "the least",
    counted(o), described(o)))
  local ok, problem = pcall(o.beside and compare_beside or compare, o)
  peers.close(o.list)
  if not ok then error(problem, 0) end
end

return arguments.new {
  name = "mrt bench step",
  about = "Training steps: time and memory, beside PyTorch.",
  { "--cases LIST", "of cases.lua; or usual, held-out, all", read = read_cases },
  { "--rounds N", "in turn", default = 3, least = 1 },
  { "--turns N", "steps in turn", least = 1 },
  { "--seconds X", "of each measurement", default = 5 },
  { "--cpu", "processor time" },
  { "--precision NAME", "a policy", default = "f32", choices = { "f32", "bf16", "f16", "fp8" } },
  { "--beside N", "busy loops", least = 1 },
  { "--peers LIST", "ways of PyTorch's", default = peers.names, read = peers.read },
  { "--python FILE", "with PyTorch", default = "python3" },
  { "--against TEXT", "another command" },
  { "--peaks", "beside this machine's roofs" },
  { "--measure NAME" }, -- a case, in this process
  { "--in-turn" }, -- a step for each line that is read
  { "--roofs LIST", read = function(word) return require "mrt.bench.peaks".read(word) end },
  run = run,
}
