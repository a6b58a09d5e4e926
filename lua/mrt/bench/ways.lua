--- mrt bench ways -- budgets met by recomputing, by swapping, by both: predicted time
--
--     mrt bench ways [CASE] [DEVICE...]
--
-- Plans of a training step (default: the 6-layer GPT; see models.lua) for devices that
-- need not be here: predicted times of recomputing alone, of swapping alone, and of the
-- planner's choice, and how long planning took.  Nothing runs.  Where the choice is
-- predicted slower than either alone, the benchmark ends with status 1.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local device = require "mrt.device"
local format = require "mrt.util.format"
local policy = require "mrt.policy"

local exact = 1 + 1e-6 -- less is no other choice: sums in another order, a copy's latency
local shares = { 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15 } -- of the arena

-- The plan or nil, and the seconds of planning.
local function plan(case, options)
  require "mrt".seed(1)
  local step, x, y = require "mrt.bench.cases".make(case, options)
  local began = core.clock()
  local ok, made = pcall(step.plan, step, x, y)
  if not ok and made.code ~= "budget" then error(made, 0) end
  return ok and made or nil, core.clock() - began
end

local function cell(made)
  return made and ("%.2f"):format(made.seconds * 1e3) or "-"
end

-- One line; whether the choice is no slower than either alone.
local function row(case, memory, share)
  local again, slow = plan(case, { memory = memory, swap = policy.swap.none() })
  local moved = plan(case, { memory = memory, checkpoint = policy.checkpoint.none() })
  local chosen, took = plan(case, { memory = memory })
  local least = math.min(again and again.seconds or math.huge, moved and moved.seconds
    or math.huge)
  local fine = least == math.huge or chosen and chosen.seconds <= least * exact
  print(("%4.0f%% %10s %10s %10s %10s %8.0f %8.0f  %s%s"):format(share * 100,
    format.bytes(memory), cell(again), cell(moved), cell(chosen), slow * 1e3,
    took * 1e3, chosen and chosen:choices().text or "does not fit",
    fine and "" or "  SLOWER"))
  return fine
end

local function table_of(case, name)
  if name ~= "here" then assert(device.use(name)) end
  local here = device.current()
  here.swap_known = true -- what copies at the declared rates would gain is asked
  core.set_device(here)
  local all, fine = plan(case, {}), true
  print(("%s on %s: %.2f ms with all kept"):format(case, all.device.name,
    all.seconds * 1e3))
  print(("%5s %10s %10s %10s %10s %8s %8s"):format("arena", "budget", "recompute",
    "swap", "choice", "planning", "choice"))
  for _, share in ipairs(shares) do
    local memory = all.peak + all.device.overhead - math.ceil((1 - share) * all.transient)
    fine = row(case, memory, share) and fine
  end
  return fine
end

return function(case, ...)
  local names, fine = { ... }, true
  if #names == 0 then names = { "here", "a100-40", "rtx3080" } end
  print "milliseconds, predicted of a step and taken by planning"
  for _, name in ipairs(names) do fine = table_of(case or "gpt", name) and fine end
  if not fine then
    print "a choice is slower than recomputing or swapping alone"
    os.exit(1, true)
  end
end
