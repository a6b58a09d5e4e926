--- ceiling.lua -- what a device reaches: bytes a second of copies, flop a second of products
---
---     mrt scripts/gpu/ceiling.lua FILE [DEVICE]
---
--- Random numbers: products of zeros take less power, and run faster.
---
--- SPDX-License-Identifier: MIT

local mrt = require "mrt"
local core = require "mrt.core"
local results = require "results"

local file, device = arg[1], arg[2] or "cuda:0"
mrt.device(device)
mrt.seed(1)
local out = { device = core.info().libraries, isa = core.info().isa }

local function try(name, f)
  local ok, value = pcall(f)
  out[name] = ok and value or tostring(value)
  print(name, out[name])
  results.write(file, out)
  collectgarbage()
end

-- Read and written once: the multiplication alone, not the copy into a variable.
try("copy_bytes_per_s", function()
  local n = 1 << 28
  local from = results.normal("f32", n)
  local step = mrt.compile(function() return from * 1.5 end)
  mrt.eval(step())
  for _, s in ipairs(step:measure({ rounds = 5 }).steps) do
    if s.op == "mul" then return 8 * n / s.measured end
  end
  error "no multiplication in the plan"
end)

for _, size in ipairs { 1024, 4096, 8192 } do
  for _, dtype in ipairs { "bf16", "f32" } do
    if size > 1024 or dtype == "bf16" then
      try(("%s_%d_flop_per_s"):format(dtype, size), function()
        local a, b = results.normal(dtype, size, size), results.normal(dtype, size, size)
        local y = results.normal(dtype, size, size)
        local step = mrt.compile(function()
          y:assign(a:matmul(b))
          return mrt.ones(1)
        end)
        return 2 * size ^ 3 / results.seconds(step, dtype == "bf16" and 30 or 5)
      end)
    end
  end
end
