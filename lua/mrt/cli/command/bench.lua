--- bench.lua -- `mrt bench NAME [args]`: measure, never in tests.
--
-- A benchmark is a Lua file that returns a function of the remaining arguments
-- and whose first line is
--
--     --- mrt bench NAME -- what it measures, as the list shows it
--
-- NAME.lua or NAME/init.lua, in lua/mrt/bench/ for those who have a machine and
-- a model to measure, in spec/bench/ of the source tree for those who work on
-- the planner; other files there are parts of benchmarks.  Every table names the
-- machine's part in it: threads and instruction set.
--
-- SPDX-License-Identifier: MIT

local arguments = require "mrt.cli.arguments"
local closest = require "mrt.util.closest"
local core = require "mrt.core"
local failures = require "mrt.cli.failures"

-- The description in the first line of a file; nil for what is no benchmark.
local function description(path, name)
  local file <close> = io.open(path)
  local line = file and file:read "l"
  return line and line:match("^%-%-%- mrt bench " .. name .. " %-%- (.+)$")
end

-- Add the benchmarks of a folder; false where there is no such folder.
local function add(list, folder)
  local entries = core.list_folder(folder)
  for _, entry in ipairs(entries or {}) do
    local name = entry:match "^(%l+)%.lua$" or entry:match "^%l+$"
    local path = folder .. "/" .. entry .. (name == entry and "/init.lua" or "")
    local what = name and description(path, name)
    if what then list[#list + 1] = { name = name, what = what, path = path } end
  end
  return entries ~= nil
end

-- All benchmarks by name; and spec/, where there is a source tree.
local function find()
  local lua = package.searchpath("mrt", package.path):match "^(.*)/mrt/init%.lua$"
  local spec = lua .. "/../spec"
  local list = {}
  add(list, lua .. "/mrt/bench")
  local has_spec = add(list, spec .. "/bench")
  table.sort(list, function(a, b) return a.name < b.name end)
  return list, has_spec and spec
end

local function listed()
  local list, spec = find()
  local lines = {}
  for i, b in ipairs(list) do lines[i] = ("  %-11s %s"):format(b.name, b.what) end
  if not spec then
    lines[#lines + 1] = "plan, packing, recompute and others of the planner: spec/bench of the "
      .. "sources"
  end
  return table.concat(lines, "\n")
end

-- What stands at the beginning of its file, down to the licence: `mrt bench NAME --help`.
local function explain(path)
  for line in io.lines(path) do
    local text = line:match "^%-%-%- ?(.*)$"
    if not text or text:find "^SPDX" then return 0 end
    print((text:gsub("^mrt bench (%l+) %-%- ", "mrt bench %1: ")))
  end
  return 0
end

local helps <const> = { ["--help"] = true, ["-h"] = true }

local function complain(name, list)
  local names = {}
  for i, b in ipairs(list) do names[i] = b.name end
  local meant = closest(name, names)
  io.stderr:write(("mrt bench: no '%s'%s (see mrt bench --help)\n"):format(name,
    meant and "; did you mean " .. meant .. "?" or ""))
  return 2
end

-- What a benchmark refuses is a text without the place where it was raised, or an error of
-- mrt: a line.  Of all else, which is a fault, the way there as well.
local function told(name, problem)
  local text = failures.message(problem)
  if text:find "^[^\n:]+:%d+: " and type(problem) ~= "table" then
    return debug.traceback("mrt: " .. text, 3) -- behind this and the handler
  end
  return text:find "^mrt " and text or ("mrt bench %s: %s"):format(name, text)
end

local function start(b, ...)
  local benchmark = assert(loadfile(b.path))()
  local ok, result = xpcall(benchmark, function(problem)
    return { problem = problem, text = told(b.name, problem) }
  end, ...)
  if ok then return result end
  if failures.is_interrupted(result.problem) then error(result.problem, 0) end
  io.stderr:write(result.text, "\n")
  return 1
end

local function run(o)
  local list, spec = find()
  if spec then
    package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(spec, spec, package.path)
  end
  for _, b in ipairs(list) do
    if b.name == o.rest[1] then
      for i = 2, #o.rest do
        if helps[o.rest[i]] then return explain(b.path) end
      end
      return start(b, table.unpack(o.rest, 2))
    end
  end
  return complain(o.rest[1], list)
end

return arguments.new {
  name = "mrt bench",
  about = "Measure time and memory, beside other programs where there are any.",
  script = "NAME [args]",
  bare = true,
  more = listed,
  run = run,
}
