-- version_spec.lua -- one version, in every place that names it
--
-- SPDX-License-Identifier: MIT

local files = require "support.files"
local mrt = require "mrt"

describe("the version", function()
  local version = files.read "core/mrt/types.h":match 'MRT_VERSION +"([%d.]+)"'

  it("is that of the library, and of each number in its header", function()
    assert.equal(version, mrt.version)
    local header, numbers = files.read "core/mrt/types.h", {}
    for i, part in ipairs { "MAJOR", "MINOR", "PATCH" } do
      numbers[i] = header:match("MRT_VERSION_" .. part .. " +(%d+)\n")
    end
    assert.equal(version, table.concat(numbers, "."))
  end)

  it("is the latest release of CHANGELOG", function()
    local changelog = files.read "CHANGELOG.md"
    local latest, date = changelog:match "\n## %[([%d.]+)%] %- (%d+%-%d+%-%d+)\n"
    assert.equal(version, latest)
    local anchor = version:gsub("%.", "") .. "---" .. date
    assert.truthy(changelog:find("[" .. version .. "]: #" .. anchor .. "\n", 1, true))
  end)

  it("has the SONAME that CHANGELOG promises", function()
    local number = files.read "CMakeLists.txt":match "set%(MRT_SOVERSION (%d+)%)"
    assert.truthy(files.read "CHANGELOG.md":find("libmrt.so." .. number, 1, true))
  end)
end)
