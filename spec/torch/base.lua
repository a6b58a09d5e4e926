--- base.lua -- PyTorch's functions that are operators here: sums, products, norms
---
--- SPDX-License-Identifier: MIT

local reals = { "f32", "f64", "bf16", "f16" }
local numbers = { "f32", "f64", "bf16", "f16", "i64", "i32", "u8" }

local function reduction(name, extra)
  local row = { torch = "torch." .. name, ours = "Tensor." .. name, grad = true, dtypes = numbers,
    args = { { "input", "tensor" }, { "dim", "dims" }, { "keepdim", "bool", false } },
    draw = function(r)
      local dims = r.dims(1, 4)
      return { input = { dims = dims }, dim = { r.dim(dims) },
        keepdim = r.bool() or nil }
    end,
    size = function(n) return { input = { dims = { n // 100, 100 } }, dim = { 2 } } end }
  for k, v in pairs(extra or {}) do row[k] = v end
  return row
end

return {
  reduction "sum",
  reduction("mean", { dtypes = reals }),
  reduction("amax", { takes_more = true }),
}
