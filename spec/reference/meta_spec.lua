--- meta_spec.lua -- what editors are told of public names is what the reference says
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local files = require "support.files"
local json = require "mrt.util.json"
local meta = require "mrt.reference.meta"
local program = require "support.program"
local reference = require "mrt.reference"
local server = require "support.language_server"

-- What the files declare: class -> member -> its parameters, or "" of a field.
local function declared(texts)
  local classes = {}
  for _, text in pairs(texts) do
    local class
    for line in text:gmatch "[^\n]+" do
      local name = line:match "^%-%-%-@class ([%w_.]+)"
      if name then
        class = classes[name] or {}
        classes[name] = class
      end
      local field = line:match "^%-%-%-@field ([%w_]+)"
      local member, params = line:match "^function [MC][.:]([%w_]+)%((.*)%) end$"
      if field then class[field] = class[field] or "" end
      if member then class[member] = ", " .. params .. ", " end
    end
  end
  return classes
end

describe("types for editors", function()
  local texts = meta.files(reference.index())
  local classes = declared(texts)

  it("are Lua, in a file for each module", function()
    local count = 0
    for path, text in pairs(texts) do
      assert(load(text, "=" .. path))
      count = count + 1
    end
    assert.is_true(count > 12)
    assert.matches("^%-%-%-@meta mrt\n", texts["mrt.lua"])
    assert.matches("return mrt\n$", texts["mrt.lua"])
  end)

  it("declare every public name", function()
    local missing, count = {}, 0
    for name, entry in pairs(reference.index().by_name) do
      local class, key = name:match "^(.*)[.:]([%w_]+)$"
      if class == "Tensor" then class = "mrt.Tensor" end
      local module = reference.index().by_name[class]
      local below = module and module.kind == "module" and entry.kind ~= "type"
        and name ~= "mrt.Tensor"
      if below or class == "mrt.Tensor" then
        count = count + 1
        if not (classes[class] or {})[key] and key ~= "repeat" then
          missing[#missing + 1] = name
        end
      end
    end
    assert.same({}, missing)
    assert.is_true(count > 1000, count)
  end)

  it("declare methods and fields of every class, and the parameters", function()
    local missing = {}
    for _, entry in ipairs(reference.index().entries) do
      local class = classes[entry.comment and entry.comment.class or ""]
      for _, m in ipairs(class and entry.methods or {}) do
        local params = class[m.name:match "[%w_]+$"]
        if not params and not m.name:find "repeat$" then missing[#missing + 1] = m.name end
        for _, p in ipairs(params and m.comment and m.comment.params or {}) do
          if not params:find(", " .. p.name, 1, true) then
            missing[#missing + 1] = m.name .. ": " .. p.name
          end
        end
      end
      for _, f in ipairs(class and entry.fields or {}) do
        if f.name:find "^[%w_]+$" and not class[f.name] then
          missing[#missing + 1] = entry.name .. "." .. f.name
        end
      end
    end
    assert.same({}, missing)
  end)

  it("know layers as what makes them and as what is called", function()
    assert.matches("inputs, outputs, options", classes["mrt.nn"].Linear, 1, true)
    local text = texts["mrt/nn.lua"]
    assert.matches("@class mrt.nn.Linear: mrt.nn.Module\n", text, 1, true)
    assert.matches("overload fun(x: mrt.Tensor): mrt.Tensor\n", text, 1, true)
    assert.equal("", classes.mrt.nn)
    assert.equal("", classes["mrt.policy"].checkpoint)
    assert.is_truthy(classes["mrt.CompileOptions"].memory)
  end)

  it("know that a gradient is what it is taken with respect to", function()
    local grad = texts["mrt.lua"]:match "%-%-%-@generic T: mrt.Tensor|[^\n]*\n(.-)function M.grad"
    assert.matches("@param x T ", grad, 1, true)
    assert.matches("@return T gradients", grad, 1, true)
  end)
end)

describe("a language server", function()
  if not server.present() then
    pending "there is no emmylua_ls here"
    return
  end
  local folder = files.folder()
  assert(program.shell(("'%s' scripts/types.lua '%s/library'"):format(program.path, folder)) == 0)
  -- lists as lua-language-server has them by default; modules that are reached by `require`
  -- alone have no types
  files.write(folder .. "/.emmyrc.json", json.encode { runtime = { version = "Lua5.4" },
    workspace = { library = json.array { folder .. "/library" } },
    strict = { arrayIndex = false },
    diagnostics = { disable = json.array { "unresolved-require" } } })

  local function texts(list)
    local out = {}
    for i, d in ipairs(list) do
      out[i] = ("%s:%d: [%s] %s"):format(d.file, d.line, d.code, d.message)
    end
    return table.concat(out, "\n")
  end

  it("finds nothing in the README", function()
    local names = {}
    for block in files.read("README.md"):gmatch "```lua\n(.-)```" do
      names[#names + 1] = ("readme%d.lua"):format(#names + 1)
      files.write(folder .. "/" .. names[#names], block)
    end
    assert.is_true(#names > 0)
    assert.equal("", texts(server.check(folder, names)))
  end)

  it("finds nothing in the examples", function()
    local names = {}
    for _, name in ipairs(core.list_folder "examples") do
      if name:find "%.lua$" then
        names[#names + 1] = name
        files.write(folder .. "/" .. name, files.read("examples/" .. name))
      end
    end
    assert.is_true(#names > 20)
    assert.equal("", texts(server.check(folder, names)))
  end)
end)
