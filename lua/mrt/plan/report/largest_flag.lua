--- largest_flag.lua -- the largest value of a script's flag whose plan fits a budget
---
--- The script is planned once for each value that is tried, by a process of its own, so
--- a flag may be anything: rows, context, layers, width.
---
--- SPDX-License-Identifier: MIT

local cases = require "mrt.plan.report.cases"
local largest = require "mrt.plan.largest"

-- The script's arguments without the flag, and its value there.
local function without(script, flag)
  local out, value, i = {}, nil, 1
  while i <= #script do
    local given = i > 1 and script[i]:match("^" .. flag:gsub("%-", "%%-") .. "=(.*)$")
    if given then
      value = given
    elseif i > 1 and script[i] == flag then
      value, i = script[i + 1], i + 1
    else
      out[#out + 1] = script[i]
    end
    i = i + 1
  end
  return out, math.tointeger(tonumber(value))
end

-- All options of `mrt plan` that change the plan, of every process.
local function common_of(options, common)
  local list = table.move(common, 1, #common, 1, {})
  for _, case in ipairs(options.cases) do
    table.move(case.arguments, 1, #case.arguments, #list + 1, list)
  end
  return list
end

-- A value that changes nothing is one that nobody reads.
local function check_read(trials, flag)
  local a, b = trials[1], trials[2]
  if a and b and a.peak and a.peak == b.peak then
    return nil, ("the plan is the same for %s %d and %d: the script does not read it"):format(flag,
      a.size, b.size)
  end
  for _, trial in ipairs(trials) do if trial.peak then return true end end
  return nil, ("%s %d: %s"):format(flag, a.size, a.message)
end

--- Look for it.
---@param options table     of `mrt plan`
---@param common string[]   arguments of `mrt plan` for every process
---@param script string[]   its path and arguments
---@return mrt.Largest?
---@return string? message  no budget, or nothing to read it
return function(options, common, script)
  if script[1] == "-" then return nil, "--largest runs the script more than once: a file wanted" end
  local flag, step = "--" .. options.largest.name, options.largest.step
  local own, from = without(script, flag)
  local trials, budget = {}, options.budget
  local arguments = common_of(options, common)
  local function try(size)
    local words = table.move(own, 1, #own, 1, {})
    words[#words + 1], words[#words + 2] = flag, tostring(size)
    local entry = cases.plan({ { name = flag, arguments = {} } }, arguments, words)[1]
    local f = entry.figures
    local trial = { size = size, peak = f and f.peak, seconds = f and f.seconds,
      message = entry.message }
    trials[#trials + 1] = trial
    budget = budget or f and f.limit
    return trial
  end
  if not budget then try(from or step or 1) end
  if not budget then return nil, trials[1].message or "--largest wants a --budget" end
  trials = {}
  local found = largest.search(options.largest.name, { budget = budget, step = step,
    from = from or step or 1 }, try)
  local ok, message = check_read(trials, flag)
  if not ok then return nil, message end
  return found
end
