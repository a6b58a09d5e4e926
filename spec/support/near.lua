--- near.lua -- lists of numbers that should be equal but for rounding
---
--- SPDX-License-Identifier: MIT

local assert = require "luassert"

--- Fail unless got[i] is within `tolerance` (1e-6) of wanted[i] for every i.
---@param wanted number[]
---@param got number[]
---@param tolerance? number
return function(wanted, got, tolerance)
  for i = 1, #wanted do
    local off = math.abs(wanted[i] - got[i])
    assert.is_true(off <= (tolerance or 1e-6),
      ("[%d]: %.17g, wanted %.17g"):format(i, got[i], wanted[i]))
  end
end
