--- attend.lua -- attention with masks and dropout, heads before time
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"
local mrt = require "mrt"

local op = core.op

-- Where a query comes before a key, bool [L, S].
local function later(L, S)
  local row = op.arange { stop = L, dtype = "i64" }:unsqueeze(2)
  return op.gt(op.arange { stop = S, dtype = "i64" }, row)
end

--- softmax(q k' / sqrt(D) + mask) v.
---@param q mrt.Tensor  `[N, H, L, D]`
---@param k mrt.Tensor  `[N, H, S, D]`
---@param v mrt.Tensor  `[N, H, S, Dv]`
---@param o {mask: mrt.Tensor?, dropout: number, causal: boolean, need_weights: boolean}
---  mask: floats to add, broadcasts to `[N, H, L, S]`; causal: no key behind its query;
---  need_weights: give the probabilities too
---@return mrt.Tensor   `[N, H, L, Dv]`
---@return mrt.Tensor? weights  `[N, H, L, S]`
return function(q, k, v, o)
  if o.dropout == 0 and not o.need_weights then
    return mrt.scaled_dot_product_attention(q, k, v,
      { attn_mask = o.mask, is_causal = o.causal })
  end
  local scores = q:matmul(k:transpose(3, 4)) * q:size(4) ^ -0.5
  if o.causal then scores = op.where(later(q:size(3), k:size(3)), -math.huge, scores) end
  if o.mask then scores = scores + o.mask end
  local weights = scores:softmax(-1)
  if o.dropout > 0 then weights = weights:dropout { p = o.dropout } end
  return weights:matmul(v), weights
end
