--- measure.lua -- how fast is this machine?
---
--- Short programs of ordinary operators run with a clock at every node, and a few
--- megabytes are written and read, about a second in all.  A kind of work goes at
--- the flop/s of its nodes; products have edges as well, found from thin ones.
--- The programs run in turn, several times, and of a node the least time counts:
--- what else the machine does only ever adds to it.
---
--- SPDX-License-Identifier: MIT

require "mrt" -- the programs below use methods of tensors
local communicator = require "mrt.communicator"
local core = require "mrt.core"
local compile = require "mrt.compile"
local op = core.op

local measure = {}

local TURNS, ROUNDS = 4, 3

local function randn(...)
  local x = op.randn { shape = { ... } }
  core.eval { x }
  return x
end

-- The nodes of fn(inputs), as {class, flops, bytes, seconds}.  Every turn asks in
-- the same order, so that a place in it is a program.
local function nodes(fn, inputs, o)
  local at = o.at + 1
  local known = o.programs[at] or { inputs = inputs,
    step = compile.compile(fn, { name = "mrt.device.profile" }) }
  local steps = known.step:measure({ rounds = ROUNDS, cpu = o.cpu },
    table.unpack(known.inputs)).steps
  for i, n in ipairs(steps) do
    n.measured = math.min(n.measured, known.steps and known.steps[i].measured or n.measured)
  end
  known.steps, o.at, o.programs[at] = steps, at, known
  return steps
end

-- Seconds of the only node of a class.
local function seconds_of(class, fn, inputs, o)
  local sum = 0
  for _, n in ipairs(nodes(fn, inputs, o)) do
    if n.class == class then sum = sum + n.measured end
  end
  return sum
end

local function product(m, n, k, o)
  return seconds_of("matmul", function(a, b) return op.matmul(a, b) end,
    { randn(m, k), randn(k, n) }, o)
end

-- The edge e for which (thin + e) / (full + e) is the ratio of two times.
local function edge(thin, full, ratio)
  if not (ratio < 1) then return full end
  return math.max(0, math.min(full, (full * ratio - thin) / (1 - ratio)))
end

local FULL, THIN = 512, 16

local function products(o)
  local all = product(FULL, FULL, FULL, o)
  local e = {}
  for i = 1, 3 do
    local size = { FULL, FULL, FULL }
    size[i] = THIN
    e[i] = edge(THIN, FULL, product(size[1], size[2], size[3], o) / all)
  end
  return 2 * (FULL + e[1]) * (FULL + e[2]) * (FULL + e[3]) / all, e
end

-- The same of another dtype: what f32 does, times the ratio at half the size.
local function products_in(dtype, f32, o)
  local size = FULL // 2
  local a = op.cast(randn(size, size), dtype)
  core.eval { a }
  local time = seconds_of("matmul", op.matmul, { a, a }, o)
  return f32 * product(size, size, size, o) / time
end

local IMAGES, CHANNELS = 8, 512

local kinds = { "convolution", "convolution_dx", "convolution_dw" }

-- Seconds of a convolution and its gradients over images of `side` by `side`.
local function convolution(side, o)
  local time = {}
  for _, n in ipairs(nodes(function(x, w)
    local y = op.conv2d(x, w)
    return table.unpack(core.grad({ (y * y):sum() }, { x, w }))
  end, { randn(IMAGES, side, side, CHANNELS), randn(CHANNELS, CHANNELS, 1, 1) }, o)) do
    time[n.class] = n.measured
  end
  return time
end

-- Places of the image are m of a product, or k for the weights' gradient.
local function convolutions(o, rates, edges)
  local full, thin = convolution(8, o), convolution(2, o)
  local places, few = IMAGES * 8 ^ 2, IMAGES * 2 ^ 2
  for _, kind in ipairs(kinds) do
    local e = edge(few, places, thin[kind] / full[kind])
    rates[kind] = 2 * CHANNELS ^ 2 * (places + e) / full[kind]
    edges[kind] = kind == "convolution_dw" and { 0, 0, e } or { e, 0, 0 }
  end
end

local HEADS = 8

-- flop/s of causal attention and its gradient over `length` keys of `width`.
local function attention(length, width, o)
  local q, flops, time = randn(2, length, HEADS, width), 0, 0
  local result = nodes(function(x)
    local y = op.attention(x, x, x, { causal = true })
    return core.grad({ y:sum() }, { x })[1]
  end, { q }, o)
  for _, n in ipairs(result) do
    if n.class:find "^attention" then
      flops, time = flops + n.flops, time + n.measured
    end
  end
  return flops / time
end

-- The e for which a and b flop/s are r * n / (n + e) at n of `na` and `nb`.
local function saturation(a, na, b, nb)
  local e = a < b and (b - a) / (a / na - b / nb) or 0
  return math.max(0, math.min(e, 4 * na))
end

-- Of a query a causal one sees half of the keys; products are as wide as a key
-- and a value together.
local function attention_rate(o)
  local short, narrow = attention(64, 64, o), attention(256, 32, o)
  local long = attention(256, 64, o)
  local keys = saturation(short, 32.5, long, 128.5)
  local width = saturation(narrow, 64, long, 128)
  return long * (128.5 + keys) / 128.5 * (128 + width) / 128, { 0, keys, width }
end

local ELEMENTS = 1 << 16

-- Programs with nodes of the other kinds.
local programs = {
  norm = function(x)
    local rows = x:reshape(-1, 256)
    local y = op.layer_norm(rows, rows:slice(1, 1, 1):reshape(256),
      rows:slice(1, 2, 2):reshape(256))
    return core.grad({ (y * y):sum() }, { x })[1]
  end,
  activation = function(x)
    return core.grad({ op.gelu(x):sum() }, { x })[1]
  end,
  softmax = function(x)
    local rows = x:reshape(-1, 256)
    local y = op.softmax(rows, { dim = 2 })
    return core.grad({ (y * y):sum() }, { x })[1]
  end,
  dropout = function(x) return op.dropout(x, { p = 0.1 }) end,
  random = function(x) return op.randn { shape = x.shape } end,
  pointwise = function(x)
    return op.sqrt(op.exp(op.sin(x)) * x + x)
  end,
  pooling = function(x)
    local y = op.max_pool2d(x:reshape(4, 32, 32, 16), { kernel = 3, stride = 2, padding = 1 })
    return core.grad({ (y * y):sum() }, { x })[1]
  end,
  reduce = function(x)
    return op.sum(x:reshape(-1, 256), { dim = { 1 } }), op.sum(x)
  end,
  move = function(x)
    local ids = op.arange { stop = 256, dtype = "i64" }
    local y = op.embedding(x:reshape(256, -1), ids)
    return core.grad({ (y * y):sum() }, { x })[1]
  end,
}

local function rate(class, o)
  local flops, time = 0, 0
  for _, n in ipairs(nodes(programs[class], { o.x }, o)) do
    if n.class == class and n.flops > 0 then
      flops, time = flops + n.flops, time + math.max(n.measured - o.launch, 1e-9)
    end
  end
  return time > 0 and flops / time or nil
end

local function update_rate(o)
  local optim = require "mrt.optim"
  local p = core.variable(o.x, "p")
  local opt = optim.adamw({ p }, { lr = 0.0 })
  local flops, time = 0, 0
  for _, n in ipairs(nodes(function(g) opt:step { g } end, { o.x }, o)) do
    if n.class == "update" and n.flops > 100 then
      flops, time = flops + n.flops, time + math.max(n.measured - o.launch, 1e-9)
    end
  end
  return flops / time
end

-- Bytes a second of z = x + y over `n` elements.
local function bandwidth(n, o)
  local x = randn(n)
  local time = seconds_of("pointwise", function(a, b) return a + b end,
    { x, randn(n) }, o)
  return 12 * n / math.max(time - o.launch, 1e-9)
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Seconds of a node that does nothing, and of a call beside its nodes.
local function launch(o)
  local fn = function(x)
    local y = x
    for _ = 1, 16 do y = op.cumsum(y, { dim = 1 }) end
    return y
  end
  local x = randn(2)
  local result, times = nodes(fn, { x }, o), {}
  for i, n in ipairs(result) do times[i] = n.measured end
  local step = compile.compile(fn, { name = "mrt.device.profile" })
  local calls = {}
  local clock = o.cpu and os.clock or core.clock
  for i = 1, 51 do
    local began = clock()
    step(x)
    calls[i] = clock() - began
  end
  local each = median(times)
  return each, math.max(0, median(calls) - each * #times)
end

-- Bytes of the largest cache that a processor sees.
local function cache_bytes()
  local most
  for index = 0, 4 do
    local file = io.open(
      ("/sys/devices/system/cpu/cpu0/cache/index%d/size"):format(index))
    local kib = file and file:read("a"):match "^(%d+)K"
    if file then file:close() end
    most = kib and math.max(most or 0, kib * 1024) or most
  end
  return most
end

-- The file of swapped values, where it would be made; declared figures where there
-- is no room for it.
local function swap_tier(declared)
  local ok, rates = pcall(core.measure_swap, 64 << 20)
  return { capacity = declared.swap_capacity, guessed = not ok,
    read = ok and rates["in"] or declared.swap_read,
    write = ok and rates.out or declared.swap_write,
    latency = ok and rates.latency or declared.swap_latency }
end

-- Everything that programs say, as a profile has it.
local RANKS <const> = [[
  local mrt, comm = ...
  local core = require "mrt.core"
  local function least(n, times)
    local x, best = mrt.eval(mrt.zeros(n) + 1), math.huge
    for _ = 1, times do
      comm:barrier()
      local start = core.clock()
      mrt.eval(comm:allreduce(x)):free()
      best = math.min(best, core.clock() - start)
    end
    return best
  end
  return ("%.9g %.9g"):format(least(1, 100), least(1 << 22, 8))
]]

-- Ranks of this host, one for each core, two at least: an allreduce of one number takes
-- the steps of a tree, one of 16 MiB what a ring or a tree gives to others.
local function links()
  local p, bytes = math.max(2, math.min(core.info().threads, 8)), 4 << 22
  local ok, results, failures = pcall(communicator.ranks, p, RANKS, { timeout = 20 })
  if not ok or failures then return nil end
  local small, big = results[1]:match "(%S+) (%S+)"
  local steps = 2 * math.ceil(math.log(p, 2))
  local latency = tonumber(small) / steps
  local rest = tonumber(big) - math.min(2 * (p - 1), steps) * latency
  if not (rest > 0 and latency > 0) then return nil end
  return { { name = "memory of the host", ranks = p, latency = latency,
    bandwidth = 2 * (p - 1) / p * bytes / rest } }
end

local function figures(o)
  o.at = 0
  local each, call = launch(o)
  o.launch = each
  local matrix, edge_of = products(o)
  local attended, attention_edge = attention_rate(o)
  local rates = { matmul = matrix, attention = attended, attention_grad = attended,
    update = update_rate(o) }
  local edges = { matmul = edge_of, attention = attention_edge,
    attention_grad = attention_edge }
  convolutions(o, rates, edges)
  for _, class in ipairs(o.classes) do rates[class] = rate(class, o) end
  local flops = { f32 = matrix, f64 = math.min(matrix, products_in("f64", matrix, o)) }
  if core.info().isa:find "bf16" then flops.bf16 = products_in("bf16", matrix, o) end
  return { launch = each, call = call, rate = rates, edge = edges, flops = flops,
    near = bandwidth(ELEMENTS, o), far = bandwidth(1 << 22, o) }
end

--- Measure; the result is a profile (lua/mrt/device/read.lua).
---@param o? {cpu: boolean?}  processor time instead of real time: for one
---  thread on a machine with much else to do
---@return mrt.Device
function measure.run(o)
  o = { cpu = o and o.cpu, x = randn(ELEMENTS), programs = {}, classes = {} }
  for class in pairs(programs) do o.classes[#o.classes + 1] = class end
  local declared, found = core.device(), nil
  for _ = 1, TURNS do found = figures(o) end
  return {
    name = (declared.name:gsub("%-measured", "")) .. "-measured", align = declared.align,
    threads = declared.threads, serial = declared.serial, epilogues = declared.epilogues,
    records = declared.records,
    winograd = declared.winograd,
    launch = found.launch, call = found.call, rate = found.rate,
    flops = found.flops, edge = found.edge,
    cache = { capacity = math.min((cache_bytes() or 8e6) / 2, 32e6),
      bandwidth = found.near },
    memory = { capacity = math.max(core.available(), 1), bandwidth = found.far },
    swap = swap_tier(declared), links = links(),
  }
end

return measure
