-- secret_spec.lua -- the file that ranks of one user know each other by
--
-- SPDX-License-Identifier: MIT
local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

describe("a user's secret", function()
  it("is made once, for its owner alone, by however many at a time", function()
    local path = files.name()
    local script = files.temporary(([[print(require "mrt.core".secret(%q))]]):format(path))
    local _, out = program.shell(("umask 0; for i in 1 2 3 4 5 6; do '%s' %s & done; wait")
      :format(program.path, script))
    local first, seen = out:match "^(%x+)\n", 0
    for line in out:gmatch "[^\n]+" do
      assert.equal(first, line)
      seen = seen + 1
    end
    assert.equal(6, seen)
    assert.equal(32, #first)
    assert.equal(first, core.secret(path))
    local _, mode = program.shell("stat -c %a " .. path)
    assert.equal("600\n", mode)
    local _, others = program.shell("ls " .. path .. "*")
    assert.equal(path .. "\n", others)
  end)

  it("is refused where others may read it, or it is none", function()
    local function refused(why, path)
      local text, message = core.secret(path)
      assert.is_nil(text)
      assert.equal(path .. ": " .. why, message)
    end
    local path = files.name()
    core.secret(path)
    program.shell("chmod 640 " .. path)
    refused("others may read it (chmod 600)", path)
    local short = files.temporary "abc"
    program.shell("chmod 600 " .. short)
    refused("too short", short)
    local link = files.name()
    program.shell(("ln -s %s %s"):format(path, link))
    refused("Too many levels of symbolic links", link)
    local fifo = files.name()
    program.shell("mkfifo -m 600 " .. fifo)
    refused("no regular file", fifo)
    refused("No such file or directory", "/nowhere/at/all")
  end)
end)
