--- memory_schemes.lua -- a ResNet and an LSTM under six schemes of memory
---
---     mrt examples/memory_schemes.lua                  tables: shallow nets
---     mrt examples/memory_schemes.lua --deep           up to 1,000 layers, 2,048 steps
---     mrt examples/memory_schemes.lua --out FILE.svg   two log-log charts as well
---     mrt examples/memory_schemes.lua --run            small ones, for real
---
--- Chen et al. 2016 (arXiv 1604.06174) showed what a planner gains on these two:
--- nothing shared; results in the place of inputs; memory shared too; batch norm
--- and relu computed again; segments computed again, cut where enough bytes have
--- gathered ("sublinear"); and, ours, the solver within the bytes of the one
--- before or the seventh part of what sharing takes.  Feature maps are what a step
--- needs beside weights, their gradients included; nothing is swapped.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local argparse = require "argparse"
local chart = require "mrt.report.chart"
local core = require "mrt.core"
local format = require "mrt.format"
local nn, optim = mrt.nn, mrt.optim
local checkpoint, swap = mrt.policy.checkpoint, mrt.policy.swap

local parser = argparse("mrt examples/memory_schemes.lua",
  "A ResNet and an LSTM under six schemes of memory.")
parser:option("--net", "resnet, lstm or both"):default "both"
parser:flag("--deep", "200 and 1,000 layers, 512 to 2,048 steps as well")
parser:flag("--run", "train small ones, in a process each")
parser:option("--out", "a picture, .svg or .html"):argname "FILE"
parser:option("--one", "used by --run"):args(3):argname { "NET", "SIZE", "SCHEME" }
local flags = parser:parse(arg)

-- ---- the nets --------------------------------------------------------------

-- conv, norm, relu
local Layer = nn.Module "Layer"

function Layer:init(inputs, outputs, kernel, stride)
  self.conv = nn.Conv2d(inputs, outputs, kernel,
    { stride = stride, padding = kernel // 2 })
  self.norm = nn.BatchNorm(outputs)
end

function Layer:forward(x) return self.norm(self.conv(x)):relu() end

-- The block as it was published with the figures: relu before the sum only.
local Block = nn.Module "Block"

function Block:init(inputs, width, stride, first)
  self.layers = { Layer(inputs, width, 1, 1), Layer(width, width, 3, stride),
    Layer(width, 4 * width, 1, 1) }
  if first then self.shortcut = Layer(inputs, 4 * width, 1, stride) end
end

function Block:forward(x)
  local y = x
  for _, layer in ipairs(self.layers) do y = layer(y) end
  return (self.shortcut and self.shortcut(x) or x) + y
end

local ResNet = nn.Module "ResNet"

function ResNet:init(blocks)
  self.stem, self.blocks = Layer(3, 64, 7, 2), {}
  local inputs = 64
  for s, count in ipairs(blocks) do
    local width = 64 << s - 1
    for i = 1, count do
      local first = i == 1
      self.blocks[#self.blocks + 1] = Block(inputs, width, first and s > 1 and 2 or 1,
        first)
      inputs = 4 * width
    end
  end
  self.head = nn.Linear(inputs, 1000)
end

function ResNet:forward(x)
  x = self.stem(x):max_pool2d(3, { stride = 2, padding = 1 })
  for _, block in ipairs(self.blocks) do x = mrt.layer(block, x) end
  return self.head(x:global_avg_pool2d())
end

local nets = {}

nets.resnet = {
  title = "ResNet", sizes = { "3,4,6,3", "3,4,23,3", "3,8,36,3" },
  deep = { "3,24,36,3", "3,83,243,3" }, small = { "1,1,1,1", "2,2,2,2", "3,4,6,3" },
  axis = "layers",
  -- A loss and what it is of; `small` for --run.
  make = function(size, small)
    local blocks = {}
    for n in size:gmatch "%d+" do blocks[#blocks + 1] = math.tointeger(n) end
    local model = ResNet(blocks)
    local rows, side = small and 8 or 32, small and 64 or 224
    return { parameters = model:parameters(), layers = #model.blocks,
      inputs = { { rows, 3, side, side }, { rows } }, classes = 1000,
      loss = function(x, y) return nn.cross_entropy(model(x), y) end }
  end,
  depth = function(size)
    local sum = 2
    for n in size:gmatch "%d+" do sum = sum + 3 * n end
    return sum
  end,
  schemes = { "no optimisation", "in-place", "sharing", "drop norm and relu",
    "sublinear", "solver, as little", "solver, a seventh" },
}

-- A loss at every step; so many steps are a layer to checkpoint policies.
local CHUNK <const> = 16

nets.lstm = {
  title = "LSTM", sizes = { "64", "128", "256" }, deep = { "512", "1024", "2048" },
  small = { "32", "64", "128" }, axis = "steps",
  make = function(size, small)
    local T, N, H = math.tointeger(tonumber(size)), small and 8 or 64,
      small and 128 or 1024
    local classes = small and 500 or 5000
    local lstm, head = nn.LSTM(50, H, { layers = 4 }), nn.Linear(H, classes)
    local params = lstm:parameters()
    for _, p in ipairs(head:parameters()) do params[#params + 1] = p end
    local function chunk(x, y, h, c)
      local r
      r, h, c = lstm(x, h, c)
      return nn.cross_entropy(head(r):reshape(-1, classes), y:reshape(-1)), h, c
    end
    return { parameters = params, layers = T // CHUNK, inputs = { { T, N, 50 }, { T, N } },
      classes = classes, loss = function(x, y)
        local h, c, sum = mrt.zeros(4, N, H), mrt.zeros(4, N, H), nil
        for i = 1, T, CHUNK do
          local loss
          loss, h, c = mrt.layer(chunk, x:slice(1, i, i + CHUNK - 1),
            y:slice(1, i, i + CHUNK - 1), h, c)
          sum = sum and sum + loss or loss
        end
        return sum / (T // CHUNK)
      end }
  end,
  depth = function(size) return math.tointeger(tonumber(size)) end,
  schemes = { "no optimisation", "in-place", "sharing", "sublinear",
    "solver, as little", "solver, a seventh" },
}

local function step_of(net, options)
  local opt = optim.sgd(net.parameters, { lr = 0.01 })
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

local function plan_of(net, options)
  return step_of(net, options):plan(inputs_of(net, mrt.zeros))
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

-- Chen et al.'s search: six sizes of a segment around the root of the bytes of all
-- maps times those handed on, that one which takes least.
local function sublinear(net, known)
  local best, least
  local root = known.forward / math.sqrt(net.layers)
  for i = -3, 2 do
    local options = { checkpoint = checkpoint.segments_of(math.max(1, root * 2.0 ^ (i / 2)) // 1) }
    local plan = plan_of(net, options)
    if not least or plan.transient < least then best, least = options, plan.transient end
  end
  return best
end

local function within(plan, transient)
  return { memory = math.ceil(plan.persistent + plan.outputs + transient),
    swap = swap.none() }
end

local options_of = {
  ["no optimisation"] = function() return { inplace = false, share = false, fuse = false } end,
  ["in-place"] = function() return { share = false } end,
  sharing = function() return {} end,
  ["drop norm and relu"] = function()
    return { checkpoint = checkpoint.selective { recompute = { "norm", "activation" } } }
  end,
  sublinear = sublinear,
  ["solver, as little"] = function(_, known)
    return within(known.sharing, known.sublinear.transient)
  end,
  ["solver, a seventh"] = function(_, known)
    return within(known.sharing, known.sharing.transient / 7)
  end,
}

-- Plan one net under one scheme after the other, until `take` returns true.
local function plan_all(kind, size, small, take)
  local net, known = kind.make(size, small), {}
  for _, name in ipairs(kind.schemes) do
    local ok, options = pcall(options_of[name], net, known)
    local planned, plan = ok, options
    if ok then planned, plan = pcall(plan_of, net, options) end
    if planned then
      known[name] = plan
      known.forward = known.forward or forward_bytes(plan)
    end
    if take(name, planned and plan or nil, known, planned and options or plan, net) then
      break
    end
  end
  return known
end

-- ---- tables and pictures ---------------------------------------------------

local function gigabytes(n) return ("%9.3f GB"):format(n / 1e9) end

local function show(kind, size, lines)
  local depth = kind.depth(size)
  print(("\n%s, %d %s"):format(kind.title, depth, kind.axis))
  print(("%-22s%14s%14s%12s%9s%9s"):format("scheme", "feature maps", "in all",
    "seconds", "extra", "smaller"))
  local known = plan_all(kind, size, false, function(name, plan, known, why)
    if not plan then
      print(("%-22s %s"):format(name, tostring(why):match "[^\n]*"))
      return
    end
    local base = known.sharing
    print(("%-22s%14s%14s%12.3g%9s%9s"):format(name, gigabytes(plan.transient),
      gigabytes(plan.peak), plan.seconds,
      base and ("%.1f %%"):format(100 * (plan.seconds / base.seconds - 1)) or "",
      base and ("%.1fx"):format(base.transient / plan.transient) or ""))
    local line = lines[name] or { maps = {}, total = {} }
    lines[name] = line
    line.maps[#line.maps + 1] = { depth, plan.transient }
    line.total[#line.total + 1] = { depth, plan.peak }
  end)
  print(("what the forward pass makes: %s"):format(gigabytes(known.forward)))
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

local function resident(field)
  for line in io.lines "/proc/self/status" do
    local kib = line:match("^" .. field .. ":%s*(%d+)")
    if kib then return 1024 * math.tointeger(kib) end
  end
end

-- In a process of its own: seconds of a step, and what the process grew by.
local function run_one(kind, size, scheme)
  mrt.seed(1)
  local options, made
  plan_all(kind, size, true, function(name, plan, _, o, net)
    if name == scheme and plan then options, made = o, net end
    return name == scheme
  end)
  if not options then return print "none" end
  local step = step_of(made, options)
  local x, y = inputs_of(made, mrt.randn)
  mrt.eval(x, y)
  collectgarbage()
  local plan, before, times = step:plan(x, y), resident "VmRSS", {}
  for i = 1, 7 do
    local began = core.clock()
    step(x, y):item()
    times[i] = core.clock() - began
  end
  table.sort(times)
  print(("%.9f %d %d %.9f"):format(times[3], resident "VmHWM" - before, plan.peak,
    plan.seconds))
end

local function run_all(kind, name, charts)
  local lines = {}
  for _, size in ipairs(kind.small) do
    print(("\n%s, %d %s, small, measured"):format(kind.title, kind.depth(size), kind.axis))
    print(("%-22s%14s%14s%11s%11s%12s%12s"):format("scheme", "planned", "process",
      "seconds", "predicted", "extra", "predicted"))
    local base
    for _, scheme in ipairs(kind.schemes) do
      local pipe = io.popen(("%s %s --one %s %s '%s'"):format(arg[-1] or "mrt", arg[0], name,
        size, scheme))
      local t, grown, peak, predicted = pipe:read("n", "n", "n", "n")
      pipe:close()
      if t then
        if scheme == "sharing" then base = { t, predicted } end
        local function extra(i, v)
          return base and ("%.1f %%"):format(100 * (v / base[i] - 1)) or ""
        end
        print(("%-22s%14s%14s%11.4f%11.4f%12s%12s"):format(scheme, format.bytes(peak),
          format.bytes(grown), t, predicted, extra(1, t), extra(2, predicted)))
        local line = lines[scheme] or { planned = {}, measured = {} }
        lines[scheme] = line
        line.planned[#line.planned + 1] = { kind.depth(size), peak }
        line.measured[#line.measured + 1] = { kind.depth(size), grown }
      end
    end
  end
  local series = {}
  for _, scheme in ipairs(kind.schemes) do
    if lines[scheme] then
      series[#series + 1] = { name = scheme .. ", planned", dashed = true,
        points = lines[scheme].planned }
      series[#series + 1] = { name = scheme .. ", process", bare = true,
        points = lines[scheme].measured }
    end
  end
  charts[#charts + 1] = { title = kind.title .. ": planned, and the process's growth",
    series = series, x = { label = kind.axis, log = true },
    y = { label = "bytes", log = true, bytes = true } }
end

if flags.one then return run_one(nets[flags.one[1]], flags.one[2], flags.one[3]) end

local charts = {}

local function tables(kind)
  local lines = {}
  for _, size in ipairs(kind.sizes) do show(kind, size, lines) end
  for _, size in ipairs(flags.deep and kind.deep or {}) do show(kind, size, lines) end
  table.move(charts_of(kind, lines), 1, 2, #charts + 1, charts)
end

for _, name in ipairs { "resnet", "lstm" } do
  if flags.net == "both" or flags.net == name then
    if flags.run then
      run_all(nets[name], name, charts)
    else
      tables(nets[name])
    end
  end
end
if flags.out and #charts > 0 then
  assert(chart.save(flags.out, charts))
  print("\nwritten: " .. flags.out)
end
