-- spare_spec.lua -- memory that tensors give back is kept for the next, bounded
--
-- In processes of their own: what is kept depends on all that ran before.
--
-- SPDX-License-Identifier: MIT
local program = require "support.program"

local MIB = 2 ^ 20

-- Run it beside helpers; the numbers it prints.
local function numbers(code)
  local out = program.script([[
    local mrt = require "mrt"
    local MIB = 2 ^ 20
    local function spare() collectgarbage() return mrt.memory().spare end
  ]] .. code)
  local list = {}
  for n in out:gmatch "[^%s]+" do list[#list + 1] = tonumber(n) or error(out) end
  return list
end

-- The sanitizers want to see each use of what was freed.
describe("memory that was given back #process", function()
  it("is kept, is nobody's, and is given to what is as large", function()
    assert.same({ 0, 4 * MIB, 0, 0, 4 * MIB, 4 * MIB }, numbers [[
      local x = mrt.ones(MIB)
      mrt.eval(x)
      print(spare())
      x = nil
      print(spare(), mrt.memory().now)
      x = mrt.ones(MIB) mrt.eval(x)
      print(spare(), mrt.memory().now)
      x = nil
      print(spare())]])
  end)

  it("is bounded, and the oldest goes first", function()
    local got = numbers [[
      for mib = 1, 40 do
        local x = mrt.ones(mib * MIB // 4)
        mrt.eval(x)
        x = nil
        collectgarbage()
      end
      local all = spare()
      local x = mrt.ones(MIB * 40 // 4) mrt.eval(x)
      print(all, all - spare(), spare())]]
    assert(got[1] <= 256 * MIB and got[1] > 200 * MIB)
    assert.equal(40 * MIB, got[2])
  end)

  it("is little once a step has an arena, whose bytes are the plan's", function()
    local got = numbers [[
      local x = mrt.ones(MIB, 4)
      mrt.eval(x)
      local step = mrt.compile(function(a) return ((a * 2):exp():sum() + a:sum()) end)
      local y = mrt.ones(4, MIB) mrt.eval(y) y = nil
      print(spare())
      local plan = step:plan(x)
      step(x):item()
      print(spare(), mrt.memory().now - plan.peak - plan.inputs)
      step = nil plan = nil
      collectgarbage()
      y = mrt.ones(4, MIB) mrt.eval(y) y = nil
      print(spare())]]
    assert.equal(16 * MIB, got[1])
    assert(got[2] <= 8 * MIB)
    assert(got[4] >= 16 * MIB)
  end)

  it("comes back soon: a program that computes line by line takes few results", function()
    local got = numbers [[
      local a = mrt.ones(MIB)
      mrt.eval(a)
      collectgarbage()
      mrt.memory { reset = true }
      for _ = 1, 100 do mrt.eval(a + a) end
      print(mrt.memory().peak / MIB)
      local ring = {}
      for i = 1, 200 do ring[i % 8] = mrt.eval(a + a) end
      print(mrt.memory().peak / MIB)]]
    assert(got[1] <= 4 + 2 * 4, got[1])
    assert(got[2] <= 4 + 8 * 4 + 24, got[2])
  end)

  it("is given back where there is no other", function()
    local path = require "support.files".temporary [[
      local mrt = require "mrt"
      local x = mrt.ones(160 << 18) mrt.eval(x) x = nil
      collectgarbage()
      assert(mrt.memory().spare == 160 << 20)
      x = mrt.ones(200 << 18) mrt.eval(x)
      print(mrt.memory().now >> 20, mrt.memory().spare >> 20)]]
    local code, out = program.shell(("ulimit -v 300000; MRT_THREADS=1 '%s' '%s'")
      :format(program.path, path))
    assert(code == 0, out)
    assert.matches("^200%s+0%s*$", out)
  end)
end)
