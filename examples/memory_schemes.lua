--- memory_schemes.lua -- a ResNet and an LSTM under six schemes of memory
---
---     mrt examples/memory_schemes.lua                  tables: shallow nets
---     mrt examples/memory_schemes.lua --deep           up to 1,000 layers, 2,048 steps
---     mrt examples/memory_schemes.lua --out FILE.svg   two log-log charts as well
---     mrt examples/memory_schemes.lua --forward        what forward passes make
---     mrt examples/memory_schemes.lua --run            small ones, for real
---
--- Chen et al. 2016 (arXiv 1604.06174) showed what a planner gains on these two:
--- nothing shared; results in the place of inputs; memory shared too; batch norm
--- and relu computed again; segments computed again, cut where enough bytes have
--- gathered ("sublinear"); and, ours, the solver within the bytes of the one
--- before or the seventh part of what sharing takes.  Feature maps are what a step
--- needs beside weights, their gradients included; nothing is swapped.
---
--- --run measures this machine, predicts with its figures, times the steps of all
--- schemes in turn, and asks a process of each scheme's own what it grew by.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local cache = require "mrt.device.cache"
local chart = require "mrt.plan.report.chart"
local core = require "mrt.core"
local format = require "mrt.util.format"
local checkpoint, swap = mrt.policy.checkpoint, mrt.policy.swap

local flags = arguments.script {
  about = "A ResNet and an LSTM under six schemes of memory.",
  { "--net NAME", "which of them", default = "both", choices = { "resnet", "lstm", "both" } },
  { "--deep", "200 and 1,000 layers, 512 to 2,048 steps as well" },
  { "--forward", "only the bytes that forward passes of the ResNets make" },
  { "--run", "train small ones: time, and memory of the process" },
  { "--rounds N", "of --run", default = 7, least = 1 },
  { "--out FILE", "a picture, .svg or .html" },
  { "--one NET SIZE SCHEME NUMBER" }, -- what --run starts
}

local nets = dofile((arg[0]:gsub("[^/]*$", "scheme_nets.lua")))

local function step_of(net, options)
  local opt = mrt.optim.sgd(net.parameters, { lr = 0.01 })
  return mrt.compile(function(x, y)
    local loss = net.loss(x, y)
    opt:step(mrt.grad(loss, net.parameters))
    return loss
  end, options)
end

local function inputs_of(net, make)
  local labels = mrt.randint(0, net.classes, net.inputs[2], { dtype = "i32" })
  return make(table.unpack(net.inputs[1])), labels
end

-- ---- the schemes -----------------------------------------------------------

-- Also returns the step, which has this plan now.
local function plan_of(net, options)
  local step = step_of(net, options)
  return step:plan(inputs_of(net, mrt.zeros)), step
end

-- Bytes of what the forward pass makes, each operator by itself.
local function forward_bytes(plan)
  local sum = 0
  for _, v in ipairs(plan:values()) do
    if v.role == "activation" and v.type:find "^f32" and v.bytes >= 1 << 16
      and not (v.op == "sub" or v.op == "mul" or v.op == "copy") then
      sum = sum + v.bytes
    end
  end
  return sum
end

-- What a scheme's number means: bytes of a segment, or of the whole step.
local function cut_at(bytes) return { checkpoint = checkpoint.segments_of(bytes) } end
local function within(bytes) return { memory = bytes, swap = swap.none() } end

local options_of = {
  ["no optimisation"] = function()
    return { inplace = false, share = false, fuse = false, spend = 0 }
  end,
  ["in-place"] = function() return { share = false, spend = 0 } end,
  sharing = function() return { spend = 0 } end,
  ["drop norm and relu"] = function()
    return { checkpoint = checkpoint.selective { recompute = { "norm", "activation" } } }
  end,
  sublinear = cut_at, ["solver, as little"] = within, ["solver, a seventh"] = within,
}

-- Chen et al.'s search: six sizes of a segment around the root of the bytes of all
-- maps times those handed on, that one which takes least.
local function best_cut(net, known)
  local best, least
  local root = known.forward / math.sqrt(net.layers)
  for i = -3, 2 do
    local bytes = math.max(1, root * 2.0 ^ (i / 2)) // 1 | 0
    local taken = plan_of(net, cut_at(bytes)).transient
    if not least or taken < least then best, least = bytes, taken end
  end
  return best
end

local function total(plan, transient)
  return math.ceil(plan.persistent + plan.outputs + transient)
end

-- To find that nothing is little enough takes long: shallow nets are not asked
-- for less than half of what segments take.
local function seventh(_, known)
  local bytes, least = known.sharing.transient / 7, known.sublinear.transient / 2
  if not known["solver, as little"] or bytes < least then
    error(("not tried: %s of feature maps"):format(format.bytes(bytes // 1 | 0)), 0)
  end
  return total(known.sharing, bytes)
end

local number_of = {
  sublinear = best_cut,
  ["solver, as little"] = function(_, known)
    return total(known.sharing, known.sublinear.transient)
  end,
  ["solver, a seventh"] = seventh,
}

-- The plan of a net under a scheme, its step, and the scheme's number.
local function plan_one(name, net, known)
  local number = number_of[name] and number_of[name](net, known) or 0
  local plan, step = plan_of(net, options_of[name](number))
  return plan, step, number
end

-- Plan one net under one scheme after the other: what `take` is given is the plan
-- or nil and why, what is known so far, the step and the scheme's number.
local function plan_all(kind, net, take)
  local known = {}
  for _, name in ipairs(kind.schemes) do
    local ok, plan, step, number = pcall(plan_one, name, net, known)
    known[name] = ok and plan or nil
    known.forward = known.forward or forward_bytes(plan)
    take(name, known[name], known, ok and step or plan, number)
  end
  return known
end

-- ---- tables and pictures ---------------------------------------------------

local function gigabytes(n) return ("%9.3f GB"):format(n / 1e9) end

local HEAD <const> = ("%-22s%14s%14s%12s%9s%9s")
  :format("scheme", "feature maps", "in all", "seconds", "extra", "smaller")

local function extra(a, b) return ("%.1f %%"):format(100 * (a / b - 1)) end

local function add(lines, name, which, x, y)
  local line = lines[name] or {}
  lines[name], line[which] = line, line[which] or {}
  line[which][#line[which] + 1] = { x, y }
end

-- A budget that nothing meets, in a line.
local function refuse(name, why)
  print(("%-22s%s"):format(name, (tostring(why):gsub("\n.*", ""):gsub("^[^ ]*: ", ""))))
end

local function show(kind, size, lines)
  local depth = kind.depth(size)
  print(("\n%s, %d %s\n%s"):format(kind.title, depth, kind.axis, HEAD))
  plan_all(kind, kind.make(size, false), function(name, plan, known, why)
    if not plan then return refuse(name, why) end
    local base = known.sharing
    print(("%-22s%14s%14s%12.3g%9s%9s"):format(name, gigabytes(plan.transient),
      gigabytes(plan.peak), plan.seconds, base and extra(plan.seconds, base.seconds) or "",
      base and ("%.1fx"):format(base.transient / plan.transient) or ""))
    add(lines, name, "maps", depth, plan.transient)
    add(lines, name, "total", depth, plan.peak)
  end)
end

-- Each operator's output of a forward pass, as the paper's network has them.
local function show_forward(kind)
  print "what the forward pass makes, f32, 32 images of 224x224"
  for _, list in ipairs { kind.sizes, kind.deep } do
    for _, size in ipairs(list) do
      local plan = plan_of(kind.make(size, false), options_of["no optimisation"]())
      print(("%5d layers %-12s%s"):format(kind.depth(size), size,
        gigabytes(forward_bytes(plan))))
    end
  end
end

local function charts_of(kind, lines)
  local charts = {}
  for _, which in ipairs { "maps", "total" } do
    local series = {}
    for _, name in ipairs(kind.schemes) do
      if lines[name] then
        series[#series + 1] = { name = name, points = lines[name][which] }
      end
    end
    charts[#charts + 1] = { title = ("%s: %s of a training step"):format(kind.title,
      which == "maps" and "feature maps" or "all bytes"), series = series,
      x = { label = kind.axis, log = true },
      y = { label = "bytes", log = true, bytes = true } }
  end
  return charts
end

-- ---- for real ----------------------------------------------------------------

local function resident()
  for line in io.lines "/proc/self/status" do
    local kib = line:match "^VmRSS:%s*(%d+)"
    if kib then return 1024 * kib end
  end
  return 0
end

-- In a process of its own: what it grows by from a finished plan to later steps.
local function run_one(name, size, scheme, number)
  local net = nets[name].make(size, true)
  local step = step_of(net, options_of[scheme](math.tointeger(tonumber(number))))
  local x, y = inputs_of(net, mrt.randn)
  local plan = step:plan(x, y)
  collectgarbage()
  local before = resident()
  for _ = 1, 2 do step(x, y):item() end
  print(plan.peak, resident() - before)
end

-- What is freed after planning goes back to the system, where the C library can
-- be asked to: the step would take it again, and the process grow by less.
local ALLOCATOR <const> = "MALLOC_MMAP_THRESHOLD_=32768 MALLOC_TRIM_THRESHOLD_=0"

local function growth(name, size, scheme, number, profile)
  local pipe <close> = io.popen(("%s MRT_DEVICE=%s %s %s --one %s %s '%s' %d"):format(
    ALLOCATOR, profile, arg[-1] or "mrt", arg[0], name, size, scheme, number))
  return pipe:read("n", "n")
end

-- One thread's own time, where there is one: others use this machine too.
local alone = core.info().threads == 1
local clock = alone and os.clock or core.clock

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Steps of all runs in turn: seconds of each, and as a multiple of `base`'s in
-- the same round, as medians.
local function time_all(runs, base, net)
  local x, y = inputs_of(net, mrt.randn)
  mrt.eval(x, y)
  for round = 0, flags.rounds do -- the first warms up
    for _, r in ipairs(runs) do
      local began = clock()
      r.step(x, y):item()
      r[round] = clock() - began
    end
  end
  local first = table.move(base, 1, flags.rounds, 1, {})
  for _, r in ipairs(runs) do
    local ratios = {}
    for i = 1, flags.rounds do ratios[i] = r[i] / first[i] end
    r.seconds, r.ratio = median(table.move(r, 1, flags.rounds, 1, {})), median(ratios)
  end
end

local function run_size(kind, name, size, profile, lines)
  local depth, runs, refused = kind.depth(size), {}, {}
  local net = kind.make(size, true)
  print(("\n%s, %d %s, small, measured"):format(kind.title, depth, kind.axis))
  print(("%-20s%12s%12s%7s%11s%11s%10s%11s"):format("scheme", "planned", "process",
    "", "seconds", "predicted", "extra", "predicted"))
  local known = plan_all(kind, net, function(scheme, plan, _, step, number)
    if not plan then
      refused[#refused + 1] = { scheme, step }
      return
    end
    runs[#runs + 1] = { scheme = scheme, plan = plan, step = step, number = number }
    runs[scheme] = runs[#runs]
  end)
  time_all(runs, runs.sharing, net)
  for _, r in ipairs(runs) do
    local peak, grown = growth(name, size, r.scheme, r.number, profile)
    local predicted = r.plan.seconds
    print(("%-20s%12s%12s%7.3f%11.4f%11.4f%10s%11s"):format(r.scheme, format.bytes(peak),
      format.bytes(grown), grown / peak, r.seconds, predicted, extra(r.ratio, 1),
      extra(predicted, known.sharing.seconds)))
    add(lines, r.scheme, "planned", depth, peak)
    add(lines, r.scheme, "process", depth, grown)
    add(lines, r.scheme, "predicted", depth, predicted / known.sharing.seconds)
    add(lines, r.scheme, "measured", depth, r.ratio)
  end
  for _, r in ipairs(refused) do refuse(r[1], r[2]) end
end

-- Measured points over planned or predicted lines.
local function points_over(kind, lines, plans, points, title, y)
  local series = {}
  for _, scheme in ipairs(kind.schemes) do
    if lines[scheme] then
      series[#series + 1] = { name = scheme, points = lines[scheme][plans], dashed = true }
      series[#series + 1] = { name = scheme .. ", measured", bare = true, same = true,
        points = lines[scheme][points] }
    end
  end
  return { title = kind.title .. ": " .. title, series = series,
    x = { label = kind.axis, log = true }, y = y }
end

local function run_all(kind, name, charts, profile)
  local lines = {}
  for _, size in ipairs(kind.small) do run_size(kind, name, size, profile, lines) end
  charts[#charts + 1] = points_over(kind, lines, "planned", "process",
    "bytes planned (lines), the process's growth (points)",
    { label = "bytes", log = true, bytes = true })
  charts[#charts + 1] = points_over(kind, lines, "predicted", "measured",
    "time predicted (lines), measured (points)",
    { label = "time (sharing = 1)", first = 0.9 })
end

-- Plan with figures of this machine as it is today; other processes read them.
local function measure_machine()
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write(cache.text(mrt.device.profile { save = false, cpu = alone }))
  return path
end

local function tables(kind, charts)
  local lines = {}
  for _, size in ipairs(kind.sizes) do show(kind, size, lines) end
  for _, size in ipairs(flags.deep and kind.deep or {}) do show(kind, size, lines) end
  table.move(charts_of(kind, lines), 1, 2, #charts + 1, charts)
end

-- The charts of the nets that were asked for.
local function pictures()
  local charts, profile = {}, nil
  if flags.run then profile = measure_machine() end
  for _, name in ipairs { "resnet", "lstm" } do
    local wanted = flags.net == "both" or flags.net == name
    if wanted and flags.run then
      run_all(nets[name], name, charts, profile)
    elseif wanted then
      tables(nets[name], charts)
    end
  end
  if profile then os.remove(profile) end
  return charts
end

if flags.one then return run_one(table.unpack(flags.one)) end
if flags.net ~= "lstm" and not flags.run then show_forward(nets.resnet) end
if flags.forward then return end
local charts = pictures()
if flags.out then
  assert(chart.save(flags.out, charts))
  print("\nwritten: " .. flags.out)
end
