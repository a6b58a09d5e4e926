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

  it("is that of the packages", function()
    local rock = {}
    local name = "mrt-" .. version .. "-1.rockspec"
    assert(load(files.read(name), name, "t", rock))()
    assert.equal(version .. "-1", rock.version)
    assert.equal("v" .. version, rock.source.tag)
    assert.equal(version, files.read "debian/changelog":match "^mrt %(([%d.]+)%-%d+%)")
  end)

  it("has the SONAME that CHANGELOG and the packages promise", function()
    local number = files.read "CMakeLists.txt":match "set%(MRT_SOVERSION (%d+)%)"
    assert.truthy(files.read "CHANGELOG.md":find("libmrt.so." .. number, 1, true))
    assert.truthy(files.read "debian/control":find("Package: libmrt" .. number .. "\n", 1, true))
    assert.truthy(files.read("debian/libmrt" .. number .. ".symbols")
      :find("libmrt.so." .. number .. " libmrt" .. number, 1, true))
  end)

  -- What C programs were linked with stays; else the SONAME is another.
  it("has the functions that debian/libmrt0.symbols lists, and no others", function()
    local library = (os.getenv "MRT" or "build/mrt"):match "^(.*)/" .. "/lib/libmrt.so"
    local pipe <close> = io.popen("nm -D --defined-only " .. library .. " 2>&1")
    local has = {}
    for name in pipe:read "a":gmatch " T (mrt_[%w_]+)" do has[name] = true end
    if not has.mrt_version then return pending("no " .. library) end
    for name in files.read "debian/libmrt0.symbols":gmatch "\n (mrt_[%w_]+)@Base" do
      assert.truthy(has[name], name .. " is gone. If it was in a release: "
        .. "CONTRIBUTING.md, Releases; else scripts/symbols")
      has[name] = nil
    end
    assert.is_nil(next(has), "scripts/symbols writes that these are new")
  end)
end)
