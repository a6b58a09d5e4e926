--- image.lua -- methods of tensors for images: convolutions, pools
---
--- Images are `[N,C,H,W]`, as in PyTorch, and lie in memory as `[N,H,W,C]`: the
--- operators work on that order, and the permutations before and after them are
--- views.  Between two of these methods they cancel.
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"

local op = core.op
local read, refuse = argument.read, argument.refuse
---@class mrt.Tensor
local Tensor = core.methods

-- Channels last, and first again.
local function last(who, x)
  argument.tensor(who, "the image", x)
  if x:dim() ~= 4 then
    core.fail("shape", who, ("%s, [N,C,H,W] wanted"):format(x:type()))
  end
  return op.permute(x, { 1, 3, 4, 2 })
end
local function first(x) return op.permute(x, { 1, 4, 2, 3 }) end

-- One of one integer or two; `default` where there is none.
local function at(value, i, default)
  if type(value) == "table" then return value[i] or value[1] end
  return value or default
end

-- The image and padding of "same": what a kernel reaches beyond a place, half of it on
-- each side; of an odd number of places one more after than before.
local function same_padding(image, w, o)
  local out = {}
  for i = 1, 2 do
    local stride, dilation = at(o.stride, i, 1), at(o.dilation, i, 1)
    if stride ~= 1 then
      refuse("conv2d", "padding 'same' with stride %s, stride 1 wanted", tostring(stride))
    end
    if math.type(dilation) ~= "integer" or dilation < 1 or dilation >= 1 << 30 then
      refuse("conv2d", "dilation %s, a positive integer (below 2^30) wanted", tostring(dilation))
    end
    local beyond = dilation * (w:size(2 + i) - 1)
    out[i] = math.tointeger(beyond // 2)
    if beyond % 2 == 1 then image = op.pad(image, { dim = 1 + i, after = 1 }) end
  end
  return image, out
end

-- The operator would say it of [N,H,W,C].
local function check_channels(x, w, groups)
  argument.tensor("conv2d", "the image", x)
  argument.tensor("conv2d", "the weight", w)
  local fits = x:dim() ~= 4 or w:dim() ~= 4 or math.type(groups) ~= "integer"
    or groups < 1 or x:size(2) == w:size(2) * groups
  if fits then return end
  core.fail("shape", "conv2d", ("%s in %d group%s, %d channels wanted for weights %s")
    :format(x:type(), groups, groups == 1 and "" or "s", w:size(2) * groups, w:type()))
end

--- Convolve images `[N,C,H,W]` with `[O,C/groups,kh,kw]` -> `[N,O,H',W']`,
--- H' = floor((H + 2 padding - dilation (kh - 1) - 1) / stride) + 1.
---
---     local y = x:conv2d(w, { stride = 2, padding = 1 })
---
--- Raises: channels that do not fit, a kernel larger than the padded image, a
--- stride or dilation below 1.
---@param w mrt.Tensor
---@param bias? mrt.Tensor  `[O]`
---@param ... any  stride, padding, dilation, groups, or a table of them; each of
---  the first three one integer or {height, width}; padding "same" keeps H and W, "valid" is 0
---@return mrt.Tensor
function Tensor.conv2d(x, w, bias, ...)
  local o
  if bias == nil or core.is_tensor(bias) then
    o = read("conv2d", { "stride", "padding", "dilation", "groups" }, ...)
  else
    o = read("conv2d", { "stride", "padding", "dilation", "groups" }, bias, ...)
    bias = nil
  end
  check_channels(x, w, o.groups or 1)
  local image = last("conv2d", x)
  if o.padding == "valid" then o.padding = 0 end
  if o.padding == "same" and w:dim() == 4 then image, o.padding = same_padding(image, w, o) end
  if bias then return first(op.conv2d(image, w, bias, o)) end
  return first(op.conv2d(image, w, o))
end

-- Rows and columns of a transposed convolution.
local function transposed_size(x, w, o)
  local function option(name, i, default)
    local n = at(o[name], i, default)
    if math.type(n) == "integer" and n >= 0 then return n end
    refuse("conv_transpose2d", "%s %s, an integer from 0 wanted", name, tostring(n))
  end
  local size = {}
  for i = 1, 2 do
    local stride, more = option("stride", i, 1), option("output_padding", i, 0)
    if more > 0 and more >= stride then
      refuse("conv_transpose2d", "output_padding %d, less than the stride %d wanted",
        more, stride)
    end
    size[i] = (x:size(2 + i) - 1) * stride - 2 * option("padding", i, 0)
      + option("dilation", i, 1) * (w:size(2 + i) - 1) + more + 1
  end
  return size
end

--- Do to images what the gradient of `conv2d` does: `[N,C,H,W]` with weights
--- `[C,O/groups,kh,kw]` -> `[N,O,H',W']`, H' = (H - 1) stride - 2 padding +
--- dilation (kh - 1) + output_padding + 1.
---
---     local y = x:conv_transpose2d(w, { stride = 2 })
---
--- Raises: channels that do not fit, a stride or dilation below 1.
---@param w mrt.Tensor
---@param bias? mrt.Tensor  `[O]`
---@param ... any  stride, padding, output_padding, groups, dilation, or a table of them
---@return mrt.Tensor
function Tensor.conv_transpose2d(x, w, bias, ...)
  local who = "conv_transpose2d"
  local names = { "stride", "padding", "output_padding", "groups", "dilation" }
  local o
  if bias == nil or core.is_tensor(bias) then
    o = read(who, names, ...)
  else
    o = read(who, names, bias, ...)
    bias = nil
  end
  local image = last(who, x)
  argument.tensor(who, "the weight", w)
  if w:dim() ~= 4 or w:size(1) ~= x:size(2) then
    core.fail("shape", who, ("%s, weights [%d, outputs / groups, height, width] wanted, got %s")
      :format(x:type(), x:size(2), w:type()))
  end
  local y = op.conv2d_dx(image, w, { stride = o.stride, padding = o.padding,
    dilation = o.dilation, groups = o.groups, size = transposed_size(x, w, o) })
  if not bias then return first(y) end
  if bias:dim() ~= 1 or bias:size(1) ~= y:size(4) then
    core.fail("shape", who, ("a bias [%d] wanted, got %s"):format(y:size(4), bias:type()))
  end
  return first(op.add(y, bias))
end

--- Repeat every pixel `factor` times in both directions: the nearest one serves.
---
---     mrt.ones(1, 1, 2, 2):upsample_nearest2d(2):type()  --> f32[1,1,4,4]
---
--- Raises: a factor below 1.
---@param factor integer|integer[]
---@return mrt.Tensor  `[N,C,factor H,factor W]`
function Tensor.upsample_nearest2d(x, factor)
  local image = last("upsample_nearest2d", x)
  local N, C, H, W = table.unpack(x:size())
  local a, b = at(factor, 1), at(factor, 2)
  for _, n in ipairs { a or "nil", b or "nil" } do
    if math.type(n) ~= "integer" or n < 1 then
      refuse("upsample_nearest2d", "factor %s, a positive integer wanted", tostring(n))
    end
  end
  local y = op.expand(op.reshape(image, { N, H, 1, W, 1, C }), { N, H, a, W, b, C })
  return first(op.reshape(y, { N, H * a, W * b, C }))
end

-- The mean of whole images: [N,H,W,C] -> [N,C].
local function mean(x)
  local y = op.sum(x, { dim = { 2, 3 } })
  return op.div(y, math.max(1, x:size(2) * x:size(3)))
end

--- Average each channel of each image: `[N,C,H,W]` -> `[N,C]`.
---
---     mrt.ones(2, 3, 4, 4):global_avg_pool2d():type()  --> f32[2,3]
---@return mrt.Tensor
function Tensor.global_avg_pool2d(x) return mean(last("global_avg_pool2d", x)) end

return Tensor
