--- attention.lua -- fused attention
---
--- SPDX-License-Identifier: MIT

-- A shape that broadcasts to [B, H, T, S].
local function mask_dims(r, B, H, T, S)
  local dims = { r.pick { 1, B }, r.pick { 1, H }, r.pick { 1, T }, S }
  for _ = 1, r(0, 2) do
    if dims[1] == 1 then table.remove(dims, 1) end
  end
  return dims
end

local function draw(r, dtype)
  local B, Hk, T, S, D = r(1, 3), r(1, 3), r(1, 9), r(1, 9), r(1, 9)
  local shared = r.bool()
  local H, Dv = shared and Hk * r(1, 3) or Hk, r(1, 9)
  local drawn = { query = { dims = { B, H, T, D } }, key = { dims = { B, Hk, S, D } },
    value = { dims = { B, Hk, S, Dv } }, enable_gqa = shared or nil,
    scale = r.bool() and r.real(0.1, 2) or nil }
  local kind = r(1, 4)
  if kind == 1 then
    drawn.attn_mask = { dims = mask_dims(r, B, H, T, S), dtype = "bool", constant = true }
  elseif kind == 2 then
    -- a mask's gradient adds up the roundings of narrow results: some are above any bound
    drawn.attn_mask = { dims = mask_dims(r, B, H, T, S), low = -3, high = 3,
      constant = dtype == "bf16" or dtype == "f16" }
  elseif kind == 3 then
    drawn.is_causal = true
  end
  return drawn
end

return {
  { torch = "torch.nn.functional.scaled_dot_product_attention",
    ours = "Tensor.scaled_dot_product_attention",
    args = { { "query", "tensor" }, { "key", "tensor" }, { "value", "tensor" },
      { "attn_mask", "tensor" }, { "dropout_p", "number", 0.0 }, { "is_causal", "bool", false },
      { "scale", "number", nil, keyword = true },
      { "enable_gqa", "bool", false, keyword = true } },
    differs = "`dropout_p` above 0 is refused, as probabilities are never stored; a mask and " ..
      "`is_causal` may come together",
    dtypes = { "f32", "f64", "bf16", "f16" },
    takes_more = true, tolerance = 1e-5, grad = true,
    draw = draw,
    size = function(n)
      local dims = n < 5000 and { 1, 2, n // 128 + 1, 64 } or { n // 100000, 8, 195, 64 }
      local x = { dims = dims }
      return { query = x, key = x, value = x }
    end },
}
