-- images.lua -- images [N,H,W,C] as flat arrays, for oracles

local images = {}

--- An array of one number.
function images.full(dims, value)
  local n, data = 1, {}
  for i = 1, #dims do n = n * dims[i] end
  for i = 1, n do data[i] = value end
  return { dims = dims, data = data }
end

--- Index of x[a][b][c][d], all 0-based.
function images.at(x, a, b, c, d)
  local n = x.dims
  return ((a * n[2] + b) * n[3] + c) * n[4] + d + 1
end

--- Height and width of an option: one number stands for both.
function images.pair(value, preset)
  if type(value) == "table" then return value[1], value[2] or value[1] end
  return value or preset, value or preset
end

return images
