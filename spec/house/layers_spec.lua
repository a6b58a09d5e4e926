-- layers_spec.lua -- dependencies run one way
--
-- base < device < tensor < op < graph < plan < run < io; kernels see device, tensor,
-- op and base; bindings see mrt.h and mrt/ alone; nobody above sees a folder below it.

local order = { mrt = 0, base = 1, solve = 2, device = 2, tensor = 3, op = 4, graph = 5,
  rewrite = 6, plan = 7, run = 8, io = 9 }

local function lines(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do
    list[#list + 1] = line
  end
  pipe:close()
  return list
end

local function includes(file)
  local list = {}
  for line in io.lines(file) do
    list[#list + 1] = line:match '^#include "([^"]+)"'
  end
  return list
end

describe("the layers of the core", function()
  it("include only what lies below them", function()
    for _, file in ipairs(lines "ls core/*/*.[ch] core/*/*/*.[ch]") do
      local layer = file:match "core/([^/]+)/"
      for _, header in ipairs(includes(file)) do
        local folder = header:match "^([^/]+)/"
        assert(folder == nil or order[folder], file .. " includes " .. header)
        assert(folder == nil or order[folder] <= order[layer],
          file .. " includes " .. header .. ", which is above it")
      end
    end
  end)

  it("let kernels see neither graphs nor plans", function()
    for _, file in ipairs(lines "ls kernels/*/*.[ch] kernels/*/*/*.[ch]") do
      for _, header in ipairs(includes(file)) do
        local folder = header:match "^([^/]+)/"
        assert((order[folder] or 0) <= order.op, file .. " includes " .. header)
      end
    end
  end)

  it("let the bindings see the public headers alone", function()
    for _, file in ipairs(lines "ls bindings/*/*.[ch]") do
      for _, header in ipairs(includes(file)) do
        assert(not header:find "/" or header:match "^mrt/", file .. " includes " .. header)
      end
    end
    for _, file in ipairs(lines "ls core/*/*.[ch] kernels/cpu/*.[ch] kernels/cpu/*/*.[ch]") do
      for line in io.lines(file) do
        assert(not line:match "^#include [<\"]lua", file .. ": " .. line)
      end
    end
  end)
end)
