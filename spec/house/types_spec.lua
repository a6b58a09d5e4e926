--- types_spec.lua -- what editors are told of operators is what their rows say
---
--- SPDX-License-Identifier: MIT

require "mrt"
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

local PATH <const> = "lua/mrt/tensor/operators.lua"

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

describe("the types of operators", function()
  it("are those that scripts/operator_types.lua writes", function()
    local code, output = program.run "scripts/operator_types.lua -"
    assert.equal(0, code)
    assert.equal(read(PATH), output)
  end)

  it("have every operator that is a method as it is", function()
    local text = read(PATH)
    for _, o in ipairs(core.operators()) do
      local method = core.methods[o.name]
      local declared = text:find("function Tensor:" .. o.name .. "(", 1, true) ~= nil
      assert.equal(method ~= nil and method == core.op[o.name], declared, o.name)
    end
  end)

  it("please the Lua language server", function()
    if not os.execute "command -v lua-language-server >/dev/null 2>&1" then
      pending "there is no lua-language-server here"
      return
    end
    local log = files.name()
    local pipe <close> = io.popen(("lua-language-server --check lua/mrt/tensor --checklevel=Error "
      .. "--logpath='%s' 2>&1"):format(log))
    assert.matches("no problems found", pipe:read("a"):lower(), 1, true)
  end)
end)
