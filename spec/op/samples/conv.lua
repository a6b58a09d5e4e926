-- conv.lua -- samples of convolutions, channels last
--
-- Channel counts cross the edges of vectors and tiles; batches of six and more
-- of small images are laid out otherwise than fewer.

local images = require "op.images"
local at, pair = images.at, images.pair

local function places(size, k, s, p, d)
  return (size + 2 * p - d * (k - 1) - 1) // s + 1
end

-- Call visit(y index, x index, w index) for every product of a convolution of
-- x [N,H,W,C] with w [O,C/G,kh,kw].
local function each_product(x, w, y, o, visit)
  local sh, sw = pair(o.stride, 1)
  local ph, pw = pair(o.padding, 0)
  local dh, dw = pair(o.dilation, 1)
  local O, Cg, kh, kw = table.unpack(w.dims)
  local per = O // (o.groups or 1)
  for n = 0, y.dims[1] - 1 do
    for i = 0, y.dims[2] - 1 do
      for j = 0, y.dims[3] - 1 do
        for a = 0, kh - 1 do
          for b = 0, kw - 1 do
            local r, s = i * sh + a * dh - ph, j * sw + b * dw - pw
            if r >= 0 and r < x.dims[2] and s >= 0 and s < x.dims[3] then
              local first_y, first_x = at(y, n, i, j, 0), at(x, n, r, s, 0)
              for out = 0, O - 1 do
                local iy, ix, iw = first_y + out, first_x + out // per * Cg, at(w, out, 0, a, b)
                for c = 0, Cg - 1 do visit(iy, ix + c, iw + c * kh * kw) end
              end
            end
          end
        end
      end
    end
  end
end

local function shape_of_y(x, w, o)
  local sh, sw = pair(o.stride, 1)
  local ph, pw = pair(o.padding, 0)
  local dh, dw = pair(o.dilation, 1)
  return { x[1], places(x[2], w[3], sh, ph, dh), places(x[3], w[4], sw, pw, dw), w[1] }
end

local function conv2d(ins, o)
  local x, w, bias = ins[1], ins[2], ins[3]
  local y = images.full(shape_of_y(x.dims, w.dims, o), 0.0)
  each_product(x, w, y, o, function(iy, ix, iw)
    y.data[iy] = y.data[iy] + x.data[ix] * w.data[iw]
  end)
  for i = 1, bias and #y.data or 0 do
    y.data[i] = y.data[i] + bias.data[(i - 1) % #bias.data + 1]
  end
  return { y }
end

local function conv2d_dx(ins, o)
  local dy, w = ins[1], ins[2]
  local h, l = pair(o.size)
  local dx = images.full({ dy.dims[1], h, l, w.dims[2] * (o.groups or 1) }, 0.0)
  each_product(dx, w, dy, o, function(iy, ix, iw)
    dx.data[ix] = dx.data[ix] + dy.data[iy] * w.data[iw]
  end)
  return { dx }
end

local function conv2d_dw(ins, o)
  local x, dy = ins[1], ins[2]
  local h, l = pair(o.size)
  local dw = images.full({ dy.dims[4], x.dims[4] // (o.groups or 1), h, l }, 0.0)
  each_product(x, dw, dy, o, function(iy, ix, iw)
    dw.data[iw] = dw.data[iw] + dy.data[iy] * x.data[ix]
  end)
  return { dw }
end

-- x, w, options; small, as gradients by differences are slow.
local smooth = {
  { { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, {} },
  { { 2, 5, 4, 3 }, { 4, 3, 3, 3 }, {} },
  { { 2, 5, 4, 3 }, { 5, 3, 3, 3 }, { padding = 1 } },
  { { 1, 7, 5, 2 }, { 3, 2, 3, 2 }, { stride = { 2, 3 }, padding = { 1, 2 } } },
  { { 1, 6, 7, 2 }, { 2, 2, 2, 3 }, { dilation = { 3, 2 }, padding = { 0, 3 } } },
  { { 2, 4, 4, 4 }, { 6, 2, 3, 3 }, { groups = 2, padding = 1 } },
  { { 2, 5, 5, 5 }, { 5, 1, 3, 3 }, { groups = 5, padding = 1, stride = 2 } },
  { { 7, 3, 3, 2 }, { 3, 2, 3, 3 }, { padding = 1 } },
  { { 1, 4, 4, 2 }, { 2, 2, 1, 1 }, { stride = 2 } },
  { { 1, 2, 2, 2 }, { 2, 2, 5, 5 }, { padding = 4, stride = 3 } }, -- much padding
  { { 1, 3, 3, 2 }, { 4, 1, 2, 2 }, { groups = 2, dilation = 2 } },
  { { 1, 9, 3, 1 }, { 2, 1, 2, 1 }, { stride = 4 } }, -- places that nothing reads
  { { 0, 5, 4, 3 }, { 4, 3, 3, 3 }, { padding = 1 } },
  { { 2, 5, 4, 0 }, { 4, 0, 3, 3 }, { padding = 1 } },
  { { 2, 5, 4, 3 }, { 0, 3, 3, 3 }, { padding = 1 } },
  { { 1, 0, 2, 2 }, { 2, 2, 3, 3 }, { padding = 2 } }, -- an image of padding
}
local other = {
  { { 1, 4, 5, 70 }, { 67, 70, 3, 3 }, { padding = 1 } },
  { { 9, 4, 3, 35 }, { 20, 35, 3, 3 }, { padding = 1, stride = 2 } },
  { { 1, 3, 2, 600 }, { 20, 600, 1, 1 }, {} },
  { { 1, 2, 2, 66 }, { 300, 66, 3, 3 }, { padding = 1 } },
  { { 1, 9, 36, 3 }, { 17, 3, 7, 7 }, { padding = 3, stride = 2 } },
  { { 7, 6, 6, 83 }, { 83, 1, 3, 3 }, { groups = 83, padding = 1 } },
  { { 1, 7, 5, 271 }, { 271, 1, 3, 2 }, { groups = 271, padding = { 1, 0 }, stride = 2 } },
  { { 1, 25, 8, 3 }, { 3, 1, 25, 25 }, { groups = 3, padding = 12 } },
  { { 2, 3, 12, 37 }, { 37, 1, 3, 5 }, { groups = 37, padding = { 1, 3 } } },
  { { 1, 5, 17, 70 }, { 70, 1, 2, 3 }, { groups = 70, padding = 2, dilation = 2 } },
  { { 1, 4, 20, 20 }, { 20, 1, 3, 4 }, { groups = 20, padding = 1, stride = { 1, 3 } } },
  { { 2, 4, 4, 36 }, { 54, 12, 3, 3 }, { groups = 3, padding = 2, dilation = 2 } },
  { { 1, 25, 26, 2 }, { 3, 2, 24, 25 }, { padding = 2 } },
  -- as products: of 1 x 1, of places that are apart
  { { 0, 5, 3, 20 }, { 24, 20, 1, 1 }, {} },
  { { 0, 6, 6, 32 }, { 32, 32, 3, 3 }, { padding = 1 } },
  { { 2, 5, 3, 20 }, { 24, 20, 1, 1 }, {} },
  { { 2, 7, 6, 17 }, { 35, 17, 1, 1 }, { stride = { 2, 3 } } },
  { { 2, 9, 7, 20 }, { 24, 20, 3, 3 }, { padding = { 1, 2 }, stride = 2 } },
  { { 1, 5, 6, 16 }, { 260, 16, 2, 3 }, { stride = { 1, 2 }, dilation = { 1, 2 } } },
  { { 1, 3, 4, 18 }, { 19, 18, 1, 1 }, { padding = 1 } },
  -- by Winograd's way, of odd and even sides, of more channels than are written at once
  { { 2, 7, 5, 32 }, { 48, 32, 3, 3 }, { padding = 1 } },
  { { 1, 6, 8, 48 }, { 32, 48, 3, 3 }, { padding = { 0, 2 } } },
  { { 1, 4, 4, 32 }, { 144, 32, 3, 3 }, { padding = 1 } },
}

local function with_size(options, h, w)
  local o = { size = { h, w } }
  for name, value in pairs(options) do o[name] = value end
  return o
end

-- The cases of a list as inputs and options of conv2d, of dx, of dw.
local function cases(list, make)
  local out = {}
  for i, case in ipairs(list) do out[i] = make(case[1], case[2], case[3]) end
  return out
end
local function forward(x, w, o)
  return { inputs = { { dims = x }, { dims = w } }, options = o }
end
local function biased(x, w, o)
  return { inputs = { { dims = x }, { dims = w }, { dims = { w[1] } } }, options = o }
end
-- Smaller weights: up to 1,296 products are added up, in any order.
local function to_x(x, w, o)
  return { inputs = { { dims = shape_of_y(x, w, o) }, { dims = w, low = -0.5, high = 0.5 } },
    options = with_size(o, x[2], x[3]) }
end
local function to_w(x, w, o)
  return { inputs = { { dims = x }, { dims = shape_of_y(x, w, o) } },
    options = with_size(o, w[3], w[4]) }
end

local function bad(x, w, o, code, match)
  return { inputs = { { dims = x }, { dims = w } }, options = o, code = code, match = match }
end

return {
  {
    op = "conv2d", cases = cases(smooth, forward), oracle = conv2d, grad = true,
    bad = {
      bad({ 2, 5, 4 }, { 4, 3, 3, 3 }, {}, "shape", "input 1 is"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3 }, {}, "shape", "input 2 is"),
      bad({ 2, 5, 4, 3 }, { 4, 2, 3, 3 }, {}, "shape", "1 group of 3 channels"),
      bad({ 2, 5, 4, 3 }, { 4, 1, 3, 3 }, { groups = 2 }, "shape", "3 input channels"),
      bad({ 2, 5, 4, 4 }, { 3, 2, 3, 3 }, { groups = 2 }, "shape", "3 output channels"),
      bad({ 2, 2, 4, 3 }, { 4, 3, 5, 3 }, { padding = 1 }, "shape", "spans 5 does not fit 2"),
      bad({ 2, 4, 4, 3 }, { 4, 3, 3, 3 }, { dilation = 2 }, "shape", "spans 5 does not fit 4"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 0, 3 }, {}, "value", "a kernel of 0"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { stride = 0 }, "value", "stride 0"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { stride = { 1, -1 } }, "value", "stride -1"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { stride = { 1, 1, 1 } }, "value", "3 integers"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { padding = -1 }, "value", "padding -1"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { padding = 1 << 40 }, "value", "padding 1099511627776"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { dilation = 0 }, "value", "dilation 0"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { groups = 0 }, "value", "groups 0"),
      bad({ 0, 1 << 20, 1 << 20, 1 }, { 0, 1, 1 << 20, 1 << 20 }, {}, "shape", "too large"),
      bad({ 900, 1, 1, 1 }, { 900, 1, 1, 1 }, { padding = (1 << 30) - 1 }, "shape", "overflows"),
      { inputs = { { dims = { 1, 2, 2, 1 } }, { dims = { 3, 1, 1, 1 } }, { dims = { 2 } } },
        code = "shape", match = "one bias for each output" },
      { inputs = { { dims = { 1, 2, 2, 1 } }, { dims = { 3, 1, 1, 1 }, dtype = "f64" } },
        code = "dtype", match = "equal dtypes" },
      { inputs = { { dims = { 1, 2, 2, 1 }, integer = 3 }, { dims = { 3, 1, 1, 1 } } },
        code = "dtype", match = "floats wanted" },
    },
  },
  { op = "conv2d", cases = cases(smooth, biased), oracle = conv2d, grad = true },
  { op = "conv2d", cases = cases(other, forward), oracle = conv2d, grad = false },
  { op = "conv2d", cases = cases({ other[1], other[6], other[#other - 2], other[#other],
    other[#other - 6], other[#other - 7] }, biased), oracle = conv2d, grad = false },
  {
    op = "conv2d_dx", cases = cases(smooth, to_x), oracle = conv2d_dx, grad = true,
    bad = {
      bad({ 2, 5, 4, 4 }, { 4, 3, 3, 3 }, { size = { 6, 6 } }, "shape", "input 1 is"),
      bad({ 2, 5, 4, 3 }, { 4, 3, 3, 3 }, { size = { 7, 6 } }, "shape", "input 1 is"),
      bad({ 2, 5, 4, 4 }, { 4, 3, 3, 3 }, {}, "value", "size"),
      bad({ 2, 5, 4, 4 }, { 4, 3, 3, 3 }, { size = -1 }, "value", "size -1"),
      bad({ 2, 5, 4, 4 }, { 4, 3, 3, 3 }, { size = 7, groups = math.maxinteger },
        "shape", "negative"),
    },
  },
  { op = "conv2d_dx", cases = cases(other, to_x), oracle = conv2d_dx, grad = false },
  {
    op = "conv2d_dw", cases = cases(smooth, to_w), oracle = conv2d_dw, grad = true,
    bad = {
      bad({ 2, 5, 4, 3 }, { 2, 4, 2, 4 }, { size = 3 }, "shape", "input 2 is"),
      bad({ 2, 5, 4, 3 }, { 2, 3, 2, 4 }, { size = 0 }, "value", "size 0"),
      bad({ 2, 5, 4, 3 }, { 2, 3, 2, 4 }, { size = 3, groups = 2 }, "shape",
        "3 input channels"),
    },
  },
  { op = "conv2d_dw", cases = cases(other, to_w), oracle = conv2d_dw, grad = false },
}
