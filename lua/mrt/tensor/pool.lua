--- pool.lua -- methods of tensors: pools of signals, images and volumes
---
--- Signals are images of one row.  The largest and the mean of a window of a volume
--- are those of its planes, and then of these, so a volume takes two passes.
---
--- What is computed already lies in memory as it is here, plane by plane: its planes
--- are images of one channel, where lines are long or there are few.  What is pending
--- may come from a convolution, and so is taken channels last.  Both have the same bits.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local window = require "mrt.tensor.window"

local op = core.op
local sides = window.sides
---@class mrt.Tensor
local Tensor = core.methods

local kernel_names = { kernel = "kernel_size" }
local max_names = { "kernel_size", "stride", "padding", "dilation", "ceil_mode",
  "return_indices" }
local avg_names = { "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad" }
local lp_names = { "norm_type", "kernel_size", "stride", "ceil_mode" }

-- Kernel, and what is given of stride, padding and dilation, of n sides each.
local function slides(who, o, n)
  local kernel, stride = sides(who, "kernel_size", o.kernel_size, n, nil, 1), o.stride
  if type(stride) == "table" and #stride == 0 then stride = nil end
  local s = { kernel = kernel, stride = stride and sides(who, "stride", stride, n, nil, 1),
    padding = o.padding and sides(who, "padding", o.padding, n),
    dilation = o.dilation and sides(who, "dilation", o.dilation, n, nil, 1) }
  for i = 1, s.padding and n or 0 do
    local span = (kernel[i] - 1) * (s.dilation and s.dilation[i] or 1) + 1
    if s.padding[i] > span // 2 then
      argument.refuse(who, "padding %d of a window that spans %d, at most half of it wanted",
        s.padding[i], span)
    end
  end
  return s
end

local function two(list, i, j, default)
  return list and { i and list[i] or default, j and list[j] or default }
end

-- Options of an operator on images: of sides i and j, which are numbers of `s`, or
-- nothing for a side that stays.
local function of_sides(s, i, j, more)
  return { kernel = two(s.kernel, i, j, 1), stride = two(s.stride, i, j, 1),
    padding = two(s.padding, i, j, 0), dilation = two(s.dilation, i, j, 1),
    ceil_mode = more.ceil_mode, count_include_pad = more.count_include_pad }
end

-- ---- as images, and back ---------------------------------------------------

local FEW <const> = 1 << 13 -- elements of images that are not worth turning

local function is_planes(x, most)
  if not core.is_computed(x) or most and x:numel() > most then return false end
  local dtype = x:get_dtype()
  return dtype == "f32" or dtype == "f64"
end

-- Signals and images as images [N,H,W,C]: channels last, or each channel by itself.
local function from_row(y, N, C, planes)
  if planes then return op.reshape(y, { N, C, y:size(3) }) end
  return window.from_row(y)
end
local function row(x, planes)
  if not planes then return window.row(x) end
  return op.reshape(x, { x:size(1) * x:size(2), 1, x:size(3), 1 })
end
local function from_last(y, N, C, planes)
  if planes then return op.reshape(y, { N, C, y:size(2), y:size(3) }) end
  return window.first(y)
end
local function last(x, planes)
  if not planes then return window.last(x) end
  return op.reshape(x, { x:size(1) * x:size(2), x:size(3), x:size(4), 1 })
end

-- Of volumes the planes one by one, [N D,H,W,C]; and their depth as rows, [N,D,H W,C].
local function by_planes(x, planes)
  local N, C, D, H, W = table.unpack(x:size())
  if planes then return op.reshape(x, { N * C * D, H, W, 1 }), N * C end
  return op.reshape(window.volume(x), { N * D, H, W, C }), N
end
local function by_depth(x, N, D)
  local _, H, W, C = table.unpack(x:size())
  return op.reshape(x, { N, D, H * W, C })
end
local function to_volume(y, N, C, H, W, planes)
  local D = y:size(2)
  if planes then return op.reshape(y, { N, C, D, H, W }) end
  return window.from_volume(op.reshape(y, { N, D, H, W, C }))
end

-- ---- the largest -----------------------------------------------------------

-- Places in the image of taps [N,H',W',C] of windows: 0-based, row by row.
local function places(taps, o, width)
  local kw, stride = o.kernel[2], o.stride or o.kernel
  local padding, dilation = o.padding or { 0, 0 }, o.dilation or { 1, 1 }
  local rows = op.arange { stop = taps:size(2), dtype = "i64" }
  local columns = op.arange { stop = taps:size(3), dtype = "i64" }
  rows = op.sub(op.mul(op.reshape(rows, { -1, 1, 1 }), stride[1]), padding[1])
  columns = op.sub(op.mul(op.reshape(columns, { -1, 1 }), stride[2]), padding[2])
  local tap = op.cast(taps, "i64")
  local a = tap:floor_divide(kw)
  local b = op.sub(tap, op.mul(a, kw))
  rows = op.add(rows, op.mul(a, dilation[1]))
  return op.add(op.mul(rows, width), op.add(columns, op.mul(b, dilation[2])))
end

-- max_pool2d of images, channels last; and the places of its elements, if wanted.
local function max(image, o, wanted)
  local y, taps = op.max_pool2d(image, o)
  return y, wanted and places(taps, o, image:size(3)) or nil
end

local function max1d(x, s, o)
  local planes, N, C = is_planes(x), x:size(1), x:size(2)
  local y, at = max(row(x, planes), of_sides(s, nil, 1, o), o.return_indices)
  return from_row(y, N, C, planes), at and from_row(at, N, C, planes)
end

local function max2d(x, s, o)
  local planes, N, C = is_planes(x, FEW), x:size(1), x:size(2)
  local y, at = max(last(x, planes), of_sides(s, 1, 2, o), o.return_indices)
  return from_last(y, N, C, planes), at and from_last(at, N, C, planes)
end

-- Places in a volume of the largest: of the planes' ones, `at`, those at the places
-- `deep` of depth and place in the plane together.
local function places_in_volume(at, deep, H, W, N, D)
  local there = by_depth(at, N, D)
  local C, n, area = at:size(4), deep:size(2), deep:size(3)
  there = op.reshape(there, { N, D * area, C })
  local within = op.gather(there, op.reshape(deep, { N, n * area, C }), { dim = 2 })
  local depth = deep:floor_divide(math.max(1, area))
  return op.add(op.mul(depth, H * W), op.reshape(within, { N, n, area, C }))
end

local function max3d(x, s, o)
  local N, C, D, H, W = table.unpack(x:size())
  local planes = is_planes(x, FEW)
  local image, n = by_planes(x, planes)
  local y, at = max(image, of_sides(s, 2, 3, o), o.return_indices)
  local h, w = y:size(2), y:size(3)
  local z, deep = max(by_depth(y, n, D), of_sides(s, 1, nil, o), o.return_indices)
  return to_volume(z, N, C, h, w, planes),
    at and to_volume(places_in_volume(at, deep, H, W, n, D), N, C, h, w, planes)
end

-- One result where there is no second.
local function both(y, at)
  if at then return y, at end
  return y
end

-- A pool of n sides as a method.
local function max_pool(name, n, f)
  Tensor[name] = function(input, ...)
    local o = window.options(name, max_names, kernel_names, ...)
    local s = slides(name, o, n)
    return both(window.batched(name, input, n, f, s, o))
  end
end

max_pool("max_pool1d", 1, max1d)
max_pool("max_pool2d", 2, max2d)
max_pool("max_pool3d", 3, max3d)

-- ---- means -----------------------------------------------------------------

local function avg1d(x, s, o)
  local planes = is_planes(x)
  return from_row(op.avg_pool2d(row(x, planes), of_sides(s, nil, 1, o)), x:size(1), x:size(2),
    planes)
end
local function avg2d(x, s, o)
  local planes = is_planes(x, FEW)
  return from_last(op.avg_pool2d(last(x, planes), of_sides(s, 1, 2, o)), x:size(1), x:size(2),
    planes)
end
local function avg3d(x, s, o)
  local N, C, D = x:size(1), x:size(2), x:size(3)
  local planes = is_planes(x, FEW)
  local image, n = by_planes(x, planes)
  local y = op.avg_pool2d(image, of_sides(s, 2, 3, o))
  local h, w = y:size(2), y:size(3)
  return to_volume(op.avg_pool2d(by_depth(y, n, D), of_sides(s, 1, nil, o)), N, C, h, w, planes)
end

local function avg_pool(name, n, f)
  Tensor[name] = function(input, ...)
    local o = window.options(name, avg_names, kernel_names, ...)
    local s = slides(name, o, n)
    return (window.batched(name, input, n, f, s, o))
  end
end

avg_pool("avg_pool1d", 1, avg1d)
avg_pool("avg_pool2d", 2, avg2d)
avg_pool("avg_pool3d", 3, avg3d)

-- The p-norm of each window.
local function lp_pool(name, n, f)
  Tensor[name] = function(input, ...)
    local o = window.options(name, lp_names, kernel_names, ...)
    local s, area, norm_type = slides(name, o, n), 1, o.norm_type
    if type(norm_type) ~= "number" or norm_type ~= norm_type or norm_type == 0
    then
      argument.refuse(name, "norm_type %s, a number other than 0 wanted", tostring(norm_type))
    end
    for i = 1, n do area = area * s.kernel[i] end
    return (window.batched(name, input, n, function(x)
      local y = f(x:pow(norm_type), s, { ceil_mode = o.ceil_mode })
      return op.mul(op.mul(op.sign(y), op.relu(op.abs(y))), area):pow(1 / norm_type)
    end))
  end
end

lp_pool("lp_pool1d", 1, avg1d)
lp_pool("lp_pool2d", 2, avg2d)
lp_pool("lp_pool3d", 3, avg3d)

-- ---- as many windows as wanted ---------------------------------------------

-- The mean of windows that `size` of them cover images with, channels last.
local function adaptive_avg(image, size)
  local kernel = {}
  for i = 1, 2 do
    local side = image:size(1 + i)
    if side == 0 or side % size[i] ~= 0 then
      return op.adaptive_avg_pool2d(image, { size = size })
    end
    kernel[i] = side // size[i]
  end
  if size[1] == 1 and size[2] == 1 then
    local y = op.sum(image, { dim = { 2, 3 }, keepdim = true })
    return op.div(y, math.max(1, kernel[1] * kernel[2]))
  end
  return op.avg_pool2d(image, { kernel = kernel })
end
local function adaptive_max(image, size, wanted)
  local y, at = op.adaptive_max_pool2d(image, { size = size })
  return y, wanted and at or nil
end

-- The sum of a whole image has another order plane by plane.
local function may_be_planes(x, size)
  return (size[#size] ~= 1 or (size[#size - 1] or 1) ~= 1) and is_planes(x)
end

local function adaptive1d(f)
  return function(x, size, wanted)
    local planes, N, C = may_be_planes(x, size), x:size(1), x:size(2)
    local y, at = f(row(x, planes), { 1, size[1] }, wanted)
    return from_row(y, N, C, planes), at and from_row(at, N, C, planes)
  end
end
local function adaptive2d(f)
  return function(x, size, wanted)
    local planes, N, C = may_be_planes(x, size), x:size(1), x:size(2)
    local y, at = f(last(x, planes), size, wanted)
    return from_last(y, N, C, planes), at and from_last(at, N, C, planes)
  end
end
local function adaptive3d(f)
  return function(x, size, wanted)
    local N, C, D, H, W = table.unpack(x:size())
    local planes = may_be_planes(x, size)
    local image, n = by_planes(x, planes)
    local y, at = f(image, { size[2], size[3] }, wanted)
    local h, w = y:size(2), y:size(3)
    local z, deep = f(by_depth(y, n, D), { size[1], h * w }, wanted)
    return to_volume(z, N, C, h, w, planes),
      at and to_volume(places_in_volume(at, deep, H, W, n, D), N, C, h, w, planes)
  end
end

-- Sides that are false stay as they are: PyTorch's None.
local function sizes(who, x, size, n)
  local list = type(size) == "table" and size or { size }
  local out = {}
  for i = 1, n do
    local value = list[i]
    if value == nil then value = list[1] end
    out[i] = value == false and x:size(2 + i) or value
  end
  return sides(who, "output_size", size ~= nil and out or nil, n, nil, 1)
end

local function adaptive(name, n, f, names)
  Tensor[name] = function(input, ...)
    local o = window.options(name, names, { size = "output_size" }, ...)
    return both(window.batched(name, input, n, function(x)
      return f(x, sizes(name, x, o.output_size, n), o.return_indices)
    end))
  end
end

local avg_size, max_size = { "output_size" }, { "output_size", "return_indices" }
adaptive("adaptive_avg_pool1d", 1, adaptive1d(adaptive_avg), avg_size)
adaptive("adaptive_avg_pool2d", 2, adaptive2d(adaptive_avg), avg_size)
adaptive("adaptive_avg_pool3d", 3, adaptive3d(adaptive_avg), avg_size)
adaptive("adaptive_max_pool1d", 1, adaptive1d(adaptive_max), max_size)
adaptive("adaptive_max_pool2d", 2, adaptive2d(adaptive_max), max_size)
adaptive("adaptive_max_pool3d", 3, adaptive3d(adaptive_max), max_size)

return Tensor
