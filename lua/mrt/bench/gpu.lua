--- mrt bench gpu -- GPT-2 steps on a CUDA device, beside PyTorch
--
--     mrt bench gpu [--cases 124M,1558M] [--device cuda:0] [--steps N] [--seconds N]
--                   [--weights f32|bf16] [--json FILE] [--python PROGRAM]
--
-- For each size, in bf16, of weights in f32 or of such in bf16 that are the upper halves of
-- master weights (optim.adamw's `master`): tokens a second; the share of the device's peak that the
-- model's own work is (6 N + 6 L d T flop a token: attention counted half, as it is
-- causal); bytes planned, requested and seen by the driver, and what its libraries
-- hold once the step is recorded (overhead); what the host does in a step.  Then the
-- last size within half of its arena, and with layers' inputs swapped to the host.
-- Then PyTorch (torch.compile, fused attention, autocast: torch_gpu.py) for each size,
-- first and last ones first, where PROGRAM (default python3) has it and as long as
-- the seconds last (default 240).  The table comes at the end.  The case `tiny` is for
-- trying the bench itself.
--
-- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local format = require "mrt.util.format"
local save = require "mrt.plan.report.save"
local json = require "mrt.util.json"

local gpt = require "mrt.bench.gpt"
local cases, policy = gpt.cases, mrt.policy

-- Of the peak, what a profile's figure for large products is.
local REACHED = 0.77

-- Seconds of a step, one after the other, the last one waited for; and of the host in a
-- step while the device has nothing to do: else it may have to wait for room in the queue.
local function time(step, x, y, steps)
  for _ = 1, 4 do step(x, y):item() end -- the first ones load, record, fill caches
  local began, host, loss = core.clock(), math.huge, nil
  for _ = 1, steps do loss = step(x, y) end
  loss = loss:item()
  local seconds = (core.clock() - began) / steps
  for _ = 1, 5 do
    local from = core.clock()
    local last = step(x, y)
    host = math.min(host, core.clock() - from)
    last:item()
  end
  return seconds, host, loss
end

-- One row of results.
local function measure(name, size, options, o)
  collectgarbage()
  collectgarbage()
  local free = core.available()
  local step, x, y, N = gpt.make(size, options, o.weights)
  local before = core.info().bytes_now
  local plan = step:plan(x, y)
  core.reset_peak()
  step(x, y):item()
  -- An input that the step makes itself, the learning rate, is no part of the peak.
  local given = 8 * 2 * size.batch * size.context
  local requested = core.info().bytes_peak - before - (plan.inputs - given)
  local seconds, host, loss = time(step, x, y, o.steps)
  local tokens = size.batch * size.context
  local flop = tokens * (6 * N + 6 * size.layers * size.dim * size.context)
  local peak = plan.device.matrix.bf16 / REACHED
  return {
    case = name, parameters = N, tokens = tokens, steps = o.steps,
    ms = seconds * 1e3, host_us = host * 1e6, tokens_per_s = tokens / seconds,
    mfu_causal = flop / seconds / peak, peak_flops = peak, loss = loss,
    planned = plan.peak, overhead = plan.device.overhead,
    requested = requested, driver = free - core.available(), overhead_after = mrt.overhead(),
    predicted_ms = plan.seconds * 1e3,
    half = plan.persistent + plan.outputs + plan.transient // 2 + plan.device.overhead,
  } -- and not the plan, which has the arena
end

-- PyTorch's line for a case; nil where there is none, or no time for it.
local function torch(case, o)
  local path = debug.getinfo(1, "S").source:match "^@(.*)gpu%.lua$" .. "torch_gpu.py"
  local size, left = cases[case], math.floor(o.ends - core.clock())
  if left < 20 then return nil end
  local pipe = io.popen(("timeout %d %s '%s' --layers %d --heads %d --dim %d --context %d "
    .. "--batch %d --steps %d 2>/dev/null"):format(left, o.python, path, size.layers,
    size.heads, size.dim, size.context, size.batch, o.steps))
  local text = pipe and pipe:read "a" or ""
  if pipe then pipe:close() end
  local ms, bytes = text:match '"ms": ([%d.]+), "bytes": (%d+)'
  return ms and { ms = tonumber(ms), bytes = tonumber(bytes) }
end

local columns = { "GPT-2, bf16", "step ms", "tokens/s", "MFU", "host us", "planned",
  "requested", "driver", "overhead", "speed of PyTorch's", "memory of PyTorch's" }

local function cells(row)
  local beside = row.torch
  return { row.case, ("%.2f"):format(row.ms), ("%.0f"):format(row.tokens_per_s),
    ("%.1f %%"):format(100 * row.mfu_causal), ("%.1f"):format(row.host_us),
    format.bytes(row.planned), format.bytes(row.requested), format.bytes(row.driver),
    format.bytes(row.overhead_after), beside and ("%.2fx"):format(beside.ms / row.ms) or "",
    beside and ("%.2fx"):format(row.requested / beside.bytes) or "" }
end

local function line(widths, texts)
  local out = {}
  for k, text in ipairs(texts) do
    local space = (" "):rep(widths[k] - #text)
    out[k] = k == 1 and text .. space or space .. text
  end
  return "| " .. table.concat(out, " | ") .. " |"
end

-- The rows as a table in Markdown, its columns in line.
local function show(rows)
  local all, widths, rule = { columns }, {}, {}
  for _, row in ipairs(rows) do all[#all + 1] = cells(row) end
  for k in ipairs(columns) do
    widths[k] = 4
    for _, texts in ipairs(all) do widths[k] = math.max(widths[k], #texts[k]) end
    rule[k] = ("-"):rep(widths[k] - 1) .. (k == 1 and "-" or ":")
  end
  for n, texts in ipairs(all) do
    print(line(widths, texts))
    if n == 1 then print(line(widths, rule)) end
  end
end

local function word(value) return value end

local function count(value)
  local n = math.tointeger(tonumber(value))
  return n and n >= 1 and n or nil
end

local function dtype(value)
  return (value == "f32" or value == "bf16") and value or nil
end

local kinds = { cases = word, weights = dtype, device = word, json = word, python = word,
  steps = count, seconds = count }

local function read(args)
  local o = { cases = "124M,350M,774M,1558M", device = "cuda:0", steps = 20,
    python = "python3", seconds = 240, weights = "f32" }
  for i = 1, #args, 2 do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    local read_value = kinds[name]
    o[name or ""] = read_value and value and read_value(value)
      or error(("mrt bench gpu: no option %s, or no value"):format(args[i]), 0)
  end
  for case in o.cases:gmatch "[^,]+" do
    if not cases[case] then error("mrt bench gpu: no case " .. case, 0) end
  end
  return o
end

-- First and last, then what is between.
local function by_interest(list)
  local out = { list[1] }
  for i = #list, 2, -1 do out[#out + 1] = list[i] end
  return out
end

local function save_all(o, info, rows)
  if not o.json then return end
  local result = { device = info.libraries, isa = info.isa, date = os.date "!%Y-%m-%d",
    weights = o.weights, version = info.version, rows = rows }
  assert(save.write(o.json, json.encode(result) .. "\n"))
end

-- Measure a case, add its row to those on disk; nil when it cannot be, or not in time.
local function add(rows, name, case, options, o)
  if core.clock() > o.ends then
    print(("%s: left out, the time is over"):format(name))
    return nil
  end
  local ok, row = pcall(measure, name, cases[case], options, o)
  if not ok then
    print(("%s: %s"):format(name, tostring(row)))
    return nil
  end
  rows[#rows + 1] = row
  save_all(o, core.info(), rows)
  print(("%s: %.2f ms"):format(name, row.ms))
  return row
end

return function(...)
  local o, rows, sizes = read { ... }, {}, {}
  o.ends = core.clock() + o.seconds
  mrt.device(o.device)
  local info = core.info()
  print(("%s, %s; AdamW, weights in %s; MFU of 6 N + 6 L d T flop a token")
    :format(info.libraries, info.isa, o.weights))
  for case in o.cases:gmatch "[^,]+" do
    sizes[#sizes + 1] = add(rows, case, case, {}, o)
  end
  local last = sizes[#sizes]
  if last then
    add(rows, last.case .. ", half the arena", last.case, { memory = last.half }, o)
    add(rows, last.case .. ", swapped", last.case, { checkpoint = policy.checkpoint.swap() }, o)
  end
  for _, row in ipairs(by_interest(sizes)) do
    row.torch = row.case ~= "tiny" and torch(row.case, o) or nil
  end
  save_all(o, info, rows)
  show(rows)
end
