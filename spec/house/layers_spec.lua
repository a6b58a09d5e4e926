-- layers_spec.lua -- calls and includes run one way
--
-- Read from the sources (includes, struct tags) and from the objects of the build
-- that runs (nm: which file defines a name, which ask for it). A file sees what
-- its layer may see and nothing above it; circles stay small; a name means one
-- thing.

local files = require "support.files"

local most_in_a_circle <const> = 5
local most_in_a_folder <const> = 40
local most_in <const> = { ["core/plan"] = 25 }
local any_number_in <const> = {
  ["core/op"] = true, ["kernels/cpu"] = true, ["kernels/cuda"] = true,
}

-- The tower: each sees itself and what stands below it.
local tower <const> = {
  "core/base", "core/device", "core/tensor", "core/op", "core/graph",
  "core/rewrite", "core/plan", "core/run", "core/io", "core/text", "core",
}
-- What stands beside it, and sees itself and these.
local beside <const> = {
  ["core/solve"] = { "core/base" },
  ["kernels/cpu"] = { "core/base", "core/device", "core/tensor", "core/op" },
  ["kernels/cuda"] = { "core/base", "core/device", "core/tensor", "core/op" },
  ["kernels/collectives"] = { "core/base", "core/device" },
  ["bindings"] = {},
  ["bindings/program"] = { "bindings" },
}
-- From where on the tower sees them.
local seen_from <const> = {
  ["core/solve"] = "core/graph",
  ["kernels/cpu"] = "core", ["kernels/collectives"] = "core",
}
-- What every folder sees, and all that bindings/ sees of the core.
local public <const> = { "^core/mrt%.h$", "^core/mrt/[^/]+$", "^core/[^/]+%.def$" }

-- How external names begin: mrt_, and in these folders so.
local prefixes <const> = {
  ["core/solve/pack"] = { "mrt_pack" },
  ["core/solve/order"] = { "mrt_order_", "mrt_dag_", "mrt_live_profile_" },
  ["core/solve/recompute"] = { "mrt_schedule_", "mrt_sequence_", "mrt_mincut" },
  ["kernels/cpu"] = { "mrt_cpu_" },
  ["bindings/module"] = { "mrt_lua_", "luaopen_mrt_core" },
  ["bindings/program"] = { "mrt_program_", "mrt_edit_", "main" },
}

-- ---- reading ----------------------------------------------------------------

local function lines(command)
  local pipe <close> = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do
    list[#list + 1] = line
  end
  return list
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function without_comments(text)
  return (text:gsub("/%*.-%*/", " "):gsub("//[^\n]*", " "))
end

local function folder_of(file)
  return file:match "^(.*)/[^/]*$"
end

--- @class Tree
--- @field files string[]
--- @field texts table<string, string> without comments
local function read_tree()
  local tree = { files = {}, texts = {} }
  local found = lines "find core kernels bindings -type f | LC_ALL=C sort"
  for _, file in ipairs(found) do
    if file:match "%.[ch]$" or file:match "%.cuh?$" or file:match "%.def$" then
      tree.files[#tree.files + 1] = file
      tree.texts[file] = without_comments(read(file))
    end
  end
  return tree
end

-- Where `name` in `file` leads, from its folder upwards or from core/; nil: not to
-- one of ours.
local function include_of(tree, file, name)
  local folder = folder_of(file)
  while folder do
    if tree.texts[folder .. "/" .. name] then
      return folder .. "/" .. name
    end
    folder = folder_of(folder)
  end
  return tree.texts["core/" .. name] and "core/" .. name
end

-- What `table` has for the folder of `file`, or for one around it.
local function of_folder(table, file)
  local folder = folder_of(file)
  while folder and table[folder] == nil do
    folder = folder_of(folder)
  end
  return folder and table[folder]
end

-- CMake writes __ for .. where a target's folder is another.
local function source_of(object)
  return (object:match "%.dir/(.*)%.o$":gsub("^[_/]+", ""))
end

-- What is linked by itself: files whose calls are looked at, targets of CMake. A
-- plug-in has functions of the same names as the library, which it asks for these.
local links <const> = {
  { from = "^[cbk].*", targets = "mrt_objects|binding_objects|mrt|kernels_[a-z0-9]+_f32" },
  { from = "^kernels/cuda/", targets = "[a-z_]*cuda[a-z_]*" },
}

-- The objects of the build that runs, for each of `links`: path by source; or nil,
-- and why.
local function objects_of(tree)
  local build = folder_of(os.getenv "MRT" or "build/mrt") or "."
  local list = {}
  for i, link in ipairs(links) do
    list[i] = {}
    for _, path in ipairs(lines("find " .. build .. " -name '*.o' 2>/dev/null" ..
      " | grep -E '/(" .. link.targets .. ")[.]dir/'")) do
      local source = source_of(path)
      if tree.texts[source] and not list[i][source] then
        list[i][source] = path
      end
    end
  end
  if not next(list[1]) then
    return nil, "no objects in " .. build .. ": installed, or not built here"
  elseif #lines "command -v nm" == 0 then
    return nil, "no nm (binutils)"
  end
  return list
end

-- name -> file that defines it, and file -> names it asks for.
local function symbols_of(objects)
  local defined, wanted = {}, {}
  if not next(objects) then
    return defined, wanted
  end
  local paths = {}
  for _, path in pairs(objects) do
    paths[#paths + 1] = path
  end
  local list = files.temporary(table.concat(paths, "\n"))
  for _, line in ipairs(lines("xargs nm -A -P <" .. list)) do
    local path, name, kind = line:match "^(.-%.o): (%S+) (%a)"
    local source = path and source_of(path)
    if not source or name:match "^__" then -- the compiler's, a sanitizer's
      goto continue
    elseif kind == "U" then
      wanted[source] = wanted[source] or {}
      table.insert(wanted[source], name)
    elseif kind:match "[TDBRC]" then
      defined[name] = source
    end
    ::continue::
  end
  return defined, wanted
end

-- ---- edges ------------------------------------------------------------------

-- A header that declares functions of one file alone is one with that file.
local function unit_of(tree, symbols)
  local unit = {}
  for _, file in ipairs(tree.files) do
    local defined = symbols[file:match "^kernels/cuda/" and 2 or 1].defined
    local owner, several
    for name in tree.texts[file]:gmatch "([%w_]+)%s*%(" do
      local source = file:match "%.h$" and defined[name]
      several = several or (source and owner and owner ~= source)
      owner = owner or source
    end
    local own = owner and not several and folder_of(owner) == folder_of(file)
    unit[file] = own and owner or file
  end
  return unit
end

-- list of { from, to, how }: includes, and calls where there are objects.
local function edges_of(tree, symbols)
  local edges = {}
  for _, file in ipairs(tree.files) do
    for name in tree.texts[file]:gmatch '#include "([^"]+)"' do
      local to = include_of(tree, file, name)
      if to then
        edges[#edges + 1] = { from = file, to = to, how = "includes" }
      end
    end
    for i, link in ipairs(links) do
      for _, name in ipairs(file:match(link.from) and symbols[i].wanted[file] or {}) do
        local to = symbols[i].defined[name]
        if to and to ~= file then
          edges[#edges + 1] = { from = file, to = to, how = "calls " .. name .. " of" }
        end
      end
    end
  end
  return edges
end

-- ---- layers -----------------------------------------------------------------

local height <const> = {}
for i, layer in ipairs(tower) do
  height[layer] = i
end

-- The layer of a file: the longest of its folders that is one.
local function layer_of(file)
  local folder = folder_of(file)
  while folder and not height[folder] and not beside[folder] do
    folder = folder_of(folder)
  end
  return folder
end

local function is_public(file)
  for _, pattern in ipairs(public) do
    if file:match(pattern) then
      return true
    end
  end
  return false
end

local function sees(from, to)
  local below = from == to
  if beside[from] then
    for _, layer in ipairs(beside[from]) do
      below = below or layer == to
    end
  elseif height[to] then
    below = height[to] <= height[from]
  elseif seen_from[to] then
    below = height[seen_from[to]] <= height[from]
  end
  return below
end

-- The core's functions that bindings/ may call: those that a public header names.
local function public_functions(tree)
  local set = {}
  for _, file in ipairs(tree.files) do
    for name in (is_public(file) and tree.texts[file] or ""):gmatch "([%w_]+)%s*%(" do
      set[name] = true
    end
  end
  return set
end

-- Is this edge one of those that run the right way?
local function runs_down(edge, api)
  local from, to = layer_of(edge.from), layer_of(edge.to)
  local called = edge.how:match "^calls (%S+)"
  if not from or is_public(edge.to) or is_public(edge.from) then
    return true
  elseif from:match "^bindings" and called and to:match "^core" then
    return api[called] == true
  end
  return sees(from, to)
end

-- ---- circles ----------------------------------------------------------------

-- Sets of units that reach each other, of two or more (Tarjan 1972).
local function circles_of(edges, unit)
  local next_of, order, low, stack, on, found = {}, {}, {}, {}, {}, {}
  local count = 0
  for _, edge in ipairs(edges) do
    local from, to = unit[edge.from], unit[edge.to]
    next_of[from] = next_of[from] or {}
    table.insert(next_of[from], to)
  end
  local function visit(v)
    count = count + 1
    order[v], low[v] = count, count
    stack[#stack + 1], on[v] = v, true
    for _, w in ipairs(next_of[v] or {}) do
      if not order[w] then
        visit(w)
        low[v] = math.min(low[v], low[w])
      elseif on[w] then
        low[v] = math.min(low[v], order[w])
      end
    end
    if low[v] == order[v] then
      local circle, w = {}
      repeat
        w = table.remove(stack)
        on[w] = nil
        circle[#circle + 1] = w
      until w == v
      if #circle > 1 then
        found[#found + 1] = circle
      end
    end
  end
  for v in pairs(next_of) do
    if not order[v] then
      visit(v)
    end
  end
  return found
end

-- What holds a circle together, a line per pair of files.
local function show_circle(circle, edges, unit)
  local inside, list, seen = {}, {}, {}
  for _, file in ipairs(circle) do
    inside[file] = true
  end
  for _, edge in ipairs(edges) do
    local pair = edge.from .. " " .. edge.to
    if inside[unit[edge.from]] and inside[unit[edge.to]] and not seen[pair] and
      unit[edge.from] ~= unit[edge.to] then
      seen[pair] = true
      list[#list + 1] = ("  %s %s %s"):format(edge.from, edge.how, edge.to)
    end
  end
  return ("%d files in a circle:\n%s"):format(#circle, table.concat(list, "\n"))
end

-- ---- the checks -------------------------------------------------------------

local function want_none(wrong)
  table.sort(wrong)
  assert(#wrong == 0, "\n" .. table.concat(wrong, "\n"))
end

describe("the layers", function()
  local tree = read_tree()
  local objects, why = objects_of(tree)
  local symbols = {}
  for i in ipairs(links) do
    local defined, wanted = symbols_of(objects and objects[i] or {})
    symbols[i] = { defined = defined, wanted = wanted }
  end
  local edges, unit = edges_of(tree, symbols), unit_of(tree, symbols)

  it("include and call only what lies below them", function()
    if not objects then
      return pending(why)
    end
    local wrong, api = {}, public_functions(tree)
    for _, edge in ipairs(edges) do
      if not runs_down(edge, api) then
        wrong[#wrong + 1] = ("%s %s %s"):format(edge.from, edge.how, edge.to)
      end
    end
    want_none(wrong)
  end)

  it("have no circle of more than five files", function()
    if not objects then
      return pending(why)
    end
    local wrong = {}
    for _, circle in ipairs(circles_of(edges, unit)) do
      if #circle > most_in_a_circle then
        wrong[#wrong + 1] = show_circle(circle, edges, unit)
      end
    end
    want_none(wrong)
  end)

  it("are read from what was built", function()
    if not objects then
      return pending(why)
    end
    local wrong = {}
    for _, file in ipairs(tree.files) do
      if file:match "^core/.*%.c$" and not objects[1][file] then
        wrong[#wrong + 1] = file .. " has no object"
      end
    end
    want_none(wrong)
    assert(symbols[1].defined.mrt_plan_run and symbols[1].wanted["core/context.c"],
      "nm says nothing")
  end)

  it("begin external names with their prefix", function()
    if not objects then
      return pending(why)
    end
    local wrong = {}
    for name, file in pairs(symbols[1].defined) do
      local right = false
      for _, prefix in ipairs(of_folder(prefixes, file) or { "mrt_" }) do
        right = right or name:sub(1, #prefix) == prefix
      end
      if not right then
        wrong[#wrong + 1] = ("%s of %s"):format(name, file)
      end
    end
    want_none(wrong)
  end)

  it("let Lua be known to bindings/ alone", function()
    local wrong = {}
    for _, file in ipairs(tree.files) do
      local lua = tree.texts[file]:match '#include [<"](lua[^>"]*)'
      if lua and not file:match "^bindings/" then
        wrong[#wrong + 1] = ("%s includes %s"):format(file, lua)
      end
    end
    want_none(wrong)
  end)

  it("define a struct's tag once", function()
    local wrong, where = {}, {}
    for _, file in ipairs(tree.files) do
      for kind, tag in tree.texts[file]:gmatch "(%a+)%s+([%a_][%w_]*)%s*{" do
        if kind == "struct" or kind == "union" or kind == "enum" then
          if where[tag] then
            wrong[#wrong + 1] = ("%s in %s and in %s"):format(tag, where[tag], file)
          end
          where[tag] = file
        end
      end
    end
    want_none(wrong)
  end)

  it("have folders that can be looked over", function()
    local wrong, count = {}, {}
    for _, file in ipairs(tree.files) do
      local folder = folder_of(file)
      count[folder] = (count[folder] or 0) + (file:match "%.c$" and 1 or 0)
    end
    for folder, n in pairs(count) do
      local most = most_in[folder] or most_in_a_folder
      if n > most and not of_folder(any_number_in, folder .. "/") then
        wrong[#wrong + 1] = ("%s: %d sources, at most %d"):format(folder, n, most)
      end
    end
    want_none(wrong)
  end)
end)
