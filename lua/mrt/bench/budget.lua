--- mrt bench budget -- a step in less memory: how much more time
---
---     mrt bench budget [CASE] [--rounds N]
--
-- The same training step (default: the 6-layer GPT; see models.lua) with
-- everything kept, with a half and a quarter of the bytes it keeps for the
-- backward pass, and with budgets for the peak, shares of the arena, met with and
-- without swapping.  All take turns, one step each
-- a round; times are medians, relative to keeping everything.  The losses of
-- all must be the same bits, or the benchmark ends with status 1.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local format = require "mrt.util.format"

local shares = { 0.8, 0.6, 0.5, 0.4, 0.3 } -- of the arena with everything kept

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Bytes that forward nodes make and backward nodes, or clones, read.
local function kept(plan)
  local steps, values = plan:steps(), plan:values()
  local seen, bytes = {}, 0
  for i, touched in ipairs(plan:operands()) do
    for _, v in ipairs(steps[i].backward and touched.reads or {}) do
      local maker = steps[values[v].first]
      if values[v].kind == "activation" and not maker.backward
        and not maker.recomputed and not seen[v] then
        seen[v], bytes = true, bytes + values[v].bytes
      end
    end
  end
  return bytes
end

local function make(case, label, options)
  local mrt = require "mrt"
  mrt.seed(1)
  local step, x, y = require "mrt.bench.cases".make(case, options)
  local began = core.clock()
  local ok, plan = pcall(step.plan, step, x, y)
  if not ok then return nil, plan end
  return { label = label, step = step, x = x, y = y, plan = plan, times = {},
    losses = {}, planning = core.clock() - began }
end

local function variants(case)
  local budget = require "mrt.policy".checkpoint.budget
  local list = { make(case, "all kept", { spend = 0 }) }
  local base = list[1].plan
  list[2] = make(case, "half of what is kept", { checkpoint = budget "50%" })
  list[3] = make(case, "a quarter", { checkpoint = budget "25%" })
  for _, share in ipairs(shares) do
    local memory = base.peak - math.ceil((1 - share) * base.transient)
    for _, way in ipairs { { "", nil }, { ", no swap", require "mrt.policy".swap.none() } } do
      local variant, message = make(case, ("memory: %.0f%%%s"):format(share * 100,
        way[1]), { memory = memory, swap = way[2] })
      if not variant then print(("%.0f%%: %s"):format(share * 100, message)) end
      list[#list + 1] = variant
    end
  end
  return list
end

local function run(list, rounds)
  for round = -1, rounds do -- two rounds to warm up
    for _, v in ipairs(list) do
      local began = core.clock()
      local loss = v.step(v.x, v.y):item()
      if round > 0 then v.times[round] = core.clock() - began end
      v.losses[#v.losses + 1] = loss
    end
  end
end

local function same_losses(list)
  for _, v in ipairs(list) do
    for i, loss in ipairs(v.losses) do
      if loss ~= list[1].losses[i] then return false, v.label end
    end
  end
  return true
end

local function report(list)
  print(("%-24s %10s %10s %10s %7s %7s %10s"):format("", "peak", "arena", "kept",
    "time", "planned", "planning"))
  local base, first = median(list[1].times), list[1].plan
  for _, v in ipairs(list) do
    local p = v.plan
    print(("%-24s %10s %10s %10s %6.3fx %6.3fx %7.1f ms"):format(v.label,
      format.bytes(p.peak), format.bytes(p.transient), format.bytes(kept(p)),
      median(v.times) / base, p.seconds / first.seconds, v.planning * 1e3))
  end
  print(("all kept: %.1f ms a step"):format(base * 1e3))
end

return function(...)
  local case, rounds = "gpt", 7
  local args = { ... }
  local i = 1
  while args[i] do
    if args[i] == "--rounds" then
      rounds = math.tointeger(tonumber(args[i + 1]))
      if not rounds or rounds < 1 then
        error("mrt bench budget: --rounds wants a positive integer", 0)
      end
      i = i + 2
    else
      case, i = args[i], i + 1
    end
  end
  local info = core.info()
  print(("%s: %s, %d threads; medians of %d rounds"):format(case, info.isa,
    info.threads, rounds))
  local list = variants(case)
  run(list, rounds)
  report(list)
  local same, which = same_losses(list)
  print(same and "losses: the same bits in all" or "losses differ: " .. which)
  if not same then os.exit(1, true) end
end
