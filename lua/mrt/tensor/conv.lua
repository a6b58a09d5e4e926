--- conv.lua -- methods of tensors: convolutions of signals and volumes
---
--- A convolution of volumes is one of images whose channels are the planes that the
--- kernel reads at a place, side by side: products as long as they can be, for a copy
--- of the input for each plane of the kernel.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local window = require "mrt.tensor.window"

local op = core.op
local sides = window.sides
---@class mrt.Tensor
local Tensor = core.methods

local names = { "stride", "padding", "dilation", "groups" }
local transposed_names = { "stride", "padding", "output_padding", "groups", "dilation" }

-- The bias may be left out.
local function read(who, list, bias, ...)
  if bias == nil or core.is_tensor(bias) then return bias, argument.read(who, list, ...) end
  return nil, argument.read(who, list, bias, ...)
end

-- How far a kernel reaches beyond a place, on each side before and after it.
local function pads(who, o, w, n, stride, dilation)
  if o.padding == "valid" then o.padding = 0 end
  if o.padding ~= "same" then
    local p = sides(who, "padding", o.padding, n, 0)
    return p, p
  end
  local before, after = {}, {}
  for i = 1, n do
    if stride[i] ~= 1 then
      argument.refuse(who, "padding 'same' with stride %d, stride 1 wanted", stride[i])
    end
    local beyond = dilation[i] * (w:size(2 + i) - 1)
    before[i], after[i] = beyond // 2, beyond - beyond // 2
  end
  return before, after
end

-- Weights [outputs, inputs / groups, sides...] that fit x, and the bias.
local function check(who, x, w, bias, o, n)
  argument.tensor(who, "the weight", w)
  local groups = o.groups or 1
  if math.type(groups) ~= "integer" or groups < 1 then
    argument.refuse(who, "groups %s, 1 or more wanted", tostring(groups))
  end
  if w:dim() ~= n + 2 then
    core.fail("shape", who, ("weights %s, %d dimensions wanted: outputs, inputs / groups, sides")
      :format(w:type(), n + 2))
  end
  if x:size(2) ~= w:size(2) * groups or w:size(1) % groups ~= 0 then
    core.fail("shape", who, ("%s in %d group%s, %d channels wanted for weights %s")
      :format(x:type(), groups, groups == 1 and "" or "s", w:size(2) * groups, w:type()))
  end
  if bias and (bias:dim() ~= 1 or bias:size(1) ~= w:size(1)) then
    core.fail("shape", who, ("a bias [%d] wanted, got %s"):format(w:size(1), bias:type()))
  end
  return groups
end

local function fits(who, x, w, n, before, after, dilation)
  for i = 1, n do
    local span, side = dilation[i] * (w:size(2 + i) - 1) + 1, x:size(2 + i)
    if w:size(2 + i) < 1 or span > side + before[i] + after[i] then
      core.fail("shape", who, ("a kernel that spans %d does not fit %d with padding %d")
        :format(span, side, before[i]))
    end
  end
end

local function conv2d(image, w, bias, o)
  if bias then return op.conv2d(image, w, bias, o) end
  return op.conv2d(image, w, o)
end

--- Convolve signals `[N,C,L]` (or `[C,L]`) with `[O,C/groups,k]` -> `[N,O,L']`,
--- L' = floor((L + 2 padding - dilation (k - 1) - 1) / stride) + 1.
---
---     local y = x:conv1d(w, { stride = 2, padding = 1 })
---
--- Raises: channels that do not fit, a kernel longer than the padded signal, a stride
--- or dilation below 1.
---@param w mrt.Tensor
---@param bias? mrt.Tensor  `[O]`
---@param ... any  stride, padding, dilation, groups, or a table of them; padding "same"
---  keeps L, "valid" is 0
---@return mrt.Tensor
function Tensor.conv1d(input, w, bias, ...)
  local who, o = "conv1d"
  bias, o = read(who, names, bias, ...)
  return (window.batched(who, input, 1, function(x)
    local groups = check(who, x, w, bias, o, 1)
    local stride = sides(who, "stride", o.stride, 1, 1, 1)
    local dilation = sides(who, "dilation", o.dilation, 1, 1, 1)
    local before, after = pads(who, o, w, 1, stride, dilation)
    fits(who, x, w, 1, before, after, dilation)
    local row, padding = window.row(x), before[1]
    if after[1] ~= padding then
      row, padding = op.pad(row, { dim = 3, before = before[1], after = after[1] }), 0
    end
    return window.from_row(conv2d(row, w:unsqueeze(3), bias, { stride = { 1, stride[1] },
      padding = { 0, padding }, dilation = { 1, dilation[1] }, groups = groups }))
  end))
end

-- ---- volumes ---------------------------------------------------------------

-- Weights [O, C/G, kd, kh, kw] as those of the planes side by side.
local function side_by_side(w)
  local O, C, kd, kh, kw = table.unpack(w:size())
  return op.reshape(op.permute(w, { 1, 3, 2, 4, 5 }), { O, kd * C, kh, kw })
end

-- Planes first, first + stride ... of x [N,D,H,W,C], `count` of them; D is enough for
-- `count` strides.
local function planes(x, first, stride, count)
  local N, _, H, W, C = table.unpack(x:size())
  x = op.slice(x, 2, first, first + stride * count - 1)
  if stride == 1 then return x end
  x = op.slice(op.reshape(x, { N, count, stride, H, W, C }), 3, 1, 1)
  return op.reshape(x, { N, count, H, W, C })
end

-- [N,D,H,W,C] -> [N D', H, W, G kd C/G]: the planes that each plane of y reads.
local function stacked(x, groups, kd, stride, dilation, count)
  local N, _, H, W, C = table.unpack(x:size())
  local list = {}
  for a = 1, kd do
    list[a] = op.reshape(planes(x, 1 + (a - 1) * dilation, stride, count),
      { N, count, H, W, groups, 1, C // groups })
  end
  local all = kd > 1 and op.cat(list, 6) or list[1]
  return op.reshape(all, { N * count, H, W, kd * C })
end

local function conv3d(x, w, bias, groups, o)
  local stride, dilation, before, after = o.stride, o.dilation, o.before, o.after
  local kd = w:size(3)
  local count = (x:size(3) + before[1] + after[1] - dilation[1] * (kd - 1) - 1)
    // stride[1] + 1
  local volume = window.volume(x)
  local even = before[2] == after[2] and before[3] == after[3]
  local function pad(dim, front, back)
    if front + back > 0 then
      volume = op.pad(volume, { dim = dim, before = front, after = back })
    end
  end
  -- a whole number of strides, so that planes are every so many
  local wanted = dilation[1] * (kd - 1) + stride[1] * count
  pad(2, before[1], math.max(after[1], wanted - x:size(3) - before[1]))
  if not even then
    pad(3, before[2], after[2])
    pad(4, before[3], after[3])
  end
  local y = conv2d(stacked(volume, groups, kd, stride[1], dilation[1], count),
    side_by_side(w), bias, { stride = { stride[2], stride[3] },
      padding = even and { before[2], before[3] } or 0,
      dilation = { dilation[2], dilation[3] }, groups = groups })
  return window.from_volume(op.reshape(y, { x:size(1), count, y:size(2), y:size(3),
    w:size(1) }))
end

--- Convolve volumes `[N,C,D,H,W]` (or `[C,D,H,W]`) with `[O,C/groups,kd,kh,kw]` ->
--- `[N,O,D',H',W']`, sides as of conv1d.
---
---     local y = x:conv3d(w, { padding = 1 })
---
--- Raises: as conv1d.
---@param w mrt.Tensor
---@param bias? mrt.Tensor  `[O]`
---@param ... any  stride, padding, dilation, groups, or a table of them; each of the
---  first three one integer or {depth, height, width}; padding "same" keeps the sides
---@return mrt.Tensor
function Tensor.conv3d(input, w, bias, ...)
  local who, o = "conv3d"
  bias, o = read(who, names, bias, ...)
  return (window.batched(who, input, 3, function(x)
    local groups = check(who, x, w, bias, o, 3)
    local stride = sides(who, "stride", o.stride, 3, 1, 1)
    local dilation = sides(who, "dilation", o.dilation, 3, 1, 1)
    local before, after = pads(who, o, w, 3, stride, dilation)
    fits(who, x, w, 3, before, after, dilation)
    return conv3d(x, w, bias, groups, { stride = stride, dilation = dilation,
      before = before, after = after })
  end))
end

-- ---- transposed ------------------------------------------------------------

-- The groups of a transposed convolution of n sides whose weights and bias fit.
local function check_transposed(who, x, w, bias, groups, n)
  argument.tensor(who, "the weight", w)
  if math.type(groups) ~= "integer" or groups < 1 then
    argument.refuse(who, "groups %s, 1 or more wanted", tostring(groups))
  end
  if w:dim() ~= n + 2 or w:size(1) ~= x:size(2) or x:size(2) % groups ~= 0 then
    core.fail("shape", who, ("%s in %d group%s, weights [%d, outputs / groups, sides] wanted, "
      .. "got %s"):format(x:type(), groups, groups == 1 and "" or "s", x:size(2), w:type()))
  end
  local outputs = w:size(2) * groups
  if bias and (bias:dim() ~= 1 or bias:size(1) ~= outputs) then
    core.fail("shape", who, ("a bias [%d] wanted, got %s"):format(outputs, bias:type()))
  end
  return groups
end

-- Its options, and the sides of its result.
local function transposed(who, x, w, bias, o, n)
  local t = { groups = check_transposed(who, x, w, bias, o.groups or 1, n), size = {} }
  t.stride = sides(who, "stride", o.stride, n, 1, 1)
  t.padding = sides(who, "padding", o.padding, n, 0)
  t.more = sides(who, "output_padding", o.output_padding, n, 0)
  t.dilation = sides(who, "dilation", o.dilation, n, 1, 1)
  for i = 1, n do
    if t.more[i] > 0 and t.more[i] >= math.max(t.stride[i], t.dilation[i]) then
      argument.refuse(who, "output_padding %d, less than the stride %d or dilation %d wanted",
        t.more[i], t.stride[i], t.dilation[i])
    end
    t.size[i] = (x:size(2 + i) - 1) * t.stride[i] - 2 * t.padding[i]
      + t.dilation[i] * (w:size(2 + i) - 1) + t.more[i] + 1
    if t.size[i] < 1 or x:size(2 + i) < 1 then
      core.fail("shape", who, ("%s, %s: a side of %d, 1 or more wanted"):format(x:type(),
        w:type(), t.size[i]))
    end
  end
  return t
end

--- Do to signals what the gradient of `conv1d` does: `[N,C,L]` (or `[C,L]`) with
--- weights `[C,O/groups,k]` -> `[N,O,L']`, L' = (L - 1) stride - 2 padding +
--- dilation (k - 1) + output_padding + 1.
---
---     local y = x:conv_transpose1d(w, { stride = 2 })
---
--- Raises: channels that do not fit, a stride or dilation below 1.
---@param w mrt.Tensor
---@param bias? mrt.Tensor  `[O]`
---@param ... any  stride, padding, output_padding, groups, dilation, or a table of them
---@return mrt.Tensor
function Tensor.conv_transpose1d(input, w, bias, ...)
  local who, o = "conv_transpose1d"
  bias, o = read(who, transposed_names, bias, ...)
  return (window.batched(who, input, 1, function(x)
    local t = transposed(who, x, w, bias, o, 1)
    -- the positions that output_padding adds lie past all windows
    local y = op.conv2d_dx(window.row(x), w:unsqueeze(3), { stride = { 1, t.stride[1] },
      padding = { 0, t.padding[1] }, dilation = { 1, t.dilation[1] }, groups = t.groups,
      size = { 1, t.size[1] } })
    return window.from_row(bias and op.add(y, bias) or y)
  end))
end

-- What tap `a` of the depth is worth, [N,D,H,W,O], at its planes among `length`.
local function spread(y, a, stride, dilation, length)
  local N, D, H, W, O = table.unpack(y:size())
  if stride > 1 then
    y = op.pad(op.reshape(y, { N, D, 1, H, W, O }), { dim = 3, after = stride - 1 })
    y = op.reshape(y, { N, D * stride, H, W, O })
  end
  local before = (a - 1) * dilation
  return op.pad(y, { dim = 2, before = before, after = length - before - D * stride })
end

--- Do to volumes what the gradient of `conv3d` does: `[N,C,D,H,W]` (or `[C,D,H,W]`)
--- with weights `[C,O/groups,kd,kh,kw]` -> `[N,O,D',H',W']`, sides as of
--- conv_transpose1d.
---
--- Raises: as conv_transpose1d.
---
---     mrt.ones(1, 2, 3, 3, 3):conv_transpose3d(mrt.ones(2, 4, 2, 2, 2)):type()  --> f32[1,4,4,4,4]
---@param w mrt.Tensor
---@param bias? mrt.Tensor  `[O]`
---@param ... any  stride, padding, output_padding, groups, dilation, or a table of them
---@return mrt.Tensor
function Tensor.conv_transpose3d(input, w, bias, ...)
  local who, o = "conv_transpose3d"
  bias, o = read(who, transposed_names, bias, ...)
  return (window.batched(who, input, 3, function(x)
    local t = transposed(who, x, w, bias, o, 3)
    local N, C, D, H, W = table.unpack(x:size())
    local kd, G, each = w:size(3), t.groups, w:size(2)
    local y = op.conv2d_dx(op.reshape(window.volume(x), { N * D, H, W, C }), side_by_side(w),
      { stride = { t.stride[2], t.stride[3] }, padding = { t.padding[2], t.padding[3] },
        dilation = { t.dilation[2], t.dilation[3] }, groups = G,
        size = { t.size[2], t.size[3] } })
    y = op.reshape(y, { N, D, t.size[2], t.size[3], G, kd, each })
    local length = math.max(D * t.stride[1] + t.dilation[1] * (kd - 1) + t.more[1],
      t.padding[1] + t.size[1])
    local sum
    for a = 1, kd do
      local tap = op.reshape(op.slice(y, 6, a, a), { N, D, t.size[2], t.size[3], G * each })
      tap = spread(tap, a, t.stride[1], t.dilation[1], length)
      sum = sum and op.add(sum, tap) or tap
    end
    sum = op.slice(sum, 2, t.padding[1] + 1, t.padding[1] + t.size[1])
    return window.from_volume(bias and op.add(sum, bias) or sum)
  end))
end

return Tensor
