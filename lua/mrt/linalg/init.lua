--- mrt.linalg -- linear algebra: equations, factors, norms, products
---
---     local linalg = mrt.linalg
---     local x = linalg.solve(a, b)                  -- a x = b
---     local l, v = linalg.eigh(a)                   -- a = v diag(l) v^T
---     local u, s, vh = linalg.svd(a, {full_matrices = false})
---
--- Matrices are the last two dimensions, all others a batch.  f32 and f64; narrower
--- floats are computed in f32.  Every function has a gradient, which has one too.
--- A matrix that has no answer (singular, not positive definite, a NaN that keeps an
--- iteration from its end) is an error that says which of the batch; shapes are
--- checked at once, numbers when they are computed.
---
--- Factors are LAPACK's: a library of the system, opened when the first is wanted
--- (kernels/cpu/linalg/README.md).  Without it these functions raise, code "device".
---
--- SPDX-License-Identifier: MIT

local core = require "mrt.core"

---@class mrt.linalg
local linalg = {}

for _, name in ipairs { "solve", "factor", "norm", "product" } do
  for key, f in pairs(require("mrt.linalg." .. name)) do linalg[key] = core.front(f, nil, key) end
end

return linalg
