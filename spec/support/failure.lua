--- failure.lua -- calls that must fail
---
--- SPDX-License-Identifier: MIT

local assert = require "luassert"

--- The error of such a call, and its text.
return function(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err, tostring(err)
end
