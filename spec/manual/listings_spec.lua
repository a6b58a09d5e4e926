--- listings_spec.lua -- the manual's listings run, and print what it shows
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

describe("listings of the manual", function()
  local function first(command)
    local _, output = program.shell(command)
    return output:match "[^\n]*"
  end
  local root = first "pwd"
  local mrt = first("realpath '" .. program.path .. "'")

  -- Whole trainings: their C code is that of other specs.
  local trains = { ["01-first-steps.md"] = true, ["04-programs.md"] = true,
    ["05-more-programs.md"] = true, ["06-your-model.md"] = true }

  local pages = core.list_folder "manual"
  table.sort(pages)
  for _, name in ipairs(pages) do
    if name:find "%.md$" then
      it(("run: %s%s"):format(name, trains[name] and " #long" or ""), function()
        local folder = files.name()
        os.execute("mkdir '" .. folder .. "'")
        local code, output = program.shell(
          ("cd '%s' && PATH='%s':$PATH '%s' '%s/spec/manual/run.lua' '%s' 'manual/%s'"):format(
            folder, mrt:match "(.*)/", mrt, root, root, name))
        os.execute("rm -r '" .. folder .. "'")
        assert.equal(0, code, output)
      end)
    end
  end

  it("are run, or say why not", function()
    for _, name in ipairs(pages) do
      local text = name:find "%.md$" and files.read("manual/" .. name) or ""
      for mark in text:gmatch "<!%-%-%s*(.-)%s*%-%->" do
        assert.is_truthy(mark:find "^not run: %S" or mark:find "^error$" or mark:find "^file: %S"
          or mark:find "^run[:; ]" or mark == "run" or mark:find "^output on %S"
          or mark:find "^of: %S", name .. ": " .. mark)
      end
    end
  end)

  it("stand beside every variable that scripts/environment_page.lua lists", function()
    local _, text = program.run "scripts/environment_page.lua"
    assert.equal(text, files.read "manual/12-environment.md")
  end)
end)
