--- place_spec.lua -- what stands where files are read and written
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local files = require "support.files"

local function shell(command, ...)
  command = command:format(...)
  assert(os.execute(command), command)
end

local function said(command, ...)
  local pipe <close> = assert(io.popen(command:format(...)))
  return (pipe:read "a":gsub("%s+$", ""))
end

local function names(folder)
  local list = {}
  for _, name in ipairs(assert(core.list_folder(folder))) do
    if name ~= "." and name ~= ".." then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

local w = { w = mrt.arange(6) }

-- A call that fails as the world does.
local function refused(pattern, fn, ...)
  local value, message = fn(...)
  assert.is_nil(value)
  assert.matches(pattern, message, 1, true)
end

describe("a file that is saved", function()
  local folder, path
  before_each(function()
    folder = files.folder()
    path = folder .. "/w.safetensors"
  end)

  it("opens nothing that others have put beside it", function()
    local victim = files.temporary "precious"
    shell("ln -s %s %s.partial", victim, path)
    assert(mrt.save(path, w))
    assert.equal("precious", files.read(victim))
    assert.equal("regular file", said("stat -c %%F %s", path))
    shell("rm %s.partial; mkfifo %s.partial", path, path)
    assert(mrt.save(path, w)) -- waits for nobody
    assert.same({ "w.safetensors", "w.safetensors.partial" }, names(folder))
  end)

  it("lets those read it who could read the one before", function()
    for _, mode in ipairs { "600", "640", "444", "664" } do
      files.write(path, "")
      shell("chmod %s %s", mode, path)
      assert(mrt.save(path, w))
      assert.equal(mode, said("stat -c %%a %s", path))
      os.remove(path)
    end
    shell("cd %s && umask 027 && %s -e 'local mrt = require \"mrt\" "
      .. "mrt.save(\"n.npy\", mrt.ones(1))'", folder, os.getenv "MRT" and
      said("realpath %s", os.getenv "MRT") or said "realpath build/mrt")
    assert.equal("640", said("stat -c %%a %s/n.npy", folder))
  end)

  it("replaces what a link names, and the link stays", function()
    local disk = files.folder()
    shell("ln -s %s/real.safetensors %s", disk, path)
    assert(mrt.save(path, w)) -- there is nothing yet
    assert(mrt.save(path, { w = mrt.ones(2) }))
    assert.equal("symbolic link", said("stat -c %%F %s", path))
    assert.same({ "real.safetensors" }, names(disk))
    assert.equal(2, assert(mrt.load(path)).w:sum():item())
    shell("ln -sf other.safetensors %s/real.safetensors", disk)
    assert(mrt.save(path, w)) -- a link to a link, relative to its folder
    assert.same({ "other.safetensors", "real.safetensors" }, names(disk))
    assert.same({ "w.safetensors" }, names(folder))
    shell("ln -sf w.safetensors %s", path)
    refused("Too many levels of symbolic links", mrt.save, path, w)
  end)

  it("is refused where there is something else", function()
    for _, make in ipairs { "mkfifo %s", "mkdir %s", "ln -s /dev/null %s" } do
      shell(make, path)
      refused(path .. ": not a regular file", mrt.save, path, w)
      refused(path .. ": not a regular file", core.write_file, path, "x")
      assert.same({ "w.safetensors" }, names(folder))
      shell("rm -r %s", path)
    end
    refused("No such file or directory", mrt.save, folder .. "/no/w.npy", w.w)
  end)

  it("removes what a dead one left behind, and nothing else", function()
    local dead, living = path .. ".partial-0123456789abcdef", path .. ".partial-00000000000000ff"
    local others = { path .. ".partial-0123", folder .. "/v.npy.partial-0123456789abcdef" }
    for _, name in ipairs { dead, living, table.unpack(others) } do files.write(name, "x") end
    local holder = assert(io.popen(("flock %s sh -c 'read x'"):format(living), "w"))
    while os.execute(("flock -n %s true"):format(living)) do end
    assert(mrt.save(path, w))
    assert.same({ "v.npy.partial-0123456789abcdef", "w.safetensors",
      "w.safetensors.partial-00000000000000ff", "w.safetensors.partial-0123" }, names(folder))
    holder:write "\n"
    holder:close()
    shell("ln -s %s %s", files.temporary "", dead)
    assert(mrt.save(path, w))
    assert.equal(4, #names(folder)) -- the link stays
  end)

  it("may have the longest name there is", function()
    local long = folder .. "/" .. ("n"):rep(251) .. ".npy"
    assert(mrt.save(long, w.w))
    assert(mrt.save(long, w.w))
    assert.equal(1, #names(folder))
  end)
end)

describe("what is no regular file", function()
  local pipe

  lazy_setup(function()
    pipe = files.name ".lua"
    shell("mkfifo %s", pipe)
  end)

  it("is refused by all that read files", function()
    for _, path in ipairs { pipe, "/dev/zero", "/" } do
      for _, read in ipairs { mrt.data.text, mrt.policy.load, mrt.device.find, core.read_file,
        mrt.data.tokens, mrt.data.csv } do
        refused(path .. ": not a regular file", read, path)
      end
    end
    local folder = files.folder()
    assert(mrt.save(folder .. "/model.safetensors", { ["wte.weight"] = mrt.ones(4, 4) }))
    shell("mkfifo %s/config.json", folder)
    refused("config.json: not a regular file", mrt.nn.gpt2, folder .. "/model.safetensors")
  end)

  it("is refused by logs and reports", function()
    local folder = files.folder()
    shell("mkfifo %s/run.jsonl", folder)
    refused("run.jsonl: not a regular file", mrt.train.read_log, folder)
    refused("run.jsonl: not a regular file", mrt.train.log, folder, { after = 3 })
  end)

  it("is not what has no size, as in /proc, or is large", function()
    local bytes = files.temporary(("x"):rep(3 << 20))
    assert.equal(3 << 20, #assert(core.read_file(bytes)))
    refused("No such file", core.read_file, bytes .. ".no")
    assert.truthy(assert(core.read_file "/proc/self/status"):find "Name")
  end)
end)
