--- check_spec.lua -- every public name says what it is, its shapes, errors, an example
---
--- SPDX-License-Identifier: MIT

local check = require "mrt.reference.check"
local reference = require "mrt.reference"

describe("every public name", function()
  it("is documented, with shapes, errors and an example", function()
    local lines = {}
    for _, found in ipairs(check.list(reference.index())) do
      lines[#lines + 1] = found.entry.name .. ": " .. table.concat(found.lacks, ", ")
    end
    assert.equal("", table.concat(lines, "\n"))
    assert.is_true(#reference.index().entries > 1000)
  end)

  it("mentions no type that is nowhere declared", function()
    local unknown = {}
    for name in pairs(reference.index().unknown) do unknown[#unknown + 1] = name end
    table.sort(unknown)
    assert.same({}, unknown)
  end)
end)
