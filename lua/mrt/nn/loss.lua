--- loss.lua -- what training makes small, and what people read
---
--- SPDX-License-Identifier: MIT

local loss = {}

--- Return -log softmax(logits)[target], averaged over the targets.  Neither the
--- probabilities nor their gradient through softmax are ever stored.
---@param logits mrt.Tensor   `[..., V]`
---@param targets mrt.Tensor  `[...]` integers in [0, V)
---@param options? {reduction: "mean"|"sum"|"none", ignore_index: integer}
---@return mrt.Tensor         scalar, or `[...]` with reduction "none"
function loss.cross_entropy(logits, targets, options)
  return logits:cross_entropy(targets, options)
end

--- Return the mean of (x - y)^2.
---@param x mrt.Tensor
---@param y mrt.Tensor  shape of x
---@return mrt.Tensor   scalar
function loss.mse_loss(x, y)
  local d = x - y
  return (d * d):mean()
end

--- Return the share of rows whose largest logit is at the target.
---@param logits mrt.Tensor   `[..., V]`
---@param targets mrt.Tensor  `[...]` integers
---@return mrt.Tensor         scalar f32 in [0, 1]
function loss.accuracy(logits, targets)
  return logits:argmax(-1):eq(targets:to "i64"):to "f32":mean()
end

return loss
