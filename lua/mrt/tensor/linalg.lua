--- linalg.lua -- methods of tensors for products and neural networks
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local argument = require "mrt.util.argument"

local op = core.op
local read, refuse = argument.read, argument.refuse
---@class mrt.Tensor
local Tensor = core.methods

-- ---- products --------------------------------------------------------------

--- Multiply matrices `[..., M, K] @ [..., K, N]`; a vector is a row on the
--- left and a column on the right, and that dimension goes from the result.
---
---     mrt.ones(2, 3):matmul(mrt.ones(3, 4)):type()  --> f32[2,4]
---
--- Raises: sizes that do not fit.
---@param y mrt.Tensor
---@param ... any     compute: both are rounded to this dtype first; or {compute = }
---@return mrt.Tensor the widest dtype of the two
function Tensor.matmul(x, y, ...)
  if not core.is_tensor(x) or not core.is_tensor(y) then
    return op.matmul(x, y, ...)
  end
  local row, column = x:dim() == 1, y:dim() == 1
  local z = op.matmul(row and x:unsqueeze(1) or x,
    column and y:unsqueeze(2) or y, ...)
  if column then z = z:squeeze(-1) end
  if row then z = z:squeeze(column and -1 or -2) end
  return z
end

--- Sum of products of two vectors.
---
---     mrt.tensor{1.0, 2.0}:dot(mrt.tensor{3.0, 4.0})  --> 11
---
--- Raises: what is no vector, sizes that differ.
---@param y mrt.Tensor  `[n]`, as x
---@return mrt.Tensor   scalar
function Tensor.dot(x, y)
  argument.tensor("dot", "the second", y)
  if x:dim() ~= 1 or y:dim() ~= 1 or #x ~= #y then
    core.fail("shape", "dot", ("%s against %s, vectors of one length wanted")
      :format(x:type(), y:type()))
  end
  return op.sum(op.mul(x, y))
end

-- ---- neural networks -------------------------------------------------------

--- Add up, average or take the largest of several rows of this table `[V, C]`.
---
---     mrt.ones(5, 2):embedding_bag(mrt.tensor{{0, 1}, {2, 3}})  --> [[1.0 1.0] [1.0 1.0]]
---
--- Raises: ids that are no integers.
---@param ids mrt.Tensor       `[..., L]`: a bag for each row; with offsets `[M]`
---@param offsets? mrt.Tensor  `[B]`: where each bag begins among the ids, from 0
---@param options? {mode: "sum"|"mean"|"max"?}  default "mean"
---@return mrt.Tensor          `[..., C]` or `[B, C]`; zeros for an empty bag
function Tensor.embedding_bag(table, ids, offsets, options)
  return (op.embedding_bag(table, ids, offsets, options))
end

--- x @ w^T + bias for a weight in 8 or 4 bits, never stored whole; or, with the
--- option `transposed`, x @ w.  Only x and bias have gradients.  With `activations =
--- "int8"` x is rounded to 8 bits, by blocks of 32 along its rows, which is about twice as
--- fast for a row and moves results by about 1/500 of what they are made of; the gradient
--- is that of x as it is.
---
---     local codes, scales = mrt.randn(8, 64):quantize "int8"
---     mrt.ones(2, 64):quantized_linear(codes, scales):type()  --> f32[2,8]
---
--- Raises: sizes that do not fit.
---@param codes mrt.Tensor   u8, of w:quantize()
---@param scales mrt.Tensor  ditto
---@param bias? mrt.Tensor   `[N]`
---@param options? mrt.QuantizeOptions
---@return mrt.Tensor        `[..., N]`, the wider dtype of x and bias
function Tensor.quantized_linear(x, codes, scales, bias, options)
  return (op.quantized_linear(x, codes, scales, bias, options))
end

---@class mrt.CrossEntropyOptions
---@field reduction? "mean"|"sum"|"none"  default "mean"
---@field ignore_index? integer    targets that count nothing
---@field label_smoothing? number  weight taken from the target and shared by all
---  classes, 0 to 1

local NO_ID <const> = math.mininteger -- of no class: nothing is ignored

--- -log softmax(logits)[target], over the last dimension.  With
--- `ignore_index`, the mean is over the other targets.
---
---     mrt.zeros(2, 4):cross_entropy(mrt.tensor{0, 3})  --> 1.386294
---
--- Raises: targets that are no integers, or of another shape.
---@param targets mrt.Tensor  `[...]` integers in [0, V)
---@param options? mrt.CrossEntropyOptions
---@return mrt.Tensor         scalar, or `[...]` with reduction "none"
function Tensor.cross_entropy(logits, targets, options)
  local o = read("cross_entropy", { "reduction", "ignore_index", "label_smoothing" },
    options)
  local now = core.current_trace()
  local other = now and now:cross_entropy(logits, targets, o)
  if other then return other end
  local ignored = o.ignore_index
  local loss = op.cross_entropy(logits, targets,
    { ignore_index = ignored or NO_ID, label_smoothing = o.label_smoothing })
  local how = o.reduction or "mean"
  if how == "none" then return loss end
  if how == "sum" then return op.sum(loss) end
  if how ~= "mean" then
    refuse("cross_entropy", "reduction '%s', one of mean, sum, none wanted",
      tostring(how))
  end
  if not ignored then return loss:mean() end
  local counted = op.cast(op.ne(targets, ignored), loss:get_dtype())
  return op.div(op.sum(loss), op.sum(counted))
end

return Tensor
