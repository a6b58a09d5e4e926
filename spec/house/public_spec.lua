--- public_spec.lua -- what users see: modules, functions, methods
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local complete = require "mrt.cli.repl.complete"
local reference = require "mrt.reference"

local modules = getmetatable(mrt).__fields[1]

describe("the modules of mrt", function()
  it("are those of the list, each a folder", function()
    for name in pairs(modules) do
      assert.equal(require("mrt." .. name), mrt[name])
      assert.matches("/" .. name .. "/init%.lua$",
        (package.searchpath("mrt." .. name, package.path)))
    end
  end)

  it("are no other files or folders", function()
    local folder = package.searchpath("mrt", package.path):match "^(.*)/init%.lua$"
    local private = 0
    for _, entry in ipairs(core.list_folder(folder)) do
      local name = entry:match "^(%l+)$"
      if name and not modules[name] then
        private = private + 1
        -- compile is a function too, which its folder makes
        assert.is_true(mrt[name] == nil or type(mrt[name]) == "function", name)
      end
    end
    assert.is_true(private > 5)
    assert.is_nil(mrt.core)
    assert.is_nil(mrt["util.options"])
  end)
end)

-- Lua functions that have the name of an operator they lead to.
local composed = { assign = core.methods, custom = mrt }

describe("the library's own operators", function()
  local internal = {}
  for _, o in ipairs(core.operators()) do
    if o.internal then internal[#internal + 1] = o.name end
  end

  it("are gradients, updates, and what layers and passes make", function()
    local all = " " .. table.concat(internal, " ") .. " "
    for _, o in ipairs(core.operators()) do
      if o.updates or o.name:find "_grad$" then assert.is_true(o.internal, o.name) end
    end
    for name in ("swap_in swap_out swap_wait arrive fused conv2d_dx conv2d_dw "
      .. "max_pool2d_pick each_use row_norm"):gmatch "%S+" do
      assert.is_truthy(all:find(" " .. name .. " ", 1, true), name)
    end
  end)

  it("are no methods, no functions, and unknown to the prompt", function()
    _G.public_x, _G.public_mrt = mrt.ones(2), mrt
    finally(function() _G.public_x, _G.public_mrt = nil, nil end)
    for _, name in ipairs(internal) do
      local lua = composed[name]
      assert.is_true(core.methods[name] == nil or lua == core.methods, name)
      assert.is_true(mrt[name] == nil or lua == mrt, name)
      if not lua then
        for _, prefix in ipairs { "public_x:", "public_mrt." } do
          local insert, choices = complete(prefix .. name)
          assert.is_true((insert or "") == "" or core.methods[name .. insert] ~= nil, name)
          assert.is_nil((" " .. (choices or "") .. " "):find("[%s]" .. name .. "[%s]"))
        end
        local found = reference.find(name)
        assert.is_true(not found or found.operator == nil, name)
      end
    end
  end)
end)

describe("every other operator", function()
  it("is a method, a function, or a method of communicators", function()
    local methods = getmetatable(mrt.communicator.create()).__index
    for _, o in ipairs(core.operators()) do
      if not o.internal then
        local home = core.methods
        if o.collective then home = methods elseif o.max_inputs == 0 then home = mrt end
        assert.is_function(home[o.name], o.name)
        assert.is_truthy(o.collective or reference.find(home[o.name]), o.name)
      end
    end
  end)
end)
