--- print_spec.lua -- tensors as text, within a window
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local print_tensor = require "mrt.tensor.print"

-- Lines behind the type, and the longest.
local function measure(text)
  local lines, most = -1, 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    lines, most = lines + 1, math.max(most, #line)
  end
  return lines, most
end

local function count(text, pattern)
  return select(2, text:gsub("^[^\n]*\n", ""):gsub(pattern, ""))
end

describe("a tensor as text", function()
  local limits = print_tensor.limits
  after_each(function() print_tensor.limits = limits end)

  it("is whole where it fits", function()
    assert.equal("i64[10]\n[0 1 2 3 4 5 6 7 8 9]", tostring(mrt.arange(10)))
    assert.equal("f32[2,2,1]\n[[[1.0]\n  [1.0]]\n\n [[1.0]\n  [1.0]]]", tostring(mrt.ones(2, 2, 1)))
    assert.equal(100, count(tostring(mrt.arange(100)), "%d+"))
    assert.equal("3", tostring(mrt.tensor(3)))
    assert.equal("bool[2]\n[ true false]", tostring(mrt.tensor { true, false }))
    assert.equal("f32[0,3]\n[]", tostring(mrt.zeros(0, 3)))
  end)

  it("folds long rows and lines their numbers up", function()
    print_tensor.limits = { width = 20, lines = 24, numbers = 1000 }
    assert.equal("i64[12]\n[ 0  1  2  3  4  5\n  6  7  8  9 10 11]", tostring(mrt.arange(12)))
    assert.equal("i64[2,8]\n[[ 0  1  2  3  4\n   5  6  7]\n [ 8  9 10 11 12\n  13 14 15]]",
      tostring(mrt.arange(16):reshape(2, 8)))
  end)

  it("shows the ends of what is too long", function()
    assert.equal("i64[2000]\n[   0    1    2    3    4    5    6    7 ... "
      .. "1993 1994 1995 1996 1997 1998 1999]", tostring(mrt.arange(2000)))
    print_tensor.limits = { width = 80, lines = 4, numbers = 1000 }
    assert.equal("i64[9,2]\n[[ 0  1]\n [ 2  3]\n ...\n [16 17]]",
      tostring(mrt.arange(18):reshape(9, 2)))
  end)

  it("takes no more lines and columns than there are, whatever its shape", function()
    local shapes = { { 5, 5, 5, 5 }, { 8, 8, 8, 8 }, { 1000, 1000 }, { 3, 300 }, { 300, 3 },
      { 2, 2, 2, 2, 2, 2, 2, 2 }, { 40, 1, 1, 1 }, { 1, 1, 1, 50 }, { 7 }, { 100000 },
      { 1, 200, 1 }, { 30, 30 }, { 12, 12, 2 } }
    for _, shape in ipairs(shapes) do
      for _, width in ipairs { 30, 50, 80, 120 } do
        for _, lines in ipairs { 10, 24 } do
          print_tensor.limits = { width = width, lines = lines, numbers = 1000 }
          local text = tostring(mrt.rand(shape))
          local n, most = measure(text)
          local what = table.concat(shape, "x") .. (" in %dx%d:\n"):format(width, lines) .. text
          assert.is_true(n <= math.max(lines, 2 * #shape - 1), what)
          assert.is_true(most <= width, what)
          assert.is_true(count(text, "%d%.%d+") <= 1000, what)
        end
      end
    end
  end)

  it("is short within a line", function()
    assert.equal("f32[2,3]", print_tensor.short(mrt.ones(2, 3)))
    assert.equal("f32[2] [1.5 2.0]", print_tensor.short(mrt.tensor { 1.5, 2 }))
    assert.equal("2.5", print_tensor.short(mrt.tensor(2.5)))
    assert.equal("f32[0]", print_tensor.short(mrt.zeros(0)))
  end)
end)
