--- blame_spec.lua -- a wrong argument is blamed on the line that gave it
---
--- Every public function, and every method of what they make, is called with
--- arguments that it cannot take: what it raises begins with this file's name.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"

local modules = getmetatable(mrt).__fields[1]

local wrong = { { n = 0 }, { 1, n = 1 }, { "/dev/null/x", n = 1 }, { true, n = 1 }, { {}, n = 1 },
  { print, n = 1 }, { mrt.ones(2), n = 1 }, { -1, {}, n = 2 }, { mrt.ones(2), "x", n = 2 },
  { { 1 }, { x = 1 }, n = 2 }, { "/dev/null/x", -1, true, n = 3 } }

-- The library's file that the message begins with.
local function accused(ok, message)
  if ok then return nil end
  local text = tostring(message)
  return text:match "^[^\n:]*blame_spec%.lua:%d+: " == nil and text or nil
end

-- Pages of reports are not shown meanwhile.
local function quietly(fn)
  local out, said, stdout = io.output(), print, io.stdout
  local null <close> = assert(io.open("/dev/null", "w"))
  io.output(null)
  io.stdout = null -- luacheck: ignore
  _G.print = function() end -- luacheck: ignore
  local ok, message = pcall(fn)
  io.output(out)
  io.stdout = stdout -- luacheck: ignore
  _G.print = said -- luacheck: ignore
  return ok, message
end

local function try(found, name, fn, ...)
  for _, args in ipairs(wrong) do
    local given = table.pack(...)
    table.move(args, 1, args.n, given.n + 1, given)
    local ok, message = quietly(function()
      local result = fn(table.unpack(given, 1, given.n + args.n))
      return result
    end)
    local text = accused(ok, message)
    if text and not found[name] then
      found[name] = text
      found[#found + 1] = name .. ": " .. text
    end
  end
end

local function callable(v)
  return type(v) == "function" or (type(v) == "table" and getmetatable(v)
    and getmetatable(v).__call)
end

-- What an object answers to, its classes' methods with it.
local function methods_of(object)
  local all, class = {}, getmetatable(object)
  local index = class and class.__index
  while type(index) == "table" do
    for name, fn in pairs(index) do
      if type(name) == "string" and not name:find "^_" and type(fn) == "function" then
        all[name] = all[name] or fn
      end
    end
    local parent = getmetatable(index)
    index = parent and parent.__index
  end
  return all
end

local function sorted(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

describe("what a wrong argument raises", function()
  it("begins with the caller's line, of functions #long", function()
    local found = {}
    for _, name in ipairs(sorted(mrt)) do
      if callable(mrt[name]) and not modules[name] then try(found, name, mrt[name]) end
    end
    for _, module in ipairs(sorted(modules)) do
      local it = mrt[module]
      if type(it) == "table" then
        for _, name in ipairs(sorted(it)) do
          local public = type(name) == "string" and not name:find "^_"
          if public and callable(it[name]) then
            try(found, module .. "." .. name, it[name])
          end
        end
      end
    end
    assert.equal("", table.concat(found, "\n"))
  end)

  local function objects()
    local p = mrt.variable(mrt.ones(2))
    local step = mrt.compile(function(x) return x * 2 end)
    return { tensor = mrt.ones(2), linear = mrt.nn.Linear(2, 3),
      sgd = mrt.optim.sgd({ p }), adam = mrt.optim.adam({ p }), step = step,
      plan = step:plan(mrt.ones(2)), communicator = mrt.communicator.create(),
      batches = mrt.data.batches({ mrt.ones(4, 2) }, { batch = 2 }) }
  end

  it("begins with the caller's line, of methods #long", function()
    local found = {}
    for _, kind in ipairs(sorted(objects())) do
      local object = objects()[kind]
      local methods = kind == "tensor" and core.methods or methods_of(object)
      for _, name in ipairs(sorted(methods)) do
        try(found, kind .. ":" .. name, methods[name], objects()[kind])
      end
    end
    assert.equal("", table.concat(found, "\n"))
  end)
end)
