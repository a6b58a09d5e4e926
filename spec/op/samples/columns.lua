-- columns.lua -- samples of im2col and col2im

local images = require "op.images"
local float = require "op.arrays".float
local at, pair = images.at, images.pair

local function places(size, k, s, p, d) return (size + 2 * p - d * (k - 1) - 1) // s + 1 end

local function shape_of_y(x, o)
  local kh, kw = pair(o.kernel)
  local sh, sw = pair(o.stride, 1)
  local ph, pw = pair(o.padding, 0)
  local dh, dw = pair(o.dilation, 1)
  local rows, cols = places(x[3], kh, sh, ph, dh), places(x[4], kw, sw, pw, dw)
  return { x[1], x[2] * kh * kw, rows * cols }, rows, cols
end

-- Call visit(place of y, place of x) for all that lie inside.
local function each(x, o, visit)
  local kh, kw = pair(o.kernel)
  local sh, sw = pair(o.stride, 1)
  local ph, pw = pair(o.padding, 0)
  local dh, dw = pair(o.dilation, 1)
  local _, rows, cols = shape_of_y(x.dims, o)
  local iy = 0
  for n = 0, x.dims[1] - 1 do
    for c = 0, x.dims[2] - 1 do
      for a = 0, kh - 1 do
        for b = 0, kw - 1 do
          for i = 0, rows - 1 do
            for j = 0, cols - 1 do
              iy = iy + 1
              local r, s = i * sh + a * dh - ph, j * sw + b * dw - pw
              if r >= 0 and r < x.dims[3] and s >= 0 and s < x.dims[4] then
                visit(iy, at(x, n, c, r, s))
              end
            end
          end
        end
      end
    end
  end
end

local function im2col(ins, o)
  local x = ins[1]
  local y = images.full(shape_of_y(x.dims, o), 0.0)
  each(x, o, function(iy, ix) y.data[iy] = x.data[ix] end)
  return { y }
end
local function col2im(ins, o)
  local y = ins[1]
  local kh, kw = pair(o.kernel)
  local h, w = pair(o.size)
  local x = images.full({ y.dims[1], y.dims[2] // (kh * kw), h, w }, 0.0)
  each(x, o, function(iy, ix) x.data[ix] = x.data[ix] + y.data[iy] end)
  return { x }
end

local shapes = {
  { { 2, 3, 5, 4 }, { kernel = 3 } },
  { { 1, 2, 5, 6 }, { kernel = { 2, 3 }, padding = 1 } },
  { { 2, 1, 7, 6 }, { kernel = 2, stride = { 3, 2 }, padding = { 0, 1 } } },
  { { 1, 2, 6, 7 }, { kernel = { 3, 2 }, dilation = { 2, 3 }, stride = 2, padding = 3 } },
  { { 1, 1, 2, 2 }, { kernel = 5, padding = 4, stride = 3 } },
  { { 0, 2, 3, 3 }, { kernel = 2 } },
  { { 2, 0, 3, 3 }, { kernel = 2 } },
  { { 1, 1, 0, 2 }, { kernel = 2, padding = 1 } },
}
local function cases(of)
  local out = {}
  for i, shape in ipairs(shapes) do out[i] = of(table.unpack(shape)) end
  return out
end
local function forward(x, o) return { inputs = { float(table.unpack(x)) }, options = o } end
local function back(x, o)
  local options = { size = { x[3], x[4] } }
  for name, value in pairs(o) do options[name] = value end
  local y = shape_of_y(x, o)
  return { inputs = { float(table.unpack(y)) }, options = options }
end

return {
  { op = "im2col", oracle = im2col, grad = true, cases = cases(forward), bad = {
    { inputs = { float(2, 3, 4) }, options = { kernel = 2 }, code = "shape",
      match = "input 1 is" },
    { inputs = { float(1, 1, 4, 4) }, options = { kernel = 5 }, code = "shape",
      match = "spans 5 does not fit 4" },
    { inputs = { float(1, 1, 4, 4) }, options = { kernel = 0 }, code = "value",
      match = "kernel 0" },
    { inputs = { float(1, 1, 4, 4) }, options = { kernel = 2, stride = 0 }, code = "value",
      match = "stride 0" },
    { inputs = { { dims = { 1, 1, 4, 4 }, integer = 3 } }, options = { kernel = 2 },
      code = "dtype", match = "f32 or f64" },
  } },
  { op = "col2im", oracle = col2im, grad = true, cases = cases(back), bad = {
    { inputs = { float(1, 5, 4) }, options = { kernel = 2, size = 3 }, code = "shape",
      match = "channels * 4" },
    { inputs = { float(1, 4, 5) }, options = { kernel = 2, size = 3 }, code = "shape",
      match = "the columns of that size" },
    { inputs = { float(1, 4, 4) }, options = { kernel = 2 }, code = "value", match = "size" },
  } },
}
