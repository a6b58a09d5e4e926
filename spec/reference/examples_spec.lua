--- examples_spec.lua -- the examples of the reference run, and give what they say
---
--- They run in a process of their own, which prints to nowhere, in a folder of its own.
---
--- SPDX-License-Identifier: MIT

local example = require "mrt.reference.example"
local files = require "support.files"
local program = require "support.program"
local reference = require "mrt.reference"
local surroundings = require "reference.surroundings"
local unable = require "reference.unable"

local function absolute(path)
  local pipe <close> = assert(io.popen("realpath '" .. path .. "'"))
  return pipe:read "l"
end

-- Run those of all entries; returns lines of {seconds, name, wrong}.
local function run()
  local folder, results = files.folder(), files.name()
  local code, output = program.shell(
    ("cd '%s' && '%s' '%s/reference/run_examples.lua' '%s' '%s' >/dev/null"):format(folder,
      absolute(program.path), absolute "spec", absolute "spec", results))
  assert(code == 0, output)
  local list = {}
  for line in io.lines(results) do
    list[#list + 1] = table.pack(line:match "^(%S+)\t([^\t]+)\t(.*)$")
  end
  return list
end

describe("the examples of the reference", function()
  it("run and give what they say #process", function()
    local wrong, count = {}, 0
    for _, one in ipairs(run()) do
      count = count + 1
      if one[3] ~= "" then wrong[#wrong + 1] = one[2] .. ": " .. one[3] end
    end
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(count > 1000)
  end)

  it("are left out for a reason, and few", function()
    local count = 0
    for name, reason in pairs(unable) do
      local entry = reference.index().by_name[name]
      assert.is_truthy(entry and example.list(entry)[1], name)
      assert.is_true(#reason > 10)
      count = count + 1
    end
    assert.is_true(count < 10)
  end)

  it("are told from others by what comes of them", function()
    local here = surroundings.of "mrt.cat"
    assert.is_nil(example.run("local a = 2\na + 1  --> 3\na\n--> 2", here))
    assert.is_nil(example.run("math.max(1,\n  2)  --> 2", here))
    assert.matches("gives 3, not 4", example.run("local a = 2\na + 1  --> 4", here))
    assert.has_error(function() example.run("x:no_such_method()", here) end)
  end)
end)
