--- step.lua -- time and memory of one training step
---
---     mrt bench/step.lua gpt-small --seconds 8
---
--- prints one line of JSON.  The cases are those of torch_step.py, which prints
--- the same for PyTorch; compare.lua runs both in turn.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local argparse = require "argparse"
local nn, optim = mrt.nn, mrt.optim

-- vocabulary, context, layers, dim, heads, batch, tokens in a sequence
local shapes = {
  ["gpt"] = { 65, 256, 6, 384, 6, 12, 256 },
  ["gpt-small"] = { 65, 64, 4, 128, 4, 12, 64 },
  ["gpt2"] = { 50257, 1024, 12, 768, 12, 1, 256 },
}

local parser = argparse("mrt bench/step.lua", "Time one training step.")
parser:argument("case", "what to train")
  :choices { "gpt", "gpt-small", "gpt2", "mlp" }
parser:option("--seconds", "how long to measure"):default "8":convert(tonumber)
parser:option("--warmup", "steps before"):default "3":convert(math.tointeger)
local flags = parser:parse(arg)

-- Kilobytes by name from /proc: VmRSS, VmHWM (the highest VmRSS so far).
local function process(name)
  local file = io.open "/proc/self/status"
  if not file then return 0 end
  local kilobytes = file:read "a":match(name .. ":%s+(%d+)")
  file:close()
  return tonumber(kilobytes) * 1024
end

local function forget_highest()
  local file = io.open("/proc/self/clear_refs", "w")
  if file then file:write "5":close() end
end

local function build_gpt(v, t, layers, dim, heads, batch, tokens)
  local model = nn.GPT { vocab = v, context = t, layers = layers, dim = dim,
    heads = heads }
  local opt = optim.adamw(model:parameters(),
    { lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1 })
  return model, opt, mrt.randint(0, v, { batch, tokens }),
    mrt.randint(0, v, { batch, tokens })
end

local function build_mlp()
  local model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
    nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
  return model, optim.adam(model:parameters()), mrt.randn(128, 784),
    mrt.randint(0, 10, { 128 })
end

mrt.seed(1)
mrt.eval { mrt.ones(4, 4):matmul(mrt.ones(4, 4)) }  -- libraries are warm
local before = process "VmRSS"
forget_highest()

local model, opt, x, y
if flags.case == "mlp" then
  model, opt, x, y = build_mlp()
else
  model, opt, x, y = build_gpt(table.unpack(shapes[flags.case]))
end
local step = mrt.compile(function(a, b)
  local loss = nn.cross_entropy(model(a), b)
  opt:step(mrt.grad(loss, model:parameters()))
  return loss
end)

local began = core.clock()
local plan = step:plan(x, y)
local planning = core.clock() - began
for _ = 1, flags.warmup do step(x, y):item() end

local times, loss = {}, nil
began = core.clock()
repeat
  local t = core.clock()
  loss = step(x, y):item()
  times[#times + 1] = core.clock() - t
until #times >= 5 and core.clock() - began >= flags.seconds
table.sort(times)

print(('{"case": "%s", "library": "mrt %s", "ms_min": %.3f, "ms_med": %.3f, '
  .. '"steps": %d, "plan_ms": %.1f, "gflop": %.3f, "peak_MB": %.1f, '
  .. '"lower_bound_MB": %.1f, "rss_growth_MB": %.1f, "params": %d, '
  .. '"loss": %.4f}'):format(flags.case, core.info().version, times[1] * 1e3,
  times[#times // 2 + 1] * 1e3, #times, planning * 1e3, plan.flops / 1e9,
  plan.peak / 2 ^ 20, plan.lower_bound / 2 ^ 20,
  (process "VmHWM" - before) / 2 ^ 20, model:count(), loss))
