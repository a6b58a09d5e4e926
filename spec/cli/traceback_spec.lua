--- traceback_spec.lua -- which lines an error of a script shows
---
--- SPDX-License-Identifier: MIT

local files = require "support.files"
local program = require "support.program"

local function run(source, before)
  local path = files.temporary(source)
  local code, output = program.shell(("%s '%s' '%s'"):format(before or "", program.path, path))
  assert.equal(1, code)
  return (output:gsub(path:gsub("%p", "%%%0"), "x.lua"):gsub("/%S*/lua/mrt/", "mrt/"))
end

describe("a traceback", function()
  local source = [[
local mrt = require "mrt"
local model = mrt.nn.Linear(2, 3)
local function loss(x)
  local y = model(x)
  return y:sum()
end
local net = mrt.nn.Sequential(function(x) return (loss(x)) end)
net(mrt.ones(3, 3))]]

  it("shows the program's functions, and one of mrt's where it was called", function()
    assert.equal([[
mrt: x.lua:4: Linear: linear: f32[3,3] against f32[3,2], inner sizes 3 and 2, equal wanted
stack traceback:
	mrt: in upvalue 'model'
	x.lua:4: in upvalue 'loss'
	x.lua:7: in function <x.lua:7>
	mrt: in local 'net'
	x.lua:8: in main chunk
]], (run(source):gsub(" %(in mrt/nn/linear.lua:%d+%)", "")))
  end)

  it("shows all of them where that is asked for", function()
    local text = run(source, "MRT_TRACEBACK=full")
    assert.matches("\n\tmrt/nn/linear.lua:%d+: in ", text)
    assert.matches("\n\tmrt/nn/sequential.lua:%d+: in ", text)
    assert.matches("\n\tx.lua:8: in main chunk\n$", text)
  end)

  it("is as short for a deep recursion, and for an error that is no text", function()
    local text = run "local function f(n) return n == 0 and error {} or f(n - 1) + 1 end f(100000)"
    assert.matches("^mrt: %(error object is a table value%)\nstack traceback:\n", text)
    assert.matches("\n\t...\t(skipping ", text, 1, true)
    assert.is_true(select(2, text:gsub("\n", "")) < 30)
    text = run "local function f() return f() + 1 end f()"
    assert.matches("stack overflow", text)
    assert.is_true(select(2, text:gsub("\n", "")) < 30)
  end)

  it("says which name a nil value has, where mrt has one like it", function()
    assert.matches("(method 'reluu'): did you mean relu?", run(
      "require 'mrt'.ones(2):reluu()"), 1, true)
    assert.matches("(method 'reluu')\n", run "('x'):reluu()", 1, true) -- mrt is not loaded
  end)
end)
