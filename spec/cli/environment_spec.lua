--- environment_spec.lua -- every environment variable that is read is documented
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"

-- Names that the sources ask the environment for.
local function read_names()
  local names = {}
  local list <close> = assert(io.popen("find core kernels bindings lua/mrt -name '*.[ch]' "
    .. "-o -name '*.lua'"))
  for path in list:lines() do
    local text = files.read(path)
    for name in text:gmatch 'getenv%s*%(?%s*"([%w_]+)"' do names[name] = path end
    for name in text:gmatch 'mrt_plugin_library%(%s*"([%w_]+)"' do names[name] = path end
  end
  for word in files.read "lua/mrt/communicator/env.lua":gmatch '"([A-Z]+_[%w_]+)"' do
    names[word] = "lua/mrt/communicator/env.lua"
  end
  return names
end

describe("the environment", function()
  it("has no variable that is read and told nowhere, nor the reverse", function()
    local told, extra = {}, {}
    for _, group in ipairs(require "mrt.cli.environment") do
      for _, row in ipairs(group[2]) do
        assert.is_nil(told[row[1]], row[1])
        told[row[1]] = true
      end
    end
    local found = read_names()
    for name, path in pairs(found) do assert.is_true(told[name], name .. " in " .. path) end
    -- Read by their lists: RANK; Lua itself; plug-ins by their names; scripts of mrt launch.
    local others = { RANK = 1, LUA_INIT = 1, LUA_PATH = 1, LUA_CPATH = 1, MRT_CUDA = 1,
      MRT_RESTART = 1 }
    for name in pairs(told) do
      if not found[name] and not others[name] then extra[#extra + 1] = name end
    end
    assert.same({}, extra)
    local code, page = program.run "help environment"
    assert.equal(0, code)
    for _, group in ipairs(require "mrt.cli.environment") do
      for _, row in ipairs(group[2]) do
        assert.truthy(not row[2] or page:find("\n  " .. row[1] .. "[ \n]"), row[1])
      end
    end
  end)
end)
