-- distance.lua -- samples of cdist and its gradient

local arrays = require "op.arrays"
local at, make, float = arrays.at, arrays.make, arrays.float

local function cdist(ins, options)
  local x, y, p = ins[1], ins[2], options.p or 2
  return { make({ x.dims[1], x.dims[2], y.dims[2] }, function(index)
    local sum = 0
    for k = 1, x.dims[3] do
      local u = math.abs(at(x, { index[1], index[2], k }) - at(y, { index[1], index[3], k }))
      if p == 0 then sum = sum + (u ~= 0 and 1 or 0)
      elseif p == math.huge then sum = math.max(sum, u)
      else sum = sum + u ^ p end
    end
    return (p == 0 or p == math.huge) and sum or sum ^ (1 / p)
  end) }
end

local function sign(u) return u > 0 and 1 or u < 0 and -1 or 0 end

local function slope(u, d, p)
  if p == 1 then return sign(u) end
  if p == math.huge then return math.abs(u) == d and sign(u) or 0 end
  if p == 0 or u == 0 or d == 0 then return 0 end
  return sign(u) * (math.abs(u) / d) ^ (p - 1)
end

local function cdist_grad(ins, options)
  local g, x, y, d = ins[1], ins[2], ins[3], ins[4]
  return { make(x.dims, function(index)
    local sum, b, i, k = 0, index[1], index[2], index[3]
    for j = 1, y.dims[2] do
      local u = at(x, index) - at(y, { b, j, k })
      sum = sum + at(g, { b, i, j }) * slope(u, at(d, { b, i, j }), options.p or 2)
    end
    return sum
  end) }
end

local distances = {}
for i, p in ipairs { 2, 1, 0.5, 3, math.huge, 0 } do
  distances[i] = { inputs = { float(2, 4, 3), float(2, 5, 3) }, options = { p = p },
    tolerance = 1e-5 }
end
distances[#distances + 1] = { inputs = { float(1, 3, 5), float(1, 70, 5) }, tolerance = 1e-5 }
distances[#distances + 1] = { inputs = { float(2, 3, 0), float(2, 2, 0) } }
distances[#distances + 1] = { inputs = { float(1, 0, 3), float(1, 2, 3) } }

local slopes = {}
for i, p in ipairs { 2, 1, 3, 1.5, 0 } do
  slopes[i] = { inputs = { float(2, 4, 5), float(2, 4, 3), float(2, 5, 3),
    { dims = { 2, 4, 5 }, low = 0.5, high = 2 } }, options = { p = p }, tolerance = 1e-5 }
end

return {
  {
    op = "cdist",
    cases = distances,
    bad = {
      { inputs = { float(2, 3, 4), float(2, 3, 5) }, code = "shape", match = "[B,R,M] wanted" },
      { inputs = { float(3, 4), float(3, 4) }, code = "shape", match = "[B,R,M] wanted" },
      { inputs = { float(1, 3, 4), float(1, 3, 4) }, options = { p = -1 }, code = "value",
        match = "p -1" },
    },
    oracle = cdist,
    grad = true,
  },
  {
    op = "cdist_grad",
    cases = slopes,
    bad = {
      { inputs = { float(1, 3, 4), float(1, 3, 4), float(1, 3, 4), float(1, 3, 4) },
        code = "shape", match = "cdist_grad" },
    },
    oracle = cdist_grad,
    grad = true,
  },
}
