--- mrt bench precision -- steps in bf16, f16, fp8: time, memory, loss
--
--     mrt bench precision [--case gpt] [--rounds N] [--cpu]
--                         [--policies f32,bf16,f16,fp8,fp8-delayed]
--     mrt bench precision --steps N [--large] [--batch N] [--data FILE] [--policies ...]
--
-- The first prints, for a case of models.lua (default: the 6-layer GPT) under each
-- policy, the median time of a step, the arena, and the bytes kept for the backward
-- pass, with ratios to the first policy; all take turns, one step each a round.  --cpu
-- counts processor time, for one thread on a machine with much else to do.
--
-- A policy `compress-int8` (bf16, f16, f8, int8, nf4), also `bf16+compress-int8`, has what
-- is kept for the backward pass kept in that.
--
-- The second trains a small GPT (--large: the 6-layer one, much slower) for N steps
-- under each, from the same weights on the same batches of a text, and prints the
-- mean loss of the last tenth: precision_loss.lua.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local function make(case, options, name)
  local mrt = require "mrt"
  mrt.seed(1)
  local step, x, y = require "mrt.bench.cases".make(case, options)
  return { name = name, step = step, x = x, y = y, plan = step:plan(x, y), times = {} }
end

local function run(list, o)
  local clock = o.cpu and os.clock or core.clock
  for round = -1, o.rounds do -- two rounds to warm up
    for _, v in ipairs(list) do
      local began = clock()
      v.step(v.x, v.y):item()
      if round > 0 then v.times[round] = clock() - began end
    end
  end
end

local function report(list)
  print(("%-19s %10s %7s %10s %7s %10s %7s"):format("", "ms/step", "", "arena", "",
    "kept", ""))
  local first
  for _, v in ipairs(list) do
    local p = v.plan
    local now = { median(v.times) * 1e3, p.transient, p:kept() }
    first = first or now
    print(("%-19s %10.1f %6.2fx %10s %6.2fx %10s %6.2fx"):format(v.name, now[1],
      now[1] / first[1], format.bytes(now[2]), now[2] / first[2], format.bytes(now[3]),
      now[3] / first[3]))
  end
end

-- ---- policies by name -------------------------------------------------------

local function policy_of(name)
  local precision = require "mrt.policy".precision
  if name == "f16-unscaled" then return precision.f16 { loss_scale = false } end
  if name == "fp8-delayed" then return precision.fp8 { scaling = "delayed" } end
  local known = { f32 = true, bf16 = true, f16 = true, fp8 = true }
  if not known[name] then
    error(("mrt bench precision: no policy '%s'; f32, bf16, f16, f16-unscaled, fp8, "
      .. "fp8-delayed"):format(name), 0)
  end
  return precision[name]()
end

-- "bf16", "compress-int8", "bf16+compress-int8".
local function options_of(name)
  local kept_in = name:match "compress%-(%w+)$"
  local precision = name:gsub("%+?compress%-%w+$", "")
  return { precision = policy_of(precision ~= "" and precision or "f32"), compress = kept_in }
end

local function word(value) return value end

local function count(value)
  local n = math.tointeger(tonumber(value))
  return n and n >= 1 and n or nil
end

local kinds = { case = word, policies = word, data = word, rounds = count, steps = count,
  batch = count }

local function read(args)
  local o, i = { case = "gpt", rounds = 7 }, 1
  while i <= #args do
    local name, value = args[i]:match "^%-%-(%w+)$", args[i + 1]
    if name == "cpu" or name == "large" then
      o[name], i = true, i + 1
    elseif kinds[name] and value and kinds[name](value) then
      o[name], i = kinds[name](value), i + 2
    else
      error("mrt bench precision: no option " .. args[i] .. ", or no value", 0)
    end
  end
  o.policies = o.policies or o.steps and "f32,bf16,f16,f16-unscaled,fp8,fp8-delayed"
    or "f32,bf16,f16,fp8,fp8-delayed"
  return o
end

return function(...)
  local o, info = read { ... }, core.info()
  local list = {}
  for name in o.policies:gmatch "[^,]+" do
    list[#list + 1] = { name = name, options = options_of(name) }
  end
  if o.steps then return require "mrt.bench.precision_loss" (list, o) end
  for i, v in ipairs(list) do list[i] = make(o.case, v.options, v.name) end
  print(("%s: %s, %d threads, %s time; medians of %d rounds"):format(o.case, info.isa,
    info.threads, o.cpu and "processor" or "real", o.rounds))
  run(list, o)
  report(list)
end
