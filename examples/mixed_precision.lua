--- mixed_precision.lua -- the same GPT trained in f32, bf16, f16 and fp8
---
---     mrt examples/mixed_precision.lua
---     mrt examples/mixed_precision.lua --steps 500 --data input.txt
---
--- Loss, time and memory side by side, from the same weights on the same batches; which
--- share of the gradients f16 would lose, and what a loss scale brings back; and the
--- same with a loss so small that f16 without a scale hardly learns.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local arguments = require "mrt.cli.arguments"
local format = require "mrt.util.format"
local nn, optim, precision = mrt.nn, mrt.optim, mrt.policy.precision

local flags = arguments.script {
  about = "The same GPT trained in f32, bf16, f16 and fp8.",
  { "--steps N", "of training", default = 200, least = 1 },
  { "--layers N", "transformer blocks", default = 3, least = 1 },
  { "--dim N", "width", default = 96, least = 1 },
  { "--heads N", "attention heads", default = 3, least = 1 },
  { "--context N", "bytes a prediction can look back on", default = 64, least = 1 },
  { "--batch N", "sequences in a mini-batch", default = 8, least = 1 },
  { "--data FILE", "text; else README.md and mrt.h" },
}

-- ---- data ---------------------------------------------------------------------

local root = (arg[0]:match "^(.*)/[^/]*$" or ".") .. "/../"
local pages = { root .. "README.md", root .. "core/mrt.h" }
if not io.open(pages[2]) then pages[2] = root .. "CONTRIBUTING.md" end -- installed
local text = assert(mrt.data.text { files = flags.data and { flags.data } or pages })
local loader = text:loader { batch = flags.batch, context = flags.context, seed = 1,
  shuffle = true }
local batches = {}
for i = 1, flags.steps do
  local x, y = loader:next()
  batches[i] = { x, y }
end

-- ---- training -----------------------------------------------------------------

-- A training step; the loss whose gradient is taken is `part` of that returned.
local function make(policy, part)
  mrt.seed(1)
  local model = nn.GPT { vocab = text.vocab, dim = flags.dim, layers = flags.layers,
    heads = flags.heads, context = flags.context }
  local params = model:parameters()
  local lr = optim.cosine { lr = 2e-3, min = 2e-4, warmup = flags.steps // 10,
    steps = flags.steps }
  local opt = optim.adamw(params, { lr = lr, eps = 1e-12 }) -- eps: see below
  return mrt.compile(function(x, y)
    local loss = nn.cross_entropy(model(x), y)
    opt:step(mrt.grad(loss * part, params))
    return loss
  end, { precision = policy })
end

-- All take turns, so that what else the machine does slows all alike.
local function train(runs, part)
  for _, r in ipairs(runs) do
    r.step = make(r.policy, part)
    r.plan, r.losses, r.times = r.step:plan(table.unpack(batches[1])), {}, {}
  end
  for i, batch in ipairs(batches) do
    for _, r in ipairs(runs) do
      local began = os.clock()
      r.losses[i] = r.step(batch[1], batch[2]):item()
      r.times[i] = os.clock() - began
    end
  end
end

-- The mean of the last tenth.
local function final(losses)
  local sum, n = 0, math.max(1, #losses // 10)
  for i = #losses - n + 1, #losses do sum = sum + losses[i] end
  return sum / n
end

local function middle(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function report(runs)
  print(("%-16s %7s %8s %8s %9s %10s %10s %10s"):format("", "loss", "", "ms/step",
    "", "peak", "kept", "loss scale"))
  local loss, time = final(runs[1].losses), middle(runs[1].times)
  for _, r in ipairs(runs) do
    local ended, took, scale = final(r.losses), middle(r.times), r.step:loss_scale()
    print(("%-16s %7.4f %+7.2f%% %8.2f %8.2fx %10s %10s %10s"):format(r.name, ended,
      100 * (ended / loss - 1), took * 1e3, took / time, format.bytes(r.plan.peak),
      format.bytes(r.plan:kept()), scale and ("%g"):format(scale) or "-"))
  end
end

local function policies()
  return { { name = "f32", policy = precision.f32() },
    { name = "bf16", policy = precision.bf16() },
    { name = "f16, scaled", policy = precision.f16() },
    { name = "f16, unscaled", policy = precision.f16 { loss_scale = false } },
    { name = "fp8", policy = precision.fp8() } }
end

-- ---- what f16 loses -------------------------------------------------------------

-- The share of the numbers in the gradient that are 0 in f16, by layer.
local function show_lost(step, scales)
  local ranges, columns = step:ranges(table.unpack(batches[#batches])), {}
  local head = ("%-22s %10s"):format("share that becomes 0", "largest")
  for i, scale in ipairs(scales) do
    columns[i] = ranges:by_layer { dtype = "f16", scale = scale }
    head = head .. ("  scale %6d"):format(scale)
  end
  print(head)
  for row, group in ipairs(columns[1]) do
    if group.backward then
      local line = ("%-22s %10.2g"):format(group.name, group.largest)
      for i in ipairs(scales) do
        line = line .. (" %11.2f%%"):format(100 * columns[i][row].under)
      end
      print(line)
    end
  end
end

print(("A GPT of %d layers, %d wide, %d steps of %d x %d bytes; processor time on %s")
  :format(flags.layers, flags.dim, flags.steps, flags.batch, flags.context,
    mrt.device.current().name))

local runs = policies()
print "\n== The whole loss\n"
train(runs, 1)
report(runs)
print ""
show_lost(runs[1].step, { 1, 65536 })

local PART = 1 / 4096
runs = policies()
print [[

== A 4096th of the loss

As where it is one of many terms, or a mean over so many more. AdamW divides gradients by
their size, so f32 learns as before; eps, 1e-8 by default, is 1e-12 here, below them all.
]]
train(runs, PART)
report(runs)
print ""
show_lost(runs[1].step, { 1, 65536 })
