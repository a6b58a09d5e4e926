--- mrt bench embedding -- training steps of large tables, beside PyTorch's
--
--     mrt bench embedding [--rows 1000000] [--width 64] [--bags 512] [--ids 20]
--                         [--seconds S] [--python PATH] [--only TEXT]
--
-- A step looks ids up that differ in each, at random; its loss is the mean square of
-- the distance of each bag's sum to a target.  For each optimizer: milliseconds of the
-- median and of the fastest step, the peak of the plan in MiB, the same of the gradient as
-- large as the table (`update_rows = false`), and of PyTorch (nn.EmbeddingBag and
-- nn.Embedding with sparse = True; SGD, Adagrad, SparseAdam) with as many threads, where
-- that Python has it; the ratio is of the fastest.  Then parts by themselves: the lookups,
-- dense gradients, and plain SGD of 10^7 elements, PyTorch's fused.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local nn, optim = mrt.nn, mrt.optim

local optimizers = {
  { "sgd", optim.sgd, { lr = 0.1 } },
  { "adagrad", optim.adagrad, { lr = 0.1 } },
  { "adam, lazy", optim.adam, { lr = 0.1, lazy = true } },
}

-- Median and least of the milliseconds of what `fn` does, called for about o.seconds.
local function timed(o, fn)
  local list, began = {}, core.clock()
  for i = 1, 3 do fn(i) end
  repeat
    local from = core.clock()
    fn(#list)
    list[#list + 1] = (core.clock() - from) * 1e3
  until #list >= 5 and core.clock() - began > o.seconds
  table.sort(list)
  return { list[#list // 2 + 1], list[1] }
end

local function draw_ids(o)
  local all = {}
  for i = 1, 16 do all[i] = mrt.eval(mrt.randint(0, o.rows, o.bags, o.ids, { dtype = "i64" })) end
  return function(i) return all[i % #all + 1] end
end

-- Seconds of a step and its plan's peak.
local function step_of(o, layer, kind, options)
  local model = layer == "bag" and nn.EmbeddingBag(o.rows, o.width, { mode = "sum" })
    or nn.Embedding(o.rows, o.width)
  local opt, target = kind[2](model:parameters(), kind[3]), mrt.eval(mrt.randn(o.bags, o.width))
  local step = mrt.compile(function(ids)
    local y = model(ids)
    if layer == "embedding" then y = y:sum(2) end
    local loss = ((y - target) ^ 2):mean()
    opt:step(mrt.grad(loss, model:parameters()))
    return loss
  end, options)
  local ids = draw_ids(o)
  local peak = step:plan(ids(1)).peak / 2 ^ 20
  return timed(o, function(i) step(ids(i)):item() end), peak
end

local function line(name, ours, peak, dense, dense_peak, torch)
  local text = ("%-26s %8.3f %8.3f %8s"):format(name, ours[1], ours[2],
    peak and ("%.1f"):format(peak) or "")
  text = text .. (dense and (" %8.2f %8.1f"):format(dense[1], dense_peak) or (" "):rep(18))
  if torch then
    text = text .. (" %8.3f %8.3f %6.2f"):format(torch[1], torch[2], ours[2] / torch[2])
  end
  print(text)
end

-- ---- parts -----------------------------------------------------------------

local function parts(o)
  local w = mrt.eval(mrt.randn(o.rows, o.width))
  local dy = mrt.eval(mrt.randn(o.bags, o.ids, o.width), mrt.randn(o.bags, o.width))
  local ids = draw_ids(o)
  local small = math.min(o.rows, 50000)
  local function call(name, fn, ...)
    local step, rest = mrt.compile(fn), { ... }
    return { name, function(i) mrt.eval(step(ids(i), table.unpack(rest))) end }
  end
  local n = 10000000
  local p, g = mrt.parameter(mrt.randn(n)), mrt.eval(mrt.randn(n))
  local opt = optim.sgd({ p }, { lr = 1e-6 })
  local update = mrt.compile(function(x) opt:step { x } end)
  return {
    call("embedding", function(i, x) return x:embedding(i) end, w),
    call("embedding_bag", function(i, x) return x:embedding_bag(i, { mode = "sum" }) end, w),
    call("embedding_grad", function(i, d)
      return core.op.embedding_grad(i % small, d, { rows = small })
    end, dy),
    { "sgd 10^7", function() update(g) end },
  }
end

-- ---- PyTorch ---------------------------------------------------------------

-- What torch_embedding.py prints: a name, the median and the least in ms on each line.
local function torch_of(o)
  local script = (debug.getinfo(1, "S").source:match "^@(.*)%.lua$" or ""):gsub("embedding$",
    "torch_embedding.py")
  local command = ("'%s' '%s' --rows %d --width %d --bags %d --ids %d --seconds %g --threads %d")
    :format(o.python, script, o.rows, o.width, o.bags, o.ids, o.seconds, core.info().threads)
  local found, pipe = {}, io.popen(command .. " 2>/dev/null")
  for text in pipe:lines() do
    local name, median, least = text:match "^(.-)\t(%S+)\t(%S+)$"
    if name then found[name] = { tonumber(median), tonumber(least) } end
  end
  pipe:close()
  return found
end

local function read(args)
  local o, i = { rows = 1000000, width = 64, bags = 512, ids = 20, seconds = 2, only = "",
    python = os.getenv "MRT_BENCH_PYTHON" or "/tmp/torch/bin/python" }, 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if o[name or ""] == nil or not value then
      error("mrt bench embedding: no option " .. args[i] .. ", or no value", 0)
    end
    o[name] = type(o[name]) == "number" and tonumber(value) or value
    i = i + 2
  end
  return o
end

return function(...)
  local o = read { ... }
  local info, torch = core.info(), torch_of(o)
  print(("%s, %d threads; table [%d,%d], %d bags of %d ids; %s"):format(info.isa, info.threads,
    o.rows, o.width, o.bags, o.ids, next(torch) and "beside PyTorch" or "no PyTorch here"))
  print(("%-26s %8s %8s %8s %8s %8s %8s %8s %6s"):format("ms", "median", "least", "MiB", "dense",
    "MiB", "torch", "least", "ratio"))
  for _, layer in ipairs { "bag", "embedding" } do
    for _, kind in ipairs(optimizers) do
      local name = layer .. ", " .. kind[1]
      if name:find(o.only, 1, true) then
        local ours, peak = step_of(o, layer, kind)
        local dense, dense_peak = step_of(o, layer, kind, { update_rows = false })
        line(name, ours, peak, dense, dense_peak, torch[name])
      end
    end
  end
  for _, part in ipairs(parts(o)) do
    if part[1]:find(o.only, 1, true) then
      line(part[1], timed(o, part[2]), nil, nil, nil, torch[part[1]])
    end
  end
end
