--- manual_spec.lua -- the manual as pages: whole, linked, of itself
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local files = require "support.files"
local program = require "support.program"

describe("the manual", function()
  if not os.execute "command -v cmark-gfm >/dev/null 2>&1" then
    pending "there is no cmark-gfm here"
    return
  end
  local folder = files.name()
  local code, output = program.shell(("MRT='%s' scripts/manual '%s'"):format(program.path, folder))

  local function read(name)
    local file <close> = assert(io.open(folder .. "/" .. name))
    return file:read "a"
  end

  teardown(function() os.execute("rm -r '" .. folder .. "'") end)

  it("is written, and every link leads somewhere", function()
    assert.equal("", output:match "leads nowhere[^\n]*" or "")
    assert.equal(0, code)
    assert.is_true(tonumber(output:match "(%d+) names") > 1000)
  end)

  it("needs no network, and fits phones", function()
    local pages = 0
    for _, name in ipairs(core.list_folder(folder)) do
      if name:find "%.html$" then
        local text = read(name)
        pages = pages + 1
        assert.matches('<meta name="viewport"', text, 1, true)
        for address in text:gmatch '<script[^>]*src="([^"]*)"' do
          assert.is_nil(address:find "//", name)
        end
        for address in text:gmatch '<link[^>]*href="([^"]*)"' do
          assert.is_nil(address:find "//", name)
        end
        for address in text:gmatch '<img[^>]*src="([^"]*)"' do
          assert.is_nil(address:find "//", name)
          assert.is_truthy(io.open(folder .. "/" .. address), name .. ": " .. address)
        end
      end
    end
    assert.is_true(pages > 60)
  end)

  it("has each name where the search says it is", function()
    local text, count = {}, 0
    for name, file, id in read("index.js"):gmatch '%["([^"]+)","([^"#]+)#([^"]+)"' do
      text[file] = text[file] or read(file)
      assert.is_truthy(text[file]:find('id="' .. id .. '"', 1, true), name)
      count = count + 1
    end
    assert.is_true(count > 1000)
  end)

  it("has a page for man that names every command and variable", function()
    local page = read "mrt.1"
    for _, name in ipairs(require "mrt.cli.commands".list()) do
      assert.matches(".SS mrt " .. name, page, 1, true)
    end
    for name in page:gmatch "\\n%.B (MRT_[%u_]+)" do assert.is_truthy(name) end
    assert.matches(".SH ENVIRONMENT", page, 1, true)
    assert.is_nil(page:find "\\n'")
  end)

  it("marks code, and links what it names", function()
    local text = read "ref-mrt.nn.html"
    assert.matches('<b class="k">local</b>', text, 1, true)
    assert.matches('href="ref-mrt.nn.html#mrt.nn.LinearOptions"', text, 1, true)
    assert.is_nil(text:find "SPDX")
  end)
end)
