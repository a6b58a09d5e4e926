--- resize.lua -- methods of tensors: signals, images and volumes at other sizes
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local window = require "mrt.tensor.window"

local show = require "mrt.util.options".show

local op = core.op
local read, refuse = argument.read, argument.refuse
---@class mrt.Tensor
local Tensor = core.methods

-- ---- interpolate -----------------------------------------------------------

-- Modes by name: the operator's, and for how many sides.
local modes = {
  nearest = { "nearest", 1, 3 }, ["nearest-exact"] = { "nearest_exact", 1, 3 },
  linear = { "linear", 1, 1 }, bilinear = { "linear", 2, 2 }, trilinear = { "linear", 3, 3 },
  bicubic = { "cubic", 2, 2 },
}
local names = { "size", "scale_factor", "mode", "align_corners", "recompute_scale_factor",
  "antialias" }

local function mode_of(who, x, o)
  local mode, n = modes[o.mode or "nearest"], x:dim() - 2
  if not mode then
    refuse(who, "mode %s, nearest, nearest-exact, linear, bilinear, trilinear or bicubic wanted",
      tostring(o.mode))
  end
  if n < mode[2] or n > mode[3] then
    core.fail("shape", who, ("mode %s of %s, %s wanted"):format(o.mode or "nearest", x:type(),
      ({ "[N,C,L]", "[N,C,H,W]", "[N,C,D,H,W]" })[mode[2]]))
  end
  if o.align_corners ~= nil and mode[1]:find "nearest" then
    refuse(who, "align_corners with mode %s, one of weights wanted: linear, bilinear, trilinear, "
      .. "bicubic", o.mode or "nearest")
  end
  if o.antialias then refuse(who, "antialias is not there: average (avg_pool2d) before") end
  return mode[1], n
end

-- Factors, one for each of n sides.
local function factors(who, value, n)
  local list, out = type(value) == "table" and value or { value }, {}
  local fits = #list == 1 or #list == n
  for i = 1, n do
    local s = list[i] or list[1]
    fits = fits and type(s) == "number" and s > 0 and s < math.huge
    out[i] = s
  end
  if not fits then
    refuse(who, "scale_factor: a positive number, or one for each of %d sides wanted", n)
  end
  return out
end

-- The sides of the result, and the scales that were asked for.
local function sizes_of(who, x, o, n)
  if (o.size == nil) == (o.scale_factor == nil) then
    refuse(who, "size or scale_factor wanted, got %s", o.size and "both" or "neither")
  end
  if o.size ~= nil then return window.sides(who, "size", o.size, n, nil, 1), {} end
  local scale, size = factors(who, o.scale_factor, n), {}
  for i = 1, n do size[i] = math.floor(x:size(2 + i) * scale[i]) end
  return window.sides(who, "a side of the result", size, n, nil, 1),
    o.recompute_scale_factor and {} or scale
end

-- Does x lie in memory channels last, as what convolutions return?
local function lies_last(x)
  for _ = 1, 8 do
    local name, inputs = core.maker(x)
    if name == "permute" then
      local from, to = inputs[1]:get_shape(), x:get_shape()
      return #from == 4 and from[2] == to[3] and from[3] == to[4] and from[4] == to[2]
    end
    if not inputs or not inputs[1] or inputs[1]:dim() ~= 4 then return false end
    x = inputs[1]
  end
  return false
end

local function images(x, o)
  if lies_last(x) then
    o.dim = 2
    return window.first(op.resample(window.last(x), o))
  end
  o.dim = 3
  return op.resample(x, o)
end

--- Resize `[N,C,L]`, `[N,C,H,W]` or `[N,C,D,H,W]`, to a size or by a factor.
---
---     local y = x:interpolate{ scale_factor = 2, mode = "bilinear" }
---
--- Modes: "nearest" (the default; place floor(i L / L')), "nearest-exact" (the place whose
--- middle is nearest), "linear", "bilinear", "trilinear", "bicubic" (Keys' with a = -3/4).
--- With `align_corners` the first and the last places keep theirs; else places are areas.
--- Coordinates follow scale_factor unless recompute_scale_factor is true.
---
--- Raises: neither a size nor a factor or both, a mode for another number of sides,
--- antialias.
---@param size? integer|integer[]
---@param ... any  scale_factor, mode, align_corners, recompute_scale_factor, or a table of
---  them with size
---@return mrt.Tensor
function Tensor.interpolate(x, size, ...)
  local who = "interpolate"
  local o = read(who, names, size, ...)
  local mode, n = mode_of(who, x, o)
  local to, scale = sizes_of(who, x, o, n)
  local corners = o.align_corners or false
  local N, C = x:size(1), x:size(2)
  local function resampled(t, dim, h, w, scale_h, scale_w)
    return op.resample(t, { dim = dim, size = { h, w }, mode = mode, align_corners = corners,
      scale_h = scale_h, scale_w = scale_w })
  end
  if n == 1 then
    local y = resampled(op.reshape(x, { N, C, 1, x:size(3) }), 3, 1, to[1], nil, scale[1])
    return op.reshape(y, { N, C, to[1] })
  elseif n == 2 then
    return images(x, { size = to, mode = mode, align_corners = corners, scale_h = scale[1],
      scale_w = scale[2] })
  end
  local y = resampled(x, 4, to[2], to[3], scale[2], scale[3])
  y = resampled(op.reshape(y, { N, C, x:size(3), to[2] * to[3] }), 3, to[1], to[2] * to[3],
    scale[1])
  return op.reshape(y, { N, C, to[1], to[2], to[3] })
end

-- ---- channels and places exchanged -----------------------------------------

-- x [..., C, H, W] as [N, C, H, W], and the dimensions before C.
local function one_batch(who, x)
  argument.tensor(who, "the input", x)
  if x:dim() < 3 then
    core.fail("shape", who, ("%s, [..., C, H, W] wanted"):format(x:type()))
  end
  local lead, N = x:get_shape(), 1
  local rank = #lead
  local C, H, W = lead[rank - 2], lead[rank - 1], lead[rank]
  for i = rank, rank - 2, -1 do lead[i] = nil end
  for i = 1, rank - 3 do N = N * lead[i] end
  return N, C, H, W, lead
end

-- A positive integer, perhaps by name.
local function whole(who, name, value)
  if type(value) == "table" then value = read(who, { name }, value)[name] end
  if math.type(value) == "integer" and value >= 1 and value < 1 << 31 then return value end
  refuse(who, "%s %s, a positive integer (below 2^31) wanted", name, show(value))
end

local function divisible(who, x, n, what, by)
  if n % by == 0 then return n // by end
  core.fail("shape", who, ("%s: %d %s, a multiple of %d wanted"):format(x:type(), n, what, by))
end

local function with(lead, C, H, W)
  local n = #lead
  lead[n + 1], lead[n + 2], lead[n + 3] = C, H, W
  return lead
end

--- Make channels pixels: `[..., C r^2, H, W]` -> `[..., C, r H, r W]`.
--- From: Shi et al., arXiv:1609.05158.
---
---     mrt.ones(1, 4, 2, 2):pixel_shuffle(2):type()  --> f32[1,1,4,4]
---
--- Raises: channels that factor^2 does not divide.
---@param upscale_factor integer  r
---@return mrt.Tensor
function Tensor.pixel_shuffle(x, upscale_factor)
  local who = "pixel_shuffle"
  local r = whole(who, "upscale_factor", upscale_factor)
  local N, C, H, W, lead = one_batch(who, x)
  C = divisible(who, x, C, "channels", r * r)
  local y = op.permute(op.reshape(x, { N, C, r, r, H, W }), { 1, 2, 5, 3, 6, 4 })
  return op.reshape(y, with(lead, C, H * r, W * r))
end

--- Make pixels channels: `[..., C, r H, r W]` -> `[..., C r^2, H, W]`.
---
---     mrt.ones(1, 1, 4, 4):pixel_unshuffle(2):type()  --> f32[1,4,2,2]
---
--- Raises: sides that the factor does not divide.
---@param downscale_factor integer  r
---@return mrt.Tensor
function Tensor.pixel_unshuffle(x, downscale_factor)
  local who = "pixel_unshuffle"
  local r = whole(who, "downscale_factor", downscale_factor)
  local N, C, H, W, lead = one_batch(who, x)
  H, W = divisible(who, x, H, "rows", r), divisible(who, x, W, "columns", r)
  local y = op.permute(op.reshape(x, { N, C, H, r, W, r }), { 1, 2, 4, 6, 3, 5 })
  return op.reshape(y, with(lead, C * r * r, H, W))
end

--- Take channels of `groups` groups in turn: `[N, C, ...]`, channel g C/G + c to c G + g.
--- From: Zhang et al., arXiv:1707.01083.
---
---     mrt.arange(4):reshape(1, 4, 1, 1):channel_shuffle(2):reshape(-1)  --> [0 2 1 3]
---
--- Raises: channels that the groups do not divide.
---@param groups integer
---@return mrt.Tensor
function Tensor.channel_shuffle(x, groups)
  local who = "channel_shuffle"
  groups = whole(who, "groups", groups)
  if x:dim() < 3 then core.fail("shape", who, ("%s, [N, C, ...] wanted"):format(x:type())) end
  local shape, rest = x:get_shape(), 1
  local each = divisible(who, x, shape[2], "channels", groups)
  for i = 3, #shape do rest = rest * shape[i] end
  local y = op.reshape(x, { shape[1], groups, each, rest })
  return op.reshape(op.transpose(y, 2, 3), shape)
end

-- ---- windows as columns ----------------------------------------------------

local kernel_names = { kernel = "kernel_size", size = "output_size" }

--- Take the windows of images as columns: `[N,C,H,W]` (or `[C,H,W]`) ->
--- `[N, C kh kw, places]`.  PyTorch's nn.functional.unfold.
---
---     mrt.ones(1, 1, 3, 3):im2col(2):type()  --> f32[1,4,4]
---
--- Raises: a kernel larger than the padded image.
---@param ... any  kernel_size, dilation, padding, stride, or a table of them; each one
---  integer or {height, width}
---@return mrt.Tensor
function Tensor.im2col(input, ...)
  local o = window.options("im2col", { "kernel_size", "dilation", "padding", "stride" },
    kernel_names, ...)
  return (window.batched("im2col", input, 2, function(x)
    return op.im2col(x, { kernel = o.kernel_size, dilation = o.dilation, padding = o.padding,
      stride = o.stride })
  end))
end

--- Add columns up to images, each place what im2col reads there:
--- `[N, C kh kw, places]` (or without N) -> `[N, C, H, W]`.  PyTorch's nn.functional.fold.
---
---     mrt.ones(1, 4, 4):col2im({3, 3}, 2):type()  --> f32[1,1,3,3]
---
--- Raises: sizes that do not fit.
---@param ... any  output_size (H and W), kernel_size, dilation, padding, stride, or a
---  table of them
---@return mrt.Tensor
function Tensor.col2im(input, ...)
  local o = window.options("col2im", { "output_size", "kernel_size", "dilation", "padding",
    "stride" }, kernel_names, ...)
  return (window.batched("col2im", input, 1, function(x)
    return op.col2im(x, { size = o.output_size, kernel = o.kernel_size, dilation = o.dilation,
      padding = o.padding, stride = o.stride })
  end))
end

-- ---- norms of neighbours ---------------------------------------------------

--- Divide by (k + alpha m)^beta, m the mean of the squares of `size` channels around each:
--- `[N, C, ...]`.  From: Krizhevsky et al. (2012).
---
---     mrt.ones(1, 4, 2, 2):local_response_norm(2):type()  --> f32[1,4,2,2]
---
--- Raises: a size below 1.
---@param size integer
---@param ... any  alpha (1e-4), beta (0.75), k (1), or a table of them
---@return mrt.Tensor
function Tensor.local_response_norm(x, size, ...)
  local who = "local_response_norm"
  local o = read(who, { "size", "alpha", "beta", "k" }, size, ...)
  if x:dim() < 3 then core.fail("shape", who, ("%s, [N, C, ...] wanted"):format(x:type())) end
  whole(who, "size", o.size)
  local rest = 1
  for i = 3, x:dim() do rest = rest * x:size(i) end
  local squares = op.reshape(op.mul(x, x), { x:size(1), x:size(2), 1, rest })
  local before, padding = o.size // 2, 0
  if o.size % 2 == 1 then
    padding = { before, 0 }
  else
    squares = op.pad(squares, { dim = 2, before = before, after = o.size - 1 - before })
  end
  local mean = op.avg_pool2d(squares, { kernel = { o.size, 1 }, stride = 1, padding = padding })
  local by = op.add(op.mul(mean, o.alpha or 1e-4), o.k or 1.0)
  return op.div(x, op.reshape(by, x:get_shape()):pow(o.beta or 0.75))
end

return Tensor
