-- pool.lua -- samples of max_pool2d, avg_pool2d and adaptive_avg_pool2d, channels
-- last

local images = require "op.images"
local at, pair = images.at, images.pair

-- Options as {kernel, stride, padding, dilation} for height and for width.
local function sides(o)
  local out = { {}, {} }
  local function add(value, preset)
    local h, w = pair(value, preset)
    table.insert(out[1], h)
    table.insert(out[2], w)
  end
  add(o.kernel)
  add(o.stride, o.kernel)
  if type(o.kernel) == "table" and not o.stride then
    out[1][2], out[2][2] = o.kernel[1], o.kernel[2]
  end
  add(o.padding, 0)
  add(o.dilation, 1)
  return out
end

local function count(size, s, ceil)
  local k, stride, p, d = table.unpack(s)
  local room = size + 2 * p - d * (k - 1) - 1
  local n = room // stride + 1
  if ceil and room % stride ~= 0 and n * stride < size + p then n = n + 1 end
  return n
end

local function shape_of_y(x, o)
  local s = sides(o)
  return { x[1], count(x[2], s[1], o.ceil_mode), count(x[3], s[2], o.ceil_mode), x[4] }
end

-- Call visit(iy, ix, tap, divisor) for every place of every window inside x.
local function each(x, y, o, visit)
  local s = sides(o)
  local function span(i, side, size)
    local from = i * side[2] - side[3]
    local to = math.min(from + side[1], size + side[3])
    if o.count_include_pad ~= false then return to - from end
    return math.min(to, size) - math.max(from, 0)
  end
  for n = 0, y.dims[1] - 1 do
    for i = 0, y.dims[2] - 1 do
      for j = 0, y.dims[3] - 1 do
        local by = span(i, s[1], x.dims[2]) * span(j, s[2], x.dims[3])
        for a = 0, s[1][1] - 1 do
          for b = 0, s[2][1] - 1 do
            local r = i * s[1][2] + a * s[1][4] - s[1][3]
            local t = j * s[2][2] + b * s[2][4] - s[2][3]
            if r >= 0 and r < x.dims[2] and t >= 0 and t < x.dims[3] then
              for c = 0, x.dims[4] - 1 do
                visit(at(y, n, i, j, c), at(x, n, r, t, c), a * s[2][1] + b, by)
              end
            end
          end
        end
      end
    end
  end
end

local function max_pool(ins, o)
  local x = ins[1]
  local y = images.full(shape_of_y(x.dims, o), -math.huge)
  local index = images.full(y.dims, 0)
  each(x, y, o, function(iy, ix, tap)
    local v = x.data[ix]
    if v > y.data[iy] or v ~= v then y.data[iy], index.data[iy] = v, tap end
  end)
  return { y, index }
end

local function of_x(dims, o)
  local h, w = pair(o.size)
  return images.full({ dims[1], h, w, dims[4] }, 0.0)
end

local function max_grad(ins, o)
  local dy, index = ins[1], ins[2]
  local dx = of_x(dy.dims, o)
  each(dx, dy, o, function(iy, ix, tap)
    if index.data[iy] == tap then dx.data[ix] = dx.data[ix] + dy.data[iy] end
  end)
  return { dx }
end

local function pick(ins, o)
  local x, index = ins[1], ins[2]
  local y = images.full(shape_of_y(x.dims, o), 0.0)
  each(x, y, o, function(iy, ix, tap)
    if index.data[iy] == tap then y.data[iy] = x.data[ix] end
  end)
  return { y }
end

local function avg_pool(ins, o)
  local x = ins[1]
  local y = images.full(shape_of_y(x.dims, o), 0.0)
  each(x, y, o, function(iy, ix, _, by)
    y.data[iy] = y.data[iy] + x.data[ix] / by
  end)
  return { y }
end

local function avg_grad(ins, o)
  local dy = ins[1]
  local dx = of_x(dy.dims, o)
  each(dx, dy, o, function(iy, ix, _, by)
    dx.data[ix] = dx.data[ix] + dy.data[iy] / by
  end)
  return { dx }
end

-- Places [first, last] of window i, from 0, of `n` that cover a side.
local function window_of(i, side, n)
  return math.floor(i * side / n), math.ceil((i + 1) * side / n) - 1
end

-- Call visit(iy, ix, divisor) for every place of every window.
local function each_adaptive(x, y, visit)
  for n = 0, y.dims[1] - 1 do
    for i = 0, y.dims[2] - 1 do
      for j = 0, y.dims[3] - 1 do
        local top, bottom = window_of(i, x.dims[2], y.dims[2])
        local left, right = window_of(j, x.dims[3], y.dims[3])
        for r = top, bottom do
          for t = left, right do
            for c = 0, x.dims[4] - 1 do
              visit(at(y, n, i, j, c), at(x, n, r, t, c),
                (bottom - top + 1) * (right - left + 1))
            end
          end
        end
      end
    end
  end
end

local function adaptive(ins, o)
  local x = ins[1]
  local y = of_x(x.dims, o)
  each_adaptive(x, y, function(iy, ix, by) y.data[iy] = y.data[iy] + x.data[ix] / by end)
  return { y }
end

local function adaptive_grad(ins, o)
  local dy = ins[1]
  local dx = of_x(dy.dims, o)
  each_adaptive(dx, dy, function(iy, ix, by) dx.data[ix] = dx.data[ix] + dy.data[iy] / by end)
  return { dx }
end

local function adaptive_max(ins, o)
  local x = ins[1]
  local h, w = pair(o.size)
  local y = images.full({ x.dims[1], h, w, x.dims[4] }, -math.huge)
  local index = images.full(y.dims, 0)
  each_adaptive(x, y, function(iy, ix)
    local v = x.data[ix]
    if v > y.data[iy] or v ~= v then
      y.data[iy] = v
      index.data[iy] = (ix - 1) // x.dims[4] % (x.dims[2] * x.dims[3])
    end
  end)
  return { y, index }
end

local adaptive_cases = {}
for i, case in ipairs {
  { { 1, 1, 1, 1 }, 1 }, { { 2, 5, 7, 3 }, 3 }, { { 1, 7, 4, 17 }, { 2, 4 } },
  { { 1, 3, 2, 2 }, { 5, 7 } }, { { 1, 4, 6, 300 }, { 3, 1 } }, { { 0, 5, 5, 2 }, 2 },
  { { 2, 5, 5, 0 }, 2 },
} do
  adaptive_cases[i] = { inputs = { { dims = case[1] } }, options = { size = case[2] } }
end

-- x and options both know.
local shared = {
  { { 1, 1, 1, 1 }, { kernel = 1 } },
  { { 2, 4, 6, 3 }, { kernel = 2 } },
  { { 2, 5, 7, 17 }, { kernel = 3, stride = 2, padding = 1 } },
  { { 1, 5, 6, 2 }, { kernel = { 2, 3 }, stride = { 1, 2 }, padding = { 0, 1 } } },
  { { 1, 5, 6, 2 }, { kernel = 2, ceil_mode = true } },
  { { 1, 6, 5, 2 }, { kernel = 3, stride = 3, padding = 1, ceil_mode = true } },
  { { 1, 7, 7, 1 }, { kernel = 2, stride = 4, ceil_mode = true } },
  { { 1, 3, 3, 2 }, { kernel = 3 } },
  { { 0, 4, 4, 3 }, { kernel = 2 } },
  { { 2, 4, 4, 0 }, { kernel = 2 } },
  { { 1, 3, 2, 300 }, { kernel = 2, stride = 1 } },
}
local max_only = {
  { { 1, 7, 6, 3 }, { kernel = 2, dilation = { 3, 2 }, stride = 1 } },
  { { 1, 18, 17, 2 }, { kernel = 17, stride = 1 } }, -- an index of i32
}
local avg_only = {
  { { 1, 5, 5, 2 }, { kernel = 3, stride = 2, padding = 1, count_include_pad = false } },
  { { 1, 6, 5, 2 }, { kernel = 3, stride = 3, padding = 1, ceil_mode = true,
    count_include_pad = false } },
}

local function with_size(o, x)
  local out = { size = { x[2], x[3] } }
  for name, value in pairs(o) do out[name] = value end
  return out
end

local function cases(make, ...)
  local out = {}
  for _, list in ipairs { ... } do
    for _, case in ipairs(list) do out[#out + 1] = make(case[1], case[2]) end
  end
  return out
end
local function forward(x, o) return { inputs = { { dims = x } }, options = o } end
local function to_x(x, o)
  return { inputs = { { dims = shape_of_y(x, o) } }, options = with_size(o, x) }
end
-- An index, some of which point outside x.
local function index_of(x, o)
  local h, w = pair(o.kernel)
  return { dims = shape_of_y(x, o), integer = h * w, dtype = h * w <= 256 and "u8" or "i32" }
end
local function picked(x, o)
  return { inputs = { { dims = x }, index_of(x, o) }, options = o }
end
local function max_to_x(x, o)
  return { inputs = { { dims = shape_of_y(x, o) }, index_of(x, o) },
    options = with_size(o, x) }
end

local nan = 0 / 0
local function window(values, o)
  return { inputs = { { dims = { 1, 1, #values, 1 }, values = values } },
    options = o or { kernel = { 1, #values } } }
end

local function bad(x, o, code, match)
  return { inputs = { { dims = x } }, options = o, code = code, match = match }
end
local refused = {
  bad({ 2, 4, 4 }, { kernel = 2 }, "shape", "input 1 is"),
  bad({ 2, 4, 4, 1 }, {}, "value", "kernel"),
  bad({ 2, 4, 4, 1 }, { kernel = 0 }, "value", "kernel 0"),
  bad({ 2, 4, 4, 1 }, { kernel = 2, stride = 0 }, "value", "stride 0"),
  bad({ 2, 4, 4, 1 }, { kernel = 2, padding = 2 }, "value", "at most half"),
  bad({ 2, 4, 4, 1 }, { kernel = 5 }, "shape", "spans 5 does not fit 4"),
  bad({ 2, 4, 4, 1 }, { kernel = 1 << 20, stride = 1 }, "value", "too large"),
  { inputs = { { dims = { 1, 2, 2, 1 }, integer = 3 } }, options = { kernel = 1 },
    code = "dtype", match = "f32 or f64" },
}

return {
  {
    op = "max_pool2d", oracle = max_pool, grad = true, bad = refused,
    cases = cases(forward, shared, max_only),
  },
  { op = "max_pool2d", oracle = max_pool, grad = false, cases = {
    window { 1, 3, 3, 2 }, window { 1, nan, 3, nan, 2 }, window { -math.huge, -math.huge },
    window({ 1, nan, 3, 4 }, { kernel = { 1, 2 }, stride = 1 }),
    window({ 1 }, { kernel = 2, dilation = 2, padding = 1 }), -- all padding
  } },
  {
    op = "max_pool2d_grad", oracle = max_grad, grad = true,
    cases = cases(max_to_x, shared, max_only),
    bad = {
      { inputs = { { dims = { 1, 2, 2, 1 } },
        { dims = { 1, 2, 2, 1 }, integer = 4, dtype = "i32" } },
        options = { kernel = 2, size = 4 }, code = "dtype", match = "u8 wanted" },
      { inputs = { { dims = { 1, 2, 2, 1 } },
        { dims = { 1, 2, 3, 1 }, integer = 4, dtype = "u8" } },
        options = { kernel = 2, size = 4 }, code = "shape", match = "input 2 is" },
      { inputs = { { dims = { 1, 2, 2, 1 } },
        { dims = { 1, 2, 2, 1 }, integer = 4, dtype = "u8" } },
        options = { kernel = 2, size = 7 }, code = "shape", match = "input 1 is" },
    },
  },
  {
    op = "max_pool2d_pick", oracle = pick, grad = true,
    cases = cases(picked, shared, max_only),
    bad = {
      { inputs = { { dims = { 1, 4, 4, 1 } },
        { dims = { 1, 3, 2, 1 }, integer = 4, dtype = "u8" } },
        options = { kernel = 2 }, code = "shape", match = "input 2 is" },
    },
  },
  {
    op = "avg_pool2d", oracle = avg_pool, grad = true, bad = refused,
    cases = cases(forward, shared, avg_only),
  },
  {
    op = "avg_pool2d_grad", oracle = avg_grad, grad = true,
    cases = cases(to_x, shared, avg_only),
    bad = { bad({ 1, 2, 2, 1 }, { kernel = 2, size = 7 }, "shape", "input 1 is") },
  },
  {
    op = "adaptive_avg_pool2d", oracle = adaptive, grad = true, cases = adaptive_cases,
    bad = {
      bad({ 2, 4, 4 }, { size = 2 }, "shape", "input 1 is"),
      bad({ 2, 4, 4, 1 }, { size = 0 }, "value", "size 0"),
      bad({ 2, 4, 4, 1 }, { size = {} }, "value", "one or two"),
      bad({ 2, 0, 4, 1 }, { size = 2 }, "value", "a side of the image: 0"),
    },
  },
  {
    op = "adaptive_avg_pool2d_grad", oracle = adaptive_grad, grad = true,
    cases = adaptive_cases,
  },
  {
    op = "adaptive_max_pool2d", oracle = adaptive_max, grad = true, cases = adaptive_cases,
    bad = { bad({ 2, 4, 4, 1 }, { size = 0 }, "value", "size 0") },
  },
}
