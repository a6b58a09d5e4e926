-- install_spec.lua -- cmake --install gives a tree that stands on its own: the
-- program, the Lua modules, and libmrt for C by pkg-config and by CMake.

local files = require "support.files"

local build = (os.getenv "MRT" or "build/mrt"):match "^(.*)/"

local host = [[
#include <mrt.h>
#include <stdio.h>
int main(void) {
  mrt_context *ctx;
  if (mrt_context_new(NULL, &ctx) != MRT_OK) return 1;
  mrt_context_free(ctx);
  puts(mrt_version());
  return 0;
}
]]

local project = [[
cmake_minimum_required(VERSION 3.20)
project(host C)
find_package(mrt 0.1 REQUIRED)
add_executable(host host.c)
target_link_libraries(host mrt::mrt)
]]

local function run(command)
  local pipe = io.popen(command .. " 2>&1")
  local output = pipe:read "a"
  assert(pipe:close(), output)
  return output
end

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
    assert.equal(version .. "\n", run("LD_LIBRARY_PATH=" .. library .. " " .. root .. "/host"))
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
    run(string.format("cd %s && cmake -B b -DCMAKE_PREFIX_PATH=%s && cmake --build b",
      root, prefix))
    assert.equal(version .. "\n", run(root .. "/b/host"))
  end)
end)
