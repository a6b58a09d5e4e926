--- near.lua -- are the losses of two smoke files near each other, or the same?
---
---     mrt scripts/gpu/near.lua FILE BESIDE near|same
---
--- SPDX-License-Identifier: MIT

local read = require "results".read

local one, other, how = read(arg[1]), read(arg[2]), arg[3]
local allowed = { f32 = 1e-4, bf16 = 2e-2 }

-- The greatest relative distance; infinite: a NaN.
local function distance(a, b)
  local worst = 0
  for i = 1, #a do
    local x, y = tonumber(a[i]), tonumber(b[i])
    local off = math.abs(x - y) / math.abs(y)
    worst = math.max(worst, off == off and off or math.huge)
  end
  return worst
end

local function is_near(dtype)
  local a, b = one[dtype], other[dtype]
  if not a or not b then
    print(dtype .. ": " .. tostring(one[dtype .. "_failed"] or other[dtype .. "_failed"]))
    return false
  end
  local off = distance(a, b)
  print(("%s: %.2g off at most"):format(dtype, off))
  return off <= (how == "same" and 0 or allowed[dtype])
end

local good = true
for dtype in pairs(allowed) do good = is_near(dtype) and good end
os.exit(good)
