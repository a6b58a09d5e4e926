--- mrt bench recompute -- public instances within a budget: a folder of them
--
--     mrt bench recompute [--greedy] [--large] [DIR|FILE...]
--
-- For every .tg file, at budgets of 0.9 to 0.2 of the peak with nothing run
-- again (parameters and data are counted in both): what the schedule found
-- costs more than the program, the lower bound of that, both in percent, and
-- the processor time the solver took.  `--greedy` adds what eviction by a score
-- costs (slow), `--large` three generated programs of 10,000 operators.  A
-- budget below the largest working set of one operator is refused with that
-- number; `-` is one nothing was found for.  Each schedule is checked; a wrong
-- one or a malformed file ends with status 1.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local list_files = require "bench.files"
local check = require "bench.recompute.check"
local greedy = require "bench.recompute.greedy"
local large = require "bench.recompute.large"
local read = require "bench.recompute.file"

local function fail(message)
  io.stderr:write("mrt bench recompute: ", message, "\n")
  os.exit(1, true)
end

local function files_of(path)
  local files, problem = list_files(path, "tg")
  if not files then fail(problem) end
  return files
end

--- The most bytes one operator reads and makes.
local function working_set(problem)
  local most = 0
  for _, op in ipairs(problem.ops) do
    local sum = 0
    for _, list in ipairs { op.reads, op.makes } do
      for _, v in ipairs(list) do sum = sum + problem.bytes[v] end
    end
    most = math.max(most, sum)
  end
  return most
end

--- A schedule within the budget, checked; nil when none is found.
local function solve(path, problem, budget)
  local start = os.clock()
  local ok, result = pcall(core.schedule, problem, budget)
  local seconds = os.clock() - start
  if not ok then
    if type(result) == "table" and result.code == "budget" then return nil, seconds end
    fail(path .. ": " .. tostring(result))
  end
  local wrong, peak, cost = check(problem, result.acts)
  if not wrong and (peak ~= result.peak or peak > budget) then
    wrong = ("its peak is %d, %d are said, %d given"):format(peak, result.peak, budget)
  end
  if not wrong and math.abs(cost - result.cost) > 1e-6 * cost then
    wrong = ("it costs %g, %g are said"):format(cost, result.cost)
  end
  if wrong then fail(path .. ": the schedule is wrong: " .. wrong) end
  return result, seconds
end

local function percent(cost, base)
  return ("%.2f"):format(base > 0 and 100 * (cost - base) / base or 0)
end

local function measure(path, problem, compare)
  local whole = solve(path, problem, math.maxinteger // 8)
  local set, constant = working_set(problem), problem.constant
  print(("%s: %d operators, %.3f GB, working set %.3f GB"):format(problem.name,
    #problem.ops, (whole.peak + constant) / 1e9, (set + constant) / 1e9))
  local lines = { "  budget  ", "  extra % ", "  bound % ", "  seconds ",
    compare and "  greedy %" }
  local function add(...)
    for i, text in ipairs { ... } do
      lines[i] = lines[i] and lines[i] .. ("%9s"):format(text)
    end
  end
  for tenths = 9, 2, -1 do
    local budget = (whole.peak + constant) * tenths // 10 - constant
    if budget < set then
      add(("%.1f"):format(tenths / 10), "< set", "", "", "")
    else
      local result, seconds = solve(path, problem, budget)
      local evicted = compare and greedy(problem, budget)
      add(("%.1f"):format(tenths / 10), result and percent(result.cost, whole.cost) or "-",
        result and percent(result.bound, whole.cost) or "", ("%.3f"):format(seconds),
        evicted and percent(evicted, whole.cost) or "-")
    end
  end
  print(table.concat(lines, "\n"))
end

local function measure_file(path, compare)
  local problem, wrong = read(path)
  if not problem then fail(wrong) end
  measure(path, problem, compare)
end

local function measure_large()
  for _, name in ipairs { "residual", "recurrent", "branches" } do
    measure(name, large[name]())
  end
end

return function(...)
  local paths, options = {}, {}
  for _, word in ipairs { ... } do
    if word == "--greedy" or word == "--large" then
      options[word] = true
    else
      paths[#paths + 1] = word
    end
  end
  if #paths == 0 and not options["--large"] then
    fail "give a folder or files of recomputation instances, or --large"
  end
  for _, path in ipairs(paths) do
    for _, file in ipairs(files_of(path)) do measure_file(file, options["--greedy"]) end
  end
  if options["--large"] then measure_large() end
end
