--- mrt bench ladder -- how long plan:options and a refusal take
--
--     mrt bench ladder [CASE...]
--
-- For each case (models.lua; default GPTs of 3, 6 and 12 layers, an LSTM): the time that
-- plan:options takes for budgets within what a step takes, and that mrt.compile takes to
-- refuse one that nothing fits.  Nothing runs.  Seconds of processor time, for these
-- things run on one thread.
--
-- SPDX-License-Identifier: MIT

local format = require "mrt.util.format"
local models = require "mrt.bench.cases"

local shares = { 0.8, 0.5, 0.3 } -- of the arena

local function timed(f, ...)
  local began = os.clock()
  local result = table.pack(pcall(f, ...))
  return os.clock() - began, table.unpack(result, 1, result.n)
end

-- Seconds, and the least that the refusal names.
local function refusal(case, bytes)
  local step, x, y = models.make(case, { memory = bytes })
  local took, ok, err = timed(step.plan, step, x, y)
  if ok then return took end
  if type(err) ~= "table" or err.code ~= "budget" then error(err, 0) end
  return took, err.needed
end

return function(...)
  local cases = { ... }
  if #cases == 0 then cases = { "gpt-tiny", "gpt", "gpt2", "lstm" } end
  print(("%-8s %6s %10s %8s %8s  %s"):format("case", "nodes", "budget", "ladder", "refusal",
    "the planner's choice"))
  for _, case in ipairs(cases) do
    require "mrt".seed(1)
    local step, x, y = models.make(case, {})
    local plan = step:plan(x, y)
    for _, share in ipairs(shares) do
      local budget = plan:needs() - math.ceil((1 - share) * plan.transient)
      local took, ok, ways = timed(plan.options, plan, { budget = budget })
      if not ok then error(ways, 0) end
      print(("%-8s %6d %10s %8.2f %8s  %s"):format(case, plan.nodes, format.bytes(budget),
        took, "", ways.choice and ways.choice.way or "none"))
    end
    local low = 1 << 12
    for _ = 1, 2 do -- far below what would do, and a tenth
      local took, needed = refusal(case, low)
      print(("%-8s %6d %10s %8s %8.2f  %s"):format(case, plan.nodes, format.bytes(low), "", took,
        needed and format.bytes(needed) .. " is the least found" or "fits"))
      low = needed and needed * 9 // 10 or low
    end
  end
end
