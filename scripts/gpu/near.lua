--- near.lua -- are the losses of two smoke files near each other, or the same?
---
---     mrt scripts/gpu/near.lua FILE BESIDE near|same
---
--- SPDX-License-Identifier: MIT

local read = require "results".read

local one, other = read(arg[1]), read(arg[2])
local allowed = { f32 = 1e-4, bf16 = 2e-2 }
local good = true
for dtype, tolerance in pairs(allowed) do
  local a, b, worst = one[dtype], other[dtype], 0
  if not a or not b then
    print(dtype .. ": " .. tostring(one[dtype .. "_failed"] or other[dtype .. "_failed"]))
    good = false
  else
    for i = 1, #a do
      local x, y = tonumber(a[i]), tonumber(b[i])
      local off = x == x and y == y and math.abs(x - y) / math.abs(y) or math.huge
      worst = math.max(worst, off)
    end
    good = good and worst <= (arg[3] == "same" and 0 or tolerance)
    print(("%s: %.2g off at most"):format(dtype, worst))
  end
end
os.exit(good and 0 or 1)
