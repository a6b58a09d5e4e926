-- grid_sample.lua -- samples of grid_sample and of what it gives to images

local images = require "op.images"
local at, full = images.at, images.full

local function round(x) -- half to even
  local low = math.floor(x)
  if x - low ~= 0.5 then return math.floor(x + 0.5) end
  return low % 2 == 0 and low or low + 1
end

-- A place along a side of n pixels, and the derivative of it by g.
local function place_of(g, n, o)
  local slope = (o.align_corners and n - 1 or n) / 2
  local x = o.align_corners and (g + 1) / 2 * (n - 1) or ((g + 1) * n - 1) / 2
  if o.padding == "reflection" then
    local low = o.align_corners and 0 or -0.5
    local span = o.align_corners and n - 1 or n
    if span == 0 then
      x, slope = 0, 0
    else
      local y = x - low
      if y < 0 then y, slope = -y, -slope end
      local flips, over = math.floor(y / span), y % span
      if flips % 2 == 1 then over, slope = span - over, -slope end
      x = over + low
    end
  end
  if o.padding and o.padding ~= "zeros" then
    if x <= 0 or x >= n - 1 then slope = 0 end
    x = math.max(0, math.min(x, n - 1))
  end
  return x, slope
end

-- A list of {pixel, weight}.
local function pixels_of(g, n, o, order)
  local x, slope = place_of(g, n, o)
  if o.mode == "nearest" then return { { round(x), order == 0 and 1 or 0 } } end
  local first = math.floor(x)
  local t, list = x - first, nil
  if order == 0 then
    list = { { first, 1 - t }, { first + 1, t } }
  elseif order == 1 then
    list = { { first, -slope }, { first + 1, slope } }
  end
  return list or {}
end

-- Call visit(place of y, place of x, weight).
local function each(x, grid, y, o, visit)
  for n = 0, x.dims[1] - 1 do
    for p = 0, grid.dims[2] - 1 do
      for q = 0, grid.dims[3] - 1 do
        local columns = pixels_of(grid.data[at(grid, n, p, q, 0)], x.dims[4], o, o.order_x or 0)
        local rows = pixels_of(grid.data[at(grid, n, p, q, 1)], x.dims[3], o, o.order_y or 0)
        for _, r in ipairs(rows) do
          for _, s in ipairs(columns) do
            local inside = r[1] >= 0 and r[1] < x.dims[3] and s[1] >= 0 and s[1] < x.dims[4]
            for c = 0, inside and x.dims[2] - 1 or -1 do
              visit(at(y, n, c, p, q), at(x, n, c, r[1], s[1]), r[2] * s[2])
            end
          end
        end
      end
    end
  end
end

local function sample(ins, o)
  local x, grid = ins[1], ins[2]
  local y = full({ x.dims[1], x.dims[2], grid.dims[2], grid.dims[3] }, 0.0)
  each(x, grid, y, o, function(iy, ix, w) y.data[iy] = y.data[iy] + w * x.data[ix] end)
  return { y }
end
local function spread(ins, o)
  local dy, grid = ins[1], ins[2]
  local h, w = images.pair(o.size)
  local x = full({ dy.dims[1], dy.dims[2], h, w }, 0.0)
  each(x, grid, dy, o, function(iy, ix, weight)
    x.data[ix] = x.data[ix] + weight * dy.data[iy]
  end)
  return { x }
end

-- Places that differences do not carry past a pixel.
local function grid(n, p, q, low, high)
  return { dims = { n, p, q, 2 }, low = low or -1.3, high = high or 1.3 }
end

local shapes = {
  { { 2, 3, 4, 5 }, grid(2, 3, 2), {} },
  { { 1, 2, 4, 3 }, grid(1, 5, 4), { align_corners = true } },
  { { 2, 1, 3, 4 }, grid(2, 4, 4), { padding = "border" } },
  { { 1, 2, 3, 4 }, grid(1, 4, 4), { padding = "border", align_corners = true } },
  { { 1, 2, 3, 4 }, grid(1, 4, 4, -3, 3), { padding = "reflection" } },
  { { 1, 2, 3, 4 }, grid(1, 4, 4, -3, 3), { padding = "reflection", align_corners = true } },
  { { 1, 1, 1, 1 }, grid(1, 2, 2), { padding = "reflection", align_corners = true } },
  { { 2, 2, 3, 4 }, grid(2, 3, 3), { order_x = 1 } },
  { { 2, 2, 3, 4 }, grid(2, 3, 3), { order_y = 1, padding = "border" } },
  { { 2, 2, 3, 4 }, grid(2, 3, 3), { order_y = 2 } },
  { { 1, 3, 20, 17 }, grid(1, 20, 17), {} },
  { { 0, 3, 2, 2 }, grid(0, 3, 3), {} },
  { { 2, 0, 2, 2 }, grid(2, 3, 3), {} },
  { { 2, 2, 2, 2 }, grid(2, 0, 3), {} },
}
local nearest = {
  { { 2, 3, 4, 5 }, grid(2, 3, 2), { mode = "nearest" } },
  { { 1, 2, 4, 5 }, grid(1, 3, 2, -3, 3), { mode = "nearest", padding = "reflection" } },
}
local function cases(list, of)
  local out = {}
  for i, shape in ipairs(list) do out[i] = of(table.unpack(shape)) end
  return out
end
local function forward(x, g, o) return { inputs = { { dims = x }, g }, options = o } end
local function back(x, g, o)
  local options = { size = { x[3], x[4] } }
  for name, value in pairs(o) do options[name] = value end
  return { inputs = { { dims = { x[1], x[2], g.dims[2], g.dims[3] } }, g }, options = options }
end

local function bad(x, g, o, code, match)
  return { inputs = { { dims = x }, g }, options = o, code = code, match = match }
end
return {
  { op = "grid_sample", oracle = sample, grad = true, cases = cases(shapes, forward), bad = {
    bad({ 2, 3, 4 }, grid(2, 2, 2), {}, "shape", "input 1 is"),
    bad({ 2, 3, 4, 4 }, grid(1, 2, 2), {}, "shape", "[2, rows, columns, 2] wanted"),
    bad({ 2, 3, 4, 4 }, { dims = { 2, 2, 2, 3 } }, {}, "shape", "grid f32[2,2,2,3]"),
    bad({ 2, 3, 0, 4 }, grid(2, 2, 2), {}, "value", "a side of the image"),
    bad({ 2, 3, 4, 4 }, grid(2, 2, 2), { order_x = -1 }, "value", "orders -1"),
    bad({ 2, 3, 4, 4 }, { dims = { 2, 2, 2, 2 }, integer = 2 }, {}, "dtype"),
  } },
  { op = "grid_sample", oracle = sample, grad = { 1 }, cases = cases(nearest, forward) },
  { op = "grid_sample_dx", oracle = spread, grad = true, cases = cases(shapes, back), bad = {
    { inputs = { { dims = { 1, 1, 2, 2 } }, grid(1, 3, 2) }, options = { size = 3 },
      code = "shape", match = "as many places" },
  } },
  { op = "grid_sample_dx", oracle = spread, grad = { 1 }, cases = cases(nearest, back) },
}
