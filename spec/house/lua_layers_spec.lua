--- lua_layers_spec.lua -- no module of lua/mrt needs itself
---
--- Every `require "mrt..."` in every file counts, whether it runs when the module is
--- loaded or later: one that waits in a function is a circle all the same.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

local folder = package.searchpath("mrt", package.path):match "^(.*)/init%.lua$"

-- Module name -> path, of all files below `path`.
local function modules(path, prefix, found)
  for _, entry in ipairs(core.list_folder(path)) do
    local name = entry:match "^([%w_]+)%.lua$"
    if name == "init" then
      found[prefix] = path .. "/init.lua"
    elseif name then
      found[prefix .. "." .. name] = path .. "/" .. entry
    elseif entry:find "^[%w_]+$" then
      modules(path .. "/" .. entry, prefix .. "." .. entry, found)
    end
  end
  return found
end

-- Module -> those of `found` that it requires, in order of name.
local function read_requires(found)
  local needs = {}
  for module, path in pairs(found) do
    local set, list = {}, {}
    for line in io.lines(path) do
      local code = line:gsub("%-%-.*", "")
      for name in code:gmatch 'require%s*%(?%s*"(mrt[%w_.]*)"' do
        if found[name] and not set[name] then
          set[name] = true
          list[#list + 1] = name
        end
      end
    end
    table.sort(list)
    needs[module] = list
  end
  return needs
end

-- A way from a module back to it, "a -> b -> a"; nil where there is none.
local function circle(needs)
  local state, way = {}, {} -- state: "open" on the way, "done" once left
  local function visit(module)
    state[module] = "open"
    way[#way + 1] = module
    for _, name in ipairs(needs[module]) do
      if state[name] == "open" then
        way[#way + 1] = name
        local first = 1
        while way[first] ~= name do first = first + 1 end
        return table.concat(way, " -> ", first)
      end
      local found = not state[name] and visit(name)
      if found then return found end
    end
    state[module] = "done"
    way[#way] = nil
  end
  local names = {}
  for module in pairs(needs) do names[#names + 1] = module end
  table.sort(names)
  for _, module in ipairs(names) do
    local found = not state[module] and visit(module)
    if found then return found end
  end
end

describe("the modules of lua/mrt", function()
  it("are read whole", function()
    local found = modules(folder, "mrt", {})
    local needs = read_requires(found)
    local edges = 0
    for _, list in pairs(needs) do edges = edges + #list end
    assert.is_true(edges > 300)
    assert.is_truthy(found["mrt.nn.linear"])
  end)

  it("require each other in no circle", function()
    assert.is_nil(circle(read_requires(modules(folder, "mrt", {}))))
  end)

  it("would be caught in one", function()
    assert.equal("b -> c -> b", circle { a = { "b" }, b = { "c" }, c = { "b" }, d = {} })
  end)

  it("lie in folders, but for the one that is required first", function()
    for _, entry in ipairs(core.list_folder(folder)) do
      assert.is_true(entry == "init.lua" or entry == "README.md" or not entry:find "%w%.", entry)
    end
  end)
end)
