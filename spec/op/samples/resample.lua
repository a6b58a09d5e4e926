-- resample.lua -- samples of resample and its gradient

local arrays = require "op.arrays"
local make, dim, float = arrays.make, arrays.dim, arrays.float

local function keys(t)
  local a = -0.75
  t = math.abs(t)
  if t <= 1 then return ((a + 2) * t - (a + 3)) * t * t + 1 end
  return t < 2 and ((a * t - 5 * a) * t + 8 * a) * t - 4 * a or 0
end

local function clamp(i, n) return math.floor(math.max(0, math.min(i, n - 1))) end

-- Of place i (from 0) of `out`: a list of {place of `n`, weight}.
local function reads(i, n, out, o, scale)
  local step = (scale or 0) > 0 and 1 / scale or n / out
  local mode = o.mode or "nearest"
  if mode == "nearest" and out == 2 * n then return { { i // 2, 1 } } end
  if mode == "nearest" and out == n then return { { i, 1 } } end
  if mode == "nearest" then return { { clamp(i * step, n), 1 } } end
  if mode == "nearest_exact" then return { { clamp((i + 0.5) * step, n), 1 } } end
  local at = (i + 0.5) * step - 0.5
  if o.align_corners then at = out > 1 and i * (n - 1) / (out - 1) or 0 end
  local list = {}
  if mode == "linear" then
    at = math.max(0, math.min(at, n - 1))
    local t = at - math.floor(at)
    return { { clamp(at, n), 1 - t }, { clamp(math.floor(at) + 1, n), t } }
  end
  for k = -1, 2 do
    local place = math.floor(at) + k
    list[#list + 1] = { clamp(place, n), keys(at - place) }
  end
  return list
end

-- Call visit(place of y, place of x, weight), from 1, for all that y reads.
local function each(x, y, o, visit)
  local d = dim({ dims = x }, o.dim)
  local outer, inner = 1, 1
  for i = 1, d - 1 do outer = outer * x[i] end
  for i = d + 2, #x do inner = inner * x[i] end
  local function place(dims, n, i, j, c)
    return ((n * dims[d] + i) * dims[d + 1] + j) * inner + c + 1
  end
  for n = 0, outer - 1 do
    for i = 0, y[d] - 1 do
      for j = 0, y[d + 1] - 1 do
        for _, r in ipairs(reads(i, x[d], y[d], o, o.scale_h)) do
          for _, s in ipairs(reads(j, x[d + 1], y[d + 1], o, o.scale_w)) do
            for c = 0, inner - 1 do
              visit(place(y, n, i, j, c), place(x, n, r[1], s[1], c), r[2] * s[2])
            end
          end
        end
      end
    end
  end
end

local function resized(dims, o)
  local d, out = dim({ dims = dims }, o.dim), { table.unpack(dims) }
  local size = type(o.size) == "table" and o.size or { o.size, o.size }
  out[d], out[d + 1] = size[1], size[2] or size[1]
  return out
end

local function resample(ins, o)
  local x = ins[1]
  local y = make(resized(x.dims, o), function() return 0.0 end)
  each(x.dims, y.dims, o, function(iy, ix, w)
    y.data[iy] = y.data[iy] + w * x.data[ix]
  end)
  return { y }
end
local function resample_grad(ins, o)
  local dy = ins[1]
  local dx = make(resized(dy.dims, o), function() return 0.0 end)
  each(dx.dims, dy.dims, o, function(iy, ix, w)
    dx.data[ix] = dx.data[ix] + w * dy.data[iy]
  end)
  return { dx }
end

local shapes = {
  { { 2, 3, 4, 5 }, { dim = 3, size = { 8, 10 } } },
  { { 2, 4, 5, 3 }, { dim = 2, size = { 3, 4 } } },
  { { 4, 3 }, { dim = 1, size = { 4, 6 }, scale_h = 1.2, scale_w = 2.3 } },
  { { 7, 6 }, { dim = 1, size = { 1, 13 }, mode = "nearest_exact" } },
  { { 2, 4, 5 }, { dim = 2, size = { 8, 10 }, mode = "linear" } },
  { { 2, 4, 5 }, { dim = -2, size = { 3, 2 }, mode = "linear", align_corners = true } },
  { { 1, 1, 9 }, { dim = 2, size = { 1, 4 }, mode = "linear" } },
  { { 2, 5, 4, 3 }, { dim = 2, size = { 7, 9 }, mode = "linear", scale_h = 1.5, scale_w = 2.3 } },
  { { 1, 3, 3, 2 }, { dim = 2, size = 5, mode = "linear", align_corners = true } },
  { { 2, 4, 5 }, { dim = 2, size = { 9, 3 }, mode = "cubic" } },
  { { 1, 4, 5, 2 }, { dim = 2, size = { 5, 9 }, mode = "cubic", align_corners = true } },
  { { 3, 1, 1 }, { dim = 2, size = 3, mode = "cubic" } },
  { { 2, 5, 3 }, { dim = 2, size = { 5, 6 }, mode = "cubic" } },
  { { 0, 3, 3 }, { dim = 2, size = 2 } },
  { { 3, 3, 0 }, { dim = 1, size = 2, mode = "linear" } },
}
local function cases(of)
  local out = {}
  for i, shape in ipairs(shapes) do out[i] = of(table.unpack(shape)) end
  return out
end
local function forward(x, o) return { inputs = { float(table.unpack(x)) }, options = o } end
local function back(x, o)
  local d, options = dim({ dims = x }, o.dim), {}
  for name, value in pairs(o) do options[name] = value end
  options.size = { x[d], x[d + 1] }
  return { inputs = { float(table.unpack(resized(x, o))) }, options = options }
end

return {
  { op = "resample", oracle = resample, grad = true, cases = cases(forward), bad = {
    { inputs = { float(3, 3) }, options = { dim = 2, size = 2 }, code = "shape",
      match = "one that another follows" },
    { inputs = { float(3, 3) }, options = { dim = 1, size = 0 }, code = "value",
      match = "size 0" },
    { inputs = { float(0, 3) }, options = { dim = 1, size = 2 }, code = "value",
      match = "a side of the image" },
    { inputs = { float(3, 3) }, options = { dim = 1, size = 2, scale_w = -1 },
      code = "value", match = "positive number" },
    { inputs = { float(3, 3) }, options = { dim = 1, size = 2, mode = "sinc" },
      code = "value" },
    { inputs = { { dims = { 3, 3 }, integer = 4 } }, options = { dim = 1, size = 2 },
      code = "dtype", match = "f32 or f64" },
  } },
  { op = "resample_grad", oracle = resample_grad, grad = true, cases = cases(back) },
}
