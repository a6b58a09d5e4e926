--- check.lua -- a schedule followed act by act.
--
-- Knows nothing of how schedules are found: operators run in their order the
-- first time, read only what is there, and at the end the pinned values are
-- there.  Returns nil and the peak in bytes, the cost and the number of runs,
-- or what is wrong.
--
-- `core.schedule` describes problems and acts; copies between memory tiers
-- are not followed.
--
-- SPDX-License-Identifier: MIT

--- The inputs dropped right after the run that ends at act `i`.
local function dropped(acts, i)
  local set = {}
  while acts[i + 2] == "drop" do
    i = i + 2
    set[acts[i + 1]] = true
  end
  return set
end

--- Bytes of outputs that take the place of an input.
local function in_place(problem, op, there, drops)
  local bytes, used = 0, {}
  for _, take in ipairs(op.takes or {}) do
    local out, from = take[1], take[2]
    if not used[out] and not used[-from] then
      if drops[from] and not there[out] then bytes = bytes + problem.bytes[from] end
      used[out], used[-from] = true, true
    end
  end
  return bytes
end

return function(problem, acts)
  local there, ran, live, peak, cost, runs = {}, 0, 0, 0, 0.0, 0
  local function run(i, index)
    local op = problem.ops[index]
    if not op then return "there is no operator" end
    if index > ran + 1 then return "runs too early" end
    if index <= ran and op.before and ran + 1 > op.before then return "runs too late" end
    for _, v in ipairs(op.reads) do
      if not there[v] then return ("reads value %d, which is not there"):format(v) end
    end
    local during = (op.scratch or 0) - in_place(problem, op, there, dropped(acts, i))
    local kept = 0
    for _, v in ipairs(op.makes) do
      during = during + problem.bytes[v]
      if not there[v] then kept = kept + problem.bytes[v] end
      there[v] = true
    end
    peak, live = math.max(peak, live + during), live + kept
    cost, runs, ran = cost + op.cost, runs + 1, math.max(ran, index)
  end
  for i = 1, #acts, 2 do
    local kind, index, wrong = acts[i], acts[i + 1], nil
    if kind == "run" then
      wrong = run(i, index)
    elseif kind == "drop" and there[index] then
      there[index], live = nil, live - problem.bytes[index]
    else
      wrong = "is no run, and no drop of what is there"
    end
    if wrong then return ("act %d, %s %s: %s"):format((i + 1) // 2, kind, index, wrong) end
  end
  if ran < #problem.ops then return ("operator %d never runs"):format(ran + 1) end
  for v in ipairs(problem.bytes) do
    if problem.pinned and problem.pinned[v] and not there[v] then
      return ("value %d is not there at the end"):format(v)
    end
  end
  return nil, peak, cost, runs
end
