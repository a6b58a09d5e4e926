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

local core = require "mrt.core"

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

local function usage(out, list, spec)
  out:write "mrt bench NAME [args]\n"
  for _, b in ipairs(list) do out:write(("  %-11s %s\n"):format(b.name, b.what)) end
  if not spec then
    out:write "plan, packing, recompute and others of the planner: spec/bench of the sources\n"
  end
end

return function(name, ...)
  local list, spec = find()
  if spec then
    package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(spec, spec, package.path)
  end
  for _, b in ipairs(list) do
    if b.name == name then return assert(loadfile(b.path))()(...) end
  end
  usage(name and io.stderr or io.stdout, list, spec)
  if name then os.exit(1, true) end
end
