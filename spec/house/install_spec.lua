-- install_spec.lua -- cmake --install gives a tree that stands on its own: the
-- program, the Lua modules, libmrt for C by pkg-config and by CMake, and the
-- binding for programs that have Lua inside.

local files = require "support.files"

local build = (os.getenv "MRT" or "build/mrt"):match "^(.*)/"

local host = [[
#include <mrt.h>
#include <stdio.h>
int main(void) {
  mrt_context *ctx;
  if (mrt_context_new(NULL, &ctx) != MRT_OK) return 1;
  mrt_context_free(ctx);
#if MRT_VERSION_NUMBER < 100 || MRT_VERSION_NUMBER >= 20000
#error "no such version"
#endif
  printf("%s %d.%d.%d\n", mrt_version(), MRT_VERSION_MAJOR, MRT_VERSION_MINOR,
         MRT_VERSION_PATCH);
  return 0;
}
]]

local project = [[
cmake_minimum_required(VERSION 3.20)
project(host C)
find_package(mrt 0.1 REQUIRED)
add_executable(host host.c)
target_link_libraries(host mrt::mrt)
add_executable(embed embed.c)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LUA REQUIRED IMPORTED_TARGET lua5.4)
target_link_libraries(embed mrt::lua PkgConfig::LUA)
]]

local function run(command)
  local pipe = io.popen(command .. " 2>&1")
  local output = pipe:read "a"
  assert(pipe:close(), output)
  return output
end

-- Trains, and tells the host; `host` is a global of the host's Lua alone.
local script = [[
local mrt = require "mrt"
local w = mrt.parameter(mrt.zeros(3), "w")
local step = mrt.compile(function(x)
  local loss = ((w - x) ^ 2):sum()
  w:assign(w - 0.25 * mrt.grad(loss, w))
  return loss
end)
for _ = 1, epochs do step(mrt.ones(3)) end
result = string.format("%s %.3f", mrt.version, w:sum():item())
]]

describe("an installed tree #install", function()
  local root, prefix, version

  setup(function()
    root = files.name()
    prefix = root .. "/prefix"
    run("cmake --install " .. build .. " --prefix " .. prefix)
    files.write(root .. "/host.c", host)
    files.write(root .. "/CMakeLists.txt", project)
    version = run(build .. "/mrt -v"):match "mrt ([%d.]+)"
  end)

  it("has a program that finds its own modules", function()
    local output = run("cd / && " .. prefix .. "/bin/mrt -e 'print(require \"mrt\".version)'")
    assert.equal(version .. "\n", output)
    local found = run(prefix .. "/bin/mrt -e 'print(package.searchpath(\"mrt\", package.path))'")
    assert.equal(prefix .. "/bin/../share/lua/5.4/mrt/init.lua\n", found)
  end)

  it("serves Debian's lua5.4", function()
    local modules = prefix .. "/share/lua/5.4/"
    local output = run(string.format(
      [[cd / && LUA_PATH='%s?.lua;%s?/init.lua' LUA_CPATH='%s/lib/lua/5.4/?.so' ]]
      .. [[lua5.4 -e 'print(require "mrt".version)']], modules, modules, prefix))
    assert.equal(version .. "\n", output)
  end)

  it("has libmrt for C programs by pkg-config", function()
    local library = run("dirname $(find " .. prefix .. " -name libmrt.so)"):gsub("\n", "")
    run(string.format([[cd %s && PKG_CONFIG_PATH=%s/pkgconfig && export PKG_CONFIG_PATH &&
      cc host.c -o host $(pkg-config --cflags --libs mrt)]], root, library))
    assert.equal(version .. " " .. version .. "\n",
      run("LD_LIBRARY_PATH=" .. library .. " " .. root .. "/host"))
  end)

  -- Debian's Lua as a library, and the archive that Lua's own Makefile gives.
  for kind, lua in pairs {
    ["shared"] = "$(pkg-config --libs lua5.4)",
    ["inside"] = "-Wl,-E $(pkg-config --variable=libdir lua5.4)/liblua5.4.a -lm -ldl",
  } do
    it("serves a program that has Lua, " .. kind, function()
      local library = run("dirname $(find " .. prefix .. " -name libmrt.so)"):gsub("\n", "")
      files.write(root .. "/script.lua", script)
      run(string.format([[export PKG_CONFIG_PATH=%s/pkgconfig &&
        cc -std=c11 -Wall -Wextra -Werror examples/embed.c -o %s/embed \
        $(pkg-config --cflags --libs mrt-lua) $(pkg-config --cflags lua5.4) %s]],
        library, root, lua))
      local modules = prefix .. "/share/lua/5.4/"
      local embed = string.format("cd / && LD_LIBRARY_PATH=%s LUA_PATH='%s?.lua;%s?/init.lua' "
        .. "%s/embed %s/", library, modules, modules, root, root)
      assert.equal("result: " .. version .. " 2.625\n", run(embed .. "script.lua"))
      files.write(root .. "/wrong.lua", "require('mrt').ones(2):matmul(1, 2, 3)")
      local pipe = io.popen(embed .. "wrong.lua 2>&1")
      assert.matches("^embed: [^\n]*matmul", pipe:read "a")
      assert.is_nil(pipe:close())
    end)
  end

  it("has pages that lead to pages and pictures that are there", function()
    local pages, count = prefix .. "/share/doc/mrt", 0
    for page in run("find " .. pages .. " -name '*.md'"):gmatch "%S+" do
      for target in files.read(page):gmatch "%]%(([^)#:]+%.%l%l%l?)[)#]" do
        if target:match "%.md$" or target:match "%.svg$" then
          count = count + 1
          local file = io.open(page:match "^.*/" .. target)
          assert(file, page .. " leads to " .. target):close()
        end
      end
    end
    assert.is_true(count > 50)
    run("test -s " .. pages .. "/LICENSE")
    -- These read what lies beside them in the source.
    for _, words in ipairs { "gpt.lua --steps 1 --sample 0", "lora.lua --steps 1 --tune 1",
      "fsdp.lua --steps 1", "mixed_precision.lua --steps 2" } do
      run("cd / && " .. prefix .. "/bin/mrt " .. pages .. "/examples/" .. words)
    end
  end)

  it("comes in parts", function()
    local parts = root .. "/parts"
    local function list(component)
      run(string.format("rm -rf %s && cmake --install %s --component %s --prefix %s",
        parts, build, component, parts))
      return run("cd " .. parts .. " && find . -not -type d")
    end
    local runtime, lua = list "runtime", list "lua"
    assert.matches("/bin/mrt\n", runtime)
    assert.is_nil(runtime:find("%.h\n") or runtime:find("%.lua\n") or runtime:find "%.pc\n")
    assert.matches("/mrt/core%.so\n", lua)
    assert.is_nil(lua:find("libmrt") or lua:find "%.h\n")
    assert.matches("libmrt%.so\n.*", list "dev")
    assert.is_nil(list "doc":find "%.so")
  end)

  it("has headers that stand alone, in C and in C++", function()
    local headers = run("cd " .. prefix .. " && find . -name '*.h' | grep include/")
    local count = 0
    for header in headers:gmatch "include/(%S+)" do
      files.write(root .. "/one.c", '#include "' .. header .. '"\n')
      local compile = string.format("cd %s && cc -std=c11 -Wall -Wextra -Wpedantic -Werror "
        .. "-fsyntax-only -I%s/include one.c", root, prefix)
      run(compile)
      if os.execute "c++ --version >/dev/null 2>&1" then
        run((compile:gsub("cc %-std=c11", "c++ -x c++ -std=c++17")))
      end
      count = count + 1
    end
    assert.is_true(count >= 9, headers)
  end)

  it("trains from C within the bytes that are planned", function()
    local library = run("dirname $(find " .. prefix .. " -name libmrt.so)"):gsub("\n", "")
    run(string.format([[export PKG_CONFIG_PATH=%s/pkgconfig &&
      cc -std=c11 -Wall -Wextra -Werror examples/train.c -o %s/train \
      $(pkg-config --cflags --libs mrt)]],
      library, root))
    local output = run("LD_LIBRARY_PATH=" .. library .. " " .. root .. "/train")
    local losses = {}
    for loss in output:gmatch "loss ([%d.]+)" do losses[#losses + 1] = tonumber(loss) end
    assert.is_true(#losses > 3, output)
    for i = 2, #losses do assert.is_true(losses[i] < losses[i - 1], output) end
    local planned = tonumber(output:match "planned peak: (%d+)")
    assert.equal(planned, tonumber(output:match "measured peak: (%d+)"))
    assert.is_true(planned <= 900 << 10)
  end)

  it("has libmrt for C programs by CMake", function()
    run("cp examples/embed.c " .. root)
    run(string.format("cd %s && cmake -B b -DCMAKE_PREFIX_PATH=%s && cmake --build b",
      root, prefix))
    assert.equal(version .. " " .. version .. "\n", run(root .. "/b/host"))
    files.write(root .. "/script.lua", script)
    local modules = prefix .. "/share/lua/5.4/"
    assert.equal("result: " .. version .. " 2.625\n", run(string.format(
      "LUA_PATH='%s?.lua;%s?/init.lua' %s/b/embed %s/script.lua", modules, modules, root, root)))
  end)
end)
