--- mrt bench packing -- offsets of public instances: a folder of them
--
--     mrt bench packing DIR|FILE...
--
-- For every .csv file: how many buffers, the bound (the largest sum alive at
-- once), the height found, their quotient, whether it fits the capacity in the
-- file's name (A.1048576.csv; without one the lowest height is wanted), whether
-- no packing can be lower, placements searched, and the time.
-- Each packing is checked; a wrong one or a malformed file ends with status 1.
--
-- `mrt bench packing --puzzles [N] [SEEDS]`: puzzles of about N buffers whose
-- optimum is known (puzzles.lua): for each style and SEEDS seeds, how
-- many were solved, how far above the optimum the mean and the worst ended, and
-- seconds of processor time.
--
-- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local list_files = require "bench.files"
local check = require "bench.packing.check"
local puzzles = require "bench.packing.puzzles"
local read = require "bench.packing.file"

local function fail(message)
  io.stderr:write("mrt bench packing: ", message, "\n")
  os.exit(1, true)
end

local function files_of(path)
  local files, problem = list_files(path, "csv")
  if not files then fail(problem) end
  return files
end

local function measure(path)
  local buffers, problem = read(path)
  if not buffers then fail(problem) end
  local name = path:match "[^/]*$"
  local capacity = math.tointeger(tonumber(name:match "%.(%d+)%.csv$"))
  local start = core.clock()
  local ok, result = pcall(core.pack, buffers, { capacity = capacity })
  local seconds = core.clock() - start
  if not ok then fail(path .. ": " .. tostring(result)) end
  problem = check(buffers, result.offsets, result.height)
  if problem then fail(path .. ": the packing is wrong: " .. problem) end
  local quotient = result.height > 0 and result.bound / result.height or 1
  print(("%-22s %6d %13d %13d %8.4f %5s %7s %9d %8.3f"):format(name:gsub("%.csv$", ""),
    #buffers, result.bound, result.height, quotient,
    capacity and (result.height <= capacity and "yes" or "NO") or "-",
    result.proven and "yes" or "-", result.nodes, seconds))
  return quotient
end

local function measure_style(style, n, seeds)
  local solved, over, worst, seconds, longest = 0, 0, 0, 0, 0
  for seed = 1, seeds do
    local buffers, optimum = puzzles.make(style, n, seed)
    local start = os.clock()
    local result = core.pack(buffers)
    local took = os.clock() - start
    local problem = check(buffers, result.offsets, result.height)
    if problem then fail(("%s %d: the packing is wrong: %s"):format(style, seed, problem)) end
    local excess = 100 * (result.height / optimum - 1)
    if result.height == optimum then solved = solved + 1 end
    over, worst = over + excess, math.max(worst, excess)
    seconds, longest = seconds + took, math.max(longest, took)
  end
  print(("%-10s %6d %9d %8d %9.2f %9.2f %9.3f %9.3f"):format(style, n, puzzles.height, solved,
    over / seeds, worst, seconds / seeds, longest))
end

local function count_of(text, default, what)
  local count = text == nil and default or math.tointeger(tonumber(text))
  if not count or count < 1 or count > 100000 then
    fail(("%s: '%s' is not from 1 to 100000"):format(what, text))
  end
  return count
end

local function measure_puzzles(n, seeds)
  n, seeds = count_of(n, 300, "buffers"), count_of(seeds, 10, "seeds")
  print(("%d puzzles a row: solved, %% above the optimum, seconds"):format(seeds))
  print "style           n   optimum   solved      mean     worst      mean   longest"
  for _, style in ipairs(puzzles.names) do measure_style(style, n, seeds) end
end

return function(...)
  if select("#", ...) == 0 then fail "give a folder or files of packing instances" end
  if ... == "--puzzles" then return measure_puzzles(select(2, ...)) end
  print("instance                    n         bound        height  bound/h"
    .. "  fits  proven     nodes  seconds")
  local sum, count = 0, 0
  for _, path in ipairs { ... } do
    for _, file in ipairs(files_of(path)) do
      sum, count = sum + measure(file), count + 1
    end
  end
  print(("mean of %-3d %55.4f"):format(count, sum / count))
end
