--- norm.lua -- methods of tensors that give rows, channels or groups one scale
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"
local options = require "mrt.util.options"

local op = core.op
local read, refuse = argument.read, argument.refuse
---@class mrt.Tensor
local Tensor = core.methods

-- Weight and bias where they are given.
local function scaled(who, o)
  for _, name in ipairs { "weight", "bias" } do
    if o[name] ~= nil then argument.tensor(who, name, o[name]) end
  end
  return o.weight, o.bias
end

-- ---- over the last dimensions ----------------------------------------------

-- How many dimensions `shape`, a number or a list of them, names at the end of x.
local function last_dims(who, x, shape)
  local list = type(shape) == "table" and shape or { shape }
  local first = x:dim() - #list
  local fits = first >= 0 and #list > 0
  local said = {}
  for i, n in ipairs(list) do
    fits = fits and x:size(first + i) == n
    said[i] = options.show(n)
  end
  if fits then return #list end
  refuse(who, "normalized_shape [%s], the last dimensions of %s wanted",
    table.concat(said, ","), x:type())
end

-- norm(x, others, options) over one dimension: the last, or the last ones as one, if
-- `shape` names several.
local function over_last(who, x, shape, others, o, norm)
  local many = shape and last_dims(who, x, shape) or 1
  if many == 1 then return (norm(x, others, o)) end
  local flat = {}
  for i, t in pairs(others) do flat[i] = t:flatten() end
  return op.reshape(norm(x:flatten(-many, -1), flat, o), x:get_shape())
end

-- Arguments by place or name, beginning with a shape or without one; a shape begins
-- PyTorch's list and may be left out here.
local function read_norm(who, names, ...)
  local first = (...)
  if first == nil or core.is_tensor(first)
    or type(first) == "table" and first[1] == nil and first.normalized_shape == nil then
    names = { table.unpack(names, 2) }
  end
  local o = read(who, names, ...)
  scaled(who, o)
  return o
end

local function layer_norm(x, others, o)
  return op.layer_norm(x, others.weight, others.bias, o)
end

local function rms_norm(x, others, o) return op.rms_norm(x, others.weight, o) end

--- Layer norm over the last dimension (Ba et al., arXiv:1607.06450).
---
---     x:layer_norm(weight, bias)
---     x:layer_norm({8}, weight, bias, 1e-6)
---
--- Raises: sizes that are not x's last.
---@param normalized_shape? integer|integer[]  PyTorch's, the sizes of the last dimensions;
---  may be left out: the last one alone
---@param weight? mrt.Tensor  `[C]`, or of normalized_shape
---@param bias? mrt.Tensor    ditto
---@param eps? number|{eps: number?}  default 1e-5
---@return mrt.Tensor
function Tensor.layer_norm(x, normalized_shape, weight, bias, eps)
  local o = read_norm("layer_norm", { "normalized_shape", "weight", "bias", "eps" },
    normalized_shape, weight, bias, eps)
  return over_last("layer_norm", x, o.normalized_shape, { weight = o.weight, bias = o.bias },
    { eps = o.eps }, layer_norm)
end

--- Root-mean-square norm over the last dimension (Zhang & Sennrich, arXiv:1910.07467).
---
---     mrt.tensor{3.0, 4.0}:rms_norm()  --> [0.8485 1.1314]
---
--- Raises: a weight of another size.
---@param normalized_shape? integer|integer[]  as for layer_norm
---@param weight? mrt.Tensor  `[C]`, or of normalized_shape
---@param eps? number|{eps: number?}  default 1e-5
---@return mrt.Tensor
function Tensor.rms_norm(x, normalized_shape, weight, eps)
  local o = read_norm("rms_norm", { "normalized_shape", "weight", "eps" },
    normalized_shape, weight, eps)
  return over_last("rms_norm", x, o.normalized_shape, { weight = o.weight }, { eps = o.eps },
    rms_norm)
end

-- ---- over channels -----------------------------------------------------------

-- x with dimension `dim` last, and back.
local function moved(x, dim, back)
  local order = {}
  if dim == x:dim() then return x end
  for d = 1, x:dim() do order[d] = d end
  if back then
    table.insert(order, dim, table.remove(order))
  else
    table.insert(order, table.remove(order, dim))
  end
  return op.permute(x, order)
end

-- The dimensions of what has its channels last, in the order [N, C, ...].
local function channels_second(rank)
  local order = { 1, rank }
  for d = 2, rank - 1 do order[#order + 1] = d end
  return order
end

local function channel_dim(who, x, given)
  local rank, dim = x:dim(), math.tointeger(given or 2)
  if dim and dim < 0 then dim = dim + rank + 1 end
  if dim and dim >= 1 and dim <= rank then return dim end
  refuse(who, "dim %s of %s, 1 to %d (or from the end: -1) wanted",
    tostring(given or 2), x:type(), rank)
end

--- Batch norm: each channel, a position of dimension `dim`, over all others (Ioffe &
--- Szegedy, arXiv:1502.03167).  Running statistics are nn.BatchNorm's.
---
---     mrt.randn(8, 3, 4, 4):batch_norm():type()  --> f32[8,3,4,4]
---
--- Raises: a weight or bias that is not of the channels.
---@param weight? mrt.Tensor  `[C]`
---@param bias? mrt.Tensor    `[C]`
---@param eps? number|{eps: number?, dim: integer?}  default 1e-5
---@param dim? integer      default 2
---@return mrt.Tensor y     shape of x
---@return mrt.Tensor mean  `[C]`
---@return mrt.Tensor rstd  `[C]`: 1 / sqrt(biased variance + eps)
function Tensor.batch_norm(x, weight, bias, eps, dim)
  local o = read("batch_norm", { "weight", "bias", "eps", "dim" }, weight, bias, eps, dim)
  local at = channel_dim("batch_norm", x, o.dim)
  weight, bias = scaled("batch_norm", o)
  local y, mean, rstd = op.batch_norm(moved(x, at), weight, bias, { eps = o.eps })
  return moved(y, at, true), mean, rstd
end

--- Group norm: each sample's channels, positions of dimension `dim`, in groups
--- of neighbours; samples are rows of the first dimension (Wu & He, arXiv:1803.08494).
---
---     mrt.randn(2, 4, 3):group_norm(2):type()  --> f32[2,4,3]
---
--- Raises: channels that the groups do not divide.
---@param num_groups integer
---@param weight? mrt.Tensor  `[C]`
---@param bias? mrt.Tensor    `[C]`
---@param eps? number|{eps: number?, dim: integer?}  default 1e-5
---@param dim? integer        default 2
---@return mrt.Tensor         shape of x
function Tensor.group_norm(x, num_groups, weight, bias, eps, dim)
  local o = read("group_norm", { "num_groups", "weight", "bias", "eps", "dim" }, num_groups,
    weight, bias, eps, dim)
  local at = channel_dim("group_norm", x, o.dim)
  weight, bias = scaled("group_norm", o)
  local y = op.group_norm(moved(x, at), weight, bias, { groups = o.num_groups, eps = o.eps })
  return moved(y, at, true)
end

--- Instance norm: each channel of each sample by itself (Ulyanov et al.,
--- arXiv:1607.08022), a group norm of one channel a group.
---
---     mrt.randn(2, 4, 3):instance_norm():type()  --> f32[2,4,3]
---
--- Raises: a weight or bias that is not of the channels.
---@param weight? mrt.Tensor  `[C]`
---@param bias? mrt.Tensor    `[C]`
---@param eps? number|{eps: number?}  default 1e-5
---@return mrt.Tensor         shape of x, `[N, C, ...]`
function Tensor.instance_norm(x, weight, bias, eps)
  local o = read("instance_norm", { "weight", "bias", "eps" }, weight, bias, eps)
  if x:dim() < 2 then
    core.fail("shape", "instance_norm", ("%s, [N, C, ...] wanted"):format(x:type()))
  end
  weight, bias = scaled("instance_norm", o)
  return (op.group_norm(moved(x, 2), weight, bias, { groups = math.max(x:size(2), 1),
    eps = o.eps })):permute(channels_second(x:dim()))
end

return Tensor
