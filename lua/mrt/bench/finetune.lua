--- mrt bench finetune -- steps of fine-tuning: time and memory, beside PyTorch with peft
--
--     mrt bench finetune [--cases lora-bf16,lora-f32,full-f32,qlora-bf16] [--steps N]
--                        [--layers N] [--memory BYTES] [--python PROGRAM]
--
-- A decoder of 30 layers, 576 wide, 9 heads of queries and 3 of keys, 1536 hidden, 49,152
-- tokens, tied; 4 rows of 512, AdamW; adapters of rank 8 beside all linear layers of the
-- blocks.  Each side is a process of its own with one thread; the other is
-- torch_finetune.py where PROGRAM has PyTorch, transformers and peft: gradient
-- checkpointing, autocast in bf16.  They take N steps in turn (turns.lua).  The table has
-- the least processor time of a step behind the first, how much VmHWM grew, and the
-- ratios: of time the median of those of each turn.  `order` is the planned peak over what
-- any order of the nodes needs where none runs again; within a budget, of those planned.
-- --memory bounds our step as mrt.compile does.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local core = require "mrt.core"
local format = require "mrt.util.format"
local turns = require "mrt.bench.turns"

local BATCH <const>, CONTEXT <const> = 4, 512

local function status(key)
  local file <close> = io.open "/proc/self/status"
  return file and tonumber(file:read("a"):match(key .. ":%s*(%d+)")) / 1024 or 0
end

-- One case in this process; prints one line of JSON.
local function measure(case, o)
  local mrt = require "mrt"
  local method, step = require "mrt.finetune.method", require "mrt.finetune.step"
  local nn = mrt.nn
  local base = status "VmRSS" -- of the program and its libraries, before there is a model
  local how, dtype = case:match "^(%l+)%-(%w+)$"
  local s = { method = how, dtype = dtype, rank = 8, alpha = 16.0, dropout = 0.0, lr = 1e-4,
    steps = 1000, weight_decay = 0.01, state = "f32", accumulate = 1, memory = o.memory,
    swap = false }
  mrt.seed(1)
  local model = nn.Decoder { vocab = 49152, dim = 576, layers = o.layers, heads = 9,
    kv_heads = 3, hidden = 1536, context = CONTEXT, tie = true }
  method.apply(model:to(method.stored(s)), s)
  local compiled = step.new(model, s)
  local x = mrt.randint(0, 49152, BATCH, CONTEXT, { dtype = "i32" })
  local y = mrt.randint(0, 49152, BATCH, CONTEXT, { dtype = "i32" })
  mrt.eval(x, y)
  local plan = compiled:plan(x, y)
  turns.take(os.clock, function() compiled(x, y):item() end)
  local growth, kept = status "VmHWM" - base, plan
  if not o.memory then
    s.spend = 0
    kept = step.new(model, s):plan(x, y)
  end
  print(("{\"growth\": %.1f, \"peak\": %.1f, \"over\": %.4f}"):format(growth,
    plan.peak / 2 ^ 20, plan.peak / kept.order_free_bound))
end

local function commands(case, o)
  local root = package.searchpath("mrt.bench.finetune", package.path):match "^(.*)/"
  local own = ("MRT_THREADS=1 '%s' bench finetune --one %s --layers %d%s"):format(o.program,
    case, o.layers, o.memory and " --memory " .. o.memory or "")
  local other = ("'%s' '%s/torch_finetune.py' %s --layers %d 2>/dev/null"):format(o.python,
    root, case, o.layers)
  return own, other
end

local function row(case, own, other)
  local line = ("%-12s %9.2f s %9.0f MiB %9.0f MiB %7.3f"):format(case, own.seconds, own.growth,
    own.peak, own.over)
  if other then
    line = line .. (" %9.2f s %9.0f MiB %8.2fx %8.2fx"):format(other.seconds, other.growth,
      own.ratio, own.growth / other.growth)
  end
  print(line)
end

local function least(times)
  local best = times[1]
  for i = 2, #times do best = math.min(best, times[i]) end
  return best
end

-- Both sides in turn; the other is absent where it cannot run.  The first step of each,
-- which is no step like the others, counts where it is the only one.
local function in_turn(case, o)
  local own, other = commands(case, o)
  local list = { turns.start(own) }
  if o.python and not case:find "^qlora" then list[2] = turns.start(other) end
  local times, results = turns.run(list, o.steps), {}
  for i, process in ipairs(list) do
    if o.steps > 1 then table.remove(times[i], 1) end
    results[i] = process:finish()
    if results[i] then results[i].seconds = least(times[i]) end
  end
  if results[1] and results[2] then results[1].ratio = turns.ratio(times[1], times[2]) end
  return results[1], results[2]
end

local function check(cases)
  for case in cases:gmatch "[^,]+" do
    local how, dtype = case:match "^(%l+)%-(%w+)$"
    if not (({ lora = true, full = true, qlora = true })[how]
        and ({ f32 = true, bf16 = true })[dtype]) then
      error(("no case '%s': lora, full or qlora, -f32 or -bf16"):format(case), 0)
    end
  end
end

local function compare(o)
  check(o.cases)
  local probe = "'%s' -c 'import torch, peft, transformers' 2>/dev/null"
  if not os.execute(probe:format(o.python)) then
    o.python = nil
  end
  print(("%d layers, %d x %d, 1 thread, %s%s"):format(o.layers, BATCH, CONTEXT, core.info().isa,
    o.memory and ", ours within " .. format.bytes(o.memory) or ""))
  print(("%-12s %11s %13s %13s %7s"):format("", "step", "growth", "planned", "order") .. (o.python
    and ("%12s %13s %9s %9s"):format("PyTorch", "growth", "time", "growth") or ""))
  for case in o.cases:gmatch "[^,]+" do
    local ours, theirs = in_turn(case, o)
    if ours then row(case, ours, theirs) else print(case, "did not run") end
  end
end

return arguments.new {
  name = "mrt bench finetune",
  about = "Steps of fine-tuning.",
  { "--cases LIST", "of method and dtype", default = "lora-bf16,lora-f32,full-f32" },
  { "--steps N", "of each, in turn", default = 4, least = 1 },
  { "--layers N", "of the model", default = 30, least = 1 },
  { "--memory BYTES", "a budget" },
  { "--python FILE", "with PyTorch and peft", default = "python3" },
  { "--program FILE", "mrt", default = arg and arg[-1] or "mrt" },
  { "--one TEXT" }, -- a case, in a process of its own
  run = function(o)
    if o.one then return measure(o.one, o) end
    return compare(o)
  end,
}
